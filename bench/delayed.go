//go:build linux

package main

import (
	"fmt"
	"strings"
)

// delayed fills a shard with delayed messages and compares its speed to that of a queue without any.
func (b *bench) delayed() error {
	s, err := b.start(b.ours)
	if err != nil {
		return err
	}
	defer s.stop()
	rooms := b.o.n * (b.o.runs + 1)
	plain, err := newLoad(s, b.o.clients, rooms, 0, b.o.size)
	if err != nil {
		return err
	}
	behind, err := newLoad(s, b.o.clients, rooms, 0, b.o.size)
	if err != nil {
		return err
	}
	late := b.sendDelayed(behind)
	for run := 1; run <= b.o.runs; run++ {
		b.sendAndTake(plain, "delayed none", run)
		b.sendAndTake(behind, "delayed", run)
	}
	name := s.name
	for _, ph := range []string{sending, taking} {
		r := b.rateRow(fmt.Sprintf("%s beside %d delayed", ph, b.o.delayed), key{name, "delayed none", ph}, key{name, "delayed", ph}, 1-depthWithin)
		b.rows = append(b.rows, r)
	}
	b.rows = append(b.rows, row{What: "resident memory with them", Ours: fmt.Sprintf("%.0f MB", residentNow(s))}, b.refusal(late))
	return nil
}

// delayedIDs is where the ids of delayed messages begin, so that one which is delivered is unknown to its queue's account.
const delayedIDs = 100_000_000

// sendDelayed fills the shard of l's queue with messages that are due in ten minutes.
func (b *bench) sendDelayed(l *load) *load {
	late := &load{srv: l.srv, path: l.path, conns: l.conns, size: l.size, limit: l.limit, quiet: l.quiet, delay: 600, firstID: delayedIDs,
		led: newLedger(b.o.delayed+1, 0, false)}
	m := startMeter(l.srv)
	late.sendAll(m, b.o.delayed, 10, min(preloaders, len(l.conns)))
	p := m.phase("delayed", "fill", late.led.sent.Load())
	p.Clients, p.Errors = preloaders, late.fails.list()
	b.record(p)
	return late
}

func (b *bench) sendAndTake(l *load, workload string, run int) {
	before := l.led.sent.Load()
	m := startMeter(l.srv)
	l.sendAll(m, b.o.n, 1, b.o.clients)
	p := m.phase(workload, sending, l.led.sent.Load()-before)
	p.Run, p.Clients, p.Errors = run, b.o.clients, l.fails.list()
	b.record(p)
	m = startMeter(l.srv)
	l.drain(m, 1, b.o.clients)
	p = m.phase(workload, taking, l.led.acked.Load()-before)
	l.checkEmpty()
	p.Run, p.Clients, p.Errors = run, b.o.clients, l.errs(true)
	b.record(p)
}

// refusal sends one delayed message too many; the answer must be an error that says so.
func (b *bench) refusal(late *load) row {
	r := row{What: fmt.Sprintf("delayed message %d is refused", b.o.delayed+1), Demand: "a clear error", Verdict: bad}
	err := late.sender(late.conns[0], 0, 1).send(b.o.delayed, b.o.delayed+1, 0)
	if e, ok := err.(*statusError); ok {
		r.Ours, r.Verdict = fmt.Sprintf("HTTP %d", e.status), verdict(e.status >= 400 && e.status < 500)
		r.Demand += ": " + strings.TrimSpace(e.body)
	} else if err != nil {
		r.Ours = err.Error()
	} else {
		r.Ours = "accepted"
	}
	fmt.Fprintf(b.out, "   delayed message %d: %v\n", b.o.delayed+1, err)
	return r
}

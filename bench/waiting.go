//go:build linux

package main

import (
	"fmt"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// How many connections e2e has on each side: enough that one is always free at 1,000 messages a second.
const e2eSenders, e2eReceivers = 6, 8

// e2e offers messages at a fixed rate, whatever the server does with them, to receivers that wait in long polls. Its
// latency is from the instant at which a send was due until the receive was answered.
func (b *bench) e2e(empty, ours *server) error {
	for run := 1; run <= b.o.runs; run++ {
		for _, s := range []*server{empty, ours} {
			p, err := b.offer(s)
			if err != nil {
				return err
			}
			p.Run = run
			b.record(p)
		}
	}
	p50 := func(p *phase) float64 { return p.Latency.P50 }
	x, y := b.seen[key{empty.name, "e2e", "waiting"}], b.seen[key{ours.name, "e2e", "waiting"}]
	r := row{What: fmt.Sprintf("send to waiting long poll, p50 at %d/s", b.o.rate), Verdict: noResult,
		Demand: fmt.Sprintf("< %.1f ms", e2eMillisMax)}
	if len(x) > 0 && len(y) > 0 {
		r.Base, r.Ours = fmt.Sprintf("%.3f ms", median(x, p50)), fmt.Sprintf("%.3f ms", median(y, p50))
		r.Verdict = verdict(median(y, p50) < e2eMillisMax)
	}
	p99 := func(p *phase) float64 { return p.Latency.P99 }
	b.rows = append(b.rows, r, row{What: "the same, p99", Base: fmt.Sprintf("%.3f ms", median(x, p99)),
		Ours: fmt.Sprintf("%.3f ms", median(y, p99))})
	return nil
}

func (b *bench) offer(s *server) (phase, error) {
	total := max(1, int(float64(b.o.rate)*b.o.e2eTime.Seconds()))
	l, err := newLoad(s, e2eSenders+e2eReceivers, total, 0, b.o.size)
	if err != nil {
		return phase{}, err
	}
	defer l.close()
	var arrival, late hist
	m := startMeter(s)
	var wg sync.WaitGroup
	for _, c := range l.conns[e2eSenders:] {
		wg.Go(func() { l.await(c, m, total, &arrival) })
	}
	time.Sleep(20 * time.Millisecond) // until the receivers wait
	start := clock()
	l.crew(e2eSenders, func(w int, c *conn) { l.onTime(c, w, start, total, b.o.rate, &late) })
	wg.Wait()
	p := m.phase("e2e", "waiting", l.led.acked.Load())
	l.checkEmpty()
	p.Clients, p.Errors = e2eSenders+e2eReceivers, l.errs(true)
	p.Latency = arrival.latency()
	if p.Latency == nil {
		p.Latency = &latency{}
	}
	p.Extra = map[string]float64{"send_started_late_p50_ms": late.quantile(.5).Seconds() * 1e3}
	return p, nil
}

// onTime sends every message at the instant that the rate gives it, or as soon after as a sender is free.
func (l *load) onTime(c *conn, w int, start int64, total, rate int, late *hist) {
	s := l.sender(c, w, e2eSenders)
	for !l.fails.tooMany() {
		id := int(l.next.Add(1)) - 1
		if id >= total {
			return
		}
		due := start + int64(id)*int64(time.Second)/int64(rate)
		sleepUntil(due)
		late.add(time.Duration(clock() - due))
		if err := s.send(id, id+1, due); err != nil {
			l.fails.add(err)
		}
	}
}

// sleepUntil goes to the kernel itself: time.Sleep may wake up to a millisecond late, which is what is to be measured.
func sleepUntil(at int64) {
	if d := at - clock(); d > 0 {
		t := syscall.NsecToTimespec(d)
		syscall.Nanosleep(&t, nil)
	}
}

// await receives and acks until everything has come. A poll of a second ends soon after the last message.
func (l *load) await(c *conn, m *meter, total int, arrival *hist) {
	l.lastAt.Store(clock())
	for l.led.got.Load() < int64(total) && !l.fails.tooMany() {
		if clock() > l.lastAt.Load()+int64(l.quiet) {
			return
		}
		if err := l.receive(c, 1, 1); err != nil {
			l.fails.add(err)
			continue
		}
		if len(c.got) == 0 {
			continue
		}
		now := clock()
		l.lastAt.Store(now)
		arrival.add(time.Duration(now - int64(readHeader(c.got[0].body).at)))
		if err := l.ack(c, false); err != nil {
			l.fails.add(err)
		}
		if l.led.acked.Load() == int64(total) {
			m.stop()
		}
	}
}

// idle watches what long polls cost while nothing comes, and then that a message still wakes one of them, and one only.
func (b *bench) idle(_, ours *server) error {
	settle(ours)
	l, err := newLoad(ours, b.o.polls+1, 1, 0, b.o.size)
	if err != nil {
		return err
	}
	defer l.close()
	var woken atomic.Int64
	wake := make(chan int64, b.o.polls)
	for _, c := range l.conns[1:] {
		go func() {
			if err := l.receive(c, 1, 20); err == nil { // an error is the hanging up at the end
				if len(c.got) > 0 {
					woken.Add(1)
				}
				wake <- clock()
			}
		}()
	}
	time.Sleep(min(2*time.Second, b.o.idleTime)) // until all wait
	m := startMeter(ours)
	time.Sleep(b.o.idleTime)
	p := m.phase("idle", fmt.Sprintf("%d polls", b.o.polls), 0)
	if n := len(wake); n > 0 {
		l.fails.add(fmt.Errorf("%d long polls were answered while nothing came", n))
	}
	p.Extra = map[string]float64{"server_core_percent": 100 * p.ServerCores, "wake_ms": l.wakeOne(wake)}
	time.Sleep(50 * time.Millisecond)
	if woken.Load() != 1 {
		l.fails.add(fmt.Errorf("one message came to %d long polls", woken.Load()))
	}
	p.Clients, p.Errors = b.o.polls, l.fails.list()
	b.record(p)
	r := row{What: fmt.Sprintf("%d idle long polls, server CPU of a core", b.o.polls), Verdict: noResult,
		Ours: fmt.Sprintf("%.2f %%", 100*p.ServerCores), Demand: fmt.Sprintf("< %.0f %%", idlePercentMax)}
	if len(p.Errors) == 0 {
		r.Verdict = verdict(100*p.ServerCores < idlePercentMax)
	}
	b.rows = append(b.rows, r)
	return nil
}

// wakeOne sends a message and gives the milliseconds until a long poll was answered.
func (l *load) wakeOne(wake <-chan int64) float64 {
	began := clock()
	if err := l.sender(l.conns[0], 0, 1).send(0, 1, began); err != nil {
		l.fails.add(err)
		return 0
	}
	select {
	case at := <-wake:
		return float64(at-began) / 1e6
	case <-time.After(5 * time.Second):
		l.fails.add(fmt.Errorf("no long poll was answered within 5 s of a send"))
		return 0
	}
}

//go:build linux

package main

import (
	"fmt"
	"sync/atomic"
	"time"
)

// A depth is held by feeders, which send by tens as soon as one of the waiting messages was received.
const feeders, preloaders = 4, 16

// poolLimit is for filling or emptying a pool.
const poolLimit = 5 * time.Minute

// pool is a queue that is held at a depth, on a server of its own: so everything that a backlog may slow is there.
type pool struct {
	*load
	depth   int
	seconds float64 // that the preload took
	maxMB   float64 // resident memory, at its highest after any slice
}

// depth compares receive + ack at two depths, of a standard queue and then of a FIFO queue.
func (b *bench) depth() error {
	for _, kind := range []struct {
		name   string
		groups int
	}{{"standard", 0}, {"FIFO", b.o.groups}} {
		if err := b.depthOf(kind.name, kind.groups); err != nil {
			return fmt.Errorf("%s queue: %w", kind.name, err)
		}
	}
	return nil
}

func (b *bench) depthOf(kind string, groups int) error {
	shallow, err := b.newPool(kind, b.o.shallow, groups)
	if err != nil {
		return err
	}
	defer shallow.srv.stop()
	deep, err := b.newPool(kind, b.o.depth, groups)
	if err != nil {
		return err
	}
	defer func() { deep.srv.stop() }() // it is another one after the restart
	for run := 1; run <= b.o.runs; run++ {
		for _, p := range []*pool{shallow, deep} {
			b.record(b.hold(p, kind, run))
			p.maxMB = max(p.maxMB, residentNow(p.srv))
		}
	}
	b.rows = append(b.rows, b.depthRows(kind, shallow, deep)...)
	return b.restart(kind, deep)
}

func residentNow(s *server) float64 {
	now, _ := resident(s.pid)
	return now
}

func depthPhase(depth int) string { return fmt.Sprintf("receive+ack at %d", depth) }

// newPool starts a server and fills a queue. The account has room for what the slices may add.
func (b *bench) newPool(kind string, depth, groups int) (*pool, error) {
	s, err := b.start(b.ours)
	if err != nil {
		return nil, err
	}
	room := depth + b.o.runs*int(b.o.slice.Seconds()*60_000) + 100_000
	l, err := newLoad(s, b.o.clients+max(feeders, preloaders), room, groups, b.o.size)
	if err != nil {
		s.stop()
		return nil, err
	}
	l.limit = poolLimit
	p := &pool{load: l, depth: depth}
	m := startMeter(s)
	l.sendAll(m, depth, 10, preloaders)
	ph := m.phase("depth "+kind, fmt.Sprintf("preload to %d", depth), l.led.sent.Load())
	ph.Clients, ph.Errors = preloaders, l.fails.list()
	ph.Extra = map[string]float64{"disk_mb": s.diskMB()}
	p.seconds = ph.Seconds
	b.record(ph)
	return p, nil
}

// hold measures receive 1 + ack for one slice of time while the feeders keep the depth.
func (b *bench) hold(p *pool, kind string, run int) phase {
	clients := b.o.clients
	before := p.led.acked.Load()
	var over atomic.Bool
	ended := make(chan struct{})
	m := startMeter(p.srv)
	go func() {
		defer close(ended)
		p.crew(clients+feeders, func(w int, c *conn) {
			if w >= clients {
				p.feed(c, w-clients, &over)
				return
			}
			for !over.Load() && !p.fails.tooMany() {
				p.take(c, 1, p.wait(), m)
			}
		})
	}()
	time.Sleep(b.o.slice)
	m.stop()
	ph := m.phase("depth "+kind, depthPhase(p.depth), p.led.acked.Load()-before)
	over.Store(true)
	<-ended
	waiting := p.led.sent.Load() - p.led.got.Load()
	if waiting < int64(p.depth/2) {
		p.fails.add(fmt.Errorf("only %d wait: the feeders could not keep the depth", waiting))
	}
	ph.Run, ph.Clients, ph.Errors = run, clients, p.errs(false)
	ph.Extra = map[string]float64{"waiting": float64(waiting)}
	return ph
}

// feed sends ten whenever fewer than the depth wait.
func (p *pool) feed(c *conn, w int, over *atomic.Bool) {
	s := p.sender(c, w, feeders)
	for s != nil && !over.Load() && !p.fails.tooMany() {
		if p.next.Load()-p.led.got.Load() >= int64(p.depth) {
			sleepUntil(clock() + int64(200*time.Microsecond))
			continue
		}
		from := p.next.Add(10) - 10
		if int(from)+10 > len(p.led.state) {
			p.next.Add(-10)
			p.fails.add(fmt.Errorf("the account has no room for more than %d messages", len(p.led.state)))
			return
		}
		if err := s.send(int(from), int(from)+10, 0); err != nil {
			p.fails.add(err)
		}
	}
}

func (b *bench) depthRows(kind string, shallow, deep *pool) []row {
	name := b.ours.name
	x, y := key{name, "depth " + kind, depthPhase(shallow.depth)}, key{name, "depth " + kind, depthPhase(deep.depth)}
	r := b.rateRow(fmt.Sprintf("%s: receive + ack at %d and at %d", kind, shallow.depth, deep.depth), x, y, 0)
	r.Demand = fmt.Sprintf("within %.0f %%", 100*depthWithin)
	if len(b.seen[x]) > 0 && len(b.seen[y]) > 0 {
		ratio := median(b.seen[y], perSecond) / median(b.seen[x], perSecond)
		r.Verdict = verdict(min(ratio, 1/ratio) >= 1-depthWithin)
	}
	ids := 0.0
	mem := row{What: kind + ": resident memory", Base: fmt.Sprintf("%.0f MB", shallow.maxMB),
		Ours: fmt.Sprintf("%.0f MB", deep.maxMB), Demand: fmt.Sprintf("< %.0f MB", residentMBMax)}
	if kind == "FIFO" {
		ids = float64(deep.led.sent.Load()) // all were sent within the window, or nearly
		mem.Demand += fmt.Sprintf(" + %.0f MB of dedup window", ids*dedupBytesPerID/1e6)
	}
	mem.Verdict = verdict(deep.maxMB < residentMBMax+ids*dedupBytesPerID/1e6)
	_, high := resident(deep.srv.pid)
	return []row{r, mem,
		{What: kind + ": highest resident memory", Ours: fmt.Sprintf("%.0f MB", high)},
		{What: kind + ": preload by 10", Ours: rate(float64(deep.depth) / deep.seconds)},
		{What: kind + ": data directory", Ours: fmt.Sprintf("%.0f MB", deep.srv.diskMB())}}
}

// restart stops the server at its depth and starts it again on the same data. Then everything must come back.
func (b *bench) restart(kind string, p *pool) error {
	dir := p.srv.dir
	p.srv.stop()
	if !p.srv.durable {
		return nil
	}
	s, err := b.startIn(b.ours, dir)
	if err != nil {
		return err
	}
	p.redial(s)
	m := startMeter(s)
	n := p.take(p.conns[0], 1, 1, m)
	first := time.Since(s.begun)
	if n == 0 {
		p.fails.add(fmt.Errorf("nothing is delivered after the restart"))
	}
	b.rows = append(b.rows, row{What: fmt.Sprintf("%s: restart to the first message at %d", kind, p.depth),
		Ours: fmt.Sprintf("%.2f s", first.Seconds())})
	before := p.led.acked.Load()
	m = startMeter(s)
	p.drain(m, 10, b.o.clients)
	ph := m.phase("depth "+kind, "drain by 10", p.led.acked.Load()-before)
	p.checkEmpty()
	ph.Clients, ph.Errors = b.o.clients, p.errs(true)
	ph.Extra = map[string]float64{"restart_seconds": first.Seconds(), "disk_mb": s.diskMB()}
	b.record(ph)
	return nil
}

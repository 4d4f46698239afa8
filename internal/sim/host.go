package sim

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing/synctest"
	"time"

	"github.com/leaselog/leaselog/events"
	"github.com/leaselog/leaselog/internal/broker"
)

// host is a machine: it has a clock, and one broker after another.
type host struct {
	n      int
	offset atomic.Int64 // milliseconds by which its clock is ahead of the truth
	life   *life        // nil while it is down
}

// life is a broker from its start to its crash or stop.
type life struct {
	sim    *simulation
	host   *host
	n      int
	broker *broker.Broker
	dead   bool // guarded by sim.mu
	ending bool // it is being closed
	closed bool
}

func (l *life) String() string { return fmt.Sprintf("b%d", l.n) }

// boot starts a broker on a host.
func (s *simulation) boot(h *host) {
	l := &life{sim: s, host: h, n: s.lives}
	s.lives++
	b, err := broker.New(broker.Config{
		Log: link{l}, Keys: s.keys, Now: l.clock, Rand: newSource(s.Seed, l.n), Deployment: deployment,
		Shards: s.Shards, Exclusive: s.Exclusive, CacheBytes: s.Cache, Limits: s.Limits, Logger: s.logger(), Turn: l.turn,
		Jitter: func(most time.Duration) time.Duration { return most/2 + time.Duration(l.n)*time.Microsecond },
	})
	s.must(err == nil, "a broker does not start: %v", err)
	l.broker, h.life = b, l
	s.note("%s starts on host %d", l, h.n)
}

const deployment = "sim"

// clock is what the broker takes for the time.
func (l *life) clock() events.Instant {
	now := l.sim.now() + events.Instant(l.host.offset.Load())
	if l.sim.Skew != nil {
		return l.sim.Skew(now)
	}
	return now
}

// crash ends a broker in the midst of whatever it does. Its writes that are under way may land, now, later or never;
// an exclusive store has them decided before it opens again.
func (s *simulation) crash(l *life) {
	s.note("%s crashes", l)
	s.count("crash")
	calls, _ := s.waiting()
	for _, c := range calls {
		if c.life != l || c.commit == nil {
			continue
		}
		switch s.rand.IntN(3) {
		case 0:
			s.note("%s %s lands", l, c.what)
			s.carryOut(c)
		case 1:
			s.late = append(s.late, c)
		}
	}
	if s.Exclusive {
		s.landAll(func() bool { return chance(s.rand, 0.5) })
	}
	s.bury(l)
}

// bury cuts a broker off: its callers learn nothing, and whatever it does from now on reaches nobody.
func (s *simulation) bury(l *life) {
	for _, c := range s.running {
		if c.life == l {
			s.silent(c)
		}
	}
	s.running = slices.DeleteFunc(s.running, func(c *command) bool { return c.life == l })
	s.release(l)
	if l.host.life == l {
		l.host.life = nil
	}
}

// release lets everything go that waits in a dead broker, so that its goroutines end.
func (s *simulation) release(l *life) {
	s.mu.Lock()
	l.dead = true
	var calls []*call
	var turns []*turn
	s.calls = slices.DeleteFunc(s.calls, func(c *call) bool {
		if c.life == l {
			calls = append(calls, c)
		}
		return c.life == l
	})
	s.turns = slices.DeleteFunc(s.turns, func(t *turn) bool {
		if t.life == l {
			turns = append(turns, t)
		}
		return t.life == l
	})
	s.mu.Unlock()
	l.broker.Abandon()
	for _, c := range calls {
		c.answer <- errLost
	}
	for _, t := range turns {
		close(t.pass)
	}
	synctest.Wait()
}

// landAll lets late commits land or be lost.
func (s *simulation) landAll(lands func() bool) {
	for _, c := range s.late {
		if lands() {
			s.land(c)
		}
	}
	s.late = nil
}

func (s *simulation) land(c *call) {
	err := s.carryOut(c)
	if err == nil {
		s.count("landed late")
	}
	s.note("%s %s lands late: %v", c.life, c.what, err)
}

// clean ends every goroutine of the bubble, whatever has happened.
func (s *simulation) clean() {
	for _, c := range s.running {
		c.cancel()
	}
	for _, h := range s.hosts {
		if h.life != nil {
			s.release(h.life)
		}
	}
	synctest.Wait()
}

// stop closes a broker in good order, as a command among others. The host is free as soon as it is closed; commands
// that go on without a runner have time to end.
func (s *simulation) stop(l *life) {
	l.ending = true
	s.command(l, "close", func(context.Context) func() {
		l.broker.Close()
		return func() { l.closed = true }
	})
}

// retire takes brokers that were closed, and have nothing left to answer, out of the way.
func (s *simulation) retire() {
	for _, h := range s.hosts {
		if l := h.life; l != nil && l.closed && !slices.ContainsFunc(s.running, func(c *command) bool { return c.life == l }) {
			s.note("%s has ended", l)
			s.count("closed")
			if s.Exclusive {
				s.landAll(func() bool { return true })
			}
			s.bury(l)
		}
	}
}

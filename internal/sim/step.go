package sim

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/leaselog/leaselog/events"
)

// choice is one thing that may happen next.
type choice struct {
	weight int
	do     func()
}

// step lets one thing happen.
func (s *simulation) step() {
	s.settle()
	s.retire()
	var total int
	choices := s.choices()
	for _, c := range choices {
		total += c.weight
	}
	n := s.rand.IntN(total)
	for _, c := range choices {
		if n -= c.weight; n < 0 {
			c.do()
			break
		}
	}
	s.settle()
}

func (s *simulation) choices() (all []choice) {
	add := func(possible bool, weight int, do func()) {
		if possible {
			all = append(all, choice{weight, do})
		}
	}
	calls, turns := s.waiting()
	live := s.live()
	add(len(turns) > 0, 60, func() { s.pass(one(s.rand, turns...)) })
	add(len(calls) > 0, 40, func() { s.meet(one(s.rand, calls...)) })
	add(len(s.late) > 0, 3, s.landOne)
	add(len(live) > 0 && len(s.running) < s.Busy, 25, func() { s.client(one(s.rand, live...)) })
	add(len(live) > 0, 2, func() { s.quietly(one(s.rand, live...)) })
	add(len(live) > 0, 1, func() { s.tick(one(s.rand, live...)) })
	add(true, 8, s.pause)
	add(s.Clocks != right, 1, s.stepClock)
	add(s.Keys, 1, s.turnKeys)
	add(len(live) > 0, 2, func() { s.sweep(one(s.rand, live...)) })
	add(len(s.running) > 0, 1, s.leave)
	add(s.Crashes && len(live) > 0, 1, func() { s.end(one(s.rand, live...)) })
	for _, h := range s.hosts {
		add(h.life == nil, 20, func() { s.boot(h) })
	}
	return all
}

// live are the brokers that take commands.
func (s *simulation) live() (all []*life) {
	for _, h := range s.hosts {
		if h.life != nil && !h.life.ending {
			all = append(all, h.life)
		}
	}
	return all
}

// meet lets a call meet what the seed has for it.
func (s *simulation) meet(c *call) {
	f := ok
	p := s.Faults
	if c.commit != nil {
		p *= 2 // most calls are reads, and writes are what can go wrong in more ways
	}
	if !s.healed && chance(s.rand, p) {
		if f = refuse; c.writes {
			f = one(s.rand, refuse, before, after)
			if c.commit != nil && chance(s.rand, 0.3) {
				f = behind
			}
		}
	}
	s.settleCall(c, f)
}

func (s *simulation) landOne() {
	i := s.rand.IntN(len(s.late))
	c := s.late[i]
	s.late = append(s.late[:i:i], s.late[i+1:]...)
	s.land(c)
}

// pause lets time pass, mostly little.
func (s *simulation) pause() {
	d := one(s.rand, 1, 1, 3, 10, 10, 30, 100, 300, 1000, 1000, 3000, 10_000)
	if chance(s.rand, map[bool]float64{true: 0.15, false: 0.02}[s.Maintains]) {
		d = one(s.rand, 60_000, 300_000, 900_000)
	}
	if s.Maintains && chance(s.rand, 0.005) {
		d = 25 * 60 * 60 * 1000 // nobody comes for a day
	}
	s.sleep(time.Duration(d) * time.Millisecond)
}

func (s *simulation) sleep(d time.Duration) {
	s.note("%v pass", d)
	time.Sleep(d)
}

// stepClock sets a host's clock to another offset.
func (s *simulation) stepClock() {
	h := one(s.rand, s.hosts...)
	h.offset.Store(s.drawOffset())
	s.note("the clock of host %d is off by %d ms", h.n, h.offset.Load())
}

// turnKeys puts the keys out of reach, or back.
func (s *simulation) turnKeys() {
	s.keys.down.Store(!s.keys.down.Load())
	s.note("the keys are out of reach: %t", s.keys.down.Load())
	s.count("keys turned")
}

func (s *simulation) drawOffset() int64 {
	switch s.Clocks {
	case loose:
		return s.rand.Int64N(2001) - 1000
	case wrong:
		return s.rand.Int64N(40_001) - 20_000
	}
	return 0
}

// leave lets a client go before it has its answer.
func (s *simulation) leave() {
	c := one(s.rand, s.running...)
	calls, _ := s.waiting()
	if c.what == "close" || c.what == "tick" || c.kind() == "sweep" || slices.ContainsFunc(calls, func(x *call) bool { return x.who == c.name }) {
		return // what waits for the store itself would go on with a context that has ended, and race with its own keys
	}
	s.note("the caller of %s leaves", c.name)
	s.count("caller left")
	c.left = true
	c.cancel()
}

// end stops a broker, mostly by a crash.
func (s *simulation) end(l *life) {
	if chance(s.rand, 0.3) {
		s.stop(l)
		return
	}
	s.crash(l)
}

// command is something a client asks of a broker.
type command struct {
	what   string
	name   string // with its number
	life   *life
	ctx    context.Context
	cancel context.CancelFunc
	began  events.Instant // true time
	before int            // commits until then
	left   bool           // its caller has gone
	heard  func()         // takes the answer to the judges; set when there is one
	lost   func()         // tells the judges that there will be none
	ended  bool
}

// kind is the first word of what it asks.
func (c *command) kind() string { kind, _, _ := strings.Cut(c.what, " "); return kind }

type commandKey struct{}

// command starts do in a goroutine of its own, as a client's. What do gives is called when all is still.
func (s *simulation) command(l *life, what string, do func(context.Context) func()) *command {
	s.started++
	c := &command{what: what, name: fmt.Sprintf("#%d %s", s.started, what), life: l, began: s.now(), before: s.witness.commits}
	ctx, cancel := context.WithCancel(context.Background())
	c.ctx, c.cancel = context.WithValue(ctx, commandKey{}, c), cancel
	s.running = append(s.running, c)
	s.note("%s: %s", l, c.name)
	go func() {
		defer cancel()
		heard := do(c.ctx)
		s.mu.Lock()
		defer s.mu.Unlock()
		if c.heard = heard; !l.dead {
			s.finished = append(s.finished, c)
		}
	}()
	return c
}

// hear takes the answer of a command to the judges.
func (s *simulation) hear(c *command) {
	for i, x := range s.running {
		if x == c {
			s.running = append(s.running[:i:i], s.running[i+1:]...)
			break
		}
	}
	if c.ended = true; c.life.dead {
		return
	}
	c.heard()
}

// silent ends a command whose broker has crashed.
func (s *simulation) silent(c *command) {
	c.cancel()
	if c.lost != nil {
		c.lost()
	}
}

// finish lets a command, and whatever it waits for in its broker, go on until it has its answer.
func (s *simulation) finish(c *command) {
	for n := 0; !c.ended; n++ {
		s.must(n < 5_000, "%s has no answer though nothing fails", c.name)
		if s.settle(); c.ended {
			return
		}
		if !s.forward(c.life) {
			s.sleep(10 * time.Millisecond)
		}
	}
}

// forward lets the first of what waits go on, of one broker or, without one, of all.
func (s *simulation) forward(l *life) bool {
	calls, turns := s.waiting()
	for _, t := range turns {
		if l == nil || t.life == l {
			s.pass(t)
			return true
		}
	}
	for _, c := range calls {
		if l == nil || c.life == l {
			s.settleCall(c, ok)
			return true
		}
	}
	return false
}

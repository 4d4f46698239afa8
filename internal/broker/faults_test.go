package broker

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leaselog/leaselog/internal/eventlog/eventlogtest"
	"github.com/leaselog/leaselog/internal/fault"
	"github.com/leaselog/leaselog/internal/local/keys"
)

// trial is one way in which the n-th call of a use case fails, and what happens then.
type trial struct {
	op     eventlogtest.Op // empty: a write
	n      int
	fault  eventlogtest.Fault
	lasts  time.Duration // how long this and every later write fails; 0: the call alone
	crash  bool          // the broker ends there, and another one takes its place
	ticks  bool          // the command is not repeated: ticks must finish what was begun
	cold   bool          // the broker has loaded nothing before
	shared bool
}

func (t trial) String() string {
	return fmt.Sprintf("%s %d %v for %v, crash %v, ticks %v, cold %v, shared %v", t.op, t.n, t.fault, t.lasts, t.crash, t.ticks, t.cold, t.shared)
}

// answeredWithin is how long a caller waits at most for "unconfirmed": the patience, and a pause that is under way.
const answeredWithin = unknownPatience + 1300*time.Millisecond

// expected is what a use case does when nothing fails: what is seen before, after, and after doing it twice.
type expected struct{ before, once, twice string }

// TestEveryWriteFails lets every write of every use case fail before it took effect, after it did, and land late, once
// or for a while, with and without a crash, and checks that what was answered is true.
func TestEveryWriteFails(t *testing.T) {
	eachUseCase(t, func(t *testing.T, tr *tryer) {
		for n := 1; n <= tr.count(trial{}, eventlogtest.Op.Writes); n++ {
			for _, f := range []eventlogtest.Fault{eventlogtest.Refuse, eventlogtest.Before, eventlogtest.After, eventlogtest.Late} {
				tr.try(t, trial{n: n, fault: f})
				tr.try(t, trial{n: n, fault: f, lasts: 5 * time.Second})
				tr.try(t, trial{n: n, fault: f, lasts: 5 * time.Second, shared: true, ticks: true})
				tr.try(t, trial{n: n, fault: f, lasts: 11 * time.Minute, shared: n%2 == 0})
				tr.try(t, trial{n: n, fault: f, crash: true})
				tr.try(t, trial{n: n, fault: f, crash: true, ticks: true, shared: true})
			}
		}
	})
}

// TestEveryReadFails lets every read of every use case fail, in a broker that has loaded nothing yet.
func TestEveryReadFails(t *testing.T) {
	eachUseCase(t, func(t *testing.T, tr *tryer) {
		for _, op := range []eventlogtest.Op{eventlogtest.OpRead, eventlogtest.OpLast, eventlogtest.OpClaim, eventlogtest.OpClaims, eventlogtest.OpSnapshot} {
			for _, shared := range []bool{false, true} {
				for n := 1; n <= tr.count(trial{cold: true, shared: shared}, func(o eventlogtest.Op) bool { return o == op }); n++ {
					tr.try(t, trial{op: op, n: n, fault: eventlogtest.Before, cold: true, shared: shared})
				}
			}
		}
	})
}

func eachUseCase(t *testing.T, test func(t *testing.T, tr *tryer)) {
	secret := openKeys(t)
	for _, k := range fewerKinds() {
		for _, c := range useCases {
			t.Run(k.name+"/"+c.name, func(t *testing.T) {
				tr := &tryer{k: k, useCase: c, keys: secret, t: t}
				tr.learn(t)
				test(t, tr)
			})
		}
	}
}

// tryer tries one use case with one kind of queue.
type tryer struct {
	useCase
	k    kind
	keys *keys.Keys
	want expected
	t    *testing.T
}

func (tr *tryer) stage(t *testing.T, tl trial) *scene {
	vault := customers()
	w := newWorld(t, tr.keys, onShards(tr.k.shards), func(c *Config) { c.Exclusive, c.Keys = !tl.shared, vault })
	s := &scene{world: w, k: tr.k, b: w.b, coarse: tr.coarse && tr.k.shards > 1}
	all := func(c *CreateQueue) { c.Settings = s.settings() }
	s.dead, s.q = w.create("dead", tr.k.fifo, all), w.create("q", tr.k.fifo, all)
	if tr.name != "move" {
		s.tick() // else the first tick reads the records amid the use case
	}
	if tr.setup != nil {
		tr.setup(s)
	}
	if tl.cold {
		w.restart()
		s.b = w.b
	}
	w.log.ResetCounts()
	return s
}

// learn runs the use case without a fault.
func (tr *tryer) learn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := tr.stage(t, trial{})
		tr.want.before = s.digest(s.b)
		for i, into := range []*string{&tr.want.once, &tr.want.twice} {
			if err := tr.act(s.ctx, s); err != nil && (i == 0 || !tr.wasDone(err)) {
				t.Fatalf("time %d: %v", i+1, err)
			}
			*into = s.digest(s.b)
		}
		s.end()
	})
}

func (tr *tryer) wasDone(err error) bool {
	return slices.ContainsFunc(tr.repeated, func(c fault.Code) bool { return fault.Is(err, c) })
}

// count gives how many calls the use case makes.
func (tr *tryer) count(tl trial, is func(eventlogtest.Op) bool) (n int) {
	synctest.Test(tr.t, func(t *testing.T) {
		s := tr.stage(t, tl)
		if err := tr.act(s.ctx, s); err != nil {
			t.Fatal(err)
		}
		for op, calls := range s.log.Counts() {
			if is(op) {
				n += calls
			}
		}
		s.end()
	})
	return n
}

// try stages the use case, lets it fail, and judges.
func (tr *tryer) try(t *testing.T, tl trial) {
	synctest.Test(t, func(t *testing.T) {
		s := tr.stage(t, tl)
		began := time.Now()
		s.log.Plan(func(c eventlogtest.Call) eventlogtest.Fault {
			n := c.Write
			if tl.op != "" {
				if n = c.N; c.Op != tl.op {
					return eventlogtest.Pass
				}
			}
			if n == tl.n || n > tl.n && tl.lasts > 0 && time.Since(began) < tl.lasts {
				return tl.fault
			}
			return eventlogtest.Pass
		})
		err := tr.once(s, tl, began)
		seen := tr.settle(s, tl, began, err)
		tr.judge(t, tl, err, seen)
		tr.afterwards(t, s, tl, err)
		s.end()
		if t.Failed() {
			t.Logf("that was %v: %v", tl, err)
			t.FailNow()
		}
	})
}

// once runs the command under the fault, and measures how long its caller waits.
func (tr *tryer) once(s *scene, tl trial, began time.Time) (err error) {
	if !tl.crash {
		err = tr.act(s.ctx, s)
	} else {
		ctx, cancel := context.WithCancel(s.ctx)
		go func() {
			time.Sleep(time.Nanosecond) // what can be done at once is done by then
			s.b.Abandon()
			cancel()
		}()
		err = tr.act(ctx, s)
		cancel()
	}
	if took := time.Since(began); took > answeredWithin && !tr.inner {
		s.t.Errorf("answered after %v", took)
	}
	return err
}

// settle waits until the fault is over and gives what is seen then, by the broker and by a new one.
func (tr *tryer) settle(s *scene, tl trial, began time.Time, err error) string {
	if tl.lasts > 0 {
		time.Sleep(time.Until(began.Add(min(tl.lasts, 9*time.Minute))))
		s.log.Land()
		time.Sleep(time.Until(began.Add(tl.lasts)))
	}
	s.log.Plan(nil)
	s.log.Land()
	time.Sleep(2 * time.Second)
	synctest.Wait()
	if tl.crash {
		s.brokers = slices.DeleteFunc(s.brokers, func(b *Broker) bool { return b == s.b })
		s.b = s.another()
		s.world.b = s.b
	}
	if tr.halfway(err) {
		return s.digest(s.b)
	}
	return s.seen()
}

// halfway says whether an effect may be there in part.
func (tr *tryer) halfway(err error) bool { return err != nil && tr.steps != nil && tr.steps(tr.k) }

// seen is what is seen by the broker, and by a new one.
func (s *scene) seen() string {
	fresh := s.another(shared)
	seen, cold := s.digest(s.b), s.digest(fresh)
	fresh.Close()
	s.brokers = slices.DeleteFunc(s.brokers, func(b *Broker) bool { return b == fresh })
	if seen != cold {
		s.t.Errorf("one broker sees\n%s\na new one\n%s", seen, cold)
	}
	return seen
}

// judge compares an answer with what is seen.
func (tr *tryer) judge(t *testing.T, tl trial, err error, seen string) {
	may := map[string]bool{}
	switch {
	case err == nil:
		may[tr.want.once] = true
	case fault.Is(err, fault.Unavailable) && !fault.Is(err, fault.Unconfirmed) && !tl.crash:
		may[tr.want.before] = true
	case fault.Is(err, fault.Unconfirmed) || tl.crash || tr.inner:
		may[tr.want.before], may[tr.want.once] = true, true
	default:
		t.Errorf("the answer %v", err)
	}
	if !may[seen] && !tr.halfway(err) {
		t.Errorf("the answer was %v; before was\n%s\nafter is to be\n%s\nseen is\n%s", err, tr.want.before, tr.want.once, seen)
	}
}

// afterwards repeats the command, or lets time do it, until all is done.
func (tr *tryer) afterwards(t *testing.T, s *scene, tl trial, err error) {
	if err == nil && !tl.crash {
		return
	}
	may := map[string]bool{tr.want.once: true, tr.want.twice: true}
	if tl.ticks {
		may[tr.want.before] = true
		for range 100 { // every ten seconds, for longer than a write may be under way
			s.tick()
			if tr.ticked {
				if err := s.redrive(s.ctx, s.b); err != nil {
					t.Errorf("moves: %v", err)
				}
			}
			time.Sleep(10 * time.Second)
		}
	} else if again := tr.act(s.ctx, s); again != nil && !tr.wasDone(again) {
		t.Errorf("repeated: %v", again)
	}
	if seen := s.seen(); !may[seen] && !(tl.ticks && tr.parts && tr.k.shards > 1) {
		t.Errorf("the answer was %v; before was\n%s\nafter is to be\n%s\nseen in the end is\n%s", err, tr.want.before, tr.want.once, seen)
	}
}

package broker

import (
	"context"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leaselog/leaselog/events"
	"github.com/leaselog/leaselog/internal/eventlog/eventlogtest"
	"github.com/leaselog/leaselog/internal/fault"
)

// poll is a long poll under way.
type poll struct {
	began, ended time.Time
	found        []Delivery
	err          error
	done         chan struct{}
	leave        context.CancelFunc
}

// poll starts a long poll and returns when it waits.
func (w *world) poll(b *Broker, q events.QueueID, wait uint32) *poll {
	p := w.start(b, Receive{Queue: q, Max: 10, WaitSeconds: &wait})
	synctest.Wait()
	return p
}

func (w *world) start(b *Broker, r Receive) *poll {
	p := &poll{began: time.Now(), done: make(chan struct{})}
	var ctx context.Context
	ctx, p.leave = context.WithCancel(w.ctx)
	go func() {
		p.found, p.err = b.Receive(ctx, r)
		p.ended = time.Now()
		close(p.done)
	}()
	return p
}

// waits says whether the poll has no answer yet.
func (p *poll) waits() bool {
	synctest.Wait()
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

func (w *world) wantPoll(p *poll, after time.Duration, want ...string) {
	w.t.Helper()
	<-p.done
	if took := p.ended.Sub(p.began); took != after {
		w.t.Errorf("the poll took %v, not %v", took, after)
	}
	if p.err != nil {
		w.t.Errorf("the poll: %v", p.err)
	}
	w.want(bodies(p.found), want...)
}

// wakes are the causes for which a long poll wakes, each with the instant at which it must be answered.
var wakes = []struct {
	name   string
	before func(w *world, q events.QueueID) (first []Delivery)
	cause  func(w *world, q events.QueueID, first []Delivery)
	after  time.Duration
	want   []string
}{
	{"send", nil, func(w *world, q events.QueueID, _ []Delivery) { w.send(q, "g:a") }, 3 * time.Second, []string{"a"}},
	{"release", lease("g:a"), func(w *world, q events.QueueID, first []Delivery) { w.release(q, first[0]) }, 3 * time.Second, []string{"a"}},
	{"lapse", lease("g:a"), nil, 7 * time.Second, []string{"a"}},
	{"lapse of an extended lease", lease("g:a"), func(w *world, q events.QueueID, first []Delivery) {
		if r, err := w.b.Extend(w.ctx, q, []Extend{{first[0].Receipt, 8}}); err != nil || r[0] != nil {
			w.t.Error(r, err)
		}
	}, 11 * time.Second, []string{"a"}},
	{"purge wakes nobody", lease("g:a", "h:b"), func(w *world, q events.QueueID, _ []Delivery) {
		if _, err := w.b.Purge(w.ctx, q); err != nil {
			w.t.Error(err)
		}
	}, 20 * time.Second, nil},
	{"nothing", nil, nil, 20 * time.Second, nil},
	{"stop", nil, func(w *world, q events.QueueID, _ []Delivery) { w.b.Close() }, 3 * time.Second, nil},
	{"other settings wake nobody", nil, func(w *world, q events.QueueID, _ []Delivery) {
		if _, err := w.b.Update(w.ctx, UpdateQueue{Queue: q, LeaseSeconds: seconds(40)}); err != nil {
			w.t.Error(err)
		}
	}, 20 * time.Second, nil},
}

// lease sends messages and receives them all for 7 seconds.
func lease(texts ...string) func(w *world, q events.QueueID) []Delivery {
	return func(w *world, q events.QueueID) (first []Delivery) {
		w.send(q, texts...)
		for range 3 {
			first = append(first, w.receiveBy(w.b, Receive{Queue: q, Max: 10, LeaseSeconds: seconds(7), WaitSeconds: seconds(0)})...)
		}
		return first
	}
}

func TestWakes(t *testing.T) {
	for _, c := range wakes {
		t.Run(c.name, func(t *testing.T) {
			forKinds(t, func(w *world, k kind, q events.QueueID) {
				var first []Delivery
				if c.before != nil {
					first = c.before(w, q)
				}
				p := w.poll(w.b, q, 20)
				time.Sleep(3 * time.Second)
				if c.cause != nil {
					c.cause(w, q, first)
				}
				w.wantPoll(p, c.after, c.want...)
			})
		})
	}
}

func TestWakeByDelay(t *testing.T) {
	for _, k := range kinds[:2] {
		inWorld(t, func(w *world) {
			q := w.create("q", false, func(c *CreateQueue) { c.Settings.DelaySeconds = 5 })
			w.send(q, "a")
			w.wantPoll(w.poll(w.b, q, 20), 5*time.Second, "a")
			p := w.poll(w.b, q, 20) // sent while it waits
			w.send(q, "b")
			w.wantPoll(p, 5*time.Second, "b")
		}, onShards(k.shards))
	}
}

func TestWakeByFreedGroup(t *testing.T) {
	inWorld(t, func(w *world) {
		q := w.create("q.fifo", true)
		w.send(q, "g:1", "g:2")
		first := w.receive(q, 10)
		p := w.poll(w.b, q, 20)
		time.Sleep(time.Second)
		w.ack(q, first...)
		w.wantPoll(p, time.Second, "2")
	})
}

func TestWakeByMove(t *testing.T) {
	for _, k := range kinds {
		inWorld(t, func(w *world) {
			dead := w.create("dead", k.fifo)
			q := w.create("q", k.fifo, deadLetter(dead, 1))
			w.send(q, "g:1", "g:2")
			target, source := w.poll(w.b, dead, 20), w.start(w.b, Receive{Queue: q, Max: 1, LeaseSeconds: seconds(3), WaitSeconds: seconds(0)})
			<-source.done
			if k.fifo {
				source = w.poll(w.b, q, 20)
			}
			time.Sleep(4 * time.Second)
			w.tick()
			w.wantPoll(target, 4*time.Second, "1")
			if k.fifo { // the group goes on
				w.wantPoll(source, 4*time.Second, "2")
			}
		}, onShards(k.shards))
	}
}

// A poll on a queue that is deleted answers NotFound, whoever deletes it.
func TestDeletionEndsPolls(t *testing.T) {
	for _, k := range kinds {
		for _, other := range []bool{false, true} {
			inWorld(t, func(w *world) {
				q := w.create("q", k.fifo)
				polls := []*poll{w.poll(w.b, q, 20), w.poll(w.b, q, 20)}
				by := w.b
				if other {
					by = w.another()
				}
				if err := by.Delete(w.ctx, Ref{Account: "a", ID: q}); err != nil {
					w.t.Error(err)
				}
				for _, p := range polls {
					<-p.done
					w.wantFault(p.err, fault.NotFound)
					if took := p.ended.Sub(p.began); took > 400*time.Millisecond {
						w.t.Errorf("told after %v", took)
					}
				}
			}, onShards(k.shards), func(c *Config) { c.Exclusive = !other })
		}
	}
}

// Whoever has left is given nothing: the message goes to the next one.
func TestLeaverGetsNothing(t *testing.T) {
	forKinds(t, func(w *world, k kind, q events.QueueID) {
		p := w.poll(w.b, q, 20)
		p.leave()
		<-p.done
		w.wantFault(p.err, fault.Unconfirmed)
		w.send(q, "g:a")
		w.wantDepth(q, 1, 0, 0)
		if d := w.receive(q, 1); len(d) != 1 || d[0].Receives != 1 {
			w.t.Errorf("%+v", d)
		}
	})
}

// Whoever leaves while the lease is being written gives it back as soon as it stands.
func TestLeaverGivesBack(t *testing.T) {
	forKinds(t, func(w *world, k kind, q events.QueueID) {
		w.send(q, "g:a")
		for range k.shards { // so that every shard is loaded
			w.receiveBy(w.b, Receive{Queue: q, Max: 1, LeaseSeconds: seconds(0), WaitSeconds: seconds(0)})
		}
		slow(w, time.Second)
		p := w.start(w.b, Receive{Queue: q, Max: 1, WaitSeconds: seconds(0)})
		time.Sleep(500 * time.Millisecond)
		p.leave()
		<-p.done
		time.Sleep(3 * time.Second)
		w.log.Plan(nil)
		w.wantDepth(q, 1, 0, 0)
	})
}

// slow makes every commit take a while.
func slow(w *world, d time.Duration) {
	w.log.Plan(func(c eventlogtest.Call) eventlogtest.Fault {
		if c.Op.Writes() {
			time.Sleep(d)
		}
		return eventlogtest.Pass
	})
}

// Polls of different patience do not end each other's wait, nor lengthen it.
func TestPatienceOfEach(t *testing.T) {
	forKinds(t, func(w *world, k kind, q events.QueueID) {
		long, short, middle := w.poll(w.b, q, 20), w.poll(w.b, q, 2), w.poll(w.b, q, 10)
		w.wantPoll(short, 2*time.Second)
		w.wantPoll(middle, 10*time.Second)
		if !long.waits() {
			w.t.Error("the longest ended early")
		}
		w.send(q, "g:a")
		w.wantPoll(long, 10*time.Second, "a")
	})
}

// Idle polls cost nothing: no call of the store, no timer but the one at the end. The clock is read whenever a runner
// decides or looks how long it may sleep, so it counts what wakes.
func TestIdlePollsCostNothing(t *testing.T) {
	var clock atomic.Int64
	k := openKeys(t)
	for _, kd := range kinds {
		synctest.Test(t, func(t *testing.T) {
			runIn(t, k, func(w *world) {
				q := w.create("q", kd.fifo)
				w.receive(q, 1)
				var polls []*poll
				for range 1000 {
					polls = append(polls, w.start(w.b, Receive{Queue: q, Max: 10, WaitSeconds: seconds(7200)}))
				}
				synctest.Wait()
				w.log.ResetCounts()
				before, allocated := clock.Load(), mallocs()
				time.Sleep(59 * time.Minute)
				if n := clock.Load() - before; n > 0 {
					t.Errorf("%s: %d looks at the clock", kd.name, n)
				}
				if n := w.log.Counts(); len(n) > 0 {
					t.Errorf("%s: %v", kd.name, n)
				}
				if n := mallocs() - allocated; n > 1000 {
					t.Errorf("%s: %d allocations", kd.name, n)
				}
				w.send(q, "g:a")
				answered := 0
				synctest.Wait()
				for _, p := range polls {
					select {
					case <-p.done:
						answered++
					default:
						p.leave()
					}
				}
				if answered != 1 {
					t.Errorf("%s: one message answered %d polls", kd.name, answered)
				}
			}, onShards(kd.shards), func(c *Config) {
				now := c.Now
				c.Now = func() events.Instant { clock.Add(1); return now() }
			})
		})
	}
}

func mallocs() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.Mallocs
}

// Every message of a burst reaches a poll at once, each one poll.
func TestBurstReachesPolls(t *testing.T) {
	forKinds(t, func(w *world, k kind, q events.QueueID) {
		var polls []*poll
		for range 50 {
			polls = append(polls, w.start(w.b, Receive{Queue: q, Max: 1, WaitSeconds: seconds(20)}))
		}
		synctest.Wait()
		all, want := groups(50)
		for _, s := range all {
			go w.send(q, s)
		}
		var got []string
		for _, p := range polls {
			<-p.done
			if took := p.ended.Sub(p.began); took > 0 {
				w.t.Errorf("woken after %v", took)
			}
			got = append(got, bodies(p.found)...)
		}
		w.wantSame(got, want...)
	})
}

// Polls of one queue over several shards are all answered, whichever shard holds their turn when something comes.
func TestPollsOverShardsMissNothing(t *testing.T) {
	inWorld(t, func(w *world) {
		q := w.create("q", false)
		slow(w, time.Millisecond)
		for round := range 50 {
			var polls []*poll
			for range 6 {
				polls = append(polls, w.start(w.b, Receive{Queue: q, Max: 1, WaitSeconds: seconds(20)}))
			}
			time.Sleep(time.Duration(round%3) * time.Millisecond)
			for range 6 {
				go w.send(q, "m")
			}
			for _, p := range polls {
				<-p.done
				if len(p.found) != 1 || p.ended.Sub(p.began) > time.Second {
					w.t.Errorf("round %d: %d messages after %v", round, len(p.found), p.ended.Sub(p.began))
				} else {
					w.ack(q, p.found...)
				}
			}
		}
	}, onShards(3))
}

// TestPollEndsBeforeItsCaller: a caller with a deadline is answered before it, and one whose time is nearly up at once.
func TestPollEndsBeforeItsCaller(t *testing.T) {
	forKinds(t, func(w *world, k kind, q events.QueueID) {
		for left, after := range map[time.Duration]time.Duration{30 * time.Second: 20 * time.Second, 9 * time.Second: 8 * time.Second,
			time.Second: 0, 300 * time.Millisecond: 0} {
			ctx, cancel := context.WithTimeout(w.ctx, left)
			began := time.Now()
			found, err := w.b.Receive(ctx, Receive{Queue: q, Max: 1, WaitSeconds: seconds(20)})
			if took := time.Since(began); err != nil || len(found) != 0 || took != after {
				w.t.Errorf("with %v left: %v %v after %v, want %v", left, found, err, took, after)
			}
			cancel()
		}
	})
}

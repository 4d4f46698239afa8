package broker

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leaselog/leaselog/events"
	"github.com/leaselog/leaselog/internal/eventlog"
	"github.com/leaselog/leaselog/internal/eventlog/eventlogtest"
)

// swept is a scene in which a chore has something to do, and what that is with one shard.
type swept struct {
	name  string
	setup func(s *scene)
	chore chore
	done  map[Work]uint64
}

var sweptScenes = []swept{
	{"exhausted", pointed(3, 1), sweepExhausted, map[Work]uint64{WorkMoved: 3}},
	{"settings", broken(func(s *scene) error {
		_, err := s.b.Update(s.ctx, UpdateQueue{Queue: s.q, MaxBytes: seconds(2048)})
		return err
	}), sweepUnfinished, map[Work]uint64{WorkConfigured: 1}},
	{"deletion", func(s *scene) {
		pointed(3, 2)(s)
		broken(func(s *scene) error { return s.b.Delete(s.ctx, Ref{Account: "a", ID: s.dead}) })(s)
	}, sweepUnfinished, map[Work]uint64{WorkDeleted: 1}},
	{"expired", func(s *scene) {
		holding(4)(s)
		for i := range 30 {
			s.send(s.q, fmt.Sprintf("g%d:late %d", i%6, i))
		}
		time.Sleep(5 * 24 * time.Hour)
	}, sweepExpired, map[Work]uint64{WorkExpired: 34}},
	{"keys", func(s *scene) {
		gone := s.create("gone", s.k.fifo)
		s.send(gone, "g:x")
		if err := s.b.Delete(s.ctx, Ref{Account: "a", ID: gone}); err != nil {
			s.t.Fatal(err)
		}
		s.fillAll(3)
		time.Sleep(25 * time.Hour)
	}, sweepKeys, map[Work]uint64{WorkRotated: 2, WorkShredded: 1}},
	{"snapshots", func(s *scene) {
		s.fillAll(6)
		s.drain(s.q)
		s.send(s.q, "z:last")
		time.Sleep(25 * time.Hour)
	}, sweepSnapshots, map[Work]uint64{WorkSnapshots: 4, WorkShortened: 2}},
	{"anchors", func(s *scene) {
		holding(4)(s)
		time.Sleep(25 * time.Hour)
	}, sweepAnchors, map[Work]uint64{WorkAnchored: 2}},
}

// broken breaks a command off after its first commit: those with entries are refused.
func broken(act func(s *scene) error) func(s *scene) {
	return func(s *scene) {
		s.log.Plan(func(c eventlogtest.Call) eventlogtest.Fault {
			if c.Op == eventlogtest.OpCommit && len(c.Commit.Appends) > 0 {
				return eventlogtest.Refuse
			}
			return eventlogtest.Pass
		})
		if err := act(s); err == nil {
			s.t.Fatal("it was not broken off")
		}
		s.log.Plan(nil)
	}
}

// anchors counts those of all message streams and all ledgers.
func (w *world) anchors() (messages, ledgers int) {
	for _, name := range w.mem.Streams() {
		_, _, ledger, err := events.ReadStream(string(name))
		if err != nil {
			w.t.Fatal(err)
		}
		last, _, _ := w.mem.Last(w.ctx, name)
		for seq := eventlog.Seq(0); seq < last.Next(); {
			entries, err := w.mem.Read(w.ctx, name, seq, eventlog.Limits{})
			if t, gone := truncated(err); gone {
				seq = t.To
				continue
			}
			if err != nil {
				w.t.Fatal(err)
			}
			for _, e := range entries {
				seq = e.Next()
				if h, err := events.DecodeLedgerHeader(e.Header); ledger && err == nil && h.Kind == events.Anchor {
					ledgers++
				} else if h, err := events.DecodeHeader(e.Header); !ledger && err == nil && h.Kind == events.Anchor {
					messages++
				}
			}
		}
	}
	return messages, ledgers
}

// inScenes runs a test in every scene of every kind of queue.
func inScenes(t *testing.T, test func(t *testing.T, k kind, sw swept, stage func(t *testing.T) *scene)) {
	secret := openKeys(t)
	for _, k := range fewerKinds() {
		for _, sw := range sweptScenes {
			t.Run(k.name+"/"+sw.name, func(t *testing.T) {
				tr := &tryer{useCase: useCase{setup: sw.setup}, k: k, keys: secret, t: t}
				test(t, k, sw, func(t *testing.T) *scene { return tr.stage(t, trial{shared: true}) })
			})
		}
	}
}

// summary is what is there in the end, whichever shard has it.
func (s *scene) summary(b *Broker) string {
	s.coarse = s.k.shards > 1
	messages, ledgers := s.anchors()
	return fmt.Sprintf("%s\nanchors: %d, %d", s.digest(b), messages, ledgers)
}

// idle wants a new process, and a look of it that changes nothing, to find nothing to do.
func (s *scene) idle(sw swept) {
	s.t.Helper()
	for _, dry := range []bool{true, false} {
		if again, err := sweeps(s.ctx, s.another(), as(dry, sw.chore)); err != nil || len(again.Done) > 0 {
			s.t.Errorf("another process, dry %v, still finds %v, %v", dry, again.Done, err)
		}
	}
}

// as is a chore that changes nothing, if it is dry.
func as(dry bool, c chore) chore {
	return func(ctx context.Context, b *Broker, f *Found, s *Sweep) error {
		s.Dry = dry
		return c(ctx, b, f, s)
	}
}

// TestSweeps says what each chore does, that a dry run says so before and changes nothing, and that a second run has
// nothing to do.
func TestSweeps(t *testing.T) {
	inScenes(t, func(t *testing.T, k kind, sw swept, stage func(t *testing.T) *scene) {
		synctest.Test(t, func(t *testing.T) {
			s := stage(t)
			before := s.digest(s.b)
			s.log.ResetCounts()
			would, err := sweeps(s.ctx, s.another(), as(true, sw.chore))
			if n := s.log.Counts(); err != nil || n[eventlogtest.OpCommit]+n[eventlogtest.OpPutSnapshot]+n[eventlogtest.OpDrop] > 0 {
				t.Errorf("a dry run writes: %v, %v", n, err)
			}
			did, err := sweeps(s.ctx, s.another(), sw.chore)
			if err != nil || !maps.Equal(would.Done, did.Done) {
				t.Errorf("it did %v, the dry run said %v: %v", did.Done, would.Done, err)
			}
			if k.shards == 1 && !maps.Equal(did.Done, sw.done) {
				t.Errorf("it did %v, not %v", did.Done, sw.done)
			}
			if after := s.digest(s.b); after == before && sw.name == "exhausted" {
				t.Errorf("nobody sees it:\n%s", after)
			}
			s.idle(sw)
			s.end()
		})
	})
}

// TestSweepsKilled lets each write of each chore fail before, after and late, and kills the process there; another one
// then finishes, and what is there in the end is what one run without a failure gives.
func TestSweepsKilled(t *testing.T) {
	inScenes(t, func(t *testing.T, k kind, sw swept, stage func(t *testing.T) *scene) {
		var want string
		writes := 0
		synctest.Test(t, func(t *testing.T) {
			s := stage(t)
			s.log.ResetCounts()
			if _, err := sweeps(s.ctx, s.another(), sw.chore); err != nil {
				t.Fatal(err)
			}
			for op, n := range s.log.Counts() {
				if op.Writes() {
					writes += n
				}
			}
			want = s.summary(s.another())
			s.end()
		})
		if writes == 0 {
			t.Fatal("it writes nothing")
		}
		for n := range writes {
			for _, f := range []eventlogtest.Fault{eventlogtest.Refuse, eventlogtest.Before, eventlogtest.After, eventlogtest.Late} {
				for _, crash := range []bool{false, true} {
					synctest.Test(t, func(t *testing.T) {
						s := stage(t)
						s.sweepKilled(sw, n+1, f, crash)
						if seen := s.summary(s.another()); seen != want {
							t.Errorf("write %d %v, killed %v: there is\n%s\nand should be\n%s", n+1, f, crash, seen, want)
						}
						s.idle(sw)
						s.end()
					})
				}
			}
		}
	})
}

// sweepKilled lets the n-th write of a chore fail, and has another process finish.
func (s *scene) sweepKilled(sw swept, n int, f eventlogtest.Fault, crash bool) {
	s.t.Helper()
	first := s.another()
	ctx, cancel := context.WithCancel(s.ctx)
	defer cancel()
	s.log.ResetCounts()
	s.log.Plan(func(c eventlogtest.Call) eventlogtest.Fault {
		if c.Write != n {
			return eventlogtest.Pass
		}
		if crash {
			first.Abandon()
			cancel()
		}
		return f
	})
	_, failed := sweeps(ctx, first, sw.chore)
	s.log.Plan(nil)
	s.log.Land()
	time.Sleep(11 * time.Minute) // what was under way has landed or never will
	if crash {
		s.brokers = slices.DeleteFunc(s.brokers, func(b *Broker) bool { return b == first })
	}
	if _, err := sweeps(s.ctx, s.another(), sw.chore); err != nil {
		s.t.Errorf("after %v: %v", failed, err)
	}
}

// TestSweepsAtOnce lets three processes do each chore at once on a slow store: nothing is done twice.
func TestSweepsAtOnce(t *testing.T) {
	inScenes(t, func(t *testing.T, k kind, sw swept, stage func(t *testing.T) *scene) {
		synctest.Test(t, func(t *testing.T) {
			s := stage(t)
			would, err := sweeps(s.ctx, s.another(), as(true, sw.chore))
			if err != nil {
				t.Fatal(err)
			}
			slow(s.world, 3*time.Millisecond)
			var all sync.WaitGroup
			var mu sync.Mutex
			sum := Sweep{}
			for range 3 {
				b := s.another()
				all.Go(func() {
					did, err := sweeps(s.ctx, b, sw.chore)
					mu.Lock()
					defer mu.Unlock()
					if err != nil {
						t.Error(err)
					}
					for w, n := range did.Done {
						sum.Did(w, n)
					}
				})
			}
			all.Wait()
			for _, w := range []Work{WorkMoved, WorkExpired, WorkAnchored} { // what changes messages, or is written to their streams
				if sum.Done[w] != would.Done[w] {
					t.Errorf("together they %s %d, there were %d", w, sum.Done[w], would.Done[w])
				}
			}
			if messages, ledgers := s.anchors(); messages != ledgers || uint64(ledgers) != would.Done[WorkAnchored] {
				t.Errorf("%d and %d anchors stand", messages, ledgers)
			}
			slow(s.world, 0)
			s.idle(sw)
			s.end()
		})
	})
}

// TestLostEnd wants an error for a stream that has lost its last entry, and nothing written.
func TestLostEnd(t *testing.T) {
	inWorld(t, func(w *world) {
		q := w.create("q", false)
		time.Sleep(25 * time.Hour)
		lost := &endless{Log: w.log, stream: eventlog.Stream(events.LedgerStream(q, 0))}
		b := w.another(shared, func(c *Config) { c.Log = lost })
		w.log.ResetCounts()
		s, err := sweeps(w.ctx, b, sweepAnchors)
		if !errors.Is(err, eventlog.ErrCorrupt) || len(s.Done) > 0 || w.log.Calls(eventlogtest.OpCommit) > 0 {
			t.Errorf("%v, %v, %d commits", s.Done, err, w.log.Calls(eventlogtest.OpCommit))
		}
	})
}

// endless is a log that has lost all entries of a stream.
type endless struct {
	eventlog.Log
	stream eventlog.Stream
}

func (e *endless) Last(ctx context.Context, s eventlog.Stream) (eventlog.Entry, bool, error) {
	if s == e.stream {
		return eventlog.Entry{}, false, nil
	}
	return e.Log.Last(ctx, s)
}

// TestSweepClosesWhatNobodyUses: a sweep over many queues does not leave all of them open.
func TestSweepClosesWhatNobodyUses(t *testing.T) {
	inWorld(t, func(w *world) {
		const queues = sweptShardsMax + 50
		for i := range queues {
			w.create(fmt.Sprint("q", i), false, func(c *CreateQueue) { c.Settings.RetentionSeconds = 60 })
			w.send(w.b.names[nameKey{"a", fmt.Sprint("q", i)}], "x")
		}
		time.Sleep(2 * time.Minute)
		b := w.another()
		s, err := sweeps(w.ctx, b, sweepExpired)
		synctest.Wait()
		if open := b.Stats().Shards; err != nil || s.Done[WorkExpired] != queues || open > sweptShardsMax || int(b.shards.Load()) > sweptShardsMax {
			t.Errorf("expired %d, %d and %d shards are open, %v", s.Done[WorkExpired], open, b.shards.Load(), err)
		}
	}, shared)
}

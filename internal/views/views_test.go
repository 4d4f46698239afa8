package views_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/leaselog/leaselog/events"
	"github.com/leaselog/leaselog/internal/eventlog"
	"github.com/leaselog/leaselog/internal/sweep"
	"github.com/leaselog/leaselog/internal/views"
	"github.com/leaselog/leaselog/projections"
)

// flaky is a store that fails before or after a save takes effect.
type flaky struct {
	projections.Store
	mu sync.Mutex
	r  *rand.Rand
}

var errFlaky = errors.New("the store failed")

func (f *flaky) Save(ctx context.Context, key string, data []byte, ifVersion uint64) error {
	f.mu.Lock()
	dice := f.r.IntN(6)
	f.mu.Unlock()
	if dice == 0 {
		return errFlaky
	}
	err := f.Store.Save(ctx, key, data, ifVersion)
	if dice == 1 {
		return errFlaky
	}
	return err
}

// TestDisorder: three processes are woken at once with wake-ups that are doubled, shuffled and dropped, on a store that
// fails; kept views never go back, and the last wake-up, whenever it comes, leaves what the log gives.
func TestDisorder(t *testing.T) {
	w := newWorld(t)
	defer w.b.Close()
	q := w.create("q", plain, "", 0)
	shards := w.shards(q)
	var reached []projections.Ends // of shard 0, in their order
	for range 60 {
		w.send(q, 3, 0, "")
		for _, d := range w.receive(q, 2, 5) {
			_, err := w.b.Ack(w.ctx, q, []string{d.Receipt})
			w.must(err)
		}
		w.now += 700
		r := w.replay(shards[0])
		reached = append(reached, projections.Ends{Ledger: uint64(len(r.entries)), Messages: r.sender.Tail})
	}
	for seed := range uint64(20) {
		w.store = projections.NewMemory()
		var all sync.WaitGroup
		for i := range uint64(3) {
			r := rand.New(rand.NewPCG(seed, i))
			store := &flaky{Store: w.store, r: rand.New(rand.NewPCG(seed, i+10))}
			w.follow()
			for _, f := range w.followers {
				mine := &views.Follower{Log: w.log, Store: store, Projections: f.Projections}
				order := r.Perm(2 * len(reached))
				all.Go(func() {
					before := map[string]projections.Ends{}
					for _, n := range order[:len(order)*3/4] {
						if err := mine.Wake(w.ctx, shards[0], reached[n/2]); err != nil && !errors.Is(err, errFlaky) {
							t.Error(err)
						}
						for _, p := range f.Projections {
							k, ok, _ := w.store.Load(w.ctx, shards[0].Key(p.View))
							if !ok {
								continue
							}
							ends, _, err := projections.Unpack(k.Data)
							if err != nil || !ends.Reach(before[p.View]) {
								t.Errorf("the kept view went from %v back to %v, %v", before[p.View], ends, err)
							}
							before[p.View] = ends
						}
					}
				})
			}
		}
		all.Wait()
		w.follow()
		w.catchUp(q)
		w.sameAsMade(shards[0])
	}
}

// counting is a log that counts what is read of it.
type counting struct {
	eventlog.Log
	reads int
}

func (c *counting) Read(ctx context.Context, s eventlog.Stream, from eventlog.Seq, l eventlog.Limits) ([]eventlog.Entry, error) {
	c.reads++
	return c.Log.Read(ctx, s, from, l)
}

// TestRepeatsReadNothing: a wake-up for what a view has already costs no look at the log, in a process that knows the
// shard and in one that does not.
func TestRepeatsReadNothing(t *testing.T) {
	w := newWorld(t)
	defer w.b.Close()
	q := w.create("q", plain, "", 0)
	s := w.shards(q)[0]
	w.send(q, 10, 0, "")
	w.catchUp(q)
	ends, _ := w.view(s, projections.Depth)
	log := &counting{Log: w.log}
	f := &views.Follower{Log: log, Store: w.store, Projections: []projections.Projection{projections.Depth}}
	for range 3 {
		w.must(f.Wake(w.ctx, s, ends))
	}
	if log.reads != 0 {
		t.Errorf("the log was read %d times", log.reads)
	}
	w.send(q, 10, 0, "")
	w.send(q, 10, 0, "")
	w.must(f.CatchUp(w.ctx, s))
	before := log.reads
	w.must(f.Wake(w.ctx, s, ends))
	if before == 0 || log.reads != before {
		t.Errorf("the log was read %d times, and %d for a repeat", before, log.reads-before)
	}
}

// TestPoison: a shard whose log does not decode is told apart from a store that fails, and holds up no other shard.
func TestPoison(t *testing.T) {
	w := newWorld(t)
	defer w.b.Close()
	q := w.create("q", plain, "", 0)
	w.send(q, 10, 0, "")
	w.send(q, 10, 0, "")
	shards := w.shards(q)
	w.catchUp(q)
	kept, _ := w.view(shards[0], projections.Depth)
	name := eventlog.Stream(events.LedgerStream(q, 0))
	last, _, err := w.log.Last(w.ctx, name)
	w.must(err)
	w.must(w.log.Commit(w.ctx, eventlog.Commit{Writer: eventlog.Writer{1}, At: int64(w.now),
		Appends: []eventlog.Append{{Stream: name, Seq: last.Next(), Width: 1, Header: last.Header, Data: []byte{1, 2, 3}}}}))
	for _, f := range w.followers {
		if err := f.CatchUp(w.ctx, shards[0]); !views.Poisoned(err) {
			t.Errorf("%s: %v", f.Projections[0].Name, err)
		}
		if err := f.CatchUp(w.ctx, shards[1]); err != nil {
			t.Errorf("%s: another shard is held up: %v", f.Projections[0].Name, err)
		}
	}
	if now, _ := w.view(shards[0], projections.Depth); now != kept {
		t.Errorf("the view of a poisoned shard went from %v to %v", kept, now)
	}
	ctx, cancel := context.WithCancel(w.ctx)
	cancel()
	if err := w.followers[0].CatchUp(ctx, shards[1]); err == nil || views.Poisoned(err) {
		t.Errorf("a store that does not answer is taken for poison: %v", err)
	}
}

// TestDropped: views go on, and are made, where the history before them was dropped.
func TestDropped(t *testing.T) {
	w := newWorld(t)
	defer w.b.Close()
	dead := w.create("dead", plain, "", 0)
	q := w.create("q", plain, "dead", 1)
	busy := func() {
		for range 40 {
			w.send(q, 3, 0, "")
			for i, d := range w.receive(q, 3, 1) {
				if i > 0 {
					_, err := w.b.Ack(w.ctx, q, []string{d.Receipt})
					w.must(err)
				}
			}
			w.now += 30_000
			w.must(w.b.Tick(w.ctx))
		}
	}
	busy()
	w.catchUp(q)
	w.catchUp(dead)
	busy()
	w.sweep(sweep.Keys, sweep.Expired, sweep.Snapshots)
	busy() // the followers know what is not there any more
	fresh := projections.NewMemory()
	for _, q := range []events.QueueID{q, dead} {
		w.catchUp(q)
		for _, s := range w.shards(q) {
			for _, p := range projections.All() {
				if p.View == "traffic" {
					continue // its day is longer than what is left
				}
				w.must((&views.Follower{Log: w.log, Store: fresh, Projections: []projections.Projection{p}}).CatchUp(w.ctx, s))
				a, _, _ := w.store.Load(w.ctx, s.Key(p.View))
				b, _, _ := fresh.Load(w.ctx, s.Key(p.View))
				if string(a.Data) != string(b.Data) {
					t.Errorf("%s was kept as\n%s\nand is made as\n%s", s.Key(p.View), shown(w, p, a.Data), shown(w, p, b.Data))
				}
			}
		}
	}
}

// TestRebuild: a view that is wrong, or of a format that is not known, is put right.
func TestRebuild(t *testing.T) {
	w := newWorld(t)
	defer w.b.Close()
	q := w.create("q", plain, "", 0)
	w.send(q, 10, 0, "")
	w.catchUp(q)
	s := w.shards(q)[0]
	for _, p := range projections.All() {
		key := s.Key(p.View)
		k, _, err := w.store.Load(w.ctx, key)
		w.must(err)
		w.must(w.store.Save(w.ctx, key, []byte("nonsense"), k.Version))
		entries := 0
		w.must(w.followers[0].Rebuild(w.ctx, s, p, func(n int) { entries += n }))
		if entries == 0 {
			t.Errorf("%s was rebuilt of nothing", key)
		}
	}
	w.sameAsMade(s)
}

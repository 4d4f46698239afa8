package broker

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/leaselog/leaselog/events"
	"github.com/leaselog/leaselog/internal/eventlog"
	"github.com/leaselog/leaselog/internal/queue"
	"github.com/leaselog/leaselog/projections"
)

// TestDepthAtItsPlace: whatever else is decided together with it, a depth is what a full replay gives of the entries before
// the places that it names, at the instants that it names.
func TestDepthAtItsPlace(t *testing.T) {
	inWorld(t, func(w *world) {
		q := w.create("q", false)
		var mu sync.Mutex
		var seen []Depth
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				for i := range 30 {
					w.send(q, fmt.Sprint(i), "second")
					if found := w.receiveBy(w.b, Receive{Queue: q, Max: 1 + i%3, LeaseSeconds: seconds(uint32(i % 4)), WaitSeconds: seconds(0)}); i%2 == 0 {
						for _, d := range found {
							_, _ = w.b.Ack(w.ctx, q, []string{d.Receipt})
						}
					}
					d := w.depth(q)
					mu.Lock()
					seen = append(seen, d)
					mu.Unlock()
					time.Sleep(time.Duration(i%5) * 300 * time.Millisecond)
				}
			})
		}
		all.Wait()
		for _, d := range seen {
			var want Counts
			for i, p := range d.Shards {
				s := w.replayed(q, i, p)
				want.Available += s.Available
				want.InFlight += s.InFlight
				want.Delayed += s.Delayed
			}
			if d.Counts != want || len(d.Shards) != 2 {
				t.Fatalf("%+v: a replay up to there counts %+v", d, want)
			}
		}
	}, onShards(2))
}

// replayed folds a shard of the log up to a place, and counts.
func (w *world) replayed(q events.QueueID, index int, p Place) queue.Depth {
	w.t.Helper()
	l, s := queue.NewLedger(queue.DefaultLimits), queue.NewSender(queue.DefaultLimits)
	entries := func(stream string) []eventlog.Entry {
		all, err := w.log.Read(w.ctx, eventlog.Stream(stream), 0, eventlog.Limits{})
		if err != nil {
			w.t.Fatal(err)
		}
		return all
	}
	for _, e := range entries(events.LedgerStream(q, index))[:p.Ledger] {
		happened, err := events.Decode(e.Data)
		if err != nil {
			w.t.Fatal(err)
		}
		for _, ev := range happened {
			l.Evolve(ev)
		}
		l.Settle()
	}
	for _, e := range entries(events.MessageStream(q, index, 0)) {
		if events.Position(e.Seq) >= p.Messages {
			break
		}
		h, err := events.DecodeHeader(e.Header)
		if err != nil {
			w.t.Fatal(err)
		}
		s.Evolve(events.Position(e.Seq), h)
		s.Settle()
	}
	return queue.CountDepth(l, s, s.Totals.Messages-l.Seen, p.At)
}

// TestDepthIsExact: the broker counts on beyond 10,000.
func TestDepthIsExact(t *testing.T) {
	inWorld(t, func(w *world) {
		q := w.create("q", false)
		for range 10 {
			w.send(q, texts("m", 1000)...)
		}
		w.send(q, "the one")
		w.wantDepth(q, 10_001, 0, 0)
		for range 10 {
			w.receive(q, 1000)
		}
		w.wantDepth(q, 1, 10_000, 0)
	}, onShards(1))
}

// TestOldest: which message has waited longest, among those that nobody looked at, that are due, that came back, and that
// are past their retention.
func TestOldest(t *testing.T) {
	inWorld(t, func(w *world) {
		q := w.create("q", false)
		want := func(waiting, total time.Duration) {
			t.Helper()
			if d := w.depth(q); d.Ages != (projections.Ages{WaitingMillis: waiting.Milliseconds(), TotalMillis: total.Milliseconds()}) {
				t.Errorf("the ages are %+v, want %v and %v", d.Ages, waiting, total)
			}
		}
		want(0, 0)
		delayed := out("later")
		delayed[0].DelaySeconds = seconds(60)
		w.sendBy(w.b, q, delayed...)
		time.Sleep(10 * time.Second)
		want(0, 0)
		w.send(q, "now")
		time.Sleep(20 * time.Second)
		want(20*time.Second, 20*time.Second) // "later" is ahead of it, and not due
		time.Sleep(40 * time.Second)
		want(60*time.Second, 60*time.Second) // "later" has been due for ten
		w.want(bodies(w.receiveBy(w.b, Receive{Queue: q, Max: 10, LeaseSeconds: seconds(30)})), "later", "now")
		want(0, 0)
		time.Sleep(35 * time.Second)
		want(5*time.Second, 105*time.Second)
		w.send(q, "last")
		w.drain(q)
		w.send(q, "unseen")
		time.Sleep(4*24*time.Hour - time.Second)
		w.send(q, "fresh")
		time.Sleep(2 * time.Second)
		want(2*time.Second, 2*time.Second) // "unseen" has just left by its retention
		time.Sleep(4 * 24 * time.Hour)
		want(0, 0)
	}, onShards(1))
}

package views_test

import (
	"crypto/rand"
	"testing"

	"github.com/leaselog/leaselog/events"
	"github.com/leaselog/leaselog/internal/broker"
	"github.com/leaselog/leaselog/internal/envelope/envelopetest"
	"github.com/leaselog/leaselog/projections"
)

// TestKeptDepths: a broker that has views lists depths as they are kept, at this instant and with the places that they are
// of; it asks the state of a queue that has none, and of one whose view does not decode.
func TestKeptDepths(t *testing.T) {
	w := newWorld(t)
	defer w.b.Close()
	a, b, c, gone := w.create("a", plain, "", 0), w.create("b", plain, "", 0), w.create("c", plain, "", 0), events.QueueID{1}
	for _, q := range []events.QueueID{a, b, c} {
		w.send(q, 5, 0, "")
		w.receive(q, 2, 10)
	}
	w.catchUp(a)
	w.catchUp(c)
	key := w.shards(c)[1].Key(projections.Depth.View)
	k, _, err := w.store.Load(w.ctx, key)
	w.must(err)
	w.must(w.store.Save(w.ctx, key, []byte("garbled"), k.Version))
	reader, err := broker.New(broker.Config{Log: w.log, Keys: envelopetest.New(nil), Now: func() events.Instant { return w.now }, Rand: rand.Reader,
		Deployment: "test", Views: w.store})
	w.must(err)
	defer reader.Close()
	for wait, want := range []broker.Counts{{Available: 3, InFlight: 2}, {Available: 5}} {
		w.now += events.Instant(1000 + 10_000*wait)
		w.now -= w.now % 1000
		all, err := reader.KeptDepths(w.ctx, []events.QueueID{a, gone, b, c})
		w.must(err)
		if all[1] != nil {
			t.Errorf("a queue that is gone has %+v", all[1])
		}
		for i, kept := range map[int]bool{0: true, 2: false, 3: false} {
			if d := all[i]; d.Counts != want || d.Kept != kept || len(d.Shards) != 2 || d.At != w.now {
				t.Errorf("queue %d: %+v, want %+v, kept %t", i, d, want, kept)
			}
		}
	}
	w.send(a, 1, 0, "")
	before, err := reader.KeptDepths(w.ctx, []events.QueueID{a})
	w.must(err)
	state, err := reader.Depth(w.ctx, a)
	w.must(err)
	if before[0].Available != 5 || state.Available != 6 || state.Kept || before[0].Shards[0].Messages+before[0].Shards[1].Messages+1 != state.Shards[0].Messages+state.Shards[1].Messages {
		t.Errorf("the view that is behind has %+v, the state %+v", before[0], state)
	}
}

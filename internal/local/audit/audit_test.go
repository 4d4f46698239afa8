package audit

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"math"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/leaselog/leaselog/events"
	"github.com/leaselog/leaselog/internal/broker"
	"github.com/leaselog/leaselog/internal/eventlog"
	"github.com/leaselog/leaselog/internal/local/keys"
	"github.com/leaselog/leaselog/internal/local/store"
	"github.com/leaselog/leaselog/internal/sweep"
)

// world is a store with queues in it, that can be opened by a broker, to be tampered with, and to be verified.
type world struct {
	t      testing.TB
	dir    string
	now    events.Instant
	orders events.QueueID
	fifo   events.QueueID
}

var quiet = slog.New(slog.DiscardHandler)

func newWorld(t *testing.T) *world {
	w := &world{t: t, dir: t.TempDir(), now: 1_800_000_000_000}
	w.live(w.fill)
	return w
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// raw opens the store and closes it again.
func (w *world) raw(f func(s *store.Store)) {
	w.t.Helper()
	s, err := store.Open(store.Config{Dir: filepath.Join(w.dir, "store"), Logger: quiet})
	w.must(err)
	f(s)
	w.must(s.Close())
}

func (w *world) keys() *keys.Keys {
	k, err := keys.Open(filepath.Join(w.dir, "key"))
	w.must(err)
	return k
}

// live runs a broker on the store.
func (w *world) live(f func(b *broker.Broker)) {
	w.t.Helper()
	w.raw(func(s *store.Store) {
		b, err := broker.New(broker.Config{Log: s, Keys: w.keys(), Now: func() events.Instant { return w.now }, Rand: rand.Reader,
			Deployment: "local", Shards: 2, Exclusive: true})
		w.must(err)
		f(b)
		b.Close()
	})
}

// fill leaves entries of every kind, and snapshots between them.
func (w *world) fill(b *broker.Broker) {
	ctx := w.t.Context()
	settings := events.Settings{LeaseSeconds: 30, RetentionSeconds: 86_400 * 4, MaxBytes: 1 << 18, KeyReuseSeconds: 300}
	q, err := b.Create(ctx, broker.CreateQueue{Account: "local", Name: "orders", Settings: settings})
	w.must(err)
	w.orders = q.ID
	settings.Fifo, settings.DedupSeconds, settings.ContentDedup = true, 300, true
	q, err = b.Create(ctx, broker.CreateQueue{Account: "local", Name: "orders.fifo", Settings: settings})
	w.must(err)
	w.fifo = q.ID
	for i := range 40 {
		w.now += 60_000
		w.send(b, w.orders, broker.Outgoing{Message: events.Message{Body: fmt.Append(nil, "message ", i)}})
		w.send(b, w.fifo, broker.Outgoing{Message: events.Message{Body: fmt.Append(nil, "message ", i), Group: "g"}})
		got, err := b.Receive(ctx, broker.Receive{Queue: w.orders, Max: 1})
		w.must(err)
		for _, d := range got {
			if i%3 == 0 {
				_, err := b.Ack(ctx, w.orders, []string{d.Receipt})
				w.must(err)
			}
		}
		if i == 20 {
			_, err := b.Purge(ctx, w.fifo)
			w.must(err)
		}
		if i%10 == 0 {
			site := sweep.Site{Broker: b, History: func() time.Duration { return 15 * time.Minute }}
			for _, c := range []sweep.Chore{sweep.Keys, sweep.Expired, sweep.Snapshots} {
				_, err := c.ByHand(ctx, site, false, nil)
				w.must(err)
			}
		}
	}
}

func (w *world) send(b *broker.Broker, id events.QueueID, m broker.Outgoing) {
	sent, err := b.Send(w.t.Context(), id, []broker.Outgoing{m})
	w.must(err)
	w.must(sent[0].Err)
}

func (w *world) verify() *Report {
	w.t.Helper()
	v, err := store.OpenView(store.Config{Dir: filepath.Join(w.dir, "store"), Logger: quiet})
	w.must(err)
	defer v.Close()
	r, err := Run(w.t.Context(), Config{Store: v, Keys: w.keys(), Deployment: "local"})
	w.must(err)
	return r
}

func TestSound(t *testing.T) {
	w := newWorld(t)
	r := w.verify()
	for _, d := range r.Damage {
		t.Errorf("%+v", d)
	}
	for _, n := range r.Notes {
		t.Error(n)
	}
	t.Logf("%+v", *r)
	if r.Queues != 2 || r.Streams != 6 || r.Compared == 0 || r.Seals == 0 || r.Events == 0 {
		t.Error("too little was looked at")
	}
}

// last gives the last entry of a stream.
func last(t *testing.T, s *store.Store, name eventlog.Stream) eventlog.Entry {
	t.Helper()
	e, ok, err := s.Last(t.Context(), name)
	if err != nil || !ok {
		t.Fatal(ok, err)
	}
	return e
}

func commit(t *testing.T, s *store.Store, c eventlog.Commit) {
	t.Helper()
	_, _ = rand.Read(c.Writer[:])
	if err := s.Commit(context.Background(), c); err != nil {
		t.Fatal(err)
	}
}

// TestDamage does one thing to a sound store that no server does, and looks for the sentence that says it.
func TestDamage(t *testing.T) {
	claim := func(s *store.Store, key string) eventlog.Claim {
		c, ok, err := s.Claim(t.Context(), key)
		if err != nil || !ok {
			t.Fatal(key, ok, err)
		}
		c.If = c.Version
		return c
	}
	for name, test := range map[string]struct {
		tamper func(w *world, s *store.Store)
		want   string
	}{
		"an event that contradicts": {func(w *world, s *store.Store) {
			stream := eventlog.Stream(events.LedgerStream(w.orders, 1))
			e := last(t, s, stream)
			data := events.Encode([]events.Event{&events.Acked{At: w.now, Items: []events.Position{999_999}}})
			commit(t, s, eventlog.Commit{Appends: []eventlog.Append{{Stream: stream, Seq: e.Next(), Width: 1, Header: e.Header, Data: data}}})
		}, "contradicts what stands before it"},
		"a header whose values are wrong": {func(w *world, s *store.Store) {
			stream := eventlog.Stream(events.LedgerStream(w.orders, 1))
			e := last(t, s, stream)
			h := events.EncodeLedgerHeader(&events.LedgerHeader{At: w.now})
			data := events.Encode([]events.Event{&events.Anchored{At: w.now}})
			commit(t, s, eventlog.Commit{Appends: []eventlog.Append{{Stream: stream, Seq: e.Next(), Width: 1, Header: h, Data: data}}})
		}, "its header says version 0"},
		"a seal in another place": {func(w *world, s *store.Store) {
			stream := eventlog.Stream(events.MessageStream(w.fifo, 0, 0))
			e := last(t, s, stream)
			commit(t, s, eventlog.Commit{Appends: []eventlog.Append{{Stream: stream, Seq: e.Next(), Width: e.Width, Header: e.Header, Data: e.Data}}})
		}, "its header says totals"},
		"a snapshot that is not the fold": {func(w *world, s *store.Store) {
			stream := eventlog.Stream(events.LedgerStream(w.orders, 1))
			snap, ok, err := s.Snapshot(t.Context(), stream, math.MaxInt64)
			if err != nil || !ok {
				t.Fatal(ok, err)
			}
			w.must(s.PutSnapshot(t.Context(), stream, eventlog.Snapshot{Seq: last(t, s, stream).Next(), Data: snap.Data}))
		}, "the snapshot is not what the entries before it give"},
		"a snapshot of rubbish": {func(w *world, s *store.Store) {
			stream := eventlog.Stream(events.MessageStream(w.orders, 1, 0))
			w.must(s.PutSnapshot(t.Context(), stream, eventlog.Snapshot{Seq: last(t, s, stream).Next(), Data: []byte("rubbish")}))
		}, "it does not load"},
		"a snapshot beyond the end": {func(w *world, s *store.Store) {
			stream := eventlog.Stream(events.MessageStream(w.orders, 1, 0))
			w.must(s.PutSnapshot(t.Context(), stream, eventlog.Snapshot{Seq: 1 << 40, Data: []byte("rubbish")}))
		}, "where no entry begins or ends"},
		"live messages dropped": {func(w *world, s *store.Store) {
			w.must(s.Drop(t.Context(), eventlog.Stream(events.MessageStream(w.orders, 1, 0)), 0, 1<<40))
		}, "its entry was dropped"},
		"a name that leads astray": {func(w *world, s *store.Store) {
			c := claim(s, "name/local/orders")
			c.Value = make([]byte, 16)
			commit(t, s, eventlog.Commit{Claims: []eventlog.Claim{c}})
		}, "the name does not lead to queue"},
		"a record of rubbish": {func(w *world, s *store.Store) {
			c := claim(s, fmt.Sprintf("queue/%x", w.orders[:]))
			c.Value = []byte("rubbish")
			commit(t, s, eventlog.Commit{Claims: []eventlog.Claim{c}})
		}, "the queue's record does not decode"},
		"a stream of nobody": {func(w *world, s *store.Store) {
			commit(t, s, eventlog.Commit{Appends: []eventlog.Append{{Stream: eventlog.Stream(events.LedgerStream(events.QueueID{1}, 0)), Width: 1}}})
		}, "belongs to no queue"},
		"a shard too many": {func(w *world, s *store.Store) {
			commit(t, s, eventlog.Commit{Appends: []eventlog.Append{{Stream: eventlog.Stream(events.LedgerStream(w.orders, 2)), Width: 1}}})
		}, "this stream is of none of them"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.raw(func(s *store.Store) { test.tamper(w, s) })
			r := w.verify()
			var said []string
			for _, d := range r.Damage {
				said = append(said, d.What)
			}
			if !strings.Contains(strings.Join(said, "\n"), test.want) {
				t.Errorf("found %q, want %q", said, test.want)
			}
		})
	}
}

// BenchmarkBacklog verifies stores of different depth: what an entry costs must not grow with the messages that wait.
func BenchmarkBacklog(b *testing.B) {
	for _, waiting := range []int{1_000, 10_000} {
		b.Run(fmt.Sprint(waiting), func(b *testing.B) {
			w := &world{t: b, dir: b.TempDir(), now: 1_800_000_000_000}
			w.live(func(broker *broker.Broker) { w.backlog(broker, waiting) })
			for b.Loop() {
				if r := w.verify(); len(r.Damage) > 0 || int(r.Messages) != waiting {
					b.Fatalf("%+v", r)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*waiting), "ns/message")
		})
	}
}

// backlog makes a FIFO group in which one message is leased and all others wait, looked at and passed over.
func (w *world) backlog(b *broker.Broker, waiting int) {
	ctx := w.t.Context()
	q, err := b.Create(ctx, broker.CreateQueue{Account: "local", Name: "deep.fifo", Settings: events.Settings{Fifo: true,
		LeaseSeconds: 600, RetentionSeconds: 86_400, MaxBytes: 1 << 18, KeyReuseSeconds: 300, DedupSeconds: 300}})
	w.must(err)
	for i := range waiting {
		w.send(b, q.ID, broker.Outgoing{Message: events.Message{Body: []byte("x"), Group: "g", Dedup: fmt.Sprint(i)}})
		if i%10 == 0 {
			_, err := b.Receive(ctx, broker.Receive{Queue: q.ID, Max: 1})
			w.must(err)
		}
	}
}

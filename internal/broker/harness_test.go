package broker

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leaselog/leaselog/events"
	"github.com/leaselog/leaselog/internal/eventlog"
	"github.com/leaselog/leaselog/internal/eventlog/eventlogtest"
	"github.com/leaselog/leaselog/internal/fault"
	"github.com/leaselog/leaselog/internal/local/keys"
	"github.com/leaselog/leaselog/projections"
)

// kind is a sort of queue that every use case is tested with.
type kind struct {
	name   string
	fifo   bool
	shards int
}

var kinds = []kind{{"standard", false, 1}, {"standard over 3 shards", false, 3}, {"fifo", true, 1}}

// fewerKinds are all kinds, and under -short the one with the most shards: the race detector makes everything six times
// as slow, and finds no more in the others.
func fewerKinds() []kind {
	if testing.Short() {
		return kinds[1:2]
	}
	return kinds
}

// world is a log that can be made to fail, and brokers on it, in the virtual time of a synctest bubble.
type world struct {
	t       testing.TB
	ctx     context.Context
	mem     *eventlog.Memory
	log     *eventlogtest.Faulty
	keys    *keys.Keys
	edit    []func(*Config)
	b       *Broker // the first one
	brokers []*Broker
	mu      sync.Mutex
	told    map[projections.Shard]projections.Ends // by Reached
	buried  map[events.QueueID]int                 // how many shards
}

// inWorld runs a test in a bubble, with one broker, and checks log and states at its end.
func inWorld(t *testing.T, test func(w *world), edit ...func(*Config)) {
	t.Helper()
	k := openKeys(t)
	synctest.Test(t, func(t *testing.T) { runIn(t, k, test, edit...) })
}

func runIn(t *testing.T, k *keys.Keys, test func(w *world), edit ...func(*Config)) {
	w := newWorld(t, k, edit...)
	test(w)
	w.end()
}

func openKeys(t testing.TB) *keys.Keys {
	t.Helper()
	k, err := keys.Open(filepath.Join(t.TempDir(), "key"))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func newWorld(t testing.TB, k *keys.Keys, edit ...func(*Config)) *world {
	mem := eventlog.NewMemory()
	w := &world{t: t, ctx: context.Background(), mem: mem, log: eventlogtest.NewFaulty(mem), keys: k, edit: edit,
		told: map[projections.Shard]projections.Ends{}, buried: map[events.QueueID]int{}}
	w.b = w.another()
	return w
}

// another starts a further broker on the same log.
func (w *world) another(edit ...func(*Config)) *Broker {
	w.t.Helper()
	c := Config{Log: w.log, Keys: w.keys, Rand: rand.Reader, Deployment: "test", Exclusive: true, ReceiptKey: w.keys.Secret("receipts"),
		Now:     func() events.Instant { return events.Instant(time.Now().UnixMilli()) },
		Reached: w.reached,
		Buried: func(_ context.Context, q events.QueueID, shards int) error {
			w.buried[q] = shards
			return nil
		}}
	for _, e := range append(slices.Clone(w.edit), edit...) {
		e(&c)
	}
	b, err := New(c)
	if err != nil {
		w.t.Fatal(err)
	}
	w.brokers = append(w.brokers, b)
	return b
}

func onShards(shards int) func(*Config) { return func(c *Config) { c.Shards = shards } }
func shared(c *Config)                  { c.Exclusive = false }
func seconds(n uint32) *uint32          { return &n }
func (w *world) now() events.Instant    { return w.b.Now() }

func (w *world) reached(s projections.Shard, ends projections.Ends) {
	w.mu.Lock()
	defer w.mu.Unlock()
	told := w.told[s]
	w.told[s] = projections.Ends{Ledger: max(told.Ledger, ends.Ledger), Messages: max(told.Messages, ends.Messages)}
}

// end stops the brokers and compares what each kept with what a new one reads.
func (w *world) end() {
	w.t.Helper()
	w.log.Plan(nil)
	for _, b := range w.brokers {
		b.Close()
	}
	for _, b := range w.brokers {
		w.sameAsCold(b)
	}
	if err := eventlogtest.Check(w.ctx, w.mem, w.mem.Streams()...); err != nil {
		w.t.Error(err)
	}
}

// restart stops the first broker and starts another in its place.
func (w *world) restart() {
	w.t.Helper()
	w.b.Close()
	w.sameAsCold(w.b)
	w.brokers = slices.DeleteFunc(w.brokers, func(b *Broker) bool { return b == w.b })
	w.b = w.another()
}

// sameAsCold compares the states of a stopped broker with those of a cold start.
func (w *world) sameAsCold(b *Broker) {
	w.t.Helper()
	for _, h := range b.queues {
		for i, r := range h.started() {
			if r.broken != nil {
				w.t.Errorf("shard %d is broken: %v", i, r.broken)
			}
			if r.loaded {
				w.compare(h, r)
			}
		}
	}
}

func (w *world) compare(h *handle, kept *runner) {
	w.t.Helper()
	ends := projections.Ends{Ledger: uint64(kept.ledgerTail), Messages: kept.sender.Tail}
	if told := w.told[projections.Shard{Queue: h.id, Index: kept.index}]; kept.b.Exclusive && told != ends {
		w.t.Errorf("shard %d: it is told that the log reaches %+v, and it reaches %+v", kept.index, told, ends)
	}
	cold := newShard(h, kept.index)
	if err := cold.load(w.ctx); err != nil {
		w.t.Errorf("a cold start: %v", err)
		return
	}
	if !kept.b.Exclusive {
		kept.blind = false
		kept.outdated(&eventlog.Conflict{})
		if err := kept.catchUp(w.ctx); err != nil {
			w.t.Errorf("catching up: %v", err)
			return
		}
	}
	kept.ledger.Check()
	cold.ledger.Check()
	if !bytes.Equal(kept.ledger.Snapshot(), cold.ledger.Snapshot()) {
		w.t.Errorf("shard %d: the ledger kept differs from a cold start: cursor %d and %d, seen %d and %d, totals %+v and %+v", kept.index,
			kept.ledger.Cursor, cold.ledger.Cursor, kept.ledger.Seen, cold.ledger.Seen, kept.ledger.Totals, cold.ledger.Totals)
	}
	if !bytes.Equal(kept.sender.Snapshot(), cold.sender.Snapshot()) {
		w.t.Errorf("shard %d: the sender kept differs from a cold start: tail %d and %d, totals %+v and %+v", kept.index,
			kept.sender.Tail, cold.sender.Tail, kept.sender.Totals, cold.sender.Totals)
	}
	if kept.ledgerTail != cold.ledgerTail {
		w.t.Errorf("shard %d: the ledger ends at %d, a cold start says %d", kept.index, kept.ledgerTail, cold.ledgerTail)
	}
}

func settings(fifo bool) events.Settings {
	s := events.Settings{Fifo: fifo, LeaseSeconds: 30, RetentionSeconds: 4 * 86400, MaxBytes: 1024, KeyReuseSeconds: 300}
	if fifo {
		s.DedupSeconds = 300
	}
	return s
}

// create makes a queue. edit changes what is asked for.
func (w *world) create(name string, fifo bool, edit ...func(*CreateQueue)) events.QueueID {
	w.t.Helper()
	c := CreateQueue{Account: "a", Name: name, Settings: settings(fifo)}
	for _, e := range edit {
		e(&c)
	}
	q, err := w.b.Create(w.ctx, c)
	if err != nil {
		w.t.Fatalf("create %s: %v", name, err)
	}
	return q.ID
}

func deadLetter(q events.QueueID, receives uint32) func(*CreateQueue) {
	return func(c *CreateQueue) { c.DeadLetter = &DeadLetter{Queue: Ref{Account: "a", ID: q}, Receives: receives} }
}

// out makes messages. A text is body or group:body; the body is the deduplication id, too.
func out(texts ...string) (all []Outgoing) {
	for _, text := range texts {
		m := events.Message{Body: []byte(text), Dedup: text}
		if group, body, ok := bytes.Cut([]byte(text), []byte(":")); ok {
			m.Group, m.Body = string(group), body
		}
		all = append(all, Outgoing{Message: m})
	}
	return all
}

// send adds messages and wants every one to be taken.
func (w *world) send(q events.QueueID, texts ...string) (ids []events.MessageID) {
	w.t.Helper()
	return w.sendBy(w.b, q, out(texts...)...)
}

func (w *world) sendBy(b *Broker, q events.QueueID, messages ...Outgoing) (ids []events.MessageID) {
	w.t.Helper()
	sent, err := b.Send(w.ctx, q, messages)
	if err != nil {
		w.t.Fatalf("send: %v", err)
	}
	for _, s := range sent {
		if s.Err != nil {
			w.t.Fatalf("send: %v", s.Err)
		}
		ids = append(ids, s.ID)
	}
	return ids
}

// receive takes what is there without waiting.
func (w *world) receive(q events.QueueID, most int) []Delivery {
	w.t.Helper()
	return w.receiveBy(w.b, Receive{Queue: q, Max: most, WaitSeconds: seconds(0)})
}

func (w *world) receiveBy(b *Broker, r Receive) []Delivery {
	w.t.Helper()
	found, err := b.Receive(w.ctx, r)
	if err != nil {
		w.t.Fatalf("receive: %v", err)
	}
	return found
}

// drain receives until nothing is left, and gives the bodies in the order of delivery.
func (w *world) drain(q events.QueueID) (all []string) {
	w.t.Helper()
	for {
		found := w.receive(q, 10)
		if len(found) == 0 {
			return all
		}
		all = append(all, bodies(found)...)
		w.ack(q, found...)
	}
}

func bodies(found []Delivery) (all []string) {
	for _, d := range found {
		all = append(all, string(d.Message.Body))
	}
	return all
}

func receipts(found []Delivery) (all []string) {
	for _, d := range found {
		all = append(all, d.Receipt)
	}
	return all
}

func (w *world) ack(q events.QueueID, found ...Delivery) {
	w.t.Helper()
	results, err := w.b.Ack(w.ctx, q, receipts(found))
	if err != nil {
		w.t.Fatalf("ack: %v", err)
	}
	for _, r := range results {
		if r != nil {
			w.t.Fatalf("ack: %v", r)
		}
	}
}

func (w *world) release(q events.QueueID, d Delivery) {
	w.t.Helper()
	results, err := w.b.Extend(w.ctx, q, []Extend{{Receipt: d.Receipt}})
	if err != nil || results[0] != nil {
		w.t.Fatalf("release: %v %v", err, results)
	}
}

func (w *world) depth(q events.QueueID) Depth {
	w.t.Helper()
	d, err := w.b.Describe(w.ctx, q)
	if err != nil {
		w.t.Fatalf("describe: %v", err)
	}
	return *d.Depth
}

func (w *world) wantDepth(q events.QueueID, available, inFlight, delayed uint64) {
	w.t.Helper()
	if got, want := w.depth(q).Counts, (Counts{available, inFlight, delayed}); got != want {
		w.t.Errorf("the depth is %+v, not %+v", got, want)
	}
}

func (w *world) want(got []string, want ...string) {
	w.t.Helper()
	if !slices.Equal(got, want) {
		w.t.Errorf("got %q, want %q", got, want)
	}
}

// wantSame compares without regard to order.
func (w *world) wantSame(got []string, want ...string) {
	w.t.Helper()
	w.want(slices.Sorted(slices.Values(got)), slices.Sorted(slices.Values(want))...)
}

func (w *world) wantFault(err error, code fault.Code) {
	w.t.Helper()
	if !fault.Is(err, code) {
		w.t.Errorf("got the error %v, want %s", err, code)
	}
}

// chore is what a sweep does with a queue.
type chore func(ctx context.Context, b *Broker, f *Found, s *Sweep) error

// sweeps goes through all queues.
func sweeps(ctx context.Context, b *Broker, do ...chore) (s Sweep, err error) {
	claims, err := b.Log.Claims(ctx, QueuePrefix, "", 10_000)
	if err != nil {
		return s, storeFault(err)
	}
	for _, c := range claims {
		f, unreadable := ReadFound(c)
		if unreadable != nil {
			return s, unreadable
		}
		for _, do := range do {
			if failed := do(ctx, b, f, &s); failed != nil && !Ignorable(failed) {
				err = errors.Join(err, failed)
			}
		}
	}
	return s, err
}

func sweepExhausted(ctx context.Context, b *Broker, f *Found, s *Sweep) error {
	return b.SweepExhausted(ctx, f, s)
}
func sweepUnfinished(ctx context.Context, b *Broker, f *Found, s *Sweep) error {
	return b.SweepUnfinished(ctx, f, s)
}
func sweepExpired(ctx context.Context, b *Broker, f *Found, s *Sweep) error {
	return b.SweepExpired(ctx, f, s)
}
func sweepAnchors(ctx context.Context, b *Broker, f *Found, s *Sweep) error {
	return b.SweepAnchors(ctx, f, s)
}
func sweepKeys(ctx context.Context, b *Broker, f *Found, s *Sweep) error {
	return b.SweepKeys(ctx, f, s, History{Before: b.Now()})
}
func sweepSnapshots(ctx context.Context, b *Broker, f *Found, s *Sweep) error {
	return b.SweepSnapshots(ctx, f, s, History{Before: b.Now()})
}

// maintain does what is due every few minutes, with a history.
func maintain(ctx context.Context, b *Broker, keep History) error {
	_, err := sweeps(ctx, b, func(ctx context.Context, b *Broker, f *Found, s *Sweep) error {
		return b.SweepKeys(ctx, f, s, keep)
	},
		sweepExpired, func(ctx context.Context, b *Broker, f *Found, s *Sweep) error {
			return b.SweepSnapshots(ctx, f, s, keep)
		})
	return err
}

func (w *world) maintain(keep History) {
	w.t.Helper()
	if err := maintain(w.ctx, w.b, keep); err != nil {
		w.t.Fatalf("maintain: %v", err)
	}
}

func (w *world) tick() {
	w.t.Helper()
	if err := w.b.Tick(w.ctx); err != nil {
		w.t.Errorf("tick: %v", err)
	}
}

// texts gives prefix0, prefix1, …
func texts(prefix string, n int) (all []string) {
	for i := range n {
		all = append(all, fmt.Sprintf("%s%d", prefix, i))
	}
	return all
}

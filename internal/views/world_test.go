package views_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/leaselog/leaselog/events"
	"github.com/leaselog/leaselog/internal/broker"
	"github.com/leaselog/leaselog/internal/envelope/envelopetest"
	"github.com/leaselog/leaselog/internal/eventlog"
	"github.com/leaselog/leaselog/internal/fault"
	"github.com/leaselog/leaselog/internal/queue"
	"github.com/leaselog/leaselog/internal/sweep"
	"github.com/leaselog/leaselog/internal/views"
	"github.com/leaselog/leaselog/projections"
)

const account = "default"

// tester is a *testing.T, or one of rapid's.
type tester interface {
	Helper()
	Errorf(string, ...any)
	Fatalf(string, ...any)
}

// world is a broker on a log in memory, followers of it, and a clock that the test moves.
type world struct {
	tester
	ctx       context.Context
	log       *eventlog.Memory
	b         *broker.Broker
	now       events.Instant
	store     *projections.Memory
	followers []*views.Follower
	receipts  map[events.QueueID][]string
}

func newWorld(t tester) *world {
	w := &world{tester: t, ctx: context.Background(), log: eventlog.NewMemory(), now: 1_700_000_000_000, store: projections.NewMemory(),
		receipts: map[events.QueueID][]string{}}
	w.follow()
	var err error
	w.b, err = broker.New(broker.Config{Log: w.log, Keys: envelopetest.New(nil), Now: func() events.Instant { return w.now }, Rand: rand.Reader,
		Deployment: "test", Shards: 2, Exclusive: true})
	w.must(err)
	return w
}

// follow begins anew: followers that know nothing but what is kept. One is of all projections, others of one each.
func (w *world) follow() {
	w.followers = []*views.Follower{{Log: w.log, Store: w.store, Projections: projections.All()}}
	for _, p := range projections.All() {
		w.followers = append(w.followers, &views.Follower{Log: w.log, Store: w.store, Projections: []projections.Projection{p}})
	}
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatalf("%v", err)
	}
}

func (w *world) create(name string, s events.Settings, dead string, receives uint32) events.QueueID {
	w.Helper()
	s.MaxBytes, s.KeyReuseSeconds = 1024, 300
	c := broker.CreateQueue{Account: account, Name: name, Settings: s}
	if dead != "" {
		c.DeadLetter = &broker.DeadLetter{Queue: broker.Ref{Account: account, Name: dead}, Receives: receives}
	}
	q, err := w.b.Create(w.ctx, c)
	w.must(err)
	return q.ID
}

// send sends messages, with a delay where that is not negative. A queue that is full of delayed ones may refuse.
func (w *world) send(q events.QueueID, n int, delay int, group string) {
	w.Helper()
	var out []broker.Outgoing
	for range n {
		o := broker.Outgoing{Message: events.Message{Body: []byte("x"), Group: group}}
		if delay >= 0 {
			o.DelaySeconds = new(uint32(delay))
		}
		out = append(out, o)
	}
	_, err := w.b.Send(w.ctx, q, out)
	w.must(err)
}

func (w *world) receive(q events.QueueID, n int, lease uint32) []broker.Delivery {
	w.Helper()
	got, err := w.b.Receive(w.ctx, broker.Receive{Queue: q, Max: n, LeaseSeconds: &lease, WaitSeconds: new(uint32)})
	w.must(err)
	for _, d := range got {
		w.receipts[q] = append(w.receipts[q], d.Receipt)
	}
	return got
}

// sweep does chores, with no more history than must be.
func (w *world) sweep(chores ...sweep.Chore) {
	for _, c := range chores {
		_, err := c.ByHand(w.ctx, sweep.Site{Broker: w.b, History: func() time.Duration { return 0 }}, false, nil)
		w.must(err)
	}
}

func (w *world) shards(q events.QueueID) (all []projections.Shard) {
	w.Helper()
	c, _, err := w.log.Claim(w.ctx, fmt.Sprintf("%s%x", broker.QueuePrefix, q[:]))
	w.must(err)
	r, err := broker.ReadRegistered(c.Value)
	w.must(err)
	for i := range r.Shards {
		all = append(all, projections.Shard{Queue: q, Index: i})
	}
	return all
}

// catchUp brings all views of a queue up to date.
func (w *world) catchUp(q events.QueueID) {
	w.Helper()
	for _, s := range w.shards(q) {
		for _, f := range w.followers {
			w.must(f.CatchUp(w.ctx, s))
		}
		slices.Reverse(w.followers) // another one does the work the next time
	}
}

// view gives what is kept.
func (w *world) view(s projections.Shard, p projections.Projection) (projections.Ends, []byte) {
	w.Helper()
	k, ok, err := w.store.Load(w.ctx, s.Key(p.View))
	w.must(err)
	if !ok {
		w.Fatalf("no view %s", s.Key(p.View))
	}
	ends, view, err := projections.Unpack(k.Data)
	w.must(err)
	return ends, view
}

// depth reads and merges the depth views of a queue.
func (w *world) depth(q events.QueueID, at events.Instant) (sum projections.Reading) {
	w.Helper()
	for _, s := range w.shards(q) {
		_, data := w.view(s, projections.Depth)
		v, err := projections.ReadDepth(data)
		w.must(err)
		r, err := v.ReadAt(at)
		w.must(err)
		sum.Add(r)
	}
	return sum
}

// unsnapped is a log that has no snapshots.
type unsnapped struct{ eventlog.Log }

func (unsnapped) Snapshot(context.Context, eventlog.Stream, eventlog.Seq) (eventlog.Snapshot, bool, error) {
	return eventlog.Snapshot{}, false, nil
}

// sameAsMade demands that every kept view is what the log gives, from its snapshots and from its first entry.
func (w *world) sameAsMade(s projections.Shard) {
	w.Helper()
	for _, p := range projections.All() {
		k, _, err := w.store.Load(w.ctx, s.Key(p.View))
		w.must(err)
		for what, log := range map[string]eventlog.Log{"snapshots": w.log, "all of the log": unsnapped{w.log}} {
			made, err := (&views.Follower{Log: log, Store: w.store}).Make(w.ctx, s, p, nil)
			w.must(err)
			if !bytes.Equal(made, k.Data) {
				w.Fatalf("%s from %s is\n%s\nand was kept as\n%s", s.Key(p.View), what, shown(w, p, made), shown(w, p, k.Data))
			}
		}
	}
}

func shown(w *world, p projections.Projection, data []byte) string {
	ends, view, err := projections.Unpack(data)
	w.must(err)
	var v any
	switch p.View {
	case "depth":
		v, err = projections.ReadDepth(view)
	case "traffic":
		v, err = projections.ReadTraffic(view)
	case "redrive":
		v, err = projections.ReadRedrive(view)
	default:
		v, err = projections.ReadSnapshots(view)
	}
	w.must(err)
	return fmt.Sprintf("%+v %+v", ends, v)
}

// replay is a shard as the whole log gives it, folded by nothing but the rules.
type replay struct {
	ledger  *queue.Ledger
	sender  *queue.Sender
	places  []events.Position
	headers []*events.Header
	entries []ledgerEntry
}

type ledgerEntry struct {
	header *events.LedgerHeader
	events []events.Event
}

func (w *world) replay(s projections.Shard) *replay {
	w.Helper()
	r := &replay{ledger: queue.NewLedger(queue.DefaultLimits), sender: queue.NewSender(queue.DefaultLimits)}
	read := func(name string) []eventlog.Entry {
		all, err := w.log.Read(w.ctx, eventlog.Stream(name), 0, eventlog.Limits{})
		w.must(err)
		return all
	}
	for _, e := range read(events.LedgerStream(s.Queue, s.Index)) {
		h, err := events.DecodeLedgerHeader(e.Header)
		w.must(err)
		all, err := events.Decode(e.Data)
		w.must(err)
		for _, ev := range all {
			r.ledger.Evolve(ev)
		}
		r.entries = append(r.entries, ledgerEntry{h, all})
	}
	for _, e := range read(events.MessageStream(s.Queue, s.Index, 0)) {
		h, err := events.DecodeHeader(e.Header)
		w.must(err)
		r.sender.Evolve(events.Position(e.Seq), h)
		r.places, r.headers = append(r.places, events.Position(e.Seq)), append(r.headers, h)
	}
	return r
}

// counts gives the truth at an instant.
func (r *replay) counts(at events.Instant) projections.Counts {
	gone := uint64(0)
	for _, h := range r.headers {
		if h.High <= r.ledger.ExpiredBefore(at) {
			gone = h.Totals.Messages
		}
	}
	d := queue.CountDepth(r.ledger, r.sender, r.sender.Totals.Messages-max(gone, r.ledger.Seen), at)
	return projections.Counts{Available: int64(d.Available), InFlight: int64(d.InFlight), Delayed: int64(d.Delayed)}
}

// oldest gives how long the longest waiting message has waited, and since it was first sent. passed says that time has
// taken messages, of which the log does not know yet, or that a clock was set back.
func (r *replay) oldest(at events.Instant) (ages projections.Ages, passed bool) {
	ages = projections.Ages{WaitingMillis: -1}
	for b, h := range r.headers {
		for i := range int(h.Count) {
			p := r.places[b] + events.Position(i)
			since, until := h.DueAt(i), h.High.Add(r.ledger.Settings.RetentionSeconds)
			if p < r.ledger.Cursor {
				m := r.ledger.Get(p)
				if m == nil {
					continue
				}
				since, until = m.Visible, r.ledger.LeavesAt(m)
			}
			passed = passed || until <= at || h.At < h.High
			if waited := int64(at - since); since <= at && at < until && waited >= ages.WaitingMillis {
				if waited > ages.WaitingMillis {
					ages = projections.Ages{WaitingMillis: waited}
				}
				ages.TotalMillis = max(ages.TotalMillis, int64(at-h.Enqueued(i)))
			}
		}
	}
	return ages, passed
}

// unless gives an error that is not of one of the kinds.
func unless(err error, codes ...fault.Code) error {
	for _, c := range codes {
		if fault.Is(err, c) {
			return nil
		}
	}
	return err
}

var _ tester = (*testing.T)(nil)

package rest

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"

	"github.com/leaselog/leaselog/events"
	"github.com/leaselog/leaselog/internal/auth"
	"github.com/leaselog/leaselog/internal/broker"
	"github.com/leaselog/leaselog/internal/fault"
)

// fake is a broker just real enough for the wire scripts: one lease per message, no time, no shards, no order of
// groups. It keeps what it was asked, for tests that look at the translation.
type fake struct {
	mu       sync.Mutex
	queues   []*broker.Queue
	messages []*held
	made     byte

	err      error // every call on a queue fails with it
	panics   bool
	sent     []broker.Outgoing
	received broker.Receive
	peeked   broker.Peek
	updated  broker.UpdateQueue
	asked    broker.StartMove
	moves    *broker.MoveTask
	life     *broker.Life // of every message
	lifeOf   broker.LifeOf
}

type held struct {
	queue    events.QueueID
	id       events.MessageID
	message  *events.Message
	receives uint32
	receipt  string // of the lease; empty: available
	delayed  bool
}

const now events.Instant = 1767225600123 // 2026-01-01T00:00:00.123Z

func (f *fake) find(match func(*broker.Queue) bool) (*broker.Queue, error) {
	if i := slices.IndexFunc(f.queues, match); i >= 0 {
		return f.queues[i], nil
	}
	return nil, fault.New(fault.NotFound, "there is no such queue")
}

func (f *fake) Find(_ context.Context, r broker.Ref) (*broker.Queue, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.find(func(q *broker.Queue) bool {
		return q.Account == r.Account && (r.Name != "" && q.Name == r.Name || r.Name == "" && q.ID == r.ID)
	})
}

func (f *fake) Create(ctx context.Context, c broker.CreateQueue) (*broker.Queue, error) {
	if _, err := f.Find(ctx, broker.Ref{Account: c.Account, Name: c.Name}); err == nil {
		return nil, fault.New(fault.Exists, "there is a queue %q already", c.Name)
	}
	if c.Key != "" {
		if _, err := f.ResolveKey(ctx, c.Key); err != nil {
			return nil, err
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.made++
	q := &broker.Queue{ID: events.QueueID{6: 0x40, 8: 0x80, 15: f.made}, Account: c.Account, Name: c.Name, Settings: c.Settings, Tags: c.Tags,
		Created: now, Updated: now}
	if err := f.redrive(q, c.DeadLetter); err != nil {
		return nil, err
	}
	f.queues = append(f.queues, q)
	return q, nil
}

func (f *fake) redrive(q *broker.Queue, d *broker.DeadLetter) error {
	if d == nil {
		return nil
	}
	target, err := f.find(func(q *broker.Queue) bool {
		return q.Account == d.Queue.Account && (q.Name == d.Queue.Name || q.ID == d.Queue.ID)
	})
	if err != nil || target.Settings.Fifo != q.Settings.Fifo {
		return fault.New(fault.Invalid, "the dead letter queue must exist and be of the same kind")
	}
	q.Settings.DeadLetter = &events.DeadLetter{Queue: target.ID, Receives: d.Receives}
	q.DeadLetterName = target.Name
	return nil
}

func (f *fake) Describe(_ context.Context, id events.QueueID) (*broker.Queue, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	q, err := f.find(func(q *broker.Queue) bool { return q.ID == id })
	if err != nil {
		return nil, err
	}
	shown := *q
	shown.Depth = new(broker.Depth)
	for _, m := range f.messages {
		switch {
		case m.queue != id:
		case m.delayed:
			shown.Depth.Delayed++
		case m.receipt != "":
			shown.Depth.InFlight++
		default:
			shown.Depth.Available++
		}
	}
	return &shown, nil
}

func (f *fake) Depth(ctx context.Context, id events.QueueID) (*broker.Depth, error) {
	q, err := f.Describe(ctx, id)
	if err != nil {
		return nil, err
	}
	d := *q.Depth
	d.At, d.Shards = now, []broker.Place{{At: now, High: now, Ledger: 1, Messages: 2}}
	return &d, f.err
}

func (f *fake) KeptDepths(ctx context.Context, ids []events.QueueID) (all []*broker.Depth, err error) {
	for _, id := range ids {
		d, err := f.Depth(ctx, id)
		if err != nil {
			return nil, err
		}
		d.Kept = true
		all = append(all, d)
	}
	return all, nil
}

func (f *fake) List(_ context.Context, l broker.ListQueues) (page []*broker.Queue, more bool, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	all := slices.Clone(f.queues)
	slices.SortFunc(all, func(a, b *broker.Queue) int { return cmp.Compare(a.Name, b.Name) })
	for _, q := range all {
		switch {
		case q.Account != l.Account || q.Name <= l.After:
		case len(page) == l.Limit:
			return page, true, nil
		default:
			page = append(page, q)
		}
	}
	return page, false, nil
}

func (f *fake) Update(ctx context.Context, u broker.UpdateQueue) (*broker.Queue, error) {
	f.updated = u
	if u.Key != nil && *u.Key != "" {
		if _, err := f.ResolveKey(ctx, *u.Key); err != nil {
			return nil, err
		}
	}
	q, err := f.Describe(ctx, u.Queue)
	if err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, set := range []struct {
		to   *uint32
		what *uint32
	}{{&q.Settings.LeaseSeconds, u.LeaseSeconds}, {&q.Settings.MaxBytes, u.MaxBytes}, {&q.Settings.DelaySeconds, u.DelaySeconds}} {
		if set.what != nil {
			*set.to = *set.what
		}
	}
	if u.Tags != nil {
		q.Tags = *u.Tags
	}
	if u.RemoveDeadLetter {
		q.Settings.DeadLetter = nil
	}
	if err := f.redrive(q, u.DeadLetter); err != nil {
		return nil, err
	}
	stored := *q
	stored.Depth = nil
	f.queues[slices.IndexFunc(f.queues, func(o *broker.Queue) bool { return o.ID == q.ID })] = &stored
	return q, nil
}

func (f *fake) Delete(ctx context.Context, r broker.Ref) error {
	q, err := f.Find(ctx, r)
	if err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.queues = slices.DeleteFunc(f.queues, func(o *broker.Queue) bool { return o == q })
	return nil
}

func (f *fake) Purge(_ context.Context, id events.QueueID) (uint64, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	before := len(f.messages)
	f.messages = slices.DeleteFunc(f.messages, func(m *held) bool { return m.queue == id })
	return uint64(before - len(f.messages)), f.err
}

func (f *fake) Send(_ context.Context, id events.QueueID, messages []broker.Outgoing) ([]broker.Sent, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.panics {
		panic("the fake was told to")
	}
	if f.err != nil {
		return nil, f.err
	}
	q, err := f.find(func(q *broker.Queue) bool { return q.ID == id })
	if err != nil {
		return nil, err
	}
	f.sent = messages
	all := make([]broker.Sent, len(messages))
	for i := range messages {
		all[i] = f.take(q, &messages[i])
	}
	return all, nil
}

func (f *fake) take(q *broker.Queue, o *broker.Outgoing) broker.Sent {
	if n := o.Message.Size(); n > int(q.Settings.MaxBytes) {
		return broker.Sent{Err: fault.New(fault.TooLarge, "the message has %d bytes; this queue takes %d", n, q.Settings.MaxBytes)}
	}
	for _, m := range f.messages {
		if m.queue == q.ID && o.Message.Dedup != "" && m.message.Dedup == o.Message.Dedup {
			return broker.Sent{ID: m.id, Duplicate: true}
		}
	}
	id := events.BlockID{1: byte(len(f.messages))}.Message(now, len(f.messages))
	f.messages = append(f.messages, &held{queue: q.ID, id: id, message: &o.Message, delayed: o.DelaySeconds != nil && *o.DelaySeconds > 0})
	return broker.Sent{ID: id}
}

func (f *fake) Receive(_ context.Context, r broker.Receive) (got []broker.Delivery, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.received = r
	for _, m := range f.messages {
		if m.queue != r.Queue || m.receipt != "" || m.delayed || len(got) == r.Max {
			continue
		}
		m.receives++
		m.receipt = fmt.Sprintf("%x%04x", m.id[:], m.receives)
		got = append(got, broker.Delivery{ID: m.id, Receipt: m.receipt, Message: m.message, Receives: m.receives, Enqueued: now, Visible: now.Add(30)})
	}
	return got, f.err
}

func (f *fake) lease(id events.QueueID, receipt string) (*held, error) {
	if len(receipt) != 36 {
		return nil, fault.New(fault.ForeignLease, "the receipt handle is not one of this queue's")
	}
	for _, m := range f.messages {
		if m.queue == id && m.receipt == receipt {
			return m, nil
		}
	}
	return nil, fault.New(fault.LeaseEnded, "the lease of this receipt handle has ended")
}

func (f *fake) Ack(_ context.Context, id events.QueueID, receipts []string) ([]error, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	outcomes := make([]error, len(receipts))
	for i, r := range receipts {
		var m *held
		if m, outcomes[i] = f.lease(id, r); m != nil {
			f.messages = slices.DeleteFunc(f.messages, func(o *held) bool { return o == m })
		}
	}
	return outcomes, f.err
}

func (f *fake) Extend(_ context.Context, id events.QueueID, items []broker.Extend) ([]error, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	outcomes := make([]error, len(items))
	for i, item := range items {
		var m *held
		if m, outcomes[i] = f.lease(id, item.Receipt); m != nil && item.Seconds == 0 {
			m.receipt = ""
		}
	}
	return outcomes, f.err
}

// Refused remembers nothing.
func (f *fake) ResolveKey(_ context.Context, ref string) (broker.Key, error) {
	return broker.Key{}, fault.New(fault.Invalid, "unknown key %q", ref)
}

func (f *fake) Refused(_ context.Context, err error) error { return err }

func (f *fake) Peek(_ context.Context, p broker.Peek) (page broker.Page, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.peeked = p
	for i, m := range f.messages {
		at := fmt.Sprintf("%04d", i)
		row := broker.Row{ID: m.id, Message: m.message, Visibility: broker.Available, Receives: m.receives, Enqueued: now, Visible: now, Expires: now.Add(60)}
		if m.receipt != "" {
			row.Visibility, row.FirstReceived = broker.InFlight, now
		}
		if m.delayed {
			row.Visibility = broker.Delayed
		}
		if m.queue != p.Queue || at <= p.After || p.Visibility != "" && p.Visibility != row.Visibility ||
			p.ID != (events.MessageID{}) && p.ID != m.id {
			continue
		}
		if len(page.Rows) == p.Limit {
			page.Next = fmt.Sprintf("%04d", i-1)
			break
		}
		page.Rows = append(page.Rows, row)
	}
	return page, f.err
}

// StartMove makes a task that moves nothing; there is one at a time.
func (f *fake) StartMove(_ context.Context, s broker.StartMove) (*broker.MoveTask, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked = s
	if f.moves != nil && f.moves.State == broker.TaskRunning {
		return nil, fault.New(fault.Limit, "a move task is running")
	}
	f.moves = &broker.MoveTask{ID: broker.TaskID{6: 0x70, 8: 0x80, 15: 1}, Queue: s.Queue, State: broker.TaskRunning, Rate: s.Rate, Total: 3, Waiting: 1, Started: now, Updated: now}
	if s.Target != nil {
		target, err := f.find(func(q *broker.Queue) bool { return q.Name == s.Target.Name || q.ID == s.Target.ID })
		if err != nil {
			return nil, fault.New(fault.Invalid, "the target does not exist")
		}
		f.moves.Target, f.moves.TargetName = target.ID, target.Name
	}
	return f.moves, f.err
}

func (f *fake) PreviewMove(_ context.Context, s broker.StartMove) (*broker.MoveTask, error) {
	f.asked = s
	return &broker.MoveTask{Queue: s.Queue, Total: 3, Moved: 1, Skipped: 1, Failed: 1, Reason: "gone"}, f.err
}

func (f *fake) Move(_ context.Context, id events.QueueID, task broker.TaskID) (*broker.MoveTask, error) {
	if f.moves == nil || f.moves.ID != task || f.moves.Queue != id {
		return nil, fault.New(fault.NotFound, "there is no such task")
	}
	return f.moves, f.err
}

func (f *fake) ListMoves(_ context.Context, l broker.ListMoves) (all []*broker.MoveTask, more bool, err error) {
	if f.moves != nil && f.moves.Queue == l.Queue && l.After == "" {
		all = append(all, f.moves)
	}
	return all, len(all) > 0, f.err
}

func (f *fake) Life(_ context.Context, q broker.LifeOf) (*broker.Life, error) {
	if f.lifeOf = q; f.life == nil {
		return nil, fault.New(fault.NotFound, "there is no such message")
	}
	return f.life, f.err
}

func (f *fake) CancelMove(ctx context.Context, id events.QueueID, task broker.TaskID) (*broker.MoveTask, error) {
	m, err := f.Move(ctx, id, task)
	if err == nil {
		m.State, m.Ended = broker.TaskCancelled, now
	}
	return m, err
}

// secret signs the markers of tests.
var secret = []byte("0123456789abcdef")

// serving makes a handler on a fake broker.
func serving(t testing.TB, f *fake) http.Handler {
	t.Helper()
	h, err := New(Config{Broker: f, Auth: auth.Development{}, Tokens: auth.Development{}, Secret: secret})
	if err != nil {
		t.Fatal(err)
	}
	return h
}

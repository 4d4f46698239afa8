package broker

import (
	"context"

	"github.com/leaselog/leaselog/events"
	"github.com/leaselog/leaselog/internal/eventlog"
	"github.com/leaselog/leaselog/internal/fault"
)

// StartMove asks for a move task: what is in a queue now goes to another one.
type StartMove struct {
	Queue events.QueueID
	// Target is where the messages go; nil: each to the queue that a move brought it from.
	Target *Ref
	Rate   uint32 // messages a second; 0: as fast as it goes
	Filter MoveFilter
}

// StartMove starts a move task, which is advanced by [Broker.Moves]. There is one at a time for each queue.
// Faults: NotFound; Invalid for a target that does not exist, takes no messages, is of the other kind or the queue itself,
// and for a filter that cannot be; Limit while another task of the queue is running; KeyLost.
func (b *Broker) StartMove(ctx context.Context, s StartMove) (*MoveTask, error) {
	return counted(ctx, b, false, keepTask, func(kept []byte) (*MoveTask, bool, error) { return b.taskAgain(ctx, s.Queue, kept) },
		func(o *once) (*MoveTask, error) { return b.startMove(ctx, o, s) })
}

func keepTask(m *MoveTask) []byte {
	if m == nil {
		return nil
	}
	return m.ID[:]
}

// taskAgain gives a task that was started before, as it stands now.
func (b *Broker) taskAgain(ctx context.Context, q events.QueueID, kept []byte) (*MoveTask, bool, error) {
	m, err := b.Move(ctx, q, TaskID(kept))
	if fault.Is(err, fault.NotFound) {
		return nil, false, nil
	}
	return m, err == nil, err
}

func (b *Broker) startMove(ctx context.Context, o *once, s StartMove) (*MoveTask, error) {
	h, t, f, err := b.newTask(ctx, s)
	if err != nil {
		return nil, err
	}
	ends, err := h.ends(ctx)
	if err != nil {
		return nil, b.noQueue(h.id, err)
	}
	depth, err := h.depth(ctx, h.measureOrCold)
	if err != nil {
		return nil, b.noQueue(h.id, err)
	}
	t.Total = depth.Available + depth.InFlight + depth.Delayed
	for _, end := range ends {
		t.Shards = append(t.Shards, taskShard{End: end})
	}
	if err := h.sealFilter(ctx, t, f); err != nil {
		return nil, err
	}
	w, holder := b.newWriter()
	c := eventlog.Commit{Writer: w, At: int64(t.Started), Claims: []eventlog.Claim{t.set(holder, t.Started),
		{Key: movesKey(t.Queue), Holder: holder, Until: eventlog.Forever, Value: events.EncodeRecord(running{t.Account, t.ID})}}}
	err = b.settleOnce(ctx, o, c, func() []byte { return t.ID[:] })
	b.movesSoon()
	if isConflict(err) {
		return nil, b.runningTask(ctx, t)
	}
	if err != nil {
		return nil, storeFault(err)
	}
	return b.named(ctx, t)
}

// runningTask is the fault of a start while another task is running.
func (b *Broker) runningTask(ctx context.Context, t *task) error {
	c, ok, err := b.Log.Claim(ctx, movesKey(t.Queue))
	if err != nil {
		return storeFault(err)
	}
	var other running
	if !ok || events.DecodeRecord(c.Value, &other) != nil {
		return fault.New(fault.Limit, "another move task of this queue was started just now; try again")
	}
	return fault.New(fault.Limit, "the move task %s of this queue is running; cancel it, or wait for its end", other.ID)
}

// newTask checks what is asked for and gives a task that is not written yet, without its filter and shards.
func (b *Broker) newTask(ctx context.Context, s StartMove) (*handle, *task, MoveFilter, error) {
	f := s.Filter
	h, err := b.open(ctx, s.Queue)
	if err != nil {
		return nil, nil, f, err
	}
	if _, err := f.compile(); err != nil {
		return nil, nil, f, err
	}
	now := b.Now()
	var seed events.BlockID
	mustRead(b.Rand, seed[:])
	t := &task{ID: TaskID(seed.Message(now, 0)), Account: h.account, Queue: h.id, Rate: s.Rate, State: TaskRunning,
		Started: now, Updated: now, Paced: micros(now)}
	if f.OlderThanSeconds > 0 {
		f.Before = max(1, now-events.Instant(f.OlderThanSeconds)*1000)
	}
	if s.Target == nil {
		return h, t, f, nil
	}
	target, err := b.find(ctx, *s.Target)
	switch {
	case fault.Is(err, fault.NotFound):
		return nil, nil, f, fault.New(fault.Invalid, "the target %s does not exist", *s.Target)
	case err != nil:
		return nil, nil, f, err
	case target.id == h.id:
		return nil, nil, f, fault.New(fault.Invalid, "a queue cannot be the target of its own messages")
	case target.account != h.account:
		return nil, nil, f, fault.New(fault.Invalid, "the target %s does not exist", *s.Target)
	case target.fifo != h.fifo:
		return nil, nil, f, fault.New(fault.Invalid, "messages of a FIFO queue go to a FIFO queue, those of a standard queue to a standard one")
	case target.record.Load().has(events.Draining):
		return nil, nil, f, fault.New(fault.Invalid, "the target %s is drained and takes no messages", *s.Target)
	}
	t.Target = target.id
	return h, t, f, nil
}

// PreviewMove says what a task would do if it was started now: Moved, Skipped, Failed and Waiting are what it would find.
// It works on a copy of the queue's state and changes nothing. Faults: as of StartMove but Limit.
func (b *Broker) PreviewMove(ctx context.Context, s StartMove) (*MoveTask, error) {
	h, t, kept, err := b.newTask(ctx, s)
	if err != nil {
		return nil, err
	}
	t.ID = TaskID{}
	f, err := kept.compile()
	if err != nil {
		return nil, err
	}
	for i := range h.shards() {
		if err := b.preview(ctx, h, t, f, i); err != nil {
			return nil, b.noQueue(h.id, err)
		}
	}
	return b.named(ctx, t)
}

// preview does a task's work in one shard on a copy of its state, without a commit.
func (b *Broker) preview(ctx context.Context, h *handle, t *task, f filter, i int) error {
	cold, depth, err := h.copied(ctx, i)
	if err != nil {
		return err
	}
	t.Total += depth
	t.Shards = append(t.Shards, taskShard{End: cold.sender.Tail})
	at := cold.at()
	for t.unfinished(i) {
		if err := ctx.Err(); err != nil {
			return err
		}
		p := &picking{b: b, task: t, filter: f, shard: cold, index: i, at: at, most: moveMessagesMax, any: true}
		if err := p.run(ctx); err != nil {
			return err
		}
		d, err := p.decide(events.QueueID{}, 0, 0)
		if err != nil {
			return err
		}
		for _, e := range d.Events {
			cold.ledger.Evolve(e)
		}
		cold.ledger.Settle()
		t.Shards[i] = p.state
		t.Moved += uint64(len(p.picks))
		if p.reason != "" {
			t.Reason = p.reason
		}
	}
	return nil
}

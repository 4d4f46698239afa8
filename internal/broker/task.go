package broker

import (
	"context"
	"fmt"
	"slices"

	"github.com/leaselog/leaselog/events"
	"github.com/leaselog/leaselog/internal/eventlog"
	"github.com/leaselog/leaselog/internal/fault"
)

// TaskState is how a move task stands.
type TaskState string

// The states of a move task. All but the first are for good.
const (
	TaskRunning   TaskState = "running"
	TaskCompleted TaskState = "completed"
	TaskCancelled TaskState = "cancelled"
	TaskFailed    TaskState = "failed"
)

// TaskID identifies a move task: a UUIDv7, so that a queue's tasks are listed as they were started.
type TaskID events.MessageID

func (t TaskID) String() string { return events.MessageID(t).String() }

// MoveTask is a move task as it stands: the messages that were in the queue when it was started go elsewhere, as far
// as its filter lets them. Of these, Total is the number; Moved are gone from here and in their targets, exactly;
// Skipped did not pass the filter, Failed have no queue to go to, and Waiting are leased, not due, or behind such a one
// in their group: the task comes back for them. What was acked or expired meanwhile is in none.
type MoveTask struct {
	ID      TaskID
	Queue   events.QueueID
	Target  events.QueueID // zero: each message goes back to the queue that it came from
	State   TaskState
	Reason  string // why it failed, or what keeps it or some of its messages back
	Rate    uint32 // messages a second; 0: as fast as it goes
	Total   uint64
	Moved   uint64
	Skipped uint64
	Failed  uint64
	Waiting uint64
	Started events.Instant
	Updated events.Instant
	Ended   events.Instant // 0 while it is running
	// TargetName is the name of the target, empty where there is none or it is gone.
	TargetName string
}

// task is what is kept of a move task: the value of the claim task/<account>/<queue>/<id>. While it is running, the
// claim moves/<queue> names it, so that there is one at a time, and so that whoever has time finds it.
type task struct {
	ID      TaskID         `cbor:"1,keyasint"`
	Account string         `cbor:"2,keyasint"`
	Queue   events.QueueID `cbor:"3,keyasint"`
	Target  events.QueueID `cbor:"4,keyasint,omitzero"`
	Rate    uint32         `cbor:"5,keyasint,omitempty"`
	Filter  []byte         `cbor:"6,keyasint"` // sealed under the queue's key of version Key
	Key     uint32         `cbor:"7,keyasint"`
	State   TaskState      `cbor:"8,keyasint"`
	Reason  string         `cbor:"9,keyasint,omitempty"`
	Started events.Instant `cbor:"10,keyasint"`
	Updated events.Instant `cbor:"11,keyasint"`
	Ended   events.Instant `cbor:"12,keyasint,omitempty"`
	Total   uint64         `cbor:"13,keyasint,omitempty"`
	Moved   uint64         `cbor:"14,keyasint,omitempty"`
	Shards  []taskShard    `cbor:"15,keyasint"`
	// Paced is the instant, in microseconds, up to which the rate is used up.
	Paced int64 `cbor:"16,keyasint"`
	// Resume is when the next round begins, where the last one has left messages waiting; Rounds counts them.
	Resume events.Instant `cbor:"17,keyasint,omitempty"`
	Rounds uint32         `cbor:"18,keyasint,omitempty"`

	version uint64 // of the claim
}

// taskShard is how far a task has come in one shard of its queue. Skipped and Failed are of the positions before
// Reached; the first message that has to wait is where the next round begins, and its mark takes the counts back there.
type taskShard struct {
	End     events.Position `cbor:"1,keyasint"`
	Reached events.Position `cbor:"2,keyasint"`
	Skipped uint64          `cbor:"3,keyasint,omitempty"`
	Failed  uint64          `cbor:"4,keyasint,omitempty"`
	Waiting uint64          `cbor:"5,keyasint,omitempty"`
	Mark    *taskMark       `cbor:"6,keyasint,omitempty"`
}

type taskMark struct {
	Position events.Position `cbor:"1,keyasint"`
	Skipped  uint64          `cbor:"2,keyasint,omitempty"`
	Failed   uint64          `cbor:"3,keyasint,omitempty"`
}

// running is the value of the claim moves/<queue>.
type running struct {
	Account string `cbor:"1,keyasint"`
	ID      TaskID `cbor:"2,keyasint"`
}

const movesPrefix = "moves/"

// rememberTask is how long a task that has ended is listed, in milliseconds.
const rememberTask = 14 * 24 * 60 * 60 * 1000

func taskPrefix(account string, q events.QueueID) string {
	return fmt.Sprintf("task/%s/%x/", account, q[:])
}
func (t *task) key() string            { return taskPrefix(t.Account, t.Queue) + t.ID.String() }
func movesKey(q events.QueueID) string { return fmt.Sprintf("%s%x", movesPrefix, q[:]) }
func errNoTask(id TaskID) error {
	return fault.New(fault.NotFound, "there is no move task %s of this queue", id)
}
func (t *task) shown() (s MoveTask)   { return t.add(MoveTask{}) }
func (t *task) unfinished(i int) bool { return t.Shards[i].Reached < t.Shards[i].End }
func (t *task) waits() bool {
	return slices.ContainsFunc(t.Shards, func(s taskShard) bool { return s.Mark != nil })
}

func (t *task) add(m MoveTask) MoveTask {
	m.ID, m.Queue, m.Target, m.State, m.Reason, m.Rate = t.ID, t.Queue, t.Target, t.State, t.Reason, t.Rate
	m.Total, m.Moved, m.Started, m.Updated, m.Ended = t.Total, t.Moved, t.Started, t.Updated, t.Ended
	for _, s := range t.Shards {
		m.Skipped += s.Skipped
		m.Failed += s.Failed
		m.Waiting += s.Waiting
	}
	return m
}

// set gives the claim that puts the task in place of the one that was read.
func (t *task) set(holder string, now events.Instant) eventlog.Claim {
	t.Updated = max(now, t.Updated)
	until := eventlog.Forever
	if t.State != TaskRunning {
		until = int64(t.Ended + rememberTask)
	}
	return eventlog.Claim{Key: t.key(), Holder: holder, Until: until, Value: events.EncodeRecord(t), If: t.version}
}

// readTask gives a task of a queue. Faults: NotFound.
func (b *Broker) readTask(ctx context.Context, account string, q events.QueueID, id TaskID) (*task, error) {
	t := &task{ID: id, Account: account, Queue: q}
	c, ok, err := b.Log.Claim(ctx, t.key())
	if err != nil {
		return nil, storeFault(err)
	}
	if !ok || c.Until <= int64(b.Now()) {
		return nil, errNoTask(id)
	}
	return decodeTask(c)
}

func decodeTask(c eventlog.Claim) (*task, error) {
	t := &task{version: c.Version}
	if err := events.DecodeRecord(c.Value, t); err != nil {
		return nil, fmt.Errorf("%w: move task %s: %w", eventlog.ErrCorrupt, c.Key, err)
	}
	return t, nil
}

// Move gives a move task of a queue. Faults: NotFound.
func (b *Broker) Move(ctx context.Context, q events.QueueID, id TaskID) (*MoveTask, error) {
	h, err := b.open(ctx, q)
	if err != nil {
		return nil, err
	}
	t, err := b.readTask(ctx, h.account, q, id)
	if err != nil {
		return nil, err
	}
	return b.named(ctx, t)
}

// named shows a task with the name of its target.
func (b *Broker) named(ctx context.Context, t *task) (*MoveTask, error) {
	m := t.shown()
	if t.Target == (events.QueueID{}) {
		return &m, nil
	}
	target, err := b.open(ctx, t.Target)
	switch {
	case err == nil:
		m.TargetName = target.record.Load().Name
	case !fault.Is(err, fault.NotFound):
		return nil, err
	}
	return &m, nil
}

// ListMoves asks for a page of a queue's move tasks, oldest first.
type ListMoves struct {
	Queue events.QueueID
	After string // the id after which the page begins; empty: the beginning
	Limit int
}

// ListMoves gives a page of a queue's move tasks, and whether more follow. A task is listed for 14 days after its end.
func (b *Broker) ListMoves(ctx context.Context, l ListMoves) (tasks []*MoveTask, more bool, err error) {
	h, err := b.open(ctx, l.Queue)
	if err != nil {
		return nil, false, err
	}
	prefix := taskPrefix(h.account, l.Queue)
	after := ""
	if l.After != "" {
		after = prefix + l.After
	}
	for {
		claims, err := b.Log.Claims(ctx, prefix, after, l.Limit+1)
		if err != nil {
			return nil, false, storeFault(err)
		}
		for _, c := range claims {
			after = c.Key
			if c.Until <= int64(b.Now()) {
				continue
			}
			if len(tasks) == l.Limit {
				return tasks, true, nil
			}
			t, err := decodeTask(c)
			if err != nil {
				return nil, false, err
			}
			shown, err := b.named(ctx, t)
			if err != nil {
				return nil, false, err
			}
			tasks = append(tasks, shown)
		}
		if len(claims) <= l.Limit {
			return tasks, false, nil
		}
	}
}

// RunningMoves gives the move tasks of all accounts that are running.
func (b *Broker) RunningMoves(ctx context.Context) (all []MoveTask, err error) {
	const page = 100
	for after := ""; ; {
		claims, err := b.Log.Claims(ctx, movesPrefix, after, page)
		if err != nil {
			return nil, storeFault(err)
		}
		for _, c := range claims {
			if after = c.Key; c.Until <= int64(b.Now()) {
				continue
			}
			var r running
			id, err := b.tasksQueue(c, &r)
			if err != nil {
				return nil, err
			}
			t, err := b.readTask(ctx, r.Account, id, r.ID)
			if err == nil && t.State == TaskRunning {
				all = append(all, t.shown())
			} else if err != nil && !fault.Is(err, fault.NotFound) {
				return nil, err
			}
		}
		if len(claims) < page {
			return all, nil
		}
	}
}

// CancelMove ends a move task where it stands. What it has moved stays moved, and Moved of the answer says how many
// that are, for good. A task that has ended already is given as it is. Faults: NotFound.
func (b *Broker) CancelMove(ctx context.Context, q events.QueueID, id TaskID) (*MoveTask, error) {
	h, err := b.open(ctx, q)
	if err != nil {
		return nil, err
	}
	for attempt := 0; ; attempt++ {
		t, err := b.readTask(ctx, h.account, q, id)
		if err != nil {
			return nil, err
		}
		if t.State != TaskRunning {
			return b.named(ctx, t)
		}
		err = b.endTask(ctx, t, TaskCancelled, "")
		if err == nil {
			return b.named(ctx, t)
		}
		if !isConflict(err) {
			return nil, storeFault(err)
		}
		if err := b.pause(ctx, attempt); err != nil {
			return nil, storeFault(err)
		}
	}
}

// endTask notes that a task has ended, and lets another begin. It gives a conflict where the task went on meanwhile.
func (b *Broker) endTask(ctx context.Context, t *task, s TaskState, reason string) error {
	now := b.Now()
	w, holder := b.newWriter()
	t.State, t.Ended = s, now
	if reason != "" {
		t.Reason = reason
	}
	claims := []eventlog.Claim{t.set(holder, now)}
	c, ok, err := b.Log.Claim(ctx, movesKey(t.Queue))
	if err != nil {
		return err
	}
	if ok && c.Until > int64(now) {
		claims = append(claims, eventlog.Claim{Key: c.Key, Holder: holder, If: c.Version})
	}
	err = b.settle(ctx, eventlog.Commit{Writer: w, At: int64(now), Claims: claims})
	if err == nil {
		t.version++
	}
	return err
}

package broker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/leaselog/leaselog/events"
	"github.com/leaselog/leaselog/internal/eventlog"
	"github.com/leaselog/leaselog/internal/fault"
)

const (
	// movesPause is how long nobody looks for move tasks where none was running, in milliseconds: one that another
	// process has started, or whose start was never confirmed, is found then.
	movesPause = 10_000
	// keyPause is how long a move task waits for a key that cannot be used, in milliseconds.
	keyPause = 10_000
	// failPause is how long a move task rests after an error, in milliseconds.
	failPause = 1_000
	// roundFirst, doubled with every round up to roundMost, is how long a move task lets messages wait before it comes
	// back for them, in milliseconds.
	roundFirst, roundMost = 1_000, 32_000
)

// Moves advances every move task that is running by one commit, and says when it is to be called again: an instant that
// has passed where there is more to do at once. Any number of processes may call it: each commit of a task names the
// state of the task that it follows.
func (b *Broker) Moves(ctx context.Context) (next events.Instant, err error) {
	b.mu.Lock()
	next, starts := b.movesAt, b.moveStarts
	b.mu.Unlock()
	if next > b.Now() {
		return next, nil
	}
	next = b.Now() + movesPause
	var errs []error
	for after := ""; ; {
		claims, err := b.Log.Claims(ctx, movesPrefix, after, 100)
		if err != nil {
			return 0, storeFault(err)
		}
		for _, c := range claims {
			if after = c.Key; c.Until <= int64(b.Now()) {
				continue
			}
			due, err := b.advance(ctx, c)
			if err != nil {
				errs = append(errs, fmt.Errorf("the move task of %s: %w", c.Key, err))
				due = b.Now() + failPause
			}
			next = min(next, due)
		}
		if len(claims) < 100 {
			break
		}
	}
	b.mu.Lock()
	if b.moveStarts == starts {
		b.movesAt = next
	}
	b.mu.Unlock()
	return next, errors.Join(errs...)
}

// movesSoon makes the next Moves look for tasks.
func (b *Broker) movesSoon() {
	b.mu.Lock()
	b.movesAt = 0
	b.moveStarts++
	b.mu.Unlock()
}

// advance does the next commit of the task that a claim names, and says when the one after it is due.
func (b *Broker) advance(ctx context.Context, c eventlog.Claim) (due events.Instant, err error) {
	var r running
	id, err := b.tasksQueue(c, &r)
	if err != nil {
		return events.Never, err
	}
	t, err := b.readTask(ctx, r.Account, id, r.ID)
	if err != nil || t.State != TaskRunning {
		return events.Never, err
	}
	now := b.Now()
	most, due := t.allowance(now)
	if due = max(due, t.Resume); due > now {
		return due, nil
	}
	t.round()
	i := 0
	for i < len(t.Shards) && !t.unfinished(i) {
		i++
	}
	if i == len(t.Shards) {
		return events.Never, b.finally(t, b.endTask(ctx, t, TaskCompleted, ""))
	}
	s := &slice{b: b, task: t, index: i, most: most}
	err = s.run(ctx)
	switch {
	case errors.Is(err, errOutrun):
		return now, nil
	case fault.Is(err, fault.KeyLost):
		return now + keyPause, b.finally(t, b.postpone(ctx, t, fault.Of(err).Message))
	case s.broken != "":
		return events.Never, b.finally(t, b.endTask(ctx, t, TaskFailed, s.broken))
	}
	return now, err
}

// tasksQueue reads the claim moves/<queue>.
func (b *Broker) tasksQueue(c eventlog.Claim, r *running) (id events.QueueID, err error) {
	if id, err = events.StreamQueue(c.Key[len(movesPrefix):]); err == nil {
		err = events.DecodeRecord(c.Value, r)
	}
	return id, err
}

// finally judges the end of a task: one that another process has written meanwhile is looked at again.
func (b *Broker) finally(t *task, err error) error {
	if isConflict(err) {
		b.movesSoon()
		return nil
	}
	if err == nil && t.State != TaskRunning {
		b.Logger.Info("a move task has ended", "queue", t.Queue.String(), "task", t.ID.String(), "state", t.State, "moved", t.Moved, "reason", t.Reason)
	}
	return storeFault(err)
}

// postpone notes why a task does not go on now.
func (b *Broker) postpone(ctx context.Context, t *task, reason string) error {
	w, holder := b.newWriter()
	now := b.Now()
	t.Reason, t.Resume = reason, now+keyPause
	return b.settle(ctx, eventlog.Commit{Writer: w, At: int64(now), Claims: []eventlog.Claim{t.set(holder, now)}})
}

// round begins another round where the last one has left messages waiting: from the first of them on.
func (t *task) round() {
	for i := range t.Shards {
		if t.unfinished(i) {
			return
		}
	}
	for i := range t.Shards {
		s := &t.Shards[i]
		if m := s.Mark; m != nil {
			s.Reached, s.Skipped, s.Failed, s.Waiting, s.Mark = m.Position, m.Skipped, m.Failed, 0, nil
		}
	}
}

func micros(i events.Instant) int64 { return int64(i) * 1000 }

// allowance is how many messages the rate lets go now, and otherwise when it will: a tenth of a second's worth at once,
// so that a high rate does not take a commit for every message, and a second's at most after a pause.
func (t *task) allowance(now events.Instant) (n int, due events.Instant) {
	if t.Rate == 0 {
		return moveMessagesMax, 0
	}
	rate, second := int64(t.Rate), time.Second.Microseconds()
	t.Paced = max(t.Paced, micros(now)-second)
	batch := min(max(rate/10, 1), moveMessagesMax)
	have := (micros(now) - t.Paced) * rate / second
	if have < batch {
		return 0, events.Instant((t.Paced+batch*second/rate)/1000 + 1)
	}
	return int(min(have, moveMessagesMax)), 0
}

// moved notes what a commit moves.
func (t *task) moved(n int) {
	t.Moved += uint64(n)
	if t.Rate > 0 {
		t.Paced += int64(n) * time.Second.Microseconds() / int64(t.Rate)
	}
}

// rounded notes the end of a round.
func (t *task) rounded(now events.Instant) {
	for i := range t.Shards {
		if t.unfinished(i) {
			return
		}
	}
	if t.waits() {
		t.Resume = now + roundFirst<<min(t.Rounds, 5)
		t.Rounds++
	}
}

// errStuck says that a task cannot come any further.
var errStuck = errors.New("the move task is stuck")

// errOutrun says that another process has advanced a task, or ended it.
var errOutrun = errors.New("the move task went on elsewhere")

// slice is one commit of a move task in one shard of its queue.
type slice struct {
	b      *Broker
	task   *task // as it was read
	index  int
	most   int
	filter filter
	gone   map[events.QueueID]string
	broken string // why the task cannot go on

	*picking // of the attempt that is under way
}

// run does the commit. A target that takes nothing more is left out, and the rest goes on.
func (s *slice) run(ctx context.Context) error {
	h, err := s.b.open(ctx, s.task.Queue)
	if fault.Is(err, fault.NotFound) {
		s.broken = "the queue was deleted"
	}
	if err != nil {
		return err
	}
	if s.filter, err = h.openFilter(ctx, s.task); err != nil {
		return err
	}
	from := h.runner(s.index)
	for s.gone = map[events.QueueID]string{}; ; {
		target, err := s.choose(ctx, from)
		if err != nil {
			return s.judge(ctx, s.task.Target, err)
		}
		var to *runner
		if target != nil {
			to = target.runner(target.turn())
		}
		err = s.hold(ctx, from, to)
		if to == nil || !fault.Is(err, fault.NotFound) && !fault.Is(err, fault.Invalid) {
			return s.judge(ctx, s.task.Target, err)
		}
		if r, reading := s.b.readRecord(ctx, target.id); reading == nil && r.gone() {
			s.b.forget(target.id)
		}
		if err := s.judge(ctx, target.id, err); s.broken != "" || s.task.Target != (events.QueueID{}) {
			return err
		}
		s.gone[target.id] = "the source " + target.id.String() + " of some messages takes none any more"
	}
}

// hold runs the commit while nobody else works on the shards.
func (s *slice) hold(ctx context.Context, from, to *runner) error {
	m := newMove(from, to, s)
	work := func() error {
		if _, err := s.b.moveOnce(ctx, m); err != nil {
			return err
		}
		for _, r := range m.runners {
			if err := r.snapshots(ctx); err != nil {
				s.b.Logger.Warn("a snapshot could not be written; the next start will take longer", "queue", r.id.String(), "error", err)
			}
		}
		return nil
	}
	defer from.poke()
	if to == nil {
		return from.still(ctx, work)
	}
	defer to.poke()
	return both(ctx, from, to, work)
}

// judge says whether an error means that the task cannot go on: its queue or its only target is gone.
func (s *slice) judge(ctx context.Context, target events.QueueID, err error) error {
	if !fault.Is(err, fault.NotFound) && !fault.Is(err, fault.Invalid) {
		return err
	}
	if r, reading := s.b.readRecord(ctx, s.task.Queue); reading != nil || r.gone() {
		s.broken = "the queue was deleted"
	} else if target == s.task.Target && target != (events.QueueID{}) {
		s.broken = "the target takes no messages any more: " + fault.Of(err).Message
	}
	return err
}

// choose gives the queue that the next messages go to, nil where none is to be moved now.
func (s *slice) choose(ctx context.Context, from *runner) (target *handle, err error) {
	id := s.task.Target
	if id == (events.QueueID{}) {
		err := from.still(ctx, func() error {
			if err := from.ready(ctx); err != nil {
				return err
			}
			p := s.looking(from, from.at())
			p.any, p.most = true, 1
			if err := p.run(ctx); err != nil || len(p.picks) == 0 {
				return err
			}
			id = p.picks[0].target
			return nil
		})
		if err != nil || id == (events.QueueID{}) {
			return nil, err
		}
	}
	return s.b.open(ctx, id)
}

func (s *slice) looking(from *runner, at events.Instant) *picking {
	return &picking{b: s.b, task: s.task, filter: s.filter, shard: from.shard, index: s.index, at: at, most: s.most, gone: s.gone}
}

// pick takes messages for the move. It may be asked again after others have written.
func (s *slice) pick(ctx context.Context, m *move) error {
	s.picking = s.looking(m.from, m.at)
	if m.to != nil { // otherwise every queue is another one, and what became free meanwhile is the next slice's
		s.to = m.to.id
	}
	if err := s.picking.run(ctx); err != nil {
		return err
	}
	if s.stuck {
		s.broken = s.reason
		return errStuck
	}
	for _, x := range s.picks {
		m.add(x.Position, x.header, x.index, x.message, events.Origin{Receives: x.Receives, Lease: x.Lease, Reason: events.Redriven})
	}
	return nil
}

// progress gives the claim that puts the task where the commit brings it. The commit stands only where the task stands
// as it was read: so that what it counts is what was moved.
func (s *slice) progress(holder string, now events.Instant, moved int) eventlog.Claim {
	t := *s.task
	t.Shards = append([]taskShard(nil), t.Shards...)
	t.Shards[s.index] = s.state
	if s.reason != "" || t.shown().Failed == 0 {
		t.Reason = s.reason
	}
	t.moved(moved)
	t.rounded(now)
	return t.set(holder, now)
}

// outrun says whether a commit met the task as another process has left it.
func (m *move) outrun(err error) bool {
	var c *eventlog.Conflict
	return m.task != nil && errors.As(err, &c) && len(c.Claims) > 0
}

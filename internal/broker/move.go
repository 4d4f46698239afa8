package broker

import (
	"context"

	"github.com/leaselog/leaselog/events"
	"github.com/leaselog/leaselog/internal/eventlog"
	"github.com/leaselog/leaselog/internal/fault"
	"github.com/leaselog/leaselog/internal/queue"
)

// hold keeps a runner still while another goroutine works on its shard.
type hold struct {
	reply
	held    chan *runner
	release chan struct{}
}

func (*hold) decide(*group) error { panic("hold runs alone") }

func (c *hold) run(ctx context.Context, r *runner) error {
	select {
	case c.held <- r:
	case <-c.release: // whoever wanted it has left
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
	<-c.release // even at the end of the broker's life, since somebody is at work on the shard; its waits end with it
	return nil
}

// both runs f while the runners of two shards are held, in the order of their streams, so that two moves never wait
// for each other.
func both(ctx context.Context, a, b *runner, f func() error) error {
	first, second := a, b
	if b.messageStream < a.messageStream {
		first, second = b, a
	}
	return first.still(ctx, func() error { return second.still(ctx, f) })
}

// still runs f while the runner is held.
func (r *runner) still(ctx context.Context, f func() error) error {
	c := &hold{reply: newReply(), held: make(chan *runner), release: make(chan struct{})}
	defer close(c.release)
	r.do(c)
	select {
	case <-c.held:
		return f()
	case err := <-c.reply:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// moveExhausted moves what was received too often from one shard to the dead-letter queue, a commit at a time, until
// nothing is left. A target that is gone leaves the messages deliverable where they are; one whose key cannot be
// used now is tried again by the next tick.
func (b *Broker) moveExhausted(ctx context.Context, source *runner, h *handle) error {
	for {
		var policy *events.DeadLetter
		err := h.view(ctx, source.index, func(g *group) error {
			if len(g.ledger.Exhausted(g.at, 1)) > 0 {
				policy = g.ledger.Settings.DeadLetter
			}
			return nil
		})
		if err != nil || policy == nil || policy.Gone {
			return err
		}
		target, err := b.open(ctx, policy.Queue)
		if fault.Is(err, fault.NotFound) {
			return b.orphan(ctx, h.id, policy.Queue)
		}
		if err != nil {
			return err
		}
		to := target.runner(target.turn())
		moved := 0
		err = both(ctx, source, to, func() (err error) {
			moved, err = b.moveOnce(ctx, newMove(source, to, nil))
			return err
		})
		to.poke()
		source.poke()
		if fault.Is(err, fault.NotFound) {
			return b.orphan(ctx, h.id, policy.Queue)
		}
		if fault.Is(err, fault.Invalid) {
			return nil // the policy or the target has changed meanwhile: the next tick looks again
		}
		if err != nil || moved == 0 {
			return err
		}
	}
}

// moveOnce moves some messages in one commit. The runners of the move are held.
func (b *Broker) moveOnce(ctx context.Context, m *move) (moved int, err error) {
	defer func() { // this is not the runners' goroutine, but it is their door
		if p := recover(); p != nil {
			for _, r := range m.runners {
				r.refuse(p)
			}
			err = m.from.broken
		}
	}()
	ctx = eventlog.Billed(ctx, m.from.traffic)
	for attempt := 0; ; attempt++ {
		for _, r := range m.runners {
			if err := r.ready(ctx); err != nil {
				return 0, err
			}
		}
		m.begin()
		commit, err := m.build(ctx)
		_, stale := truncated(err) // others have moved or finished what stood there
		if err == nil && len(commit.Appends)+len(commit.Claims) > 0 {
			if err = m.persist(ctx, commit); err == nil {
				return len(m.items), nil
			}
		} else if !stale || attempt > 5 {
			m.rollback()
			return 0, err
		}
		m.rollback()
		for _, r := range m.runners {
			if r.outdated(err); stale {
				r.outdated(&eventlog.Conflict{})
			}
		}
		if !stale && !isConflict(err) {
			for _, r := range m.runners {
				r.loaded = isRefused(err)
			}
			return 0, storeFault(err)
		}
		if m.outrun(err) {
			return 0, errOutrun
		}
		pause := attempt
		for _, r := range m.runners {
			if err := r.retry(ctx, pause); err != nil {
				return 0, err
			}
			pause = 0 // one is for both
		}
	}
}

// persist writes the commit, and makes it the state of the shards.
func (m *move) persist(ctx context.Context, c eventlog.Commit) error {
	err := m.from.persist(ctx, c, func(error) {
		for _, r := range m.runners[1:] {
			r.stall()
		}
	})
	for _, r := range m.runners[1:] {
		r.stalled.Store(false)
	}
	if err != nil {
		return err
	}
	for _, r := range m.runners {
		r.stands(c)
	}
	m.from.publish()
	t := Tally{Wrote: true, Moved: len(m.items)}
	if m.task == nil {
		t.DeadLettered = t.Moved
	}
	m.from.b.did(m.from.traffic, &t)
	return nil
}

// move is one commit being built.
type move struct {
	runners  []*runner // from, and to where there is one
	from, to *runner
	task     *slice // the move task whose work this is; nil: what is exhausted is moved

	marks      []queue.Mark
	senderMark queue.SenderMark
	at         events.Instant
	items      []events.Position
	ids        []events.MessageID
	messages   []events.Message
	origins    []events.Origin
	sizes      []int
}

// newMove begins a move. A task may have nothing to take, and then needs no target.
func newMove(from, to *runner, task *slice) *move {
	m := &move{runners: []*runner{from}, from: from, to: to, task: task}
	if to != nil {
		m.runners = append(m.runners, to)
	}
	return m
}

// begin forgets an attempt before.
func (m *move) begin() {
	*m = *newMove(m.from, m.to, m.task)
	for _, r := range m.runners {
		m.marks = append(m.marks, r.ledger.Mark())
		m.at = max(m.at, r.at())
	}
	if m.to != nil {
		m.senderMark = m.to.sender.Mark()
	}
}

func (m *move) rollback() {
	for i, r := range m.runners {
		r.ledger.Rollback(m.marks[i])
		r.blocks.forgetNear() // the cursor may have moved back, or the end
	}
	if m.to != nil {
		m.to.sender.Rollback(m.senderMark)
		m.to.draft = nil
	}
}

func (m *move) build(ctx context.Context) (c eventlog.Commit, err error) {
	if err := m.pick(ctx); err != nil || len(m.items) == 0 && m.task == nil {
		return c, err
	}
	c.At = int64(m.from.b.Now())
	var holder string
	c.Writer, holder = m.from.b.newWriter()
	start := events.Position(0)
	if len(m.items) > 0 {
		start = m.to.sender.Tail
		if c.Appends, err = m.arrive(ctx, start); err != nil {
			return c, err
		}
	}
	left, err := m.leave(start)
	if err != nil {
		return c, err
	}
	if len(left.Events) > 0 {
		c.Appends = append(c.Appends, m.from.happened(m.at, left))
	}
	if m.task != nil {
		c.Claims = []eventlog.Claim{m.task.progress(holder, events.Instant(c.At), len(m.items))}
	}
	return c, nil
}

// leave asks the rules of the source.
func (m *move) leave(start events.Position) (queue.Decision, error) {
	switch {
	case m.to == nil:
		return m.task.decide(events.QueueID{}, 0, 0)
	case m.task != nil:
		return m.task.decide(m.to.id, uint32(m.to.index), start)
	}
	return queue.Decide(m.from.ledger, &queue.Move{At: m.at, Items: m.items, Queue: m.to.id, Shard: uint32(m.to.index), Position: start})
}

// arrive gives the appends of the target.
func (m *move) arrive(ctx context.Context, start events.Position) ([]eventlog.Append, error) {
	header, err := m.block()
	if err != nil {
		return nil, err
	}
	came, err := queue.Decide(m.to.ledger, &queue.Arrive{At: m.at, IDs: m.ids, Position: start, Queue: m.from.id, Shard: uint32(m.from.index), Items: m.items})
	if err != nil {
		return nil, err
	}
	message, err := m.to.sealed(ctx, start, header, events.EncodeHeader(header), events.EncodeMessages(m.messages))
	if err != nil {
		return nil, err
	}
	return []eventlog.Append{message, m.to.happened(m.at, came)}, nil
}

// happened applies events and gives their append.
func (r *runner) happened(at events.Instant, d queue.Decision) eventlog.Append {
	for _, e := range d.Events {
		r.ledger.Evolve(e)
	}
	return r.ledgerEntry(at, d.Events)
}

// pick reads what is to be moved, as much as one commit takes. A message that cannot be opened now stays.
func (m *move) pick(ctx context.Context) error {
	if m.task != nil {
		return m.task.pick(ctx, m)
	}
	bytes := 0
	for _, x := range m.from.ledger.Exhausted(m.at, moveMessagesMax) {
		bl, message, err := m.from.message(ctx, x.Position)
		if fault.Is(err, fault.KeyLost) {
			continue
		}
		if err != nil {
			return err
		}
		if bytes += message.Size(); bytes > moveBytesMax && len(m.items) > 0 {
			return nil
		}
		m.add(x.Position, bl.Header, int(x.Position-bl.Seq), message, events.Origin{Receives: x.Receives, Lease: x.Lease, Reason: events.Exhausted})
	}
	return nil
}

// add adds a message with its history. o says what it went through here.
func (m *move) add(p events.Position, h *events.Header, i int, message *events.Message, o events.Origin) {
	o.ID, o.Enqueued, o.Queue, o.Shard, o.Position = h.MessageID(i), h.Enqueued(i), m.from.id, uint32(m.from.index), p
	m.items = append(m.items, p)
	m.ids = append(m.ids, o.ID)
	m.messages = append(m.messages, *message)
	m.sizes = append(m.sizes, message.Size())
	m.origins = append(m.origins, o)
}

// block adds the messages to the target's stream: with their ids and enqueue instants, without a delay and without
// being remembered as sent. A FIFO message keeps its group, hashed with the target's key.
func (m *move) block() (*events.Header, error) {
	s := m.to.sender
	var id events.BlockID
	mustRead(m.to.b.Rand, id[:])
	s.Open(id, m.at)
	for i := range m.messages {
		out := queue.Outgoing{Size: m.sizes[i], Origin: &m.origins[i]}
		if s.Settings.Fifo {
			group, err := m.to.keys.Hash(m.to.b.life, m.to.b.Now(), s.Settings.KeyReuseSeconds, "group", m.messages[i].Group)
			if err != nil {
				return nil, err
			}
			out.Group = group
		}
		a, err := s.Decide(out)
		if err != nil {
			return nil, err
		}
		s.Add(a)
	}
	h := s.Close()
	h.Key = m.to.keys.Current()
	return h, nil
}

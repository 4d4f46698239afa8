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
			moved, err = b.moveOnce(ctx, source, to)
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

// moveOnce moves some messages in one commit of three appends. Both runners are held.
func (b *Broker) moveOnce(ctx context.Context, from, to *runner) (moved int, err error) {
	defer func() { // this is not the runners' goroutine, but it is their door
		if p := recover(); p != nil {
			from.refuse(p)
			to.refuse(p)
			err = from.broken
		}
	}()
	for attempt := 0; ; attempt++ {
		for _, r := range []*runner{from, to} {
			if err := r.ready(ctx); err != nil {
				return 0, err
			}
		}
		m := &move{from: from, to: to, fromMark: from.ledger.Mark(), toMark: to.ledger.Mark(), senderMark: to.sender.Mark()}
		commit, err := m.build(ctx)
		_, stale := truncated(err) // others have moved or finished what stood there
		if err == nil && len(commit.Appends) > 0 {
			err = from.persist(ctx, commit, func(error) { to.stall() })
			to.stalled.Store(false)
			if err == nil {
				from.stands(commit)
				to.stands(commit)
				from.publish()
				b.Meter.Done(&Tally{Wrote: true, Moved: len(m.items)})
				return len(m.items), nil
			}
		} else if !stale || attempt > 5 {
			m.rollback()
			return 0, err
		}
		m.rollback()
		for _, r := range []*runner{from, to} {
			if r.outdated(err); stale {
				r.outdated(&eventlog.Conflict{})
			}
		}
		if !stale && !isConflict(err) {
			from.loaded, to.loaded = isRefused(err), isRefused(err)
			return 0, storeFault(err)
		}
		if err := from.retry(ctx, attempt); err != nil {
			return 0, err
		}
		if err := to.retry(ctx, 0); err != nil {
			return 0, err
		}
	}
}

// move is one commit being built.
type move struct {
	from, to         *runner
	fromMark, toMark queue.Mark
	senderMark       queue.SenderMark

	at       events.Instant
	items    []events.Position
	ids      []events.MessageID
	messages []events.Message
	origins  []events.Origin
	sizes    []int
}

func (m *move) rollback() {
	m.from.ledger.Rollback(m.fromMark)
	m.to.ledger.Rollback(m.toMark)
	m.to.sender.Rollback(m.senderMark)
	m.to.draft = nil
	m.to.blocks.forgetNear()
}

func (m *move) build(ctx context.Context) (c eventlog.Commit, err error) {
	m.at = max(m.from.at(), m.to.at())
	if err := m.pick(ctx); err != nil || len(m.items) == 0 {
		return c, err
	}
	start := m.to.sender.Tail
	header, err := m.arrive()
	if err != nil {
		return c, err
	}
	left, err := queue.Decide(m.from.ledger, &queue.Move{At: m.at, Items: m.items, Queue: m.to.id, Shard: uint32(m.to.index), Position: start})
	if err != nil {
		return c, err
	}
	came, err := queue.Decide(m.to.ledger, &queue.Arrive{At: m.at, IDs: m.ids, Position: start, Queue: m.from.id, Shard: uint32(m.from.index), Items: m.items})
	if err != nil {
		return c, err
	}
	message, err := m.to.sealed(ctx, start, header, events.EncodeHeader(header), events.EncodeMessages(m.messages))
	if err != nil {
		return c, err
	}
	c.At = int64(m.from.b.Now())
	c.Writer, _ = m.from.b.newWriter()
	c.Appends = []eventlog.Append{message, m.from.happened(m.at, left), m.to.happened(m.at, came)}
	return c, nil
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
		i := int(x.Position - bl.Seq)
		m.items = append(m.items, x.Position)
		m.ids = append(m.ids, bl.Header.MessageID(i))
		m.messages = append(m.messages, *message)
		m.sizes = append(m.sizes, message.Size())
		m.origins = append(m.origins, events.Origin{ID: bl.Header.MessageID(i), Enqueued: bl.Header.Enqueued(i),
			Queue: m.from.id, Shard: uint32(m.from.index), Position: x.Position, Receives: x.Receives})
	}
	return nil
}

// arrive adds the messages to the target's stream: with their ids and enqueue instants, without a delay and without
// being remembered as sent. A FIFO message keeps its group, hashed with the target's key.
func (m *move) arrive() (*events.Header, error) {
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

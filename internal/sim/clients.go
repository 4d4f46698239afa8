package sim

import (
	"context"
	"fmt"
	"strconv"

	"github.com/leaselog/leaselog/events"
	"github.com/leaselog/leaselog/internal/broker"
	"github.com/leaselog/leaselog/internal/fault"
)

// account is whose queues all are.
const account = "acme"

// name is a queue's name; queues come and go under it.
type name struct {
	text string
	spec spec
}

// known is a queue that a client was told of.
type known struct {
	id       events.QueueID
	name     *name
	fifo     bool
	deleting bool // somebody has asked for it
	deleted  bool // and was answered
	updates  int  // asked for so far
	updating int  // without an answer
}

// attempt is one message that a client asks to send.
type attempt struct {
	n                  int
	queue              events.QueueID
	body, group, dedup string
	answer             answer
	delay              *uint32 // nil: the queue's
	letter             *letter // where it stands in the log, nil while it does not
	acked              bool    // an ack was answered with success
	ackedAt            events.Instant
}

// answer is what a client was told of a message that it sent.
type answer string

const (
	noAnswer        answer = "" // under way, or unknown for ever
	sentAnswer      answer = "sent"
	duplicateAnswer answer = "a duplicate"
	refusedAnswer   answer = "refused"
)

// client lets a client ask something.
func (s *simulation) client(l *life) {
	k := s.pickQueue()
	if k == nil {
		s.create(l, one(s.rand, s.names...))
		return
	}
	h := s.pickHold()
	switch n := s.rand.IntN(100); {
	case n < 31:
		s.send(l, k)
	case n < 33:
		s.startMove(l, k)
	case n < 66:
		s.receive(l, k)
	case n < 84 && h != nil:
		s.ack(l, h)
	case n < 91 && h != nil:
		s.extend(l, h)
	case n < 93:
		s.depth(l, k)
	case n < 94:
		s.purge(l, k)
	case n < 96:
		s.update(l, k)
	case n < 97:
		s.remove(l, k)
	case n < 98:
		s.create(l, one(s.rand, s.names...))
	case n < 99:
		s.peek(l, k)
	default:
		s.list(l)
	}
}

// pickQueue prefers queues that are there.
func (s *simulation) pickQueue() *known {
	for range 4 {
		if len(s.queues) == 0 {
			return nil
		}
		if k := one(s.rand, s.queues...); !k.deleting || chance(s.rand, 0.1) {
			return k
		}
	}
	return nil
}

// pickHold prefers leases that were given lately.
func (s *simulation) pickHold() *hold {
	n := len(s.held)
	if n == 0 {
		return nil
	}
	if n > 4 && chance(s.rand, 0.7) {
		return s.held[n-1-s.rand.IntN(4)]
	}
	return one(s.rand, s.held...)
}

func (s *simulation) create(l *life, n *name) *command {
	c := broker.CreateQueue{Account: account, Name: n.text, Settings: n.spec.Settings}
	if d := n.spec.DeadLetter; d >= 0 {
		c.DeadLetter = &broker.DeadLetter{Queue: broker.Ref{Account: account, Name: s.names[d].text}, Receives: n.spec.Receives}
	}
	return s.command(l, "create "+n.text, func(ctx context.Context) func() {
		q, err := l.broker.Create(ctx, c)
		return func() {
			s.note("create %s: %v", n.text, err)
			if err != nil {
				s.may(ctx, err, fault.Exists, fault.Invalid)
				return
			}
			for _, k := range s.queues {
				s.must(k.name != n || k.deleting, "two queues are named %s", n.text)
			}
			s.queues = append(s.queues, &known{id: q.ID, name: n, fifo: n.spec.Settings.Fifo})
			s.must(s.witness.queues[q.ID] != nil, "a queue was created, and there is nothing of it")
		}
	})
}

func (s *simulation) send(l *life, k *known) {
	var out []broker.Outgoing
	var tries []*attempt
	for range 1 + s.rand.IntN(3) {
		a := s.compose(k)
		tries = append(tries, a)
		o := broker.Outgoing{Message: events.Message{Body: []byte(a.body), Group: a.group, Dedup: a.dedup,
			Attributes: []events.Attribute{{Name: "n", Type: "s", Value: []byte(strconv.Itoa(a.n))}}}}
		if chance(s.rand, 0.15) {
			a.delay = new(uint32(s.rand.IntN(5)))
			o.DelaySeconds = a.delay
		}
		out = append(out, o)
	}
	floor := s.floor(k)
	gone := k.deleted
	s.command(l, fmt.Sprintf("send %d+%d to %s", tries[0].n, len(tries)-1, k.name.text), func(ctx context.Context) func() {
		sent, err := l.broker.Send(ctx, k.id, out)
		return func() {
			s.must(!gone || err != nil, "a queue that was deleted took messages")
			for i, a := range tries {
				r := broker.Sent{Err: err}
				if err == nil {
					r = sent[i]
				}
				s.sent(ctx, k, a, r, floor)
			}
		}
	})
}

// compose makes a message; ids and bodies repeat now and then.
func (s *simulation) compose(k *known) *attempt {
	n := len(s.attempts)
	a := &attempt{n: n, queue: k.id, body: plain + "body-" + strconv.Itoa(n)}
	if k.fifo {
		a.group = plain + "group-" + strconv.Itoa(s.rand.IntN(3))
		if !k.name.spec.Settings.ContentDedup || chance(s.rand, 0.3) {
			a.dedup = plain + "id-" + strconv.Itoa(n)
			if chance(s.rand, 0.3) {
				a.dedup = plain + "again-" + strconv.Itoa(s.rand.IntN(3))
			}
		}
		if chance(s.rand, 0.3) {
			a.body = plain + "again-" + strconv.Itoa(s.rand.IntN(3))
		}
	}
	s.attempts = append(s.attempts, a)
	return a
}

func (s *simulation) receive(l *life, k *known) *command {
	r := broker.Receive{Queue: k.id, Max: 1 + s.rand.IntN(3)}
	if chance(s.rand, 0.5) {
		r.LeaseSeconds = new(one[uint32](s.rand, 0, 1, 5, 30))
	}
	if chance(s.rand, 0.6) {
		r.WaitSeconds = new(one[uint32](s.rand, 0, 0, 1, 5))
	}
	return s.take(l, k, r)
}

// take asks for messages and shows what comes to the judges.
func (s *simulation) take(l *life, k *known, r broker.Receive) *command {
	before := s.witness.look(k)
	gone := k.deleted
	return s.command(l, fmt.Sprintf("receive %d from %s", r.Max, k.name.text), func(ctx context.Context) func() {
		found, err := l.broker.Receive(ctx, r)
		return func() {
			s.note("%s: %d, %v", ctx.Value(commandKey{}).(*command).name, len(found), err)
			s.must(!gone || err != nil || l.ending && len(found) == 0, "a queue that was deleted was received from")
			if err != nil {
				s.may(ctx, err, s.notFound(k)...)
				return
			}
			s.must(len(found) <= r.Max, "%d messages where %d were asked for", len(found), r.Max)
			for i := range found {
				s.delivered(ctx, k, &found[i], r.LeaseSeconds != nil && *r.LeaseSeconds == 0)
			}
			if len(found) == 0 {
				s.empty(l, k, before, r.WaitSeconds == nil || *r.WaitSeconds > 0)
			}
		}
	})
}

func (s *simulation) ack(l *life, h *hold) *command {
	return s.command(l, fmt.Sprintf("ack %d (receive %d)", h.attempt.n, h.receives), func(ctx context.Context) func() {
		results, err := l.broker.Ack(ctx, h.queue.id, []string{h.receipt})
		return func() {
			if err == nil {
				err = results[0]
			}
			s.note("ack %d: %v", h.attempt.n, err)
			s.acked(ctx, h, err)
		}
	})
}

func (s *simulation) extend(l *life, h *hold) {
	seconds := one[uint32](s.rand, 0, 0, 1, 5, 30)
	h.until = min(h.until, s.now().Add(seconds)-s.Clocks.slack()) // it may end sooner from now on
	h.extends++
	h.asking++
	mine, alone := h.extends, h.asking == 1
	s.command(l, fmt.Sprintf("extend %d (receive %d) to %d s", h.attempt.n, h.receives, seconds), func(ctx context.Context) func() {
		results, err := l.broker.Extend(ctx, h.queue.id, []broker.Extend{{Receipt: h.receipt, Seconds: seconds}})
		return func() {
			if err == nil {
				err = results[0]
			}
			s.note("extend %d: %v", h.attempt.n, err)
			if !fault.Is(err, fault.Unconfirmed) { // otherwise it may still come
				h.asking--
			}
			s.extended(ctx, h, seconds, alone && mine == h.extends, err)
		}
	})
}

func (s *simulation) purge(l *life, k *known) {
	there := s.witness.living(k)
	s.command(l, "purge "+k.name.text, func(ctx context.Context) func() {
		n, err := l.broker.Purge(ctx, k.id)
		return func() {
			s.note("purge %s: %d, %v", k.name.text, n, err)
			if err != nil {
				s.may(ctx, err, s.notFound(k)...)
				return
			}
			for _, x := range there {
				s.must(x.fate != "", "message %d was there before a purge, and is still there", x.attempt.n)
			}
		}
	})
}

func (s *simulation) update(l *life, k *known) {
	u := broker.UpdateQueue{Queue: k.id}
	switch s.rand.IntN(4) {
	case 0:
		u.LeaseSeconds = new(one[uint32](s.rand, 1, 5, 30))
	case 1:
		u.RetentionSeconds = new(one[uint32](s.rand, 20, 60, 3600, 86400))
	case 2:
		u.RemoveDeadLetter = true
	case 3:
		u.DelaySeconds = new(one[uint32](s.rand, 0, 2))
		if n := one(s.rand, s.names...); n != k.name {
			u.DeadLetter = &broker.DeadLetter{Queue: broker.Ref{Account: account, Name: n.text}, Receives: uint32(1 + s.rand.IntN(3))}
		}
	}
	k.updates++
	k.updating++
	mine, alone := k.updates, k.updating == 1
	c := s.command(l, "update "+k.name.text, func(ctx context.Context) func() {
		_, err := l.broker.Update(ctx, u)
		return func() {
			s.note("update %s: %v", k.name.text, err)
			if err != nil { // it may go on, or be finished by somebody else: updating is never 0 again
				s.may(ctx, err, append(s.notFound(k), fault.Invalid)...)
				return
			}
			k.updating--
			if alone && k.updates == mine {
				s.updated(k, u)
			}
		}
	})
	_ = c
}

func (s *simulation) remove(l *life, k *known) {
	again := k.deleting
	k.deleting = true
	s.command(l, "delete "+k.name.text, func(ctx context.Context) func() {
		err := l.broker.Delete(ctx, broker.Ref{Account: account, ID: k.id})
		return func() {
			s.note("delete %s: %v", k.name.text, err)
			if err != nil {
				s.must(again || !fault.Is(err, fault.NotFound), "a queue that is there cannot be deleted: %v", err)
				s.may(ctx, err, fault.NotFound)
				return
			}
			k.deleted = true
			for _, sh := range s.witness.queues[k.id].sorted() {
				s.must(sh.ruling.Status == events.Deleted && sh.sending.Status == events.Deleted, "a queue was deleted, and its shard %d is open", sh.index)
			}
		}
	})
}

func (s *simulation) depth(l *life, k *known) *command {
	before := s.witness.look(k)
	return s.command(l, "describe "+k.name.text, func(ctx context.Context) func() {
		q, err := l.broker.Describe(ctx, k.id)
		return func() {
			if err != nil {
				s.note("describe %s: %v", k.name.text, err)
				s.may(ctx, err, s.notFound(k)...)
				return
			}
			s.note("describe %s: %+v", k.name.text, q.Depth.Counts)
			s.counted(l, k, before, q.Depth.Counts)
		}
	})
}

func (s *simulation) peek(l *life, k *known) {
	s.command(l, "peek "+k.name.text, func(ctx context.Context) func() {
		page, err := l.broker.Peek(ctx, broker.Peek{Queue: k.id, Limit: 5})
		return func() {
			s.note("peek %s: %d, %v", k.name.text, len(page.Rows), err)
			if err != nil {
				s.may(ctx, err, s.notFound(k)...)
			}
			for _, r := range page.Rows {
				s.must(s.witness.letters[r.ID] != nil, "peek shows a message that is not there")
			}
		}
	})
}

func (s *simulation) list(l *life) {
	s.command(l, "list", func(ctx context.Context) func() {
		_, _, err := l.broker.List(ctx, broker.ListQueues{Account: account, Limit: 1 + s.started%3})
		return func() {
			if err != nil {
				s.may(ctx, err)
			}
		}
	})
}

// tick lets a broker do what time must do.
func (s *simulation) tick(l *life) *command {
	return s.command(l, "tick", func(ctx context.Context) func() {
		err := l.broker.Tick(ctx)
		if err == nil {
			_, err = l.broker.Moves(ctx)
		}
		return func() {
			s.note("tick: %v", err)
			if err != nil {
				s.may(ctx, err, fault.NotFound)
			}
		}
	})
}

// maintain lets a broker discard what is old.
func (s *simulation) maintain(l *life) {
	s.command(l, "maintain", func(ctx context.Context) func() {
		err := l.broker.Maintain(ctx, broker.History{Before: l.clock()})
		return func() {
			s.note("maintain: %v", err)
			if err != nil {
				s.may(ctx, err, fault.NotFound)
			}
		}
	})
}

// quietly lets one command have its answer while everybody else stands still, so that it can be judged exactly.
func (s *simulation) quietly(l *life) {
	k := s.pickQueue()
	if k == nil {
		return
	}
	if chance(s.rand, 0.5) {
		s.finish(s.depth(l, k))
		return
	}
	s.finish(s.take(l, k, broker.Receive{Queue: k.id, Max: 1 + s.rand.IntN(3), WaitSeconds: new(uint32(0))}))
}

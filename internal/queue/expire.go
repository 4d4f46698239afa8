package queue

import (
	"github.com/leaselog/leaselog/events"
	"github.com/leaselog/leaselog/internal/fault"
)

// Expire discards what is past its retention: up to Max pending messages and, where To is beyond the cursor, all
// messages ahead before To. The broker has found To by bisection: every block before it was written so long ago that
// whatever it holds is past its retention.
type Expire struct {
	At   events.Instant
	Max  int
	To   events.Position
	Sent uint64 // messages that the stream holds before To
}

func decideExpire(l *Ledger, c *Expire) (d Decision) {
	e := &events.Expired{At: c.At}
	l.Pending(0, func(m *Message) bool {
		if len(e.Items) < c.Max && l.expired(m, c.At) {
			e.Items = append(e.Items, m.Position)
		}
		return len(e.Items) < c.Max
	})
	if c.To > l.Cursor {
		e.To, e.Skipped = c.To, c.Sent-l.Seen
	}
	if len(e.Items) > 0 || e.To > 0 {
		d.Events = append(d.Events, e)
	}
	return d
}

// ExpiredBefore is the latest instant at which a message may have been written to be past its retention at at.
func (l *Ledger) ExpiredBefore(at events.Instant) events.Instant {
	return at - events.Instant(l.Settings.RetentionSeconds)*1000
}

// Exhausted gives up to n messages that wait for their move to the dead-letter queue, longest waiting first.
func (l *Ledger) Exhausted(at events.Instant, n int) (found []*Message) {
	l.pending.spent.Scan(func(m *Message) bool {
		if m.Visible > at || len(found) == n {
			return false
		}
		found = append(found, m)
		return true
	})
	return found
}

// NextExhausted is the first instant at which a message may have to be moved, Never if there is none.
func (l *Ledger) NextExhausted() events.Instant {
	if m, ok := l.pending.spent.Min(); ok {
		return m.Visible
	}
	return events.Never
}

// Move takes exhausted messages to their dead-letter queue: Items[i] stands at Position+i there, in the same commit.
type Move struct {
	At       events.Instant
	Items    []events.Position
	Queue    events.QueueID
	Shard    uint32
	Position events.Position
}

func decideMove(l *Ledger, c *Move) (Decision, error) {
	d := l.Settings.DeadLetter
	if d == nil || d.Queue != c.Queue || d.Gone {
		return Decision{}, fault.New(fault.Invalid, "the queue's dead-letter queue is another one now")
	}
	for _, p := range c.Items {
		if m := l.pending.get(p); m == nil || !l.exhausted(m, c.At) {
			return Decision{}, fault.New(fault.Invalid, "message %d is not exhausted", p)
		}
	}
	return Decision{Events: []events.Event{&events.Moved{At: c.At, Items: c.Items, Queue: c.Queue, Shard: c.Shard,
		Position: c.Position, Reason: events.Exhausted}}}, nil
}

// Arrive notes in the target what a move brought.
type Arrive struct {
	At       events.Instant
	IDs      []events.MessageID
	Position events.Position
	Queue    events.QueueID // the source
	Shard    uint32
	Items    []events.Position
}

func decideArrive(l *Ledger, c *Arrive) (Decision, error) {
	if l.Settings.Status != events.Active {
		return Decision{}, fault.New(fault.Invalid, "a queue that is drained takes no moved messages")
	}
	return Decision{Events: []events.Event{&events.Arrived{At: c.At, IDs: c.IDs, Position: c.Position, Queue: c.Queue,
		Shard: c.Shard, Items: c.Items}}}, nil
}

package queue

import "github.com/leaselog/leaselog/events"

// Depth counts a shard's messages at an instant. Together they are every message that is neither finished nor past
// its retention.
type Depth struct {
	Available uint64 // deliverable, withheld only behind their group, or waiting for their move to the dead-letter queue
	InFlight  uint64
	Delayed   uint64
	// Oldest is, of the available messages that were looked at before, one that has waited longest.
	Oldest Waiting
}

// Waiting is a message that became deliverable at an instant. The zero value is none.
type Waiting struct {
	Position events.Position
	Since    events.Instant
	Enqueued events.Instant // when it was first sent; of a moved message maybe when it was moved
}

// CountDepth gives the depth from both folds. alive is how many messages ahead of the cursor are not past their
// retention: it takes a look at the log, see Sender.Totals.
func CountDepth(l *Ledger, s *Sender, alive uint64, at events.Instant) Depth {
	delayed := min(s.delayedAhead(l, at), alive)
	d := Depth{Available: alive - delayed, Delayed: delayed}
	l.Pending(0, func(m *Message) bool {
		switch {
		case l.expired(m, at):
		case l.inFlight(m, at):
			d.InFlight++
		case m.Visible > at:
			d.Delayed++
		default:
			d.Available++
			if d.Oldest.Since == 0 || m.Visible < d.Oldest.Since {
				d.Oldest = Waiting{m.Position, m.Visible, m.Info.Retained}
			}
		}
		return true
	})
	return d
}

// FirstDue gives the message ahead of the ledger's cursor that was sent with a delay and became due first of those that are
// due at an instant, as far as they are remembered.
func (s *Sender) FirstDue(l *Ledger, at events.Instant) (first Waiting) {
	s.due.Scan(func(d dueAt) bool {
		if d.Due > at || d.Position >= l.Cursor && !l.past(d.Sent, 0, at) {
			if d.Due <= at {
				first = Waiting{d.Position, d.Due, d.Sent}
			}
			return false
		}
		return true
	})
	return first
}

// Where says how a pending message stands at an instant, and false where it is past its retention.
func (l *Ledger) Where(m *Message, at events.Instant) (leased, delayed, live bool) {
	return l.inFlight(m, at), !m.Leased && m.Visible > at, !l.expired(m, at)
}

// Past says whether a message that was not looked at yet is past its retention.
func (l *Ledger) Past(h *events.Header, i int, at events.Instant) bool {
	return l.past(h.RetainedFrom(i), h.ExpiresAt(i), at)
}

// ExpiresAt is when a message is discarded if it is not finished before.
func (l *Ledger) ExpiresAt(retained, own events.Instant) events.Instant {
	end := retained.Add(l.Settings.RetentionSeconds)
	if own != 0 {
		end = min(end, own)
	}
	return end
}

// LeavesAt is when a pending message is discarded unless something happens to it before, Never where it waits for its
// move to the dead-letter queue. A live lease outlasts it.
func (l *Ledger) LeavesAt(m *Message) events.Instant {
	if l.movable(m) {
		return events.Never
	}
	return l.ExpiresAt(m.Info.Retained, m.Info.Expires)
}

// NotDue calls f for the messages that were sent with a delay, in the order in which they become due, until f gives
// false. sent is when their block was written. Some may be due for up to a minute already.
func (s *Sender) NotDue(f func(p events.Position, due, sent events.Instant) bool) {
	s.due.Scan(func(d dueAt) bool { return f(d.Position, d.Due, d.Sent) })
}

package queue

import (
	"github.com/leaselog/leaselog/events"
	"github.com/leaselog/leaselog/internal/fault"
)

// Survey asks, for a move task, which messages stand in [From, To) and which of them may be taken. It changes nothing.
type Survey struct {
	At       events.Instant
	From, To events.Position
	// Since, where it is before From, is the first message that was kept back by an earlier Survey and is still to be
	// taken: what follows one of its like in a group is kept back too, though it may be free by now.
	Since  events.Position
	Max    int    // messages to give
	Window Window // what stands at the cursor and behind it
}

// Found is a message that a Survey met.
type Found struct {
	Position events.Position
	Info     *events.Info // of one ahead of the cursor, nil of one that is pending
	Group    events.Hash
	Receives uint32
	Lease    events.LeaseID // of its last receive, unless that was released
	// Gone is true of one ahead that is past its retention: the cursor goes over it, and nothing else is to be done.
	Gone bool
	// Free says that it may be taken: nobody has it, it is due, it waits for no other move, and no earlier message of
	// its group is or was kept back.
	Free bool
}

// Surveyed is the answer. Next is where the next Survey goes on, To when everything was seen.
type Surveyed struct {
	Found []Found
	Next  events.Position
	// Need is set when the window shows nothing at the cursor: what stands there is to be fetched first.
	Need *Need
	// Full is set when the shard holds as many messages that were looked at and not finished as it may.
	Full bool
}

// surveying is one Survey on its way.
type surveying struct {
	*Ledger
	*Survey
	Surveyed
	closed map[events.Hash]bool // of each group met: whether a message of it is kept back
	held   int                  // pending that count against the limit, with what was found ahead
	most   int
}

// Look answers a Survey.
func (l *Ledger) Look(c Survey) Surveyed {
	s := &surveying{Ledger: l, Survey: &c, closed: make(map[events.Hash]bool), held: l.pending.held, most: l.limits.LookAhead}
	if !l.Settings.Fifo { // what is passed over without a group bounds nothing but memory, as delayed messages do
		s.held, s.most = l.pending.byPosition.Len()-l.pending.leased.Len(), l.limits.Delayed
	}
	s.Next = c.From
	s.behind()
	if len(s.Found) < c.Max && l.Cursor < c.To {
		s.ahead()
	} else if len(s.Found) < c.Max {
		s.Next = c.To
	}
	return s.Surveyed
}

// behind finds what is pending.
func (s *surveying) behind() {
	s.Pending(s.From, func(m *Message) bool {
		if m.Position >= s.To || len(s.Found) == s.Max {
			return false
		}
		s.Next = m.Position + 1
		if !s.expired(m, s.At) {
			s.Found = append(s.Found, Found{Position: m.Position, Group: m.Info.Group, Receives: m.Receives, Lease: m.Lease,
				Free: s.free(m.Info.Group, m.Position, !s.kept(m))})
		}
		return true
	})
}

// ahead finds what nobody has looked at.
func (s *surveying) ahead() {
	g := &leasing{Ledger: s.Ledger, Lease: &Lease{At: s.At, Window: s.Window}}
	next := g.ahead()
	s.Next = max(s.Next, s.Cursor)
	for len(s.Found) < s.Max {
		c, more := next()
		if !more || c.position() >= s.To {
			if g.need == nil {
				s.Next = s.To
			} else if len(s.Found) == 0 {
				s.Need = g.need
			}
			return
		}
		if s.held >= s.most {
			s.Full = true
			return
		}
		info := g.info(c)
		f := Found{Position: c.position(), Info: &info, Group: info.Group, Gone: s.past(info.Retained, info.Expires, s.At)}
		if !f.Gone {
			f.Free = s.free(info.Group, f.Position, info.Due <= s.At)
			s.held++
		}
		s.Found, s.Next = append(s.Found, f), f.Position+1
	}
}

// kept says whether a message may not be taken now: it is leased or not due, or waits for its dead-letter queue.
func (s *surveying) kept(m *Message) bool { return m.Visible > s.At || s.movable(m) }

// free says whether a message may be taken, and closes its group where it may not.
func (s *surveying) free(group events.Hash, p events.Position, itself bool) bool {
	if group == (events.Hash{}) {
		return itself
	}
	closed, met := s.closed[group]
	if !met {
		closed = s.keptBefore(group, p)
	}
	s.closed[group] = closed || !itself
	return itself && !closed
}

// keptBefore says whether a pending message of a group before a position is kept back, or was.
func (s *surveying) keptBefore(group events.Hash, p events.Position) bool {
	for m := s.pending.first(group); m != nil && m.Position < p; m = s.pending.after(m) {
		if !s.expired(m, s.At) && (s.kept(m) || m.Position >= s.Since && m.Position < s.From) {
			return true
		}
	}
	return false
}

// Redrive takes messages to another queue for a move task: Items[i] stands at Position+i there, in the same commit.
// Looked are those that a Survey at the same instant found, from its first on: the cursor goes over those ahead, and
// what is not among Items is pending from then on.
type Redrive struct {
	At       events.Instant
	Looked   []Found
	Items    []events.Position
	Queue    events.QueueID
	Shard    uint32
	Position events.Position
}

func decideRedrive(l *Ledger, c *Redrive) (d Decision, err error) {
	items := c.Items
	for _, f := range c.Looked {
		switch {
		case f.Info == nil:
		case f.Gone:
			e := last[events.Expired](&d)
			e.At, e.To = c.At, f.Position+1
			e.Skipped++
		default:
			e := last[events.Passed](&d)
			e.At, e.Items = c.At, append(e.Items, events.Taken{Position: f.Position, Info: f.Info})
		}
		if len(items) > 0 && items[0] == f.Position && f.Free {
			items = items[1:]
		}
	}
	if len(items) > 0 {
		return Decision{}, fault.New(fault.Invalid, "message %d may not be moved now", items[0])
	}
	if len(c.Items) > 0 {
		d.Events = append(d.Events, &events.Moved{At: c.At, Items: c.Items, Queue: c.Queue, Shard: c.Shard, Position: c.Position,
			Reason: events.Redriven})
	}
	return d, nil
}

package queue

import (
	"github.com/leaselog/leaselog/events"
)

// Lease hands out up to Max messages until an instant.
type Lease struct {
	At    events.Instant
	ID    events.LeaseID
	Until events.Instant
	Max   int
	// Window is what stands at the cursor and behind it.
	Window Window
	// Lost says which data keys cannot be used now, nil for none: what they seal is not handed out, and its group
	// waits behind it. Ahead of the cursor it is passed over where PassLost is true, within the look-ahead, and
	// otherwise it ends the look: where the newest key is lost nothing behind it opens either.
	Lost     map[uint32]bool
	PassLost bool
}

// Window is a run of blocks, the first of which covers the cursor. End is true where the stream ends with them.
type Window struct {
	Blocks []BlockAt
	End    bool
}

// BlockAt is a block's header with its place.
type BlockAt struct {
	Seq    events.Position
	Header *events.Header
}

// Next is the position after the block.
func (b BlockAt) Next() events.Position { return b.Seq + events.Position(b.Header.Width()) }

// leasing is one Lease being decided. What was deliverable longest goes first, whether it is pending or ahead.
// Its events are in the order in which messages were looked at, since the cursor moves as they are applied.
type leasing struct {
	*Ledger
	*Lease
	room    int // how many more may be leased
	passes  int // how many more may be passed over
	held    int // look-ahead used, with what this decision adds
	waiting int // pending without a lease, with what this decision adds
	stopped bool
	// groups says of each group met so far whether it may give more in this decision.
	groups map[events.Hash]bool
	need   *Need
	d      Decision
}

func decideLease(l *Ledger, c *Lease) Decision {
	room := l.room(c)
	g := &leasing{Ledger: l, Lease: c, room: room, passes: l.limits.Passed, held: l.pending.held,
		waiting: l.pending.byPosition.Len() - l.pending.leased.Len()}
	if l.Settings.Fifo {
		g.groups = make(map[events.Hash]bool)
	}
	if room > 0 {
		g.fill()
	}
	if len(g.d.Events) == 0 {
		g.d.Need = g.need
	}
	g.d.Again = len(g.d.Events) > 0 && g.room == room
	return g.d
}

// room is how many messages a Lease may get. Lapsed leases are counted only where they would matter.
func (l *Ledger) room(c *Lease) int {
	free := l.limits.InFlight - l.pending.leased.Len()
	if free < c.Max {
		free += l.lapsedCount(c.At)
	}
	return min(c.Max, free)
}

// fill merges the pending messages with those ahead. While it has not seen what stands at the cursor it decides
// nothing, or messages that are released again and again would keep all others waiting.
func (g *leasing) fill() {
	ahead := g.ahead()
	next, more := ahead()
	if g.need != nil {
		return
	}
	g.pending.heads.Scan(func(m *Message) bool {
		for more && g.goesOn() && g.since(next) < m.Visible {
			g.look(next)
			next, more = ahead()
		}
		if !g.goesOn() || m.Visible > g.At {
			return false
		}
		g.head(m)
		return true
	})
	for more && g.goesOn() {
		g.look(next)
		next, more = ahead()
	}
}

func (g *leasing) goesOn() bool { return g.room > 0 && g.passes > 0 }

// head hands out a pending message that heads its group, or has none, and where the rule allows it those behind it.
func (g *leasing) head(m *Message) {
	if g.Ledger.expired(m, g.At) {
		e := last[events.Expired](&g.d)
		e.At, e.Items = g.At, append(e.Items, m.Position)
		g.passes--
		return
	}
	if g.Lost[m.Info.Key] {
		g.mark(m.Info.Group, false)
		return
	}
	g.lease(events.Taken{Position: m.Position})
	if !m.grouped() {
		return
	}
	// One ahead that was passed over before m's turn came keeps the group closed: those behind it must not overtake it.
	_, passed := g.groups[m.Info.Group]
	g.groups[m.Info.Group] = g.Settings.Delivery == events.AsManyAsFit && g.followers(m) && !passed
}

// followers hands out what stands behind m in its group, up to the first that cannot go, and says whether all went.
func (g *leasing) followers(m *Message) bool {
	for m = g.pending.after(m); m != nil; m = g.pending.after(m) {
		if g.room <= 0 || m.Visible > g.At || g.Ledger.spent(m) || g.Ledger.expired(m, g.At) || g.Lost[m.Info.Key] {
			return false
		}
		g.lease(events.Taken{Position: m.Position})
	}
	return true
}

// lease adds a message to the last Leased event, or to a new one where another event came between.
func (g *leasing) lease(t events.Taken) {
	e := last[events.Leased](&g.d)
	e.At, e.Lease, e.Until, e.Items = g.At, g.ID, g.Until, append(e.Items, t)
	g.room--
}

// last gives the last event where it is of type E, and otherwise adds a new one.
func last[E any, P interface {
	*E
	events.Event
}](d *Decision) P {
	if n := len(d.Events); n > 0 {
		if e, ok := d.Events[n-1].(P); ok {
			return e
		}
	}
	e := P(new(E))
	d.Events = append(d.Events, e)
	return e
}

// candidate is a message ahead of the cursor.
type candidate struct {
	block BlockAt
	index int
}

func (c candidate) position() events.Position { return c.block.Seq + events.Position(c.index) }

// since is how long a message ahead has been deliverable. For one that is not due it is when it was written: what
// stands behind it may have been deliverable since then, and is seen only once it is passed over.
func (g *leasing) since(c candidate) events.Instant {
	if due := c.block.Header.DueAt(c.index); due <= g.At {
		return due
	}
	return c.block.Header.At
}

// ahead gives the messages from the cursor on, one a call, until the window ends or the decision has passed over as
// many as it may.
func (g *leasing) ahead() func() (candidate, bool) {
	blocks, at := g.Window.Blocks, g.Cursor
	return func() (candidate, bool) {
		for len(blocks) > 0 && (at >= blocks[0].Next() || blocks[0].Header.Kind != events.Block) {
			at = max(at, blocks[0].Next())
			blocks = blocks[1:]
		}
		if g.stopped {
			return candidate{}, false
		}
		if len(blocks) == 0 {
			if !g.Window.End {
				g.need = &Need{From: at}
			}
			return candidate{}, false
		}
		if at < blocks[0].Seq {
			broken("the window begins at %d, beyond the cursor %d", blocks[0].Seq, at)
		}
		c := candidate{blocks[0], int(at - blocks[0].Seq)}
		at++
		return c, true
	}
}

// info is what the state keeps of a message ahead once it was looked at.
func (g *leasing) info(c candidate) events.Info {
	h, i := c.block.Header, c.index
	info := events.Info{Retained: h.RetainedFrom(i), Due: h.DueAt(i), Expires: h.ExpiresAt(i), Limit: h.Limit(i), Key: h.Key}
	if info.Due == h.At {
		info.Due = min(h.At, g.At) // sent without a delay, if by a clock that was ahead
	}
	if g.Settings.Fifo {
		info.Group = h.Group(i) // on a standard queue it is a label only
	}
	return info
}

// look decides about a message ahead: it is leased, passed over, or skipped because it is expired.
func (g *leasing) look(c candidate) {
	info := g.info(c)
	if g.past(info.Retained, info.Expires, g.At) {
		g.skip(c)
		return
	}
	taken := events.Taken{Position: c.position(), Info: &info}
	switch lost := g.Lost[info.Key]; {
	case lost && (!g.PassLost || g.waiting >= g.limits.LookAhead):
		g.stopped = true
		return
	case lost || info.Due > g.At || !g.open(info.Group):
		g.pass(taken)
		return
	}
	g.lease(taken)
	g.mark(info.Group, g.Settings.Delivery == events.AsManyAsFit)
}

// skip moves the cursor over an expired message ahead.
func (g *leasing) skip(c candidate) {
	e := last[events.Expired](&g.d)
	e.At, e.To = g.At, c.position()+1
	e.Skipped++
}

// pass moves the cursor over a message that cannot be delivered now. At the look-ahead limit nothing further is
// looked at.
func (g *leasing) pass(t events.Taken) {
	if t.Info.Group != (events.Hash{}) {
		if g.held >= g.limits.LookAhead {
			g.stopped = true
			return
		}
		g.held++
	}
	e := last[events.Passed](&g.d)
	e.At, e.Items = g.At, append(e.Items, t)
	g.passes--
	g.waiting++
	g.mark(t.Info.Group, false)
}

// open says whether a message ahead of this group may be handed out after what was decided so far.
func (g *leasing) open(group events.Hash) bool {
	if group == (events.Hash{}) {
		return true
	}
	if open, met := g.groups[group]; met {
		return open
	}
	return g.pending.first(group) == nil
}

func (g *leasing) mark(group events.Hash, open bool) {
	if group != (events.Hash{}) {
		g.groups[group] = open
	}
}

// InFlight is how many messages have a live lease.
func (l *Ledger) InFlight(at events.Instant) int {
	return l.pending.leased.Len() - l.lapsedCount(at)
}

// lapsedCount counts the leased messages whose lease has lapsed, by bisection in their order.
func (l *Ledger) lapsedCount(at events.Instant) int {
	low, high := 0, l.pending.leased.Len()
	for low < high {
		mid := (low + high) / 2
		if m, _ := l.pending.leased.GetAt(mid); m.Visible <= at {
			low = mid + 1
		} else {
			high = mid
		}
	}
	return low
}

// NextVisible is the first instant after at when a message may become deliverable that is not now, Never if none will:
// a long poll waits for it.
func (l *Ledger) NextVisible(at events.Instant) events.Instant {
	next := events.Never
	soonest := func(m *Message) bool {
		next = min(next, m.Visible)
		return false
	}
	l.pending.heads.Ascend(&Message{Visible: at + 1}, soonest)
	if l.InFlight(at) >= l.limits.InFlight {
		l.pending.leased.Ascend(&Message{Visible: at + 1}, soonest)
	}
	return next
}

package queue

import (
	"fmt"

	"github.com/leaselog/leaselog/events"
)

// Ledger is the fold of a shard's ledger stream. It is as large as what is in flight or held back, never as the backlog.
type Ledger struct {
	values
	pending pending
	limits  Limits
	journal []change
}

// values are the parts of the state that are copied whole for a rollback.
type values struct {
	Settings events.Settings     `cbor:"1,keyasint"`
	Version  uint64              `cbor:"2,keyasint"`           // of Settings; 0: the shard was not created yet
	Cursor   events.Position     `cbor:"3,keyasint"`           // the first position not looked at
	Seen     uint64              `cbor:"4,keyasint,omitempty"` // messages before Cursor
	High     events.Instant      `cbor:"5,keyasint"`
	Totals   events.LedgerTotals `cbor:"6,keyasint"`
}

// change is an entry of the journal: what stood at a position before.
type change struct {
	position events.Position
	old      *Message
}

// NewLedger gives the state before the first event.
func NewLedger(l Limits) *Ledger {
	s := &Ledger{limits: l}
	s.pending = newPending(s.movable)
	return s
}

// Mark is a point to which the state can be rolled back.
type Mark struct {
	values  values
	journal int
}

// Mark gives the present point. Marks nest.
func (l *Ledger) Mark() Mark { return Mark{l.values, len(l.journal)} }

// Rollback undoes every event applied since m.
func (l *Ledger) Rollback(m Mark) {
	reorder := l.Version != m.values.Version
	for len(l.journal) > m.journal {
		c := l.journal[len(l.journal)-1]
		l.journal = l.journal[:len(l.journal)-1]
		if c.old != nil {
			l.pending.put(c.old)
		} else if now := l.pending.get(c.position); now != nil {
			l.pending.remove(now)
		}
	}
	l.values = m.values
	if reorder {
		l.pending.reorder()
	}
}

// Settle forgets the way back: what was applied stands in the log.
func (l *Ledger) Settle() {
	clear(l.journal) // or its spare room would keep old records alive
	l.journal = l.journal[:0]
}

func (l *Ledger) put(m *Message) {
	old := l.pending.put(m)
	l.journal = append(l.journal, change{m.Position, old})
}

func (l *Ledger) remove(m *Message) {
	l.pending.remove(m)
	l.journal = append(l.journal, change{m.Position, m})
}

// Get gives the pending message at a position, or nil. The record must not be changed.
func (l *Ledger) Get(p events.Position) *Message { return l.pending.get(p) }

// Len is how many messages are pending.
func (l *Ledger) Len() int { return l.pending.byPosition.Len() }

// Pending calls f for the pending messages from a position on, in order, until f gives false.
func (l *Ledger) Pending(from events.Position, f func(*Message) bool) {
	l.pending.byPosition.Ascend(&Message{Position: from}, f)
}

// spent says whether the message was received as often as the queue allows, so that it is never leased again.
func (l *Ledger) spent(m *Message) bool {
	d := l.Settings.DeadLetter
	return d != nil && !d.Gone && m.Receives >= d.Receives
}

// lapsed says whether the message had a lease that has ended by itself.
func (l *Ledger) lapsed(m *Message, at events.Instant) bool { return m.Leased && m.Visible <= at }

// inFlight says whether the message has a live lease.
func (l *Ledger) inFlight(m *Message, at events.Instant) bool { return m.Leased && m.Visible > at }

// movable says whether the message is spent and goes to the dead-letter queue once its last lease ends. It does not
// when its retention ends first: what comes first counts.
func (l *Ledger) movable(m *Message) bool {
	return l.spent(m) && !l.past(m.Info.Retained, m.Info.Expires, m.Visible)
}

// exhausted says whether the message waits only for its move to the dead-letter queue.
func (l *Ledger) exhausted(m *Message, at events.Instant) bool {
	return m.Visible <= at && l.movable(m)
}

// expired says whether the message is past its retention. A live lease may still be acked, so it is not.
func (l *Ledger) expired(m *Message, at events.Instant) bool {
	return l.past(m.Info.Retained, m.Info.Expires, at) && !l.inFlight(m, at) && !l.exhausted(m, at)
}

// past says whether retention, or the message's own expiry, has ended.
func (l *Ledger) past(retained, expires, at events.Instant) bool {
	return at >= retained.Add(l.Settings.RetentionSeconds) || expires != 0 && at >= expires
}

// Header gives the header of a ledger entry whose events are applied.
func (l *Ledger) Header(kind events.Kind, at events.Instant) *events.LedgerHeader {
	return &events.LedgerHeader{Kind: kind, At: at, High: l.High, Version: l.Version, Totals: l.Totals}
}

// Check panics with a sentence when the state contradicts itself. Tests call it after every step.
func (l *Ledger) Check() {
	p, held := &l.pending, 0
	var heads, leased, spent, grouped int
	count := func(n *int, is bool) {
		if is {
			*n++
		}
	}
	l.pending.byPosition.Scan(func(m *Message) bool {
		l.checkMessage(m)
		count(&held, m.Held)
		count(&leased, m.Leased)
		count(&spent, l.movable(m))
		count(&grouped, m.grouped())
		count(&heads, l.isHead(m))
		return true
	})
	must(held == p.held, "%d messages are held, counted %d", held, p.held)
	must(heads == p.heads.Len() && leased == p.leased.Len() && spent == p.spent.Len() && grouped == p.byGroup.Len(),
		"%d heads, %d leased, %d spent and %d with a group, in the orders %d, %d, %d and %d",
		heads, leased, spent, grouped, p.heads.Len(), p.leased.Len(), p.spent.Len(), p.byGroup.Len())
	must(l.Totals.Finished()+uint64(p.byPosition.Len()) == l.Seen,
		"%d finished and %d pending are not the %d seen", l.Totals.Finished(), p.byPosition.Len(), l.Seen)
}

// isHead says whether a message stands among the heads, as its record and those of its group have it.
func (l *Ledger) isHead(m *Message) bool {
	return !l.movable(m) && (!m.grouped() || l.pending.first(m.Info.Group) == m)
}

func (l *Ledger) checkMessage(m *Message) {
	p := &l.pending
	must(m.Position < l.Cursor, "message %d is pending at or beyond the cursor %d", m.Position, l.Cursor)
	must(!m.Held || m.Receives == 0, "message %d is held and was received", m.Position)
	must(m.Leased == (m.Lease != events.LeaseID{}), "message %d: leased %t, lease %x", m.Position, m.Leased, m.Lease)
	must(l.Settings.Fifo || !m.grouped(), "message %d has a group in a standard queue", m.Position)
	inLeased, _ := p.leased.Get(m)
	must((inLeased == m) == m.Leased, "message %d: leased %t, in that order %v", m.Position, m.Leased, inLeased)
	inSpent, _ := p.spent.Get(m)
	must((inSpent == m) == l.movable(m), "message %d: spent %t, in that order %v", m.Position, l.movable(m), inSpent)
	inHeads, _ := p.heads.Get(m)
	must((inHeads == m) == l.isHead(m), "message %d: head %t, in that order %v", m.Position, l.isHead(m), inHeads)
}

// must panics about a broken invariant. Its arguments cost memory when it holds, too: see broken.
func must(ok bool, format string, args ...any) {
	if !ok {
		broken(format, args...)
	}
}

// broken panics about a broken invariant. The broker recovers at its door and refuses the shard.
func broken(format string, args ...any) {
	panic("broken invariant: " + fmt.Sprintf(format, args...))
}

package queue

import (
	"fmt"

	"github.com/leaselog/leaselog/events"
)

// Evolve applies an event that stands in the log, or that is about to. It panics when the event contradicts the state:
// then log or program is wrong, and nothing may be guessed.
func (l *Ledger) Evolve(e events.Event) {
	switch e := e.(type) {
	case *events.Configured:
		l.configured(e)
	case *events.Leased:
		l.rise(e.At)
		for _, t := range e.Items {
			l.leased(e, t)
		}
	case *events.Passed:
		l.rise(e.At)
		for _, t := range e.Items {
			l.passed(t)
		}
	case *events.Extended:
		l.rise(e.At)
		for _, p := range e.Items {
			m := *l.known(p, e)
			m.Visible = e.Until
			l.put(&m)
		}
	case *events.Released:
		must(!e.Uncounted, "no rule for a release that does not count")
		l.rise(e.At)
		for _, p := range e.Items {
			m := *l.known(p, e)
			m.Visible, m.Leased, m.Lease = e.Visible, false, events.LeaseID{}
			l.put(&m)
		}
	case *events.Acked:
		l.finish(e.At, e.Items, &l.Totals.Acked, e)
	case *events.Moved:
		l.finish(e.At, e.Items, &l.Totals.Moved, e)
	case *events.Expired:
		l.finish(e.At, e.Items, &l.Totals.Expired, e)
		l.skip(e.To, e.Skipped, &l.Totals.Expired)
	case *events.Purged:
		l.purged(e)
	case *events.Arrived:
		l.rise(e.At)
		l.Totals.Arrived += uint64(len(e.IDs))
	case *events.Anchored:
		l.rise(e.At)
		l.overControl(e.Control)
	default:
		panic(fmt.Sprintf("no rule for the event %T", e))
	}
}

func (l *Ledger) rise(at events.Instant) { l.High = max(l.High, at) }

// known gives the pending message at p.
func (l *Ledger) known(p events.Position, e events.Event) *Message {
	m := l.pending.get(p)
	if m == nil {
		broken("%T of message %d, which is not pending; the cursor is at %d", e, p, l.Cursor)
	}
	return m
}

func (l *Ledger) configured(e *events.Configured) {
	must(e.Version > l.Version, "settings version %d after %d", e.Version, l.Version)
	l.rise(e.At)
	l.Settings, l.Version = e.Settings, e.Version
	l.overControl(e.Control)
	l.pending.reorder()
}

// overControl moves the cursor over a control entry that stands right at it. One that is further ahead is passed
// over, like every position without a message, when a later message is looked at.
func (l *Ledger) overControl(p events.Position) {
	if p == l.Cursor {
		l.Cursor++
	}
}

func (l *Ledger) leased(e *events.Leased, t events.Taken) {
	m := l.taken(t, e)
	m.Receives++
	m.Lease, m.Leased, m.Visible, m.Held = e.Lease, true, e.Until, false
	if m.First == 0 {
		m.First = e.At
	}
	l.Totals.Received++
	l.put(&m)
}

func (l *Ledger) passed(t events.Taken) {
	must(t.Info != nil, "message %d was passed over without its info", t.Position)
	m := l.taken(t, nil)
	m.Held = m.grouped()
	l.put(&m)
}

// taken gives a copy of a message, and moves the cursor when it is looked at for the first time.
func (l *Ledger) taken(t events.Taken, e events.Event) Message {
	if t.Info == nil {
		return *l.known(t.Position, e)
	}
	if t.Position < l.Cursor {
		broken("message %d is looked at again; the cursor is at %d", t.Position, l.Cursor)
	}
	l.Cursor = t.Position + 1
	l.Seen++
	return Message{Position: t.Position, Info: *t.Info, Visible: t.Info.Due}
}

func (l *Ledger) finish(at events.Instant, items []events.Position, total *uint64, e events.Event) {
	l.rise(at)
	for _, p := range items {
		l.remove(l.known(p, e))
	}
	*total += uint64(len(items))
}

// skip moves the cursor over messages that were finished without having been looked at.
func (l *Ledger) skip(to events.Position, messages uint64, total *uint64) {
	if to > l.Cursor {
		l.Cursor = to
		l.Seen += messages
		*total += messages
	}
}

func (l *Ledger) purged(e *events.Purged) {
	l.rise(e.At)
	var gone []*Message
	l.pending.byPosition.Scan(func(m *Message) bool {
		if m.Position < e.To {
			gone = append(gone, m)
		}
		return m.Position < e.To
	})
	for _, m := range gone {
		l.remove(m)
	}
	l.Totals.Purged += uint64(len(gone))
	l.skip(e.To, e.Messages-uint64(len(gone)), &l.Totals.Purged)
	l.overControl(e.Control)
}

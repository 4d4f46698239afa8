package queue

import (
	"fmt"

	"github.com/leaselog/leaselog/events"
	"github.com/leaselog/leaselog/internal/fault"
)

// Command asks for something to happen in a shard, at an instant that [InstantOf] gave.
type Command interface{ command() }

// Decision is what follows from a command: events to append, or a Need to see more of the log first.
type Decision struct {
	Events []events.Event
	// Need is set when the command must be decided again with more in view. Events are then empty.
	Need *Need
	// Again is set when the events moved the cursor but reached nothing to deliver: once they are applied, the same
	// command may find more.
	Again bool
	// Items are the outcomes of the items of an Ack or Extend, in their order.
	Items []Outcome
}

// Need says what a Lease must see.
type Need struct {
	From events.Position // blocks from here on
}

// Outcome says what became of one receipt.
type Outcome uint8

const (
	Done     Outcome = iota
	Ended            // its lease has lapsed, was released or was replaced
	Finished         // the message is not pending: the ledger's end may tell what became of it
)

// Decide gives what follows from a command. Its error is a fault that changes nothing. The state is not changed.
func Decide(l *Ledger, c Command) (Decision, error) {
	if _, ok := c.(*Configure); !ok && (l.Version == 0 || l.Settings.Status == events.Deleted || l.Settings.Status == events.Shredded) {
		return Decision{}, ErrDeleted()
	}
	switch c := c.(type) {
	case *Lease:
		return decideLease(l, c), nil
	case *Ack:
		return decideAck(l, c), nil
	case *Extend:
		return decideExtend(l, c), nil
	case *Expire:
		return decideExpire(l, c), nil
	case *Purge:
		return decidePurge(l, c), nil
	case *Move:
		return decideMove(l, c)
	case *Redrive:
		return decideRedrive(l, c)
	case *Arrive:
		return decideArrive(l, c)
	case *Anchor:
		return Decision{Events: []events.Event{&events.Anchored{At: c.At, Control: c.Control}}}, nil
	case *Configure:
		return decideConfigure(l, c), nil
	}
	panic(fmt.Sprintf("no rule for the command %T", c))
}

// ErrDeleted is the fault of every command to a queue that was deleted.
func ErrDeleted() error { return fault.New(fault.NotFound, "the queue does not exist; it was deleted") }

// Ack finishes messages by their leases.
type Ack struct {
	At    events.Instant
	Items []Held
	// Lapsed allows a lease that has lapsed, as long as nobody else has leased the message since.
	Lapsed bool
}

// Held names a message by its place and lease, as a receipt does.
type Held struct {
	Position events.Position
	Lease    events.LeaseID
}

// Extend sets the end of leases to At + Seconds; 0 seconds releases the message.
type Extend struct {
	At     events.Instant
	Items  []Extension
	Lapsed bool // as for Ack
}

// Extension is one lease to extend.
type Extension struct {
	Held
	Seconds uint32
}

// Configure puts settings in force. A version that is not above the present one changes nothing.
type Configure struct {
	At       events.Instant
	Version  uint64
	Settings events.Settings
	Control  events.Position // where the control entry of the same commit stands
	// To and Sent are those of an Expire at the same instant, under the settings so far.
	To   events.Position
	Sent uint64
}

// Purge finishes every message before To.
type Purge struct {
	At       events.Instant
	To       events.Position
	Sent     uint64          // messages that the stream holds before To
	Control  events.Position // where the control entry of the same commit stands
	Messages uint64          // set by Decide: how many were finished
}

// Anchor gives a ledger an entry that says nothing.
type Anchor struct {
	At      events.Instant
	Control events.Position // where the message stream's anchor of the same commit stands
}

func (*Lease) command()     {}
func (*Ack) command()       {}
func (*Extend) command()    {}
func (*Expire) command()    {}
func (*Anchor) command()    {}
func (*Purge) command()     {}
func (*Move) command()      {}
func (*Redrive) command()   {}
func (*Arrive) command()    {}
func (*Configure) command() {}

// outcome says whether a receipt's lease is live at an instant.
func (l *Ledger) outcome(h Held, at events.Instant, lapsed bool) Outcome {
	m := l.pending.get(h.Position)
	switch {
	case m == nil:
		return Finished
	case !m.Leased || m.Lease != h.Lease, l.lapsed(m, at) && (!lapsed || l.expired(m, at)):
		return Ended
	}
	return Done
}

func decideAck(l *Ledger, c *Ack) (d Decision) {
	taken := make(map[events.Position]bool, len(c.Items))
	for _, h := range c.Items {
		o := l.outcome(h, c.At, c.Lapsed)
		d.Items = append(d.Items, o)
		if o != Done || taken[h.Position] {
			continue // the same receipt twice in one command: done twice
		}
		taken[h.Position] = true
		if n := len(d.Events); n > 0 && d.Events[n-1].(*events.Acked).Lease == h.Lease {
			e := d.Events[n-1].(*events.Acked)
			e.Items = append(e.Items, h.Position)
			continue
		}
		d.Events = append(d.Events, &events.Acked{At: c.At, Lease: h.Lease, Items: []events.Position{h.Position}})
	}
	return d
}

func decideExtend(l *Ledger, c *Extend) (d Decision) {
	ended := make(map[events.Position]bool, len(c.Items))
	for _, x := range c.Items {
		o := l.outcome(x.Held, c.At, c.Lapsed)
		if o == Done && ended[x.Position] {
			o = Ended // released by an earlier item
		}
		d.Items = append(d.Items, o)
		if o != Done {
			continue
		}
		if x.Seconds == 0 {
			ended[x.Position] = true
			d.Events = append(d.Events, &events.Released{At: c.At, Visible: c.At, Items: []events.Position{x.Position}})
			continue
		}
		d.extend(c.At, c.At.Add(x.Seconds), x.Position)
	}
	return d
}

// extend adds a position to the last event where that says the same.
func (d *Decision) extend(at, until events.Instant, p events.Position) {
	if n := len(d.Events); n > 0 {
		if e, ok := d.Events[n-1].(*events.Extended); ok && e.Until == until {
			e.Items = append(e.Items, p)
			return
		}
	}
	d.Events = append(d.Events, &events.Extended{At: at, Until: until, Items: []events.Position{p}})
}

func decideConfigure(l *Ledger, c *Configure) (d Decision) {
	if c.Version <= l.Version {
		return d
	}
	// What is past its retention under the old settings does not come back under the new ones.
	if l.Version > 0 && c.Settings.RetentionSeconds > l.Settings.RetentionSeconds {
		d = decideExpire(l, &Expire{At: c.At, Max: l.Len(), To: c.To, Sent: c.Sent})
	}
	d.Events = append(d.Events, &events.Configured{At: c.At, Version: c.Version, Settings: c.Settings, Control: c.Control})
	return d
}

func decidePurge(l *Ledger, c *Purge) Decision {
	ahead := uint64(0)
	if c.To > l.Cursor {
		ahead = c.Sent - l.Seen
	}
	behind := uint64(0)
	l.Pending(0, func(m *Message) bool {
		if m.Position < c.To {
			behind++
		}
		return m.Position < c.To
	})
	c.Messages = ahead + behind
	return Decision{Events: []events.Event{&events.Purged{At: c.At, To: c.To, Messages: c.Messages, Control: c.Control}}}
}

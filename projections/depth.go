package projections

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/leaselog/leaselog/events"
	"github.com/leaselog/leaselog/internal/queue"
)

// Depth counts the messages of a shard and says how old they are, at any instant from the same view: it keeps what will
// change by itself, so that in-flight messages fall as their leases end though nothing happens.
//
// Changes are kept in buckets of a second, and take effect at a bucket's end and never before. Their counts are exact at
// each whole second, with two exceptions that keep the view below 200 KB: where there are more than 20,000 such seconds
// all buckets are wider, and messages that nobody looked at, written more than an hour ago, leave by their retention up to
// a minute late (ten minutes when they are older than a day).
var Depth = Projection{Name: "project-depth", View: "depth", New: func() Fold { return &depthFold{} }}

// DepthView is what is kept of one shard.
type DepthView struct {
	At      events.Instant      `cbor:"1,keyasint"` // the highest instant of the log here
	From    events.Instant      `cbor:"2,keyasint"` // nothing can be said of what was before
	Status  events.Status       `cbor:"3,keyasint,omitempty"`
	Retain  uint32              `cbor:"4,keyasint"` // seconds
	Sent    events.Totals       `cbor:"5,keyasint"` // since the shard's creation
	Totals  events.LedgerTotals `cbor:"6,keyasint"`
	Seen    uint64              `cbor:"7,keyasint,omitempty"` // how many of those sent were looked at
	Pending Counts              `cbor:"8,keyasint"`           // at From: those that were looked at
	Changes []byte              `cbor:"9,keyasint"`           // of Pending: packed steps
	Due     []byte              `cbor:"10,keyasint"`          // of those not looked at that are delayed: packed steps
	Ahead   []byte              `cbor:"11,keyasint"`          // when those not looked at were written: packed sums
	Oldest  []Waiting           `cbor:"12,keyasint"`          // those that wait longest, or will
}

// Counts of messages. Together they are all that are neither finished nor past their retention.
type Counts struct {
	Available int64 `cbor:"1,keyasint,omitempty"` // deliverable, or withheld only behind their group
	InFlight  int64 `cbor:"2,keyasint,omitempty"` // leased
	Delayed   int64 `cbor:"3,keyasint,omitempty"`
}

// Waiting is a message that is deliverable from Since until Until if nothing happens to it.
type Waiting struct {
	Since    events.Instant `cbor:"1,keyasint"`
	Until    events.Instant `cbor:"2,keyasint"`
	Enqueued events.Instant `cbor:"3,keyasint"` // when it was first sent, maybe to another queue
	position events.Position
}

// Ages of the deliverable message that has waited longest; both are 0 where none is deliverable. They are two, since a
// message that was moved here, or became visible again, has a past. Of messages that became deliverable at one instant
// any may tell the second.
type Ages struct {
	WaitingMillis int64 // since it became deliverable here
	TotalMillis   int64 // since it was first sent
}

// Reading is what a depth says at an instant.
type Reading struct {
	Counts
	Ages
	At   events.Instant
	Ends []Ends // of each shard
}

// waitingMax is how many of the messages that wait longest are kept, so that there is a next one when time takes one.
const waitingMax = 4

// lookBlocksMax bounds how far the first message is looked for that is not delayed.
const lookBlocksMax = 16

type depthFold struct {
	standing
	ahead ahead
	cold  bool
	known events.Position // up to where ahead was kept
}

// Start implements [Fold].
func (d *depthFold) Start(s Start) (uint64, error) {
	d.State = s.State
	if d.cold = s.Kept == nil; d.cold {
		return d.tail, nil
	}
	v, err := ReadDepth(s.Kept)
	if err == nil {
		d.ahead, err = unpackAhead(v.Ahead)
	}
	d.known = s.Ends.Messages
	return d.tail, err
}

// Messages implements [Fold]. Where nothing was kept, the messages ahead of the cursor are read once.
func (d *depthFold) Messages() events.Position {
	if d.cold {
		d.cold = false
		return min(d.ledger.Cursor, d.sender.Tail)
	}
	if d.known > 0 {
		from := min(d.known, d.sender.Tail)
		d.known = 0
		return from
	}
	return d.sender.Tail
}

// Message implements [Fold].
func (d *depthFold) Message(_ Entry, h *events.Header) { d.ahead.add(h) }

// View implements [Fold].
func (d *depthFold) View(look Look) ([]byte, error) {
	v := DepthView{At: d.high(), From: max(0, upTo(d.sender.Sure-lookBack, second)), Status: d.ledger.Settings.Status,
		Retain: d.ledger.Settings.RetentionSeconds, Sent: d.sender.Totals, Totals: d.ledger.Totals, Seen: d.ledger.Seen}
	d.ahead.settle(d.high(), d.ledger.Seen)
	v.Ahead = d.ahead.pack()
	changes, waiting := d.pending(v.From)
	v.Pending = changes.until(v.From).counts()
	v.Changes = slices.DeleteFunc(changes, func(s step) bool { return s.edge <= v.From }).pack()
	due, delayed := d.delayed()
	v.Due = due.pack()
	first, err := d.first(look)
	if err != nil {
		return nil, err
	}
	v.Oldest = longest(slices.Concat(waiting, delayed, first), v.From)
	if d.ledger.Totals.Arrived > 0 {
		for i := range v.Oldest {
			w := &v.Oldest[i]
			at, h, err := look(w.position)
			if err != nil {
				return nil, err
			}
			w.Enqueued = h.Enqueued(int(w.position - at))
		}
	}
	return events.EncodeRecord(v), nil
}

// pending gives the course of the messages that were looked at, from nothing on, and those that wait longest.
func (d *depthFold) pending(from events.Instant) (_ steps, waiting []Waiting) {
	all := course{}
	d.ledger.Pending(0, func(m *queue.Message) bool {
		leaves := d.ledger.LeavesAt(m)
		ends := m.Visible // of the lease or the delay
		if m.Leased {
			all.change(step{inFlight: 1})
			all.change(step{edge: ends, inFlight: -1})
		} else {
			ends = min(ends, leaves)
			all.change(step{delayed: 1})
			all.change(step{edge: ends, delayed: -1})
		}
		if leaves <= m.Visible {
			return true
		}
		all.change(step{edge: m.Visible, available: 1})
		if leaves < events.Never {
			all.change(step{edge: leaves, available: -1})
		}
		if waiting = append(waiting, Waiting{m.Visible, leaves, m.Info.Retained, m.Position}); len(waiting) > 1_000 {
			waiting = longest(waiting, from)
		}
		return true
	})
	return all.steps(), waiting
}

// delayed gives the course of the messages ahead that are not due, from nothing on, and those that will wait first.
func (d *depthFold) delayed() (_ steps, waiting []Waiting) {
	all := course{}
	d.sender.NotDue(func(p events.Position, due, sent events.Instant) bool {
		if p < d.ledger.Cursor {
			return true
		}
		leaves := sent.Add(d.ledger.Settings.RetentionSeconds)
		all.change(step{delayed: 1})
		all.change(step{edge: min(due, leaves), delayed: -1})
		if leaves > due && len(waiting) < waitingMax {
			waiting = append(waiting, Waiting{due, leaves, sent, p})
		}
		return true
	})
	return all.steps(), waiting
}

// first finds the message ahead that waits longest: in the first block that holds one without a delay. Of several there
// it is the one that was sent first.
func (d *depthFold) first(look Look) (found []Waiting, err error) {
	at := d.ledger.Cursor
	for n := 0; n < lookBlocksMax && at < d.sender.Tail; n++ {
		begin, h, err := look(at)
		if err != nil {
			return nil, err
		}
		var prompt *Waiting
		for i := int(at - begin); i < int(h.Count); i++ {
			w := Waiting{h.DueAt(i), h.High.Add(d.ledger.Settings.RetentionSeconds), h.Enqueued(i), begin + events.Position(i)}
			if h.DueAt(i) > h.At {
				found = append(found, w)
			} else if prompt == nil || w.Enqueued < prompt.Enqueued {
				prompt = &w
			}
		}
		if prompt != nil {
			return append(found, *prompt), nil
		}
		at = begin + events.Position(h.Width())
	}
	return found, nil
}

// longest keeps those that wait longest, each once.
func longest(all []Waiting, from events.Instant) []Waiting {
	all = slices.DeleteFunc(all, func(w Waiting) bool { return w.Until <= from || w.Until <= w.Since })
	slices.SortFunc(all, func(a, b Waiting) int {
		return cmp.Or(cmp.Compare(a.Since, b.Since), cmp.Compare(a.position, b.position), cmp.Compare(b.Until, a.Until))
	})
	all = slices.CompactFunc(all, func(a, b Waiting) bool { return a.position == b.position })
	return all[:min(len(all), waitingMax)]
}

func (s step) counts() Counts { return Counts{s.available, s.inFlight, s.delayed} }

// ReadDepth reads the view of one shard.
func ReadDepth(view []byte) (v DepthView, err error) {
	if err = events.DecodeRecord(view, &v); err != nil {
		err = fmt.Errorf("depth view: %w", err)
	}
	return v, err
}

// ReadKeptDepth counts at an instant by what a store keeps of one shard. high is the highest instant of the log in it.
func ReadKeptDepth(kept []byte, at events.Instant) (r Reading, high events.Instant, err error) {
	ends, view, err := Unpack(kept)
	if err != nil {
		return r, 0, err
	}
	v, err := ReadDepth(view)
	if err != nil {
		return r, 0, err
	}
	r, err = v.ReadAt(at)
	r.Ends = []Ends{ends}
	return r, v.At, err
}

// ReadAt counts at an instant, or at From where that is later. Its ends are the caller's to add.
func (v *DepthView) ReadAt(at events.Instant) (r Reading, err error) {
	at = max(at, v.From)
	changes, err := unpackSteps(v.Changes)
	if err != nil {
		return r, err
	}
	due, err := unpackSteps(v.Due)
	if err != nil {
		return r, err
	}
	a, err := unpackAhead(v.Ahead)
	if err != nil {
		return r, err
	}
	alive := int64(v.Sent.Messages - max(v.Seen, a.gone(v.Retain, at)))
	delayed := min(alive, due.until(at).delayed)
	sum := changes.until(at)
	r.Counts = Counts{v.Pending.Available + sum.available + alive - delayed, v.Pending.InFlight + sum.inFlight, v.Pending.Delayed + sum.delayed + delayed}
	r.At = at
	if r.Available > 0 {
		r.Ages = v.ages(at, a, alive > delayed)
	}
	return r, nil
}

// ages gives the ages at an instant when something is deliverable; ahead says that some of it was not looked at.
func (v *DepthView) ages(at events.Instant, a ahead, ahead bool) (ages Ages) {
	all := slices.Clone(v.Oldest)
	// Where time has taken the first message that nobody looked at, the next ones are known by their bucket only.
	if i := a.expired(v.Retain, at); ahead && i > 0 && i < len(a) {
		all = append(all, Waiting{Since: a[i].edge, Until: events.Never, Enqueued: a[i].edge})
	}
	for _, w := range all {
		waited := int64(at - w.Since)
		if waited < 0 || at >= w.Until || waited < ages.WaitingMillis {
			continue
		}
		if waited > ages.WaitingMillis {
			ages = Ages{WaitingMillis: waited}
		}
		ages.TotalMillis = max(ages.TotalMillis, int64(at-w.Enqueued))
	}
	return ages
}

// Add merges the readings of a queue's shards at one instant.
func (r *Reading) Add(o Reading) {
	r.Available += o.Available
	r.InFlight += o.InFlight
	r.Delayed += o.Delayed
	r.WaitingMillis = max(r.WaitingMillis, o.WaitingMillis)
	r.TotalMillis = max(r.TotalMillis, o.TotalMillis)
	r.At = max(r.At, o.At)
	r.Ends = append(r.Ends, o.Ends...)
}

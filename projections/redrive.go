package projections

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/leaselog/leaselog/events"
	"github.com/leaselog/leaselog/internal/queue"
)

// Redrive knows where the messages of a shard came from that a move brought there: of a dead-letter queue, its sources.
//
// Messages of one source that follow each other are one run. More than 10,000 runs are not kept, about 60 KB: then the
// counts still are, and the next process makes the runs from the log again.
var Redrive = Projection{Name: "project-redrive", View: "redrive", New: func() Fold { return &redriveFold{} }}

// RedriveView is what is kept of one shard.
type RedriveView struct {
	At      events.Instant `cbor:"1,keyasint"`           // the highest instant of the log here
	Sources []Source       `cbor:"2,keyasint"`           // in the order of their ids
	Runs    []byte         `cbor:"3,keyasint,omitempty"` // packed, nothing where there are too many
	More    bool           `cbor:"4,keyasint,omitempty"` // there are too many runs
}

// Source is a queue from which messages came, and how many of them are here and not finished. One that is past its
// retention counts until it is discarded.
type Source struct {
	Queue    events.QueueID `cbor:"1,keyasint"`
	Messages uint64         `cbor:"2,keyasint"`
}

const runsMax = 10_000

// origin is a run of messages in [from, to) that came from one queue.
type origin struct {
	from, to events.Position
	queue    events.QueueID
}

type redriveFold struct {
	standing
	origins []origin // by position; some may be finished
	cold    bool
	known   events.Position // up to where origins reach
	early   bool            // the message stream is to be read from before its fold's tail
}

// Start implements [Fold].
func (r *redriveFold) Start(s Start) (uint64, error) {
	r.State = s.State
	r.cold, r.early = true, true
	if s.Kept == nil {
		return r.tail, nil
	}
	v, err := ReadRedrive(s.Kept)
	if err != nil || v.More {
		return r.tail, err
	}
	r.cold, r.known = false, s.Ends.Messages
	r.origins, err = v.unpack()
	return r.tail, err
}

// Messages implements [Fold]. Where nothing was kept, the messages ahead of the cursor are read once; View looks at those
// behind it.
func (r *redriveFold) Messages() events.Position {
	from := r.sender.Tail
	if r.early {
		r.early = false
		if r.cold {
			r.known = r.ledger.Cursor
		}
		from = min(r.known, from)
	}
	return from
}

// Message implements [Fold].
func (r *redriveFold) Message(e Entry, h *events.Header) {
	for i := range h.Origins {
		if p := events.Position(e.Seq) + events.Position(i); p >= r.known && r.alive(p) {
			r.came(p, h.Origins[i].Queue)
		}
	}
	r.known = max(r.known, events.Position(e.Next))
}

func (r *redriveFold) came(p events.Position, from events.QueueID) {
	if n := len(r.origins); n > 0 && r.origins[n-1].to == p && r.origins[n-1].queue == from {
		r.origins[n-1].to++
		return
	}
	r.origins = append(r.origins, origin{p, p + 1, from})
}

// View implements [Fold].
func (r *redriveFold) View(look Look) ([]byte, error) {
	if r.cold && r.ledger.Totals.Arrived > 0 {
		if err := r.lookBehind(look); err != nil {
			return nil, err
		}
	}
	r.cold = false
	all := r.origins
	r.origins = nil
	for _, o := range all { // what is finished has left
		for o.from < min(o.to, r.ledger.Cursor) {
			if r.ledger.Get(o.from) != nil {
				r.came(o.from, o.queue)
			}
			o.from++
		}
		if n := len(r.origins); n > 0 && r.origins[n-1].to == o.from && r.origins[n-1].queue == o.queue {
			r.origins[n-1].to = o.to
		} else if o.from < o.to {
			r.origins = append(r.origins, o)
		}
	}
	v := RedriveView{At: r.high(), More: len(r.origins) > runsMax}
	for _, o := range r.origins {
		i, found := slices.BinarySearchFunc(v.Sources, o.queue, func(s Source, id events.QueueID) int { return bytes.Compare(s.Queue[:], id[:]) })
		if !found {
			v.Sources = slices.Insert(v.Sources, i, Source{Queue: o.queue})
		}
		v.Sources[i].Messages += uint64(o.to - o.from)
	}
	if !v.More {
		v.pack(r.origins)
	}
	return events.EncodeRecord(v), nil
}

// lookBehind finds where the messages came from that are pending.
func (r *redriveFold) lookBehind(look Look) (err error) {
	ahead := r.origins
	r.origins = nil
	r.ledger.Pending(0, func(m *queue.Message) bool {
		var at events.Position
		var h *events.Header
		if at, h, err = look(m.Position); err == nil {
			if o := h.Origin(int(m.Position - at)); o != nil {
				r.came(m.Position, o.Queue)
			}
		}
		return err == nil
	})
	for _, o := range ahead {
		if o.from = max(o.from, r.ledger.Cursor); o.from < o.to { // or it is among those
			r.origins = append(r.origins, o)
		}
	}
	return err
}

// pack gives the runs as differences, each with the place of its source in the list.
func (v *RedriveView) pack(all []origin) {
	var last events.Position
	for _, o := range all {
		i, _ := slices.BinarySearchFunc(v.Sources, o.queue, func(s Source, id events.QueueID) int { return bytes.Compare(s.Queue[:], id[:]) })
		v.Runs = binary.AppendUvarint(v.Runs, uint64(o.from-last))
		v.Runs = binary.AppendUvarint(v.Runs, uint64(o.to-o.from))
		v.Runs = binary.AppendUvarint(v.Runs, uint64(i))
		last = o.to
	}
}

func (v *RedriveView) unpack() (all []origin, err error) {
	var last events.Position
	for n := (&reader{in: v.Runs}); len(n.in) > 0; {
		o := origin{from: last + events.Position(n.next())}
		o.to = o.from + events.Position(n.next())
		i := n.next()
		if n.err != nil || i >= uint64(len(v.Sources)) {
			return nil, cmp.Or(n.err, errShort)
		}
		o.queue, last = v.Sources[i].Queue, o.to
		all = append(all, o)
	}
	return all, nil
}

// ReadRedrive reads the view of one shard.
func ReadRedrive(view []byte) (v RedriveView, err error) {
	if err = events.DecodeRecord(view, &v); err != nil {
		err = fmt.Errorf("redrive view: %w", err)
	}
	return v, err
}

// Add merges the views of a queue's shards. Runs are of one shard, and are not merged.
func (v *RedriveView) Add(o RedriveView) {
	v.At, v.Runs, v.More = max(v.At, o.At), nil, v.More || o.More
	for _, s := range o.Sources {
		i, found := slices.BinarySearchFunc(v.Sources, s.Queue, func(s Source, id events.QueueID) int { return bytes.Compare(s.Queue[:], id[:]) })
		if !found {
			v.Sources = slices.Insert(v.Sources, i, Source{Queue: s.Queue})
		}
		v.Sources[i].Messages += s.Messages
	}
}

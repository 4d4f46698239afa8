package projections

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/leaselog/leaselog/events"
)

// Traffic counts what happened in each minute of the last day. A view has at most 1,441 minutes of some 30 bytes.
var Traffic = Projection{Name: "project-traffic", View: "traffic", History: aDay, New: func() Fold { return &trafficFold{minutes: map[events.Instant]*Minute{}} }}

// TrafficView is what is kept of one shard.
type TrafficView struct {
	At      events.Instant `cbor:"1,keyasint"` // the highest instant of the log here
	Minutes []Minute       `cbor:"2,keyasint"` // in order; one in which nothing happened is left out
}

// Minute counts what was decided in a minute.
type Minute struct {
	_            struct{} `cbor:",toarray"`
	Begin        events.Instant
	Sent         uint64
	Bytes        uint64 // of what was sent
	Received     uint64
	Acked        uint64
	Expired      uint64
	DeadLettered uint64
}

func (m *Minute) add(o *Minute) {
	m.Sent += o.Sent
	m.Bytes += o.Bytes
	m.Received += o.Received
	m.Acked += o.Acked
	m.Expired += o.Expired
	m.DeadLettered += o.DeadLettered
}

type trafficFold struct {
	ends    Ends
	at      events.Instant
	minutes map[events.Instant]*Minute
}

// Start implements [Fold].
func (t *trafficFold) Start(s Start) (uint64, error) {
	t.ends = s.Ends
	if s.Kept == nil {
		return t.ends.Ledger, nil
	}
	v, err := ReadTraffic(s.Kept)
	t.at = v.At
	for _, m := range v.Minutes {
		t.minutes[m.Begin] = &m
	}
	return t.ends.Ledger, err
}

// count adds what an entry tells to the minute in which it was decided.
func (t *trafficFold) count(at, high events.Instant, m Minute) {
	t.at = max(t.at, high)
	begin := at - at%aMinute
	m.Begin = begin
	if m == (Minute{Begin: begin}) {
		return
	}
	if into := t.minutes[begin]; into != nil {
		into.add(&m)
		return
	}
	t.minutes[begin] = &m
}

// Ledger implements [Fold].
func (t *trafficFold) Ledger(e Entry, h *events.LedgerHeader, happened []events.Event) {
	var m Minute
	for _, ev := range happened {
		switch ev := ev.(type) {
		case *events.Leased:
			m.Received += uint64(len(ev.Items))
		case *events.Acked:
			m.Acked += uint64(len(ev.Items))
		case *events.Expired:
			m.Expired += uint64(len(ev.Items)) + ev.Skipped
		case *events.Moved:
			if ev.Reason == events.Exhausted {
				m.DeadLettered += uint64(len(ev.Items))
			}
		}
	}
	t.count(h.At, h.High, m)
	t.ends.Ledger = e.Next
}

// Messages implements [Fold].
func (t *trafficFold) Messages() events.Position { return t.ends.Messages }

// Message implements [Fold].
func (t *trafficFold) Message(e Entry, h *events.Header) {
	var m Minute
	if len(h.Origins) == 0 { // what a move brought was not sent
		m.Sent, m.Bytes = uint64(h.Count), h.Bytes
	}
	t.count(h.At, h.High, m)
	t.ends.Messages = events.Position(e.Next)
}

// Ends implements [Fold].
func (t *trafficFold) Ends() Ends { return t.ends }

// View implements [Fold]. Minutes that began more than a day ago are forgotten.
func (t *trafficFold) View(Look) ([]byte, error) {
	v := TrafficView{At: t.at}
	for begin, m := range t.minutes {
		if begin < t.at-aDay {
			delete(t.minutes, begin)
			continue
		}
		v.Minutes = append(v.Minutes, *m)
	}
	slices.SortFunc(v.Minutes, func(a, b Minute) int { return cmp.Compare(a.Begin, b.Begin) })
	return events.EncodeRecord(v), nil
}

// ReadTraffic reads the view of one shard.
func ReadTraffic(view []byte) (v TrafficView, err error) {
	if err = events.DecodeRecord(view, &v); err != nil {
		err = fmt.Errorf("traffic view: %w", err)
	}
	return v, err
}

// Add merges the views of a queue's shards.
func (v *TrafficView) Add(o TrafficView) {
	v.At = max(v.At, o.At)
	for _, m := range o.Minutes {
		i, found := slices.BinarySearchFunc(v.Minutes, m.Begin, func(m Minute, begin events.Instant) int { return cmp.Compare(m.Begin, begin) })
		if found {
			v.Minutes[i].add(&m)
		} else {
			v.Minutes = slices.Insert(v.Minutes, i, m)
		}
	}
}

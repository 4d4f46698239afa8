package projections

import (
	"cmp"
	"encoding/binary"
	"errors"
	"slices"

	"github.com/leaselog/leaselog/events"
)

const (
	second   = events.Instant(1_000)
	aMinute  = 60 * second
	tenMin   = 10 * aMinute
	hour     = 60 * aMinute
	aDay     = 24 * hour
	lookBack = aMinute // by how much a clock may be behind the log, as package queue has it
)

// upTo gives the edge of the bucket that holds an instant: the first whole width at or after it.
func upTo(at, width events.Instant) events.Instant {
	if over := at % width; over != 0 {
		return at - over + width
	}
	return at
}

// ahead remembers when the messages were written that nobody has looked at, as sums: up to each edge, how many messages
// the stream has held. Whose retention ends when, follows. What is old has wide buckets, so that it stays small: a second
// for an hour, a minute for a day, ten minutes for what is older; 7,000 buckets for two weeks without a pause.
type ahead []run

type run struct {
	edge  events.Instant
	total uint64
}

// add takes an entry. One that is in the sums already changes nothing.
func (a *ahead) add(h *events.Header) {
	total, last := h.Totals.Messages, len(*a)-1
	edge := upTo(h.High, second)
	switch {
	case h.Count == 0 || last >= 0 && total <= (*a)[last].total:
	case last >= 0 && edge <= (*a)[last].edge: // a wide bucket may end after it
		(*a)[last].total = total
	default:
		*a = append(*a, run{edge, total})
	}
}

// settle forgets what was looked at, and widens what has become old at an instant. Each width is a part of the next and
// the instant only rises, so it does not matter how often that was done before.
func (a *ahead) settle(high events.Instant, seen uint64) {
	var kept ahead
	for _, r := range *a {
		if r.total <= seen {
			continue
		}
		r.edge = upTo(r.edge, width(high-upTo(r.edge, tenMin)))
		if n := len(kept); n > 0 && r.edge <= kept[n-1].edge {
			kept[n-1].total = r.total
			continue
		}
		kept = append(kept, r)
	}
	*a = kept
}

func width(age events.Instant) events.Instant {
	switch {
	case age > aDay:
		return tenMin
	case age > hour:
		return aMinute
	}
	return second
}

// expired is how many of the buckets are past a retention: all that are before the first one that is not.
func (a ahead) expired(retention uint32, at events.Instant) (n int) {
	for n < len(a) && a[n].edge.Add(retention) <= at {
		n++
	}
	return n
}

// gone is how many messages the stream had held when the last of those was written that are past a retention.
func (a ahead) gone(retention uint32, at events.Instant) uint64 {
	if n := a.expired(retention, at); n > 0 {
		return a[n-1].total
	}
	return 0
}

// pack gives the sums as differences.
func (a ahead) pack() (out []byte) {
	var last run
	for _, r := range a {
		out = binary.AppendUvarint(out, uint64((r.edge-last.edge)/second))
		out = binary.AppendUvarint(out, r.total-last.total)
		last = r
	}
	return out
}

func unpackAhead(in []byte) (a ahead, err error) {
	var last run
	for n := (&reader{in: in}); len(n.in) > 0; err = n.err {
		last.edge += events.Instant(n.next()) * second
		last.total += n.next()
		a = append(a, last)
	}
	return a, err
}

// reader takes packed numbers one by one.
type reader struct {
	in  []byte
	err error
}

var errShort = errors.New("a view ends inside a number")

func (r *reader) next() uint64 {
	v, n := binary.Uvarint(r.in)
	if n <= 0 {
		r.in, r.err = nil, errShort
		return 0
	}
	r.in = r.in[n:]
	return v
}

func (r *reader) signed() int64 {
	v := r.next()
	return int64(v>>1) ^ -int64(v&1)
}

// steps are what changes at edges, in their order.
type steps []step

type step struct {
	edge                         events.Instant
	available, inFlight, delayed int64
}

// stepsMax bounds the edges of a view, at some 6 bytes each. Where there are more the buckets are wider.
const stepsMax = 20_000

// course is what changes in each second, so that many changes in one take no more room than one.
type course map[events.Instant]step

func (c course) change(x step) {
	x.edge = upTo(x.edge, second)
	sum := c[x.edge]
	sum.edge = x.edge
	sum.add(x)
	c[x.edge] = sum
}

// steps gives the changes in buckets of a second, unless that gives too many of them.
func (c course) steps() steps {
	s := make(steps, 0, len(c))
	for _, x := range c {
		s = append(s, x)
	}
	slices.SortFunc(s, func(a, b step) int { return cmp.Compare(a.edge, b.edge) })
	for _, w := range []events.Instant{second, 10 * second, aMinute, tenMin, hour} {
		for i := range s {
			s[i].edge = upTo(s[i].edge, w)
		}
		if s = s.merged(); len(s) <= stepsMax {
			break
		}
	}
	return s
}

// merged adds up what has the same edge, and leaves out what changes nothing.
func (s steps) merged() steps {
	out := s[:0]
	for _, x := range s {
		if n := len(out); n > 0 && out[n-1].edge == x.edge {
			out[n-1].add(x)
		} else {
			out = append(out, x)
		}
	}
	return slices.DeleteFunc(out, func(x step) bool { return x.available == 0 && x.inFlight == 0 && x.delayed == 0 })
}

func (s *step) add(x step) {
	s.available += x.available
	s.inFlight += x.inFlight
	s.delayed += x.delayed
}

// until adds up what has changed up to an instant.
func (s steps) until(at events.Instant) (sum step) {
	for _, x := range s {
		if x.edge > at {
			break
		}
		sum.add(x)
	}
	return sum
}

func (s steps) pack() (out []byte) {
	var last events.Instant
	for _, x := range s {
		out = binary.AppendUvarint(out, uint64((x.edge-last)/second))
		for _, n := range []int64{x.available, x.inFlight, x.delayed} {
			out = binary.AppendVarint(out, n)
		}
		last = x.edge
	}
	return out
}

func unpackSteps(in []byte) (s steps, err error) {
	var at events.Instant
	for n := (&reader{in: in}); len(n.in) > 0; err = n.err {
		at += events.Instant(n.next()) * second
		s = append(s, step{at, n.signed(), n.signed(), n.signed()})
	}
	return s, err
}

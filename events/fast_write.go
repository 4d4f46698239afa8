package events

import (
	"encoding/binary"
	"math"
)

// This file writes and reads without reflection what the message path writes for every message: headers, messages, and
// the events of leases. The format is that of the codec: these functions write what the library writes, byte by byte,
// and whatever they do not read, the library decides about. Tests hold both equal for any value and any bytes.

// The major types of CBOR that occur here (RFC 8949, 3.1), in the place where they stand in a head.
const (
	majorUint  = 0 << 5
	majorMinus = 1 << 5
	majorBytes = 2 << 5
	majorText  = 3 << 5
	majorArray = 4 << 5
	majorMap   = 5 << 5
)

// writer appends CBOR in the core deterministic form. All keys and numbers of fields are below 24.
type writer struct{ b []byte }

// object begins a map and gives the place of its head, which counts its fields.
func (w *writer) object() (at int) {
	w.b = append(w.b, majorMap)
	return len(w.b) - 1
}

func (w *writer) field(object int, key byte) {
	w.b[object]++
	w.b = append(w.b, key)
}

func (w *writer) head(major byte, n uint64) {
	switch {
	case n < 24:
		w.b = append(w.b, major|byte(n))
	case n <= math.MaxUint8:
		w.b = append(w.b, major|24, byte(n))
	case n <= math.MaxUint16:
		w.b = binary.BigEndian.AppendUint16(append(w.b, major|25), uint16(n))
	case n <= math.MaxUint32:
		w.b = binary.BigEndian.AppendUint32(append(w.b, major|26), uint32(n))
	default:
		w.b = binary.BigEndian.AppendUint64(append(w.b, major|27), n)
	}
}

func (w *writer) uint(n uint64) { w.head(majorUint, n) }

func (w *writer) instant(i Instant) {
	if i < 0 {
		w.head(majorMinus, uint64(^i))
		return
	}
	w.uint(uint64(i))
}

func (w *writer) bytes(b []byte) {
	w.head(majorBytes, uint64(len(b)))
	w.b = append(w.b, b...)
}

func (w *writer) text(s string) {
	w.head(majorText, uint64(len(s)))
	w.b = append(w.b, s...)
}

func (w *writer) uintField(object int, key byte, n uint64) {
	w.field(object, key)
	w.uint(n)
}

func (w *writer) instantField(object int, key byte, i Instant) {
	w.field(object, key)
	w.instant(i)
}

func (w *writer) bytesField(object int, key byte, b []byte) {
	w.field(object, key)
	w.bytes(b)
}

// The some- functions leave out what is zero or empty.
func (w *writer) someUint(object int, key byte, n uint64) {
	if n != 0 {
		w.uintField(object, key, n)
	}
}

func (w *writer) someBytes(object int, key byte, b []byte) {
	if len(b) > 0 {
		w.bytesField(object, key, b)
	}
}

func (w *writer) someText(object int, key byte, s string) {
	if s != "" {
		w.field(object, key)
		w.text(s)
	}
}

func (w *writer) someInstants(object int, key byte, all []Instant) {
	if len(all) == 0 {
		return
	}
	w.field(object, key)
	w.head(majorArray, uint64(len(all)))
	for _, i := range all {
		w.instant(i)
	}
}

func (w *writer) positions(object int, key byte, all []Position) {
	w.field(object, key)
	w.head(majorArray, uint64(len(all)))
	for _, p := range all {
		w.uint(uint64(p))
	}
}

// event writes an event of the message path, and says false of another one.
func (w *writer) event(e Event) bool {
	switch e := e.(type) {
	case *Leased:
		at := w.payload(e)
		w.instantField(at, 1, e.At)
		w.bytesField(at, 2, e.Lease[:])
		w.instantField(at, 3, e.Until)
		w.taken(at, 4, e.Items)
	case *Passed:
		at := w.payload(e)
		w.instantField(at, 1, e.At)
		w.taken(at, 2, e.Items)
	case *Acked:
		at := w.payload(e)
		w.instantField(at, 1, e.At)
		w.bytesField(at, 2, e.Lease[:])
		w.positions(at, 3, e.Items)
	default:
		return false
	}
	return true
}

// payload begins an event of version 1.
func (w *writer) payload(e Event) (object int) {
	w.b = append(w.b, majorArray|3, byte(e.number()), 1)
	return w.object()
}

func (w *writer) taken(object int, key byte, all []Taken) {
	w.field(object, key)
	w.head(majorArray, uint64(len(all)))
	for i := range all {
		t := w.object()
		w.uintField(t, 1, uint64(all[i].Position))
		if all[i].Info != nil {
			w.field(t, 2)
			w.info(all[i].Info)
		}
	}
}

func (w *writer) info(i *Info) {
	at := w.object()
	if i.Group != (Hash{}) {
		w.bytesField(at, 1, i.Group[:])
	}
	w.instantField(at, 2, i.Retained)
	w.instantField(at, 3, i.Due)
	if i.Expires != 0 {
		w.instantField(at, 4, i.Expires)
	}
	w.someUint(at, 5, uint64(i.Limit))
	w.someUint(at, 6, uint64(i.Key))
}

func (w *writer) ledgerHeader(h *LedgerHeader) {
	at := w.object()
	w.someUint(at, 1, uint64(h.Kind))
	w.instantField(at, 2, h.At)
	w.instantField(at, 3, h.High)
	w.uintField(at, 4, h.Version)
	w.field(at, 5)
	t := w.object()
	for i, n := range [...]uint64{h.Totals.Received, h.Totals.Acked, h.Totals.Expired, h.Totals.Purged, h.Totals.Moved, h.Totals.Arrived} {
		w.someUint(t, byte(i+1), n)
	}
}

// header writes the header of a block whose messages were sent here, and says false of another one.
func (w *writer) header(h *Header) bool {
	if h.Kind != Block || len(h.Origins) > 0 || h.Settings != nil || h.Forgets || h.Finished != 0 {
		return false
	}
	at := w.object()
	w.bytesField(at, 2, h.ID[:])
	w.instantField(at, 3, h.At)
	w.instantField(at, 4, h.High)
	w.someUint(at, 5, uint64(h.Count))
	w.someUint(at, 6, h.Bytes)
	w.field(at, 7)
	t := w.object()
	w.someUint(t, 1, h.Totals.Messages)
	w.someUint(t, 2, h.Totals.Bytes)
	w.uintField(at, 8, h.Version)
	w.someUint(at, 9, h.Epoch)
	w.someUint(at, 10, uint64(h.Key))
	w.someBytes(at, 11, h.Groups)
	w.someBytes(at, 12, h.Dedups)
	w.someInstants(at, 13, h.Due)
	w.someInstants(at, 14, h.Expires)
	if len(h.Limits) > 0 {
		w.field(at, 15)
		w.head(majorArray, uint64(len(h.Limits)))
		for _, n := range h.Limits {
			w.uint(uint64(n))
		}
	}
	return true
}

func (w *writer) messages(all []Message) {
	w.head(majorArray, uint64(len(all)))
	for i := range all {
		m := &all[i]
		at := w.object()
		w.bytesField(at, 1, m.Body)
		if len(m.Attributes) > 0 {
			w.field(at, 2)
			w.attributes(m.Attributes)
		}
		for i, s := range [...]string{m.Group, m.Dedup, m.Trace, m.Sender, m.DeadLetter} {
			w.someText(at, byte(i+3), s)
		}
	}
}

func (w *writer) attributes(all []Attribute) {
	w.head(majorArray, uint64(len(all)))
	for _, a := range all {
		at := w.object()
		w.field(at, 1)
		w.text(a.Name)
		w.field(at, 2)
		w.text(a.Type)
		w.bytesField(at, 3, a.Value)
	}
}

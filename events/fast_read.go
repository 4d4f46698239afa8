package events

import "math"

// reader reads what writer writes. It is bad as soon as it meets anything else; what was read is then of no use.
type reader struct {
	b   []byte
	bad bool
}

// done says whether everything there is was read.
func (r *reader) done() bool { return !r.bad && len(r.b) == 0 }

// object reads the head of a map.
func (r *reader) object() fields { return fields{r, r.head(majorMap)} }

// fields are those of a map that were not read yet.
type fields struct {
	r    *reader
	left uint64
}

// has reads the next key where it is this one.
func (f *fields) has(key byte) bool {
	if f.left == 0 || len(f.r.b) == 0 || f.r.b[0] != key {
		return false
	}
	f.left--
	f.r.b = f.r.b[1:]
	return true
}

// end says that no other field is known.
func (f *fields) end() {
	if f.left != 0 {
		f.r.bad = true
	}
}

// head reads the head of an item of this major type and gives its number.
func (r *reader) head(major byte) uint64 {
	if r.bad || len(r.b) == 0 || r.b[0]&0xe0 != major {
		r.bad = true
		return 0
	}
	n := uint64(r.b[0] & 0x1f)
	r.b = r.b[1:]
	if n < 24 {
		return n
	}
	size := 1 << (n - 24)
	if n > 27 || len(r.b) < size {
		r.bad = true
		return 0
	}
	n = 0
	for _, c := range r.b[:size] {
		n = n<<8 | uint64(c)
	}
	r.b = r.b[size:]
	return n
}

func (r *reader) upTo(most uint64) uint64 {
	n := r.head(majorUint)
	if n > most {
		r.bad = true
	}
	return n
}

func (r *reader) uint() uint64       { return r.head(majorUint) }
func (r *reader) uint32() uint32     { return uint32(r.upTo(math.MaxUint32)) }
func (r *reader) instant() Instant   { return Instant(r.upTo(math.MaxInt64)) }
func (r *reader) position() Position { return Position(r.uint()) }

// run reads bytes or text, without a copy.
func (r *reader) run(major byte) []byte {
	n := r.head(major)
	if n > uint64(len(r.b)) {
		r.bad = true
	}
	if r.bad {
		return nil
	}
	run := r.b[:n:n]
	r.b = r.b[n:]
	return run
}

func (r *reader) text() string { return string(r.run(majorText)) }

// fixed reads exactly as many bytes as into has.
func (r *reader) fixed(into []byte) {
	b := r.run(majorBytes)
	if copy(into, b) != len(into) || len(b) != len(into) {
		r.bad = true
	}
}

// arrayMax is the codec's limit.
const arrayMax = 1 << 20

// array reads the head of an array. Each element has at least one byte, so that what is made for it is bounded.
func (r *reader) array() int {
	n := r.head(majorArray)
	if n > arrayMax || n > uint64(len(r.b)) {
		r.bad = true
		return 0
	}
	return int(n)
}

func readArray[T any](r *reader, one func(*reader) T) []T {
	all := make([]T, r.array())
	for i := range all {
		all[i] = one(r)
		if r.bad {
			return nil
		}
	}
	return all
}

// event reads an event of the message path.
func (r *reader) event() (e Event) {
	if r.head(majorArray) != 3 {
		r.bad = true
	}
	number, version := r.uint(), r.uint()
	if version != 1 {
		r.bad = true
	}
	if r.bad {
		return nil
	}
	switch number {
	case new(Leased).number():
		return r.leased()
	case new(Passed).number():
		e := new(Passed)
		f := r.object()
		if f.has(1) {
			e.At = r.instant()
		}
		if f.has(2) {
			e.Items = r.taken()
		}
		f.end()
		return e
	case new(Acked).number():
		return r.acked()
	}
	r.bad = true
	return nil
}

func (r *reader) leased() *Leased {
	e := new(Leased)
	f := r.object()
	if f.has(1) {
		e.At = r.instant()
	}
	if f.has(2) {
		r.fixed(e.Lease[:])
	}
	if f.has(3) {
		e.Until = r.instant()
	}
	if f.has(4) {
		e.Items = r.taken()
	}
	f.end()
	return e
}

func (r *reader) acked() *Acked {
	e := new(Acked)
	f := r.object()
	if f.has(1) {
		e.At = r.instant()
	}
	if f.has(2) {
		r.fixed(e.Lease[:])
	}
	if f.has(3) {
		e.Items = readArray(r, (*reader).position)
	}
	f.end()
	return e
}

func (r *reader) taken() []Taken {
	all := make([]Taken, r.array())
	var infos []Info // one allocation for all of them
	for i := range all {
		f := r.object()
		if f.has(1) {
			all[i].Position = r.position()
		}
		if f.has(2) {
			if infos == nil {
				infos = make([]Info, len(all)-i)
			}
			all[i].Info, infos = &infos[0], infos[1:]
			r.info(all[i].Info)
		}
		f.end()
		if r.bad {
			return nil
		}
	}
	return all
}

func (r *reader) info(i *Info) {
	f := r.object()
	if f.has(1) {
		r.fixed(i.Group[:])
	}
	if f.has(2) {
		i.Retained = r.instant()
	}
	if f.has(3) {
		i.Due = r.instant()
	}
	if f.has(4) {
		i.Expires = r.instant()
	}
	if f.has(5) {
		i.Limit = r.uint32()
	}
	if f.has(6) {
		i.Key = r.uint32()
	}
	f.end()
}

func (r *reader) ledgerHeader(h *LedgerHeader) {
	f := r.object()
	if f.has(1) {
		h.Kind = Kind(r.upTo(math.MaxUint8))
	}
	if f.has(2) {
		h.At = r.instant()
	}
	if f.has(3) {
		h.High = r.instant()
	}
	if f.has(4) {
		h.Version = r.uint()
	}
	if f.has(5) {
		t := r.object()
		for i, n := range [...]*uint64{&h.Totals.Received, &h.Totals.Acked, &h.Totals.Expired, &h.Totals.Purged, &h.Totals.Moved, &h.Totals.Arrived} {
			if t.has(byte(i + 1)) {
				*n = r.uint()
			}
		}
		t.end()
	}
	f.end()
}

// header reads the header of a block whose messages were sent here.
func (r *reader) header(h *Header) {
	f := r.object()
	if f.has(2) {
		r.fixed(h.ID[:])
	}
	if f.has(3) {
		h.At = r.instant()
	}
	if f.has(4) {
		h.High = r.instant()
	}
	if f.has(5) {
		h.Count = r.uint32()
	}
	if f.has(6) {
		h.Bytes = r.uint()
	}
	if f.has(7) {
		t := r.object()
		if t.has(1) {
			h.Totals.Messages = r.uint()
		}
		if t.has(2) {
			h.Totals.Bytes = r.uint()
		}
		t.end()
	}
	if f.has(8) {
		h.Version = r.uint()
	}
	if f.has(9) {
		h.Epoch = r.uint()
	}
	if f.has(10) {
		h.Key = r.uint32()
	}
	if f.has(11) {
		h.Groups = append([]byte{}, r.run(majorBytes)...)
	}
	if f.has(12) {
		h.Dedups = append([]byte{}, r.run(majorBytes)...)
	}
	if f.has(13) {
		h.Due = readArray(r, (*reader).instant)
	}
	if f.has(14) {
		h.Expires = readArray(r, (*reader).instant)
	}
	if f.has(15) {
		h.Limits = readArray(r, (*reader).uint32)
	}
	f.end()
}

// message reads a message whose bytes are those of the reader: a block is kept as a whole, so a copy would save nothing.
func (r *reader) message() (m Message) {
	f := r.object()
	if f.has(1) {
		m.Body = r.run(majorBytes)
	}
	if f.has(2) {
		m.Attributes = readArray(r, (*reader).attribute)
	}
	for i, s := range [...]*string{&m.Group, &m.Dedup, &m.Trace, &m.Sender, &m.DeadLetter} {
		if f.has(byte(i + 3)) {
			*s = r.text()
		}
	}
	f.end()
	return m
}

func (r *reader) attribute() (a Attribute) {
	f := r.object()
	if f.has(1) {
		a.Name = r.text()
	}
	if f.has(2) {
		a.Type = r.text()
	}
	if f.has(3) {
		a.Value = r.run(majorBytes)
	}
	f.end()
	return a
}

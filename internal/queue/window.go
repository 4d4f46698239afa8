package queue

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"math/bits"
	"slices"

	"github.com/leaselog/leaselog/events"
)

// window remembers the deduplication ids of a shard in pages of a minute, so that what is too old is dropped a page
// at a time.
type window struct {
	pages []*page // oldest first
}

// page holds the ids whose blocks were written in one minute, in a hash table that grows by one bucket at a time
// (linear hashing): a Go map would take half as much again, and stop everything while it grows. The ids are keyed
// hashes, so that nobody can choose those that share a bucket.
type page struct {
	minute  events.Instant
	buckets [][]slot
	len     int
}

// slot is an id with position << 16 | milliseconds into the minute.
type slot struct {
	hash  events.Hash
	value uint64
}

const (
	minute = events.Instant(60_000)
	// stepBackMax is by how many milliseconds instants may step back without finding that something was forgotten.
	stepBackMax = events.Instant(60_000)
	// slotsEach is how many ids a bucket holds on average, and slotsStep by how many it grows.
	slotsEach, slotsStep = 16, 4
)

// remembered is where an id was kept before it was put again.
type remembered struct {
	minute events.Instant // of the page that was changed
	value  uint64
	had    bool
}

func minuteOf(at events.Instant) events.Instant { return at - at%minute }

// find gives the position of the message that had this id, if it is remembered at an instant.
func (w *window) find(h events.Hash, at events.Instant, seconds uint32) (events.Position, bool) {
	for _, p := range slices.Backward(w.pages) {
		s := p.find(h)
		if s != nil && (p.minute+events.Instant(s.value&0xffff)).Add(seconds) > at {
			return events.Position(s.value >> 16), true
		}
	}
	return 0, false
}

// put remembers an id from an instant on.
func (w *window) put(h events.Hash, at events.Instant, p events.Position) remembered {
	pg := w.page(minuteOf(at))
	value := uint64(p)<<16 | uint64(at-pg.minute)
	if s := pg.find(h); s != nil {
		old := s.value
		s.value = value
		return remembered{pg.minute, old, true}
	}
	pg.add(slot{h, value})
	return remembered{minute: pg.minute}
}

// restore takes a put back.
func (w *window) restore(h events.Hash, r remembered) {
	p := w.page(r.minute)
	if r.had {
		p.find(h).value = r.value
		return
	}
	p.remove(h)
	if p.len == 0 {
		w.pages = slices.DeleteFunc(w.pages, func(x *page) bool { return x == p })
	}
}

// page gives the page of a minute, a new one where there is none. Instants mostly rise, but need not.
func (w *window) page(m events.Instant) *page {
	i, ok := slices.BinarySearchFunc(w.pages, m, func(p *page, m events.Instant) int { return cmp.Compare(p.minute, m) })
	if !ok {
		w.pages = slices.Insert(w.pages, i, &page{minute: m, buckets: make([][]slot, 1)})
	}
	return w.pages[i]
}

// from gives the pages that some instant may ask for. The second newest is what counts: a minute in which a clock was
// far ahead must not make the shard forget what it was sent before.
func (w *window) from(seconds uint32) []*page {
	n := len(w.pages)
	for i, p := range w.pages {
		if n < 2 || (p.minute+minute+stepBackMax).Add(seconds) >= w.pages[n-2].minute {
			return w.pages[i:]
		}
	}
	return nil
}

// drop forgets the other pages.
func (w *window) drop(seconds uint32) {
	w.pages = slices.Delete(w.pages, 0, len(w.pages)-len(w.from(seconds)))
}

// size is how many ids are kept.
func (w *window) size() (n int) {
	for _, p := range w.pages {
		n += p.len
	}
	return n
}

// bucket gives the place of a hash's bucket among the first n.
func bucket(h events.Hash, n int) int {
	size := 1 << bits.Len(uint(n-1)) // the next power of two
	i := int(binary.LittleEndian.Uint32(h[:])) & (size - 1)
	if i >= n {
		i -= size / 2 // its own bucket was not split off yet
	}
	return i
}

func (p *page) find(h events.Hash) *slot {
	b := p.buckets[bucket(h, len(p.buckets))]
	for i := range b {
		if b[i].hash == h {
			return &b[i]
		}
	}
	return nil
}

// add adds an id that is not there.
func (p *page) add(s slot) {
	if p.len++; p.len > slotsEach*len(p.buckets) {
		p.split()
	}
	i := bucket(s.hash, len(p.buckets))
	p.buckets[i] = push(p.buckets[i], s)
}

// push appends in small steps: most of the memory is here.
func push(b []slot, s slot) []slot {
	if len(b) == cap(b) {
		b = append(make([]slot, 0, len(b)+slotsStep), b...)
	}
	return append(b, s)
}

// split adds one bucket, and moves to it what it takes over from an older one.
func (p *page) split() {
	n := len(p.buckets)
	p.buckets = append(p.buckets, nil)
	from := n - 1<<(bits.Len(uint(n))-1)
	old := p.buckets[from]
	p.buckets[from] = nil
	for _, s := range old {
		i := bucket(s.hash, n+1)
		p.buckets[i] = push(p.buckets[i], s)
	}
}

func (p *page) remove(h events.Hash) {
	i := bucket(h, len(p.buckets))
	p.buckets[i] = slices.DeleteFunc(p.buckets[i], func(s slot) bool { return s.hash == h })
	p.len--
}

// snapshot gives the ids in the order of their hashes, whatever the order in which they came.
func (p *page) snapshot() pageSnapshot {
	all := slices.Concat(p.buckets...)
	slices.SortFunc(all, func(a, b slot) int { return bytes.Compare(a.hash[:], b.hash[:]) })
	ids := make([]byte, 0, 24*len(all))
	for _, s := range all {
		ids = binary.BigEndian.AppendUint64(append(ids, s.hash[:]...), s.value)
	}
	return pageSnapshot{p.minute, ids}
}

// load adds what snapshot gave.
func (p *page) load(ids []byte) {
	for ; len(ids) > 0; ids = ids[24:] {
		p.add(slot{events.Hash(ids[:16]), binary.BigEndian.Uint64(ids[16:])})
	}
}

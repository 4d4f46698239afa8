package store

import (
	"sync"

	"github.com/leaselog/leaselog/internal/eventlog"
)

// tailsMax is the number of streams whose end is remembered: 25 MB where there are so many.
const tailsMax = 100_000

// tail is the end of one stream.
type tail struct {
	stream eventlog.Stream
	synced tailEnd // as it is on the disk; guarded by shown.mu
	end    tailEnd // as the batch being made leaves it
	dirty  bool    // the batch being made changes it

	newer, older *tail
}

// tailEnd is where a stream ends: the Seq of the next entry, the Seq and writer of the last one.
type tailEnd struct {
	next, seq eventlog.Seq
	writer    eventlog.Writer
}

// tails remembers the streams that were used last. Readers share the map, so it is written under their lock.
type tails struct {
	max  int
	mu   *sync.RWMutex
	find map[eventlog.Stream]*tail
	ring tail // ring.older is the tail used last, ring.newer the one to forget first
}

func (ts *tails) init(max int, v *shown) {
	v.ends = map[eventlog.Stream]*tail{}
	ts.max, ts.mu, ts.find = max, &v.mu, v.ends
	ts.ring.newer, ts.ring.older = &ts.ring, &ts.ring
}

func (ts *tails) get(s eventlog.Stream) *tail {
	t := ts.find[s]
	if t != nil && ts.ring.older != t {
		t.unlink()
		t.link(&ts.ring)
	}
	return t
}

func (ts *tails) add(s eventlog.Stream, end tailEnd) *tail {
	t := &tail{stream: s, synced: end, end: end}
	ts.mu.Lock()
	ts.find[s] = t
	ts.mu.Unlock()
	t.link(&ts.ring)
	return t
}

// trim forgets what is too much. Only between batches: a batch refers to its tails.
func (ts *tails) trim() {
	for len(ts.find) > ts.max {
		oldest := ts.ring.newer
		oldest.unlink()
		ts.mu.Lock()
		delete(ts.find, oldest.stream)
		ts.mu.Unlock()
	}
}

func (t *tail) link(ring *tail) {
	t.newer, t.older = ring, ring.older
	t.older.newer, ring.older = t, t
}

func (t *tail) unlink() {
	t.newer.older, t.older.newer = t.older, t.newer
}

package store

import (
	"sync"

	"github.com/leaselog/leaselog/internal/eventlog"
)

// shown is what readers may see. Pebble shows a batch to them before it is on the disk; an answer that rests on it
// could be untrue after a crash, so reads ask here and stop short of it. A dead instance keeps its last batch here
// for ever, since nobody knows whether it stands.
//
// A reader asks after it has opened its iterator: a batch that began later is not in the iterator's sight, and one
// that ended meanwhile may be shown.
type shown struct {
	mu     sync.RWMutex
	ends   map[eventlog.Stream]*tail // of the streams that the committer remembers; it alone writes
	claims map[string]claimState     // what the batch being written changes; not changed itself
}

// end gives where a stream ends on the disk, and false where the committer does not remember it: then nothing of it
// is being written either.
func (v *shown) end(s eventlog.Stream) (tailEnd, bool) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	if t := v.ends[s]; t != nil {
		return t.synced, true
	}
	return tailEnd{}, false
}

// changing gives the claims that the batch being written changes, with what is on the disk.
func (v *shown) changing() map[string]claimState {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return v.claims
}

// begin hides the claims of a batch. Its entries lie behind the ends, and so are hidden already.
func (v *shown) begin(claims map[string]claimState) {
	v.mu.Lock()
	v.claims = claims
	v.mu.Unlock()
}

// synced shows a batch.
func (v *shown) synced(touched []*tail) {
	v.mu.Lock()
	v.claims = nil
	for _, t := range touched {
		t.synced, t.dirty = t.end, false
	}
	v.mu.Unlock()
}

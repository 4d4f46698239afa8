package store

import (
	"sync"
	"time"

	"github.com/leaselog/leaselog/internal/eventlog"
)

// ends knows where streams end, or ended lately. At such a place the conditional write alone decides: entries are
// dense, so that the next one can only begin there, and it is too young to have been removed since.
type ends struct {
	mu sync.Mutex
	of map[eventlog.Stream]end
}

// end is a place where an entry was the last one of its stream, or nothing but young entries followed, at an instant
// of the wall clock. A process that was frozen must not count by a clock that stood still with it.
type end struct {
	seq eventlog.Seq
	at  int64 // Unix milliseconds
}

func (e end) fresh(now time.Time) bool {
	age := now.UnixMilli() - e.at
	return age >= 0 && age <= endAge.Milliseconds()
}

// get gives the known end of a stream, fresh or not.
func (e *ends) get(s eventlog.Stream) (end, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	known, ok := e.of[s]
	return known, ok
}

// learn notes an end that was true at an instant. An earlier one tells nothing new.
func (e *ends) learn(s eventlog.Stream, seq eventlog.Seq, at int64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	known, ok := e.of[s]
	switch {
	case ok && (seq < known.seq || seq == known.seq && at <= known.at):
		return
	case e.of == nil:
		e.of = map[eventlog.Stream]end{}
	case !ok && len(e.of) >= endsMax:
		for any := range e.of {
			delete(e.of, any) // whoever is missed costs one read
			break
		}
	}
	e.of[s] = end{seq, at}
}

package store

import (
	"context"
	"fmt"
	"sync"

	"github.com/leaselog/leaselog/internal/eventlog"
)

// The limits of this store, and why.
const (
	claimKeyBytesMax = 512
	commitBytesMax   = 64 << 20 // a batch is held in memory three times: ours, the log's, the memtable's
	batchRequestsMax = 1000
	batchBytesMax    = 3 << 20 // under half a memtable, above which Pebble rotates its log for each batch
)

// request is what waits for the committer.
type request struct {
	bytes  int
	commit eventlog.Commit
	alone  func(*committer) error // instead of a commit: fills a batch of its own, from what is on the disk
	view   *saving                // instead of a commit
	done   chan error             // takes one answer
}

// answer never blocks, and is called once.
func (r *request) answer(err error) { r.done <- err }

var requests = sync.Pool{New: func() any { return &request{done: make(chan error, 1)} }}

// Commit implements [eventlog.Log]. When ctx ends while the commit waits or is being written, the outcome is unknown
// and the error is that of ctx; when it has ended before, the commit is refused.
func (s *Store) Commit(ctx context.Context, c eventlog.Commit) error {
	if err := eventlog.CheckCommit(c); err != nil {
		return err
	}
	size := commitBytes(&c)
	if size > commitBytesMax {
		return &eventlog.Refused{Content: true, Cause: fmt.Errorf("the commit has %d bytes, at most %d are taken", size, commitBytesMax)}
	}
	r := requests.Get().(*request)
	r.commit, r.bytes = c, size
	return s.submit(ctx, r)
}

func commitBytes(c *eventlog.Commit) int {
	n := 0
	for i := range c.Appends {
		a := &c.Appends[i]
		n += 16 + len(a.Stream) + entryBytes(a)
	}
	for i := range c.Claims {
		n += 32 + 2*len(c.Claims[i].Key) + claimBytes(&c.Claims[i])
	}
	return n
}

func (s *Store) submitAlone(ctx context.Context, f func(*committer) error) error {
	r := requests.Get().(*request)
	r.alone = f
	return s.submit(ctx, r)
}

// submit hands a request to the committer and waits for its answer.
func (s *Store) submit(ctx context.Context, r *request) error {
	if err := ctx.Err(); err != nil {
		return &eventlog.Refused{Cause: err}
	}
	if err := s.enqueue(r); err != nil {
		return err
	}
	select {
	case err := <-r.done:
		if err == nil { // otherwise the committer of a dead instance may still look at it
			*r = request{done: r.done}
			requests.Put(r)
		}
		return err
	case <-ctx.Done():
		return ctx.Err() // the committer still has the request
	}
}

func (s *Store) enqueue(r *request) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return &eventlog.Refused{Cause: errClosed}
	case s.failure != nil:
		return &eventlog.Refused{Cause: s.failure}
	}
	s.inbox = append(s.inbox, r)
	if len(s.inbox) == 1 {
		s.signal()
	}
	return nil
}

// signal wakes the committer that is in use. Each has a channel of its own, or a dead one could take the signal.
func (s *Store) signal() {
	select {
	case s.current.Load().wake <- struct{}{}:
	default:
	}
}

// take moves waiting requests to the flight, as many as fit into a batch, behind those that are still there. It
// gives nothing when none wait, and false when there is nothing more to do for this instance.
func (s *Store) take(inst *instance) ([]*request, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.current.Load() != inst || s.failure != nil {
		return nil, false
	}
	n, size := 0, 0
	for n < len(s.inbox) && n < batchRequestsMax && (n == 0 || size+s.inbox[n].bytes <= batchBytesMax) {
		size += s.inbox[n].bytes
		n++
	}
	s.flight = append(s.flight, s.inbox[:n]...)
	left := copy(s.inbox, s.inbox[n:])
	clear(s.inbox[left:])
	s.inbox = s.inbox[:left]
	if left > 0 {
		s.signal()
	}
	return s.flight, len(s.flight) > 0 || !s.closed
}

// land ends a flight; what is carried goes into the next one. It reports false when the instance has failed, which
// has answered everything.
func (s *Store) land(inst *instance, carried []*request) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.current.Load() != inst || s.failure != nil {
		return false
	}
	clear(s.flight)
	s.flight = append(s.flight[:0], carried...)
	if len(carried) > 0 {
		s.signal()
	}
	return true
}

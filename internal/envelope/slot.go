package envelope

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/leaselog/leaselog/events"
)

const (
	// failureMillis is how long a failed unwrapping answers for those that come later: long enough that hundreds of
	// waiting commands do not each ask a KMS that is down, short enough that nobody notices when it is back.
	failureMillis = 1000
	// clockMillis is how far a caller's clock may be behind the one that a key was unwrapped by. Goroutines read
	// their clocks at slightly different times; a clock that was set back further must not lengthen the reuse.
	clockMillis = 5000
	// unwrapSecondsMax ends an unwrapping that does not answer.
	unwrapSecondsMax = 10
)

// slot keeps one key in the form in which it is used, for as long as its queue allows.
type slot[T any] struct {
	unwrap func(context.Context) (T, error)
	mu     sync.Mutex // held while an unwrapping is begun, so that only one runs at a time
	last   atomic.Pointer[unwrapping[T]]
}

// unwrapping is one call of Keys.Unwrap, under way or done, and the memory of its outcome.
type unwrapping[T any] struct {
	since events.Instant // when it was begun: what it gives is not younger than that
	done  chan struct{}  // closed when value and err stand
	value T
	err   error
}

// use gives the key, from memory where it is young enough at now. Faults: KeyLost.
func (s *slot[T]) use(ctx context.Context, now events.Instant, reuseSeconds uint32) (T, error) {
	u := s.last.Load()
	if u == nil || !u.serves(now, reuseSeconds) {
		u = s.begin(ctx, now, reuseSeconds)
	}
	return u.wait(ctx)
}

// begin starts an unwrapping, unless somebody else just did. It runs apart from its caller, since others wait for it
// who are still there when that caller has gone.
func (s *slot[T]) begin(ctx context.Context, now events.Instant, reuseSeconds uint32) *unwrapping[T] {
	s.mu.Lock()
	defer s.mu.Unlock()
	if u := s.last.Load(); u != nil && u.serves(now, reuseSeconds) {
		return u
	}
	u := &unwrapping[T]{since: now, done: make(chan struct{})}
	s.last.Store(u)
	go s.run(context.WithoutCancel(ctx), u)
	return u
}

func (s *slot[T]) run(ctx context.Context, u *unwrapping[T]) {
	ctx, cancel := context.WithTimeout(ctx, unwrapSecondsMax*time.Second)
	defer cancel()
	u.value, u.err = s.unwrap(ctx)
	close(u.done)
}

// lapse forgets what may no longer be used at now.
func (s *slot[T]) lapse(now events.Instant, reuseSeconds uint32) {
	if u := s.last.Load(); u != nil && !u.serves(now, reuseSeconds) {
		s.last.CompareAndSwap(u, nil)
	}
}

// serves says whether a caller at now may take this outcome: one that is still awaited, a key inside the reuse
// period, or a failure of just now.
func (u *unwrapping[T]) serves(now events.Instant, reuseSeconds uint32) bool {
	if !u.settled() {
		return true
	}
	keep := events.Instant(0).Add(reuseSeconds)
	if u.err != nil {
		keep = failureMillis
	}
	age := now - u.since
	return age < keep && age >= -min(keep, clockMillis)
}

func (u *unwrapping[T]) settled() bool {
	select {
	case <-u.done:
		return true
	default:
		return false
	}
}

// wait prefers the outcome over the caller's departure where both are there.
func (u *unwrapping[T]) wait(ctx context.Context) (none T, err error) {
	if u.settled() {
		return u.value, u.err
	}
	select {
	case <-u.done:
		return u.value, u.err
	case <-ctx.Done():
		return none, fmt.Errorf("waiting for a key to be unwrapped: %w", context.Cause(ctx))
	}
}

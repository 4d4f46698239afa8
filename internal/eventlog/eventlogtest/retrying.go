package eventlogtest

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/leaselog/leaselog/internal/eventlog"
)

// Retrying is the client of a [Faulty]: it repeats every call, identical, until an answer is not injected. To its
// caller the log looks as if nothing had ever failed, which is what the contract promises to whoever repeats.
type Retrying struct{ Log eventlog.Log }

// triesMax ends a test whose plan lets nothing pass.
const triesMax = 1000

// retry calls until the answer is not injected.
func retry[T any](call func() (T, error)) (T, error) {
	for try := 1; ; try++ {
		got, err := call()
		if !errors.Is(err, ErrInjected) || try == triesMax {
			return got, err
		}
	}
}

// Commit repeats c until it stands, or something else does. A caller who has gone after an unknown answer is not
// told that c was refused: that is true of the last try only.
func (r Retrying) Commit(ctx context.Context, c eventlog.Commit) error {
	doubtful := false
	_, err := retry(func() (any, error) {
		err := r.Log.Commit(ctx, c)
		var refused *eventlog.Refused
		doubtful = doubtful || errors.Is(err, ErrInjected) && !errors.As(err, &refused)
		return nil, err
	})
	if err != nil && doubtful && ctx.Err() != nil {
		return fmt.Errorf("gone with an unknown outcome: %v", err)
	}
	return err
}

// Read implements [eventlog.Log].
func (r Retrying) Read(ctx context.Context, s eventlog.Stream, from eventlog.Seq, l eventlog.Limits) ([]eventlog.Entry, error) {
	return retry(func() ([]eventlog.Entry, error) { return r.Log.Read(ctx, s, from, l) })
}

// found is an answer of two parts.
type found[T any] struct {
	it T
	ok bool
}

func retryFound[T any](call func() (T, bool, error)) (T, bool, error) {
	f, err := retry(func() (found[T], error) {
		it, ok, err := call()
		return found[T]{it, ok}, err
	})
	return f.it, f.ok, err
}

// Last implements [eventlog.Log].
func (r Retrying) Last(ctx context.Context, s eventlog.Stream) (eventlog.Entry, bool, error) {
	return retryFound(func() (eventlog.Entry, bool, error) { return r.Log.Last(ctx, s) })
}

// Claim implements [eventlog.Log].
func (r Retrying) Claim(ctx context.Context, key string) (eventlog.Claim, bool, error) {
	return retryFound(func() (eventlog.Claim, bool, error) { return r.Log.Claim(ctx, key) })
}

// Claims implements [eventlog.Log].
func (r Retrying) Claims(ctx context.Context, prefix, after string, limit int) ([]eventlog.Claim, error) {
	return retry(func() ([]eventlog.Claim, error) { return r.Log.Claims(ctx, prefix, after, limit) })
}

// Snapshot implements [eventlog.Log].
func (r Retrying) Snapshot(ctx context.Context, s eventlog.Stream, seq eventlog.Seq) (eventlog.Snapshot, bool, error) {
	return retryFound(func() (eventlog.Snapshot, bool, error) { return r.Log.Snapshot(ctx, s, seq) })
}

// PutSnapshot implements [eventlog.Log].
func (r Retrying) PutSnapshot(ctx context.Context, s eventlog.Stream, snap eventlog.Snapshot) error {
	_, err := retry(func() (any, error) { return nil, r.Log.PutSnapshot(ctx, s, snap) })
	return err
}

// Drop implements [eventlog.Log].
func (r Retrying) Drop(ctx context.Context, s eventlog.Stream, from, to eventlog.Seq) error {
	_, err := retry(func() (any, error) { return nil, r.Log.Drop(ctx, s, from, to) })
	return err
}

// RunUnderFaults runs the suite again over the same log with every fault there is, behind a client that repeats.
// Every second call of each method fails; the answers must be the same as if none had.
func RunUnderFaults(t *testing.T, open func(t *testing.T) eventlog.Log) {
	plans := map[string]func(*Faulty) Plan{
		"refused": func(*Faulty) Plan { return everySecond(Refuse) },
		"before":  func(*Faulty) Plan { return everySecond(Before) },
		"after":   func(*Faulty) Plan { return everySecond(After) },
		"late":    landBeforeRetry,
		"stale":   landLongAfter,
	}
	for name, plan := range plans {
		t.Run(name, func(t *testing.T) {
			Run(t, func(t *testing.T) eventlog.Log {
				f := NewFaulty(open(t))
				f.Plan(plan(f))
				return Retrying{f}
			})
		})
	}
}

func everySecond(fault Fault) Plan { return when(fault, func(c Call) bool { return c.N%2 == 1 }) }

// landBeforeRetry lets a write take effect after its caller was told that the outcome is unknown, and before the
// caller has repeated it.
func landBeforeRetry(f *Faulty) Plan {
	return func(c Call) Fault {
		if c.N%2 == 1 {
			return Late
		}
		if c.Op.Writes() {
			f.Land()
		}
		return Pass
	}
}

// landLongAfter lets a duplicate of a commit arrive when its caller has long been answered by a repeat, and others
// have gone on. What sets claims is left out, since a claim that was given up may be taken by such a duplicate; and
// what leaves a gap, since the duplicate may arrive when it is filled.
func landLongAfter(f *Faulty) Plan {
	return func(c Call) Fault {
		if c.Op != OpCommit {
			return Pass
		}
		if c.N%5 == 0 {
			f.Land()
		}
		if c.N%3 == 1 && len(c.Commit.Claims) == 0 && !f.leavesGap(c.Commit) {
			return Late
		}
		return Pass
	}
}

// leavesGap asks the log below, without counting.
func (f *Faulty) leavesGap(c eventlog.Commit) bool {
	for _, a := range c.Appends {
		if last, _, err := f.log.Last(context.Background(), a.Stream); err != nil || a.Seq > last.Next() {
			return true
		}
	}
	return false
}

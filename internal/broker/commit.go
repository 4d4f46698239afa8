package broker

import (
	"context"
	"encoding/hex"
	"errors"
	"io"
	"time"

	"github.com/leaselog/leaselog/events"
	"github.com/leaselog/leaselog/internal/eventlog"
	"github.com/leaselog/leaselog/internal/fault"
)

// newWriter gives the identity of a commit, and the same as text for the holder of a claim.
func (b *Broker) newWriter() (w eventlog.Writer, holder string) {
	mustRead(b.Rand, w[:])
	return w, hex.EncodeToString(w[:])
}

// mustRead fills p with random bytes. The source is the operating system's, which does not fail.
func mustRead(r io.Reader, p []byte) {
	if _, err := io.ReadFull(r, p); err != nil {
		panic("no random bytes: " + err.Error())
	}
}

// settle commits c, and repeats it, identical, for as long as its outcome is unknown: reading back "nothing" would
// prove nothing, since the write may still be under way. It gives nil, a *eventlog.Conflict, a *eventlog.Refused, or
// the fault Unconfirmed when ctx or the patience has ended first. Giving up early is safe here: these commits set
// claims by their versions, so that one that lands late meets whoever came between.
func (b *Broker) settle(ctx context.Context, c eventlog.Commit) (err error) {
	began, attempt := time.Now(), 0
	defer func() { b.wrote(&c, began, attempt, err) }()
	for ; ; attempt++ {
		err := b.Log.Commit(ctx, c)
		if decided(err, attempt) {
			return err
		}
		if time.Since(began) > unknownPatience || b.pause(ctx, attempt) != nil {
			return b.halfway(unconfirmed(err))
		}
	}
}

// halfway is the answer of a command that has written something and then failed. The next Ticks look for what is left
// to be done, for as long as a write may still land.
func (b *Broker) halfway(err error) error {
	if err == nil {
		return nil
	}
	b.mu.Lock()
	b.sweepAt, b.doubtful = 0, b.Now()+events.Instant(unknownGiveUp.Milliseconds())
	b.mu.Unlock()
	if fault.Is(err, fault.Unavailable) {
		return unconfirmed(err)
	}
	return err
}

func unconfirmed(cause error) error {
	return fault.Because(fault.Unconfirmed, cause, "the store has not confirmed the request; it may still take effect")
}

// decided says whether the outcome of a commit is known. A repeat that is refused tells nothing of the attempts before,
// one of which may have taken effect.
func decided(err error, attempt int) bool {
	return err == nil || isConflict(err) || isRefused(err) && attempt == 0
}

func isConflict(err error) bool {
	var c *eventlog.Conflict
	return errors.As(err, &c)
}

// isRefused says that a commit was certainly not applied. A refusal may also be the cause of an unconfirmed outcome,
// when it was an attempt before whose answer is missing.
func isRefused(err error) bool {
	var r *eventlog.Refused
	return errors.As(err, &r) && !fault.Is(err, fault.Unconfirmed)
}

// storeFault turns an error of the log into what a caller may see. A refusal, and a read that failed, changed nothing.
func storeFault(err error) error {
	var f *fault.Error
	switch {
	case err == nil || errors.As(err, &f) || errors.Is(err, errSpent):
		return err
	case errors.Is(err, eventlog.ErrCorrupt):
		return err
	case errors.Is(err, eventlog.ErrClosed):
		return errStopping()
	}
	return fault.Because(fault.Unavailable, err, "the store does not answer now; nothing was done, try again")
}

func errStopping() error {
	return fault.New(fault.Unavailable, "the server is stopping; nothing was done, try again")
}

// pause waits before another attempt: a random part of 1 ms doubling to 1 s, so that those who met do not meet again.
func (b *Broker) pause(ctx context.Context, attempt int) error {
	most := time.Millisecond << min(attempt, 10)
	t := time.NewTimer(most/4 + b.Jitter(most))
	defer t.Stop()
	select {
	case <-ctx.Done():
		if b.life.Err() != nil { // a runner's context is the broker's life
			return errStopping()
		}
		return ctx.Err()
	case <-b.life.Done():
		return errStopping()
	case <-t.C:
		return nil
	}
}

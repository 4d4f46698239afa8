package broker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/leaselog/leaselog/events"
	"github.com/leaselog/leaselog/internal/fault"
)

// Tick does what time must do at once in the queues that are open here: messages that were received too often go to their
// dead-letter queues, and what a command left half done, here or in a former life, is finished. The host calls it several
// times a second. What others leave behind is for sweeps.
func (b *Broker) Tick(ctx context.Context) error {
	errs := []error{b.recover(ctx)}
	now := b.Now()
	b.mu.Lock()
	var open []*handle
	for _, h := range b.queues {
		open = append(open, h)
	}
	b.mu.Unlock()
	slices.SortFunc(open, func(x, y *handle) int { return bytes.Compare(x.id[:], y.id[:]) })
	for _, h := range open {
		for _, r := range h.started() {
			if events.Instant(r.exhausted.Load()) <= now {
				_, err := b.moveExhausted(ctx, r, h)
				errs = append(errs, b.noQueue(h.id, err))
			}
		}
	}
	return errors.Join(errs...)
}

// recover reads every record, after the start and while something may be half done: it finishes what was left half done,
// and looks at the shards whose messages may have become exhausted meanwhile.
func (b *Broker) recover(ctx context.Context) error {
	b.mu.Lock()
	due := b.sweepAt <= b.Now()
	b.mu.Unlock()
	if !due {
		return nil
	}
	began, after := b.Now(), ""
	var errs []error // of one queue each, which must not keep the others waiting
	for {
		claims, err := b.Log.Claims(ctx, QueuePrefix, after, 100)
		if err != nil {
			return storeFault(err)
		}
		for _, c := range claims {
			after = c.Key
			r := &record{claim: c.Version}
			err := events.DecodeRecord(c.Value, r)
			if err == nil {
				err = b.finish(ctx, r)
			}
			if err == nil {
				err = b.watch(ctx, r)
			}
			if err != nil && !fault.Is(err, fault.NotFound) {
				errs = append(errs, fmt.Errorf("finishing what %s says: %w", c.Key, err))
			}
		}
		if len(claims) < 100 {
			break
		}
	}
	if len(errs) > 0 {
		return errors.Join(errs...) // and again with the next tick
	}
	b.mu.Lock()
	if b.sweepAt <= began {
		b.sweepAt = events.Never
	}
	if b.doubtful > began {
		b.sweepAt = began + sweepPause
	}
	b.mu.Unlock()
	return nil
}

// finish does what a record says is still to be done.
func (b *Broker) finish(ctx context.Context, r *record) error {
	if len(r.halfDone()) == 0 {
		return nil
	}
	if r.gone() {
		return b.finishDeletion(ctx, r, r.Sources)
	}
	h, err := b.open(ctx, r.ID)
	if err != nil {
		return err
	}
	if err := b.roll(ctx, h, r); err != nil {
		return err
	}
	if len(r.Purge) > 0 {
		_, err = b.finishPurge(ctx, h, r)
	}
	return err
}

// watch loads the shards of a queue that moves messages to another one. They then tell when they have some to move.
func (b *Broker) watch(ctx context.Context, r *record) error {
	if d := r.Settings.DeadLetter; r.gone() || d == nil || d.Gone {
		return nil
	}
	h, err := b.open(ctx, r.ID)
	if err != nil {
		return err
	}
	for i := range h.shards() {
		if err := h.view(ctx, i, func(*group) error { return nil }); err != nil {
			return err
		}
	}
	return nil
}

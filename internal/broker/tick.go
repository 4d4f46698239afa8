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

// Tick does what time must do once: messages that were received too often go to their dead-letter queues, and changes
// and deletions that were left half done are finished. The host calls it about twice a second.
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
				errs = append(errs, b.noQueue(h.id, b.moveExhausted(ctx, r, h)))
			}
		}
	}
	return errors.Join(errs...)
}

// recover reads every record, after the start and while something may be half done, and every minute where other
// processes write too: it finishes what was left half done, and looks at the shards whose messages may have become
// exhausted meanwhile.
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
		claims, err := b.Log.Claims(ctx, "queue/", after, 100)
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
		if !b.Exclusive { // others leave things half done too, and die
			b.sweepAt = began + sweepShared
		}
	}
	if b.doubtful > began {
		b.sweepAt = began + sweepPause
	}
	b.mu.Unlock()
	return nil
}

// finish does what a record says is still to be done.
func (b *Broker) finish(ctx context.Context, r *record) error {
	if r.gone() {
		if r.Rolled == r.Version {
			return nil
		}
		return b.finishDeletion(ctx, r, r.Sources)
	}
	d := r.Settings.DeadLetter
	if r.Rolled == r.Version && len(r.Purge) == 0 && (d == nil || d.Gone) {
		return nil
	}
	h, err := b.open(ctx, r.ID)
	if err != nil {
		return err
	}
	if err := b.roll(ctx, h, r); err != nil {
		return err
	}
	if len(r.Purge) > 0 {
		if _, err := b.finishPurge(ctx, h, r); err != nil {
			return err
		}
	}
	if d != nil {
		for i := range h.shards() { // loads the shard, which then tells when it is exhausted
			if err := h.view(ctx, i, func(*group) error { return nil }); err != nil {
				return err
			}
		}
	}
	return nil
}

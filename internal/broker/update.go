package broker

import (
	"context"
	"maps"
	"reflect"

	"github.com/leaselog/leaselog/events"
	"github.com/leaselog/leaselog/internal/eventlog"
	"github.com/leaselog/leaselog/internal/queue"
)

// UpdateQueue changes what is not nil.
type UpdateQueue struct {
	Queue                                                                                events.QueueID
	LeaseSeconds, RetentionSeconds, MaxBytes, DelaySeconds, WaitSeconds, KeyReuseSeconds *uint32
	DeadLetter                                                                           *DeadLetter
	RemoveDeadLetter                                                                     bool
	Tags                                                                                 *map[string]string
	Key                                                                                  *string // a reference to the customer's key; empty: the platform's
}

// Update changes a queue and gives it with its depth. The new settings are first in its record, as wanted, and then
// roll through the shards, one commit each; Update returns after the last. Faults: NotFound; Invalid, also for an unknown key; KeyLost.
func (b *Broker) Update(ctx context.Context, u UpdateQueue) (*Queue, error) {
	return counted(ctx, b, false, keepQueue, queueAgain, func(o *once) (*Queue, error) { return b.updateQueue(ctx, o, u) })
}

// updateQueue commits the record with the answer that is remembered, so the depth in it is from just before the change.
func (b *Broker) updateQueue(ctx context.Context, o *once, u UpdateQueue) (*Queue, error) {
	h, err := b.open(ctx, u.Queue)
	if err != nil {
		return nil, err
	}
	depth, err := h.depth(ctx, h.measureOrCold)
	if err != nil {
		return nil, b.noQueue(h.id, err)
	}
	whole := func(r *record) (*Queue, error) {
		q, err := b.describe(ctx, r)
		if err == nil {
			q.Depth = depth
		}
		return q, err
	}
	r, err := b.changeOnce(ctx, o, u.Queue, func(r *record) ([]eventlog.Claim, []byte, error) {
		if r.gone() {
			return nil, nil, b.noQueue(r.ID, errNoQueue(r.ID.String()))
		}
		claims, err := b.update(ctx, r, u)
		if err != nil || o == nil {
			return claims, nil, err
		}
		q, err := whole(r)
		return claims, keepQueue(q), err
	})
	if err != nil {
		return nil, err
	}
	h.refresh(r)
	if err := b.roll(ctx, h, r); err != nil {
		return nil, b.halfway(b.noQueue(h.id, err))
	}
	q, err := whole(r)
	return q, b.halfway(err)
}

// update changes the record, and says errKeep where nothing is different.
func (b *Broker) update(ctx context.Context, r *record, u UpdateQueue) (claims []eventlog.Claim, err error) {
	before, tags := r.Settings, r.Tags
	set := func(field *uint32, value *uint32) {
		if value != nil {
			*field = *value
		}
	}
	s := &r.Settings
	set(&s.LeaseSeconds, u.LeaseSeconds)
	set(&s.RetentionSeconds, u.RetentionSeconds)
	set(&s.MaxBytes, u.MaxBytes)
	set(&s.DelaySeconds, u.DelaySeconds)
	set(&s.WaitSeconds, u.WaitSeconds)
	set(&s.KeyReuseSeconds, u.KeyReuseSeconds)
	if u.Tags != nil {
		r.Tags = *u.Tags
	}
	if u.Key != nil {
		if err := b.rekey(ctx, r, *u.Key); err != nil {
			return nil, err
		}
	}
	if u.DeadLetter != nil || u.RemoveDeadLetter {
		_, holder := b.newWriter()
		if claims, err = b.point(ctx, r, u.DeadLetter, holder); err != nil {
			return nil, err
		}
	}
	same := reflect.DeepEqual(before, r.Settings)
	if same && maps.Equal(tags, r.Tags) {
		return nil, errKeep
	}
	if !same {
		r.Version++
	}
	r.Updated = max(b.Now(), r.Updated)
	return claims, nil
}

// roll brings every shard to the record's version, and notes in the record that it did. Whoever meets a record that
// is not rolled does the same.
func (b *Broker) roll(ctx context.Context, h *handle, r *record) error {
	if r.Rolled == r.Version {
		return nil
	}
	h.refresh(r) // the shards seal what they write of it, perhaps under a new key
	for i := range h.shards() {
		c := &configure{reply: newReply(), version: r.Version, settings: r.Settings}
		h.runner(i).do(c)
		if err := c.await(ctx); err != nil {
			return err
		}
	}
	done, err := b.change(ctx, h.id, func(now *record) ([]eventlog.Claim, error) {
		if now.Rolled >= r.Version {
			return nil, errKeep
		}
		now.Rolled = r.Version
		return nil, nil
	})
	if err != nil {
		return err
	}
	h.refresh(done)
	return nil
}

// configure puts settings in force in one shard.
type configure struct {
	reply
	version  uint64
	settings events.Settings
}

func (c *configure) decide(*group) error { panic("configure runs alone") }

func (c *configure) run(ctx context.Context, r *runner) error {
	return r.writeControl(ctx, c, func(at events.Instant) ([]eventlog.Append, error) {
		if c.version <= r.ledger.Version {
			return nil, nil
		}
		to, sent, err := r.b.bisect(ctx, r.messageStream, r.ledger.Cursor, r.sender.Tail, r.ledger.ExpiredBefore(at))
		if err != nil {
			return nil, err
		}
		return r.control(ctx, r.b, at, queue.Control{Version: c.version, Settings: &c.settings}, func(control events.Position) queue.Command {
			return &queue.Configure{At: at, Version: c.version, Settings: c.settings, Control: control, To: to, Sent: sent}
		})
	})
}

// writeControl commits what build gives for a command, as often as it takes. No appends mean that there is nothing to do.
func (r *runner) writeControl(ctx context.Context, c command, build func(at events.Instant) ([]eventlog.Append, error)) error {
	for attempt := 0; ; attempt++ {
		appends, err := build(r.at())
		if err != nil {
			r.loaded = false // the working state may have a control entry, which has no way back
			return err
		}
		if len(appends) == 0 {
			if sure, err := r.confirm(ctx); sure || err != nil {
				return err
			}
			if err := r.retry(ctx, attempt); err != nil {
				return err
			}
			continue
		}
		commit := eventlog.Commit{At: int64(r.b.Now()), Appends: appends}
		commit.Writer, _ = r.b.newWriter()
		k := onceOf(c)
		if k != nil {
			if commit.Claims, err = k.once.claims(r.b, k.kept(), r.b.Now()+rememberAnswer); err != nil {
				r.loaded = false
				return err
			}
		}
		unknown := false
		err = r.persist(ctx, commit, func(err error) {
			unknown = true
			c.answer(err)
		})
		if err == nil {
			r.stands(commit)
			if k != nil {
				k.once.written.Store(true)
			}
			return nil
		}
		if k != nil && k.once.spentBy(err, r.b.Now()) {
			r.loaded = false
			return errSpent
		}
		loadErr := r.load(ctx)
		if !isConflict(err) || unknown {
			return storeFault(err)
		}
		if loadErr != nil { // the commit is certainly not there; that the queue is gone may be why
			return loadErr
		}
	}
}

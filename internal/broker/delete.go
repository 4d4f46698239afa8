package broker

import (
	"bytes"
	"context"

	"github.com/leaselog/leaselog/events"
	"github.com/leaselog/leaselog/internal/eventlog"
	"github.com/leaselog/leaselog/internal/fault"
)

// Delete removes a queue with its messages; its name is free at once. The queues whose dead-letter queue it was go on
// delivering what they would have moved. Faults: NotFound; by id, a queue deleted less than five minutes ago is none.
func (b *Broker) Delete(ctx context.Context, ref Ref) error {
	return b.bare(ctx, func(o *once) error { return b.delete(ctx, o, ref) })
}

func (b *Broker) delete(ctx context.Context, o *once, ref Ref) error {
	id, err := b.deletable(ctx, ref)
	if err != nil {
		return err
	}
	var sources []events.QueueID
	already := false
	r, err := b.changeOnce(ctx, o, id, func(r *record) ([]eventlog.Claim, []byte, error) {
		sources = r.Sources
		if already = r.gone(); already {
			return nil, nil, errKeep
		}
		claims, err := b.deletion(ctx, r)
		return claims, nil, err
	})
	switch {
	case err != nil:
		return err
	case r.Account != ref.Account:
		return errNoQueue(ref.String())
	case already && r.Rolled == r.Version && (ref.ID == events.QueueID{} || b.Now()-r.Deleted > rememberDeleted):
		return errNoQueue(ref.String()) // one that was left half done is finished instead
	}
	return b.halfway(b.finishDeletion(ctx, r, sources))
}

// deletable gives the id of the queue, which may have been deleted already.
func (b *Broker) deletable(ctx context.Context, ref Ref) (events.QueueID, error) {
	if ref.ID == (events.QueueID{}) {
		id, ok, err := b.readName(ctx, ref.Account, ref.Name) // what is remembered may be a queue that others deleted
		if err == nil && !ok {
			err = errNoQueue(ref.String())
		}
		return id, err
	}
	r, err := b.readRecord(ctx, ref.ID)
	if err == nil && r.Account != ref.Account {
		err = errNoQueue(ref.String())
	}
	return ref.ID, err
}

// deletion marks the record and gives up the name, and the place in the dead-letter queue's list, in the same commit.
func (b *Broker) deletion(ctx context.Context, r *record) ([]eventlog.Claim, error) {
	_, holder := b.newWriter()
	policy := r.Settings.DeadLetter
	claims, err := b.point(ctx, r, nil, holder)
	if err != nil {
		return nil, err
	}
	name, ok, err := b.Log.Claim(ctx, nameClaim(r.Account, r.Name))
	if err != nil {
		return nil, storeFault(err)
	}
	if ok && bytes.Equal(name.Value, r.ID[:]) { // a name that was given up has no value
		claims = append(claims, eventlog.Claim{Key: name.Key, Holder: holder, Until: 0, If: name.Version})
	}
	now := b.Now()
	r.Settings.DeadLetter, r.Settings.Status = policy, events.Deleted
	r.Version++
	r.Deleted, r.Updated = now, now
	return claims, nil
}

// finishDeletion closes the shards, and tells the queues that this was the dead-letter queue of. It may be repeated.
func (b *Broker) finishDeletion(ctx context.Context, r *record, sources []events.QueueID) error {
	if err := b.closeShards(ctx, r); err != nil && !fault.Is(err, fault.NotFound) {
		return err
	}
	for _, s := range sources {
		if err := b.orphan(ctx, s, r.ID); err != nil && !fault.Is(err, fault.NotFound) {
			return err
		}
	}
	return nil
}

// closeShards rolls the deletion through the shards, by the open handle or by one that nobody else finds.
func (b *Broker) closeShards(ctx context.Context, r *record) (err error) {
	b.mu.Lock()
	h := b.queues[r.ID]
	b.mu.Unlock()
	if h == nil {
		if r.Rolled == r.Version {
			return nil
		}
		if h, err = b.newHandle(r); err != nil {
			return err
		}
	}
	defer func() {
		b.forget(r.ID) // here it is gone even while a shard is still to be closed
		h.stop(errNoQueue(r.ID.String()))
	}()
	h.refresh(r)
	err = b.roll(ctx, h, r)
	if fault.Is(err, fault.NotFound) {
		// Somebody here has met a shard that was closed already, and closed the handle. Go on with one of our own.
		h.stop(errNoQueue(r.ID.String()))
		own, err := b.newHandle(r)
		if err != nil {
			return err
		}
		h = own
		return b.roll(ctx, h, r)
	}
	return err
}

// orphan marks the dead-letter policy of a source as gone.
func (b *Broker) orphan(ctx context.Context, source, target events.QueueID) error {
	h, err := b.open(ctx, source)
	if err != nil {
		return err
	}
	r, err := b.change(ctx, source, func(r *record) ([]eventlog.Claim, error) {
		d := r.Settings.DeadLetter
		if r.gone() || d == nil || d.Queue != target || d.Gone {
			return nil, errKeep
		}
		gone := *d
		gone.Gone = true
		r.Settings.DeadLetter = &gone
		r.Version++
		return nil, nil
	})
	if err != nil {
		return err
	}
	h.refresh(r)
	return b.roll(ctx, h, r)
}

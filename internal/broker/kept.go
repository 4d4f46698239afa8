package broker

import (
	"context"

	"golang.org/x/sync/errgroup"

	"github.com/leaselog/leaselog/events"
	"github.com/leaselog/leaselog/internal/fault"
	"github.com/leaselog/leaselog/projections"
)

// keptAtOnce bounds how many queues' views are read at once.
const keptAtOnce = 16

// Depth counts the messages of a queue in its state. Faults: NotFound.
func (b *Broker) Depth(ctx context.Context, id events.QueueID) (*Depth, error) {
	h, err := b.open(ctx, id)
	if err != nil {
		return nil, err
	}
	d, err := h.depth(ctx, h.measureOrCold)
	return d, b.noQueue(id, err)
}

// KeptDepths gives the depths of many queues, as their views have them at this instant; a queue without one is asked for its
// state. What a view does not know yet is missing in its counts, and its places say so. A queue that is gone has none.
func (b *Broker) KeptDepths(ctx context.Context, ids []events.QueueID) ([]*Depth, error) {
	all := make([]*Depth, len(ids))
	at := b.Now()
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(keptAtOnce)
	for i, id := range ids {
		group.Go(func() (err error) {
			all[i], err = b.keptDepth(ctx, id, at)
			if fault.Is(err, fault.NotFound) {
				return nil
			}
			return err
		})
	}
	return all, group.Wait()
}

func (b *Broker) keptDepth(ctx context.Context, id events.QueueID, at events.Instant) (*Depth, error) {
	if b.Views == nil {
		return b.Depth(ctx, id)
	}
	h, err := b.open(ctx, id)
	if err != nil {
		return nil, err
	}
	d, ok, err := ReadKept(ctx, b.Views, id, h.shards(), at)
	if err == nil && !ok {
		return b.Depth(ctx, id)
	}
	return d, storeFault(err)
}

// ReadKept reads a queue's depth from its shards' views, as it is at an instant. It gives false where a shard has no view.
func ReadKept(ctx context.Context, views projections.Store, id events.QueueID, shards int, at events.Instant) (*Depth, bool, error) {
	d := &Depth{Kept: true}
	for i := range shards {
		shard, ok, err := readKept(ctx, views, projections.Shard{Queue: id, Index: i}, at)
		if err != nil || !ok {
			return nil, false, err
		}
		d.add(shard)
	}
	return d, true, nil
}

// readKept reads a shard's view. One that does not decode is as good as none: it will be made anew.
func readKept(ctx context.Context, views projections.Store, name projections.Shard, at events.Instant) (d Depth, ok bool, err error) {
	k, ok, err := views.Load(ctx, name.Key(projections.Depth.View))
	if err != nil || !ok {
		return d, false, err
	}
	r, high, err := projections.ReadKeptDepth(k.Data, at)
	if err != nil {
		return d, false, nil
	}
	count := func(n int64) uint64 { return uint64(max(0, n)) }
	return Depth{Counts: Counts{count(r.Available), count(r.InFlight), count(r.Delayed)}, Ages: r.Ages, At: r.At,
		Shards: []Place{{r.At, high, r.Ends[0].Ledger, r.Ends[0].Messages}}}, true, nil
}

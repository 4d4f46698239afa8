package sweep

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/leaselog/leaselog/internal/broker"
	"github.com/leaselog/leaselog/internal/eventlog"
	"github.com/leaselog/leaselog/internal/views"
	"github.com/leaselog/leaselog/projections"
)

// WorkViews counts views that were behind the log.
const WorkViews broker.Work = "views"

// Views brings up to date every view that is behind its shard, since the last wake-up may be the one that was lost.
var Views = Chore{Name: prefix + "views", Does: "brings up to date what projections keep, where a wake-up was lost",
	Cloud: 15 * time.Minute, Embedded: 15 * time.Minute, queue: wake}

func wake(ctx context.Context, r *run, f *broker.Found) error {
	if f.Gone() || r.site.Views == nil {
		return nil
	}
	log := r.site.Broker.Log
	var errs []error
	for i := range f.Shards {
		name := projections.Shard{Queue: f.ID, Index: i}
		reach, err := views.Reach(ctx, log, name)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		for _, p := range projections.All() {
			errs = append(errs, r.wake(ctx, p, name, reach))
		}
	}
	return errors.Join(errs...)
}

func (r *run) wake(ctx context.Context, p projections.Projection, name projections.Shard, reach projections.Ends) error {
	behind, err := r.behind(ctx, name.Key(p.View), reach)
	if err != nil || !behind {
		return err
	}
	if !r.sweep.Dry {
		f := &views.Follower{Log: r.site.Broker.Log, Store: r.site.Views, Projection: p}
		if err := f.Wake(ctx, name, reach); err != nil {
			return err
		}
	}
	r.sweep.Did(WorkViews, 1)
	return nil
}

// behind says whether a view does not reach as far as the log does. One that cannot be read is.
func (r *run) behind(ctx context.Context, key string, reach projections.Ends) (bool, error) {
	k, ok, err := r.site.Views.Load(ctx, key)
	if err != nil || !ok {
		return true, err
	}
	ends, _, err := projections.Unpack(k.Data)
	return err != nil || !ends.Reach(reach), nil
}

// Shards calls f for each shard of every queue that is not deleted. An error of f does not keep the others from their
// turn; those are in the answer together.
func Shards(ctx context.Context, log eventlog.Log, f func(projections.Shard) error) error {
	const page = 100
	var errs []error
	for after := ""; ; {
		claims, err := log.Claims(ctx, broker.QueuePrefix, after, page)
		if err != nil {
			return errors.Join(append(errs, fmt.Errorf("list the queues: %w", err))...)
		}
		for _, c := range claims {
			after = c.Key
			r, err := broker.ReadRegistered(c.Value)
			if err != nil || r.Gone() {
				errs = append(errs, err)
				continue
			}
			for i := range r.Shards {
				if err := ctx.Err(); err != nil {
					return errors.Join(append(errs, err)...)
				}
				errs = append(errs, f(projections.Shard{Queue: r.ID, Index: i}))
			}
		}
		if len(claims) < page {
			return errors.Join(errs...)
		}
	}
}

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
		errs = append(errs, r.wake(ctx, name, reach))
	}
	return errors.Join(errs...)
}

func (r *run) wake(ctx context.Context, name projections.Shard, reach projections.Ends) error {
	var late []projections.Projection
	for _, p := range r.site.Keeps {
		behind, err := r.behind(ctx, name.Key(p.View), reach)
		if err != nil {
			return err
		}
		if behind {
			late = append(late, p)
		}
	}
	if len(late) > 0 && !r.sweep.Dry {
		f := &views.Follower{Log: r.site.Broker.Log, Store: r.site.Views, Projections: late}
		if err := f.Wake(ctx, name, reach); err != nil {
			return err
		}
	}
	r.sweep.Did(WorkViews, uint64(len(late)))
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
	return Queues(ctx, log, func(q broker.Registered) error {
		var errs []error
		for i := range q.Shards {
			if err := ctx.Err(); err != nil {
				return errors.Join(append(errs, err)...)
			}
			errs = append(errs, f(projections.Shard{Queue: q.ID, Index: i}))
		}
		return errors.Join(errs...)
	})
}

// Queues calls f for each queue that is not deleted, as Shards does.
func Queues(ctx context.Context, log eventlog.Log, f func(broker.Registered) error) error {
	const page = 100
	var errs []error
	for after := ""; ; {
		claims, err := log.Claims(ctx, broker.QueuePrefix, after, page)
		if err != nil {
			return errors.Join(append(errs, fmt.Errorf("list the queues: %w", err))...)
		}
		for _, c := range claims {
			after = c.Key
			q, err := broker.ReadRegistered(c.Value)
			if err == nil && !q.Gone() {
				err = f(q)
			}
			errs = append(errs, err)
		}
		if err := ctx.Err(); err != nil || len(claims) < page {
			return errors.Join(errs...)
		}
	}
}

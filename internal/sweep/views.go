package sweep

import (
	"context"
	"errors"
	"fmt"

	"github.com/leaselog/leaselog/internal/broker"
	"github.com/leaselog/leaselog/internal/eventlog"
	"github.com/leaselog/leaselog/internal/views"
	"github.com/leaselog/leaselog/projections"
)

// Views brings up to date every view that is behind its shard, since the last wake-up may be the one that was lost. It is
// due every few minutes.
var Views = Chore{"sweep-views", func(ctx context.Context, s Site) error {
	f := &views.Follower{Log: s.Broker.Log, Store: s.Views, Projections: projections.All()}
	return Shards(ctx, s.Broker.Log, func(name projections.Shard) error {
		return f.CatchUp(ctx, name)
	})
}}

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

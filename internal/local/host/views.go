package host

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/leaselog/leaselog/events"
	"github.com/leaselog/leaselog/internal/local/store"
	"github.com/leaselog/leaselog/internal/sweep"
	"github.com/leaselog/leaselog/internal/views"
	"github.com/leaselog/leaselog/projections"
)

// following keeps the views of an embedded store, from the commits that the broker tells of.
type following struct {
	*views.Keeper
	store  *store.Store
	logger *slog.Logger
}

func newFollowing(s *store.Store, logger *slog.Logger, viewed func(time.Duration)) *following {
	f := &views.Follower{Log: s, Store: s, Projections: projections.Embedded()}
	k := views.NewKeeper(f, logger)
	k.Viewed = viewed
	return &following{k, s, logger}
}

// follow keeps views until ctx ends. It begins with those that a stop or a crash has left behind their log. What nobody
// tells of later, such as a commit that took effect while nobody waited any more, is the sweep's.
func (v *following) follow(ctx context.Context) {
	var all sync.WaitGroup
	all.Go(func() { v.Run(ctx) })
	defer all.Wait()
	if err := sweep.Shards(ctx, v.store, func(name projections.Shard) error { return v.look(ctx, name) }); err != nil && ctx.Err() == nil {
		v.logger.Warn("not all views could be compared with the log", "error", err)
	}
}

func (v *following) look(ctx context.Context, name projections.Shard) error {
	reach, err := views.Reach(ctx, v.store, name)
	if err == nil {
		v.Reached(name, reach)
	}
	return err
}

// buried removes the views of a queue that is gone for good.
func (v *following) buried(ctx context.Context, queue events.QueueID, shards int) error {
	for i := range shards {
		if err := v.Forget(ctx, projections.Shard{Queue: queue, Index: i}); err != nil {
			return err
		}
	}
	return nil
}

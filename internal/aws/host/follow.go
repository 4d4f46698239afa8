package host

import (
	"context"
	"log/slog"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"golang.org/x/sync/errgroup"

	"github.com/leaselog/leaselog/internal/aws/stream"
	"github.com/leaselog/leaselog/internal/views"
	"github.com/leaselog/leaselog/projections"
)

// Follow keeps all views by the stream of changes until ctx ends, shared with the other processes that do so. It is
// harmless beside the project-* functions, and costs what they do once more.
func (d *Deployment) Follow(ctx context.Context, name string) error {
	f := &views.Follower{Log: d.Log, Store: d.Views, Projections: projections.All()}
	c := &stream.Consumer{Client: kinesis.NewFromConfig(d.AWS), Stream: name, Log: d.Log, Store: d.Views, Now: func() int64 { return int64(d.Now()) },
		Logger: d.Logger, Rand: d.Rand, Consume: func(ctx context.Context, all []stream.Wakeup) error { return d.wake(ctx, f, all) }}
	return c.Run(ctx)
}

// wake brings views up to date. What would fail again and again is told, and holds up nothing else.
func (d *Deployment) wake(ctx context.Context, f *views.Follower, all []stream.Wakeup) error {
	var workers errgroup.Group
	workers.SetLimit(followersMax)
	for _, w := range all {
		workers.Go(func() error {
			err := f.Wake(ctx, w.Shard, w.Reach)
			if err == nil && d.Viewed != nil {
				d.Viewed(time.Duration(d.Now()-w.At) * time.Millisecond)
			}
			if views.Poisoned(err) {
				d.Logger.ErrorContext(ctx, "a view was set aside", slog.Any("error", err))
				return nil
			}
			return err
		})
	}
	return workers.Wait()
}

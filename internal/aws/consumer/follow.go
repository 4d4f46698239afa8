package consumer

import (
	"context"
	"io"
	"log/slog"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"golang.org/x/sync/errgroup"

	"github.com/leaselog/leaselog/events"
	"github.com/leaselog/leaselog/internal/aws/stream"
	"github.com/leaselog/leaselog/internal/eventlog"
	"github.com/leaselog/leaselog/internal/views"
	"github.com/leaselog/leaselog/projections"
)

// Views keeps all views of a deployment by the stream of its log's changes.
type Views struct {
	AWS    aws.Config
	Stream string // name
	Log    eventlog.Log
	Store  projections.Store
	Now    func() events.Instant
	Rand   io.Reader
	Logger *slog.Logger
	Viewed func(lag time.Duration) // hears how long after a change its view had it; nil: nobody does
}

// viewsMax bounds the shards of a batch that are brought up to date at once.
const viewsMax = 8

// Follow keeps them until ctx ends, shared with the other processes that do so. It is harmless beside the project-*
// functions, and costs what they do once more.
func (v *Views) Follow(ctx context.Context) error {
	f := &views.Follower{Log: v.Log, Store: v.Store, Projections: projections.All()}
	c := &Consumer{Client: kinesis.NewFromConfig(v.AWS), Stream: v.Stream, Log: v.Log, Store: v.Store, Now: func() int64 { return int64(v.Now()) },
		Logger: v.Logger, Rand: v.Rand, Consume: func(ctx context.Context, all []stream.Wakeup) error { return v.wake(ctx, f, all) }}
	return c.Run(ctx)
}

// wake brings views up to date. What would fail again and again is told, and holds up nothing else.
func (v *Views) wake(ctx context.Context, f *views.Follower, all []stream.Wakeup) error {
	var workers errgroup.Group
	workers.SetLimit(viewsMax)
	for _, w := range all {
		workers.Go(func() error {
			err := f.Wake(ctx, w.Shard, w.Reach)
			switch {
			case views.Poisoned(err):
				v.Logger.ErrorContext(ctx, "a view was set aside", slog.Any("error", err))
				return nil
			case err == nil && v.Viewed != nil:
				v.Viewed(time.Duration(v.Now()-w.At) * time.Millisecond)
			}
			return err
		})
	}
	return workers.Wait()
}

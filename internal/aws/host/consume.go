package host

import (
	"context"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-lambda-go/lambda"
	"golang.org/x/sync/errgroup"

	leaselog "github.com/leaselog/leaselog/events"
	"github.com/leaselog/leaselog/internal/aws/store"
	"github.com/leaselog/leaselog/internal/aws/stream"
	"github.com/leaselog/leaselog/internal/views"
	"github.com/leaselog/leaselog/projections"
)

// Consume is a function that keeps a projection's views by the records of the log table's changes. It needs no key: what
// it reads of the log is not sealed.
func Consume(p projections.Projection) {
	lambda.Start(newFunction(p.Name, os.Getenv, os.Stdout).consuming(p))
}

// followersMax bounds the shards of a batch that are brought up to date at once.
const followersMax = 8

// consuming brings views up to date, and names the records for which that failed, so that they come again. A record that
// would fail again and again is set aside: it is told, an alarm rings, and the records behind it are not held up.
func (f *function) consuming(p projections.Projection) func(context.Context, events.KinesisEvent) (events.KinesisEventResponse, error) {
	return func(ctx context.Context, e events.KinesisEvent) (a events.KinesisEventResponse, err error) {
		ctx, end := f.telemetry.begin(ctx, "")
		defer end()
		ctx, cancel := shorter(ctx)
		defer cancel()
		follower, err := f.follow(p)
		if err != nil {
			return a, err
		}
		a.BatchItemFailures = []events.KinesisBatchItemFailure{} // not null, which would fail the whole batch
		var mu sync.Mutex
		var workers errgroup.Group
		workers.SetLimit(followersMax)
		for _, w := range f.wakeups(ctx, e) {
			workers.Go(func() error {
				err := follower.Wake(ctx, w.Shard, w.Reach)
				switch {
				case err == nil:
					f.telemetry.lagging(w.At, f.instant())
				case views.Poisoned(err):
					f.setAside(ctx, w.records[0], err)
				default:
					f.telemetry.logger.WarnContext(ctx, "a view is behind, and its records come again", slog.Any("error", err), slog.Int("records", len(w.records)))
					mu.Lock()
					defer mu.Unlock()
					for _, r := range w.records {
						a.BatchItemFailures = append(a.BatchItemFailures, events.KinesisBatchItemFailure{ItemIdentifier: r})
					}
				}
				return nil
			})
		}
		_ = workers.Wait() // none gives an error
		return a, nil
	}
}

// wakeup is what all records of a batch say of one shard.
type wakeup struct {
	stream.Wakeup
	records []string // their sequence numbers
}

// wakeups reads the records of a batch, and sets aside what does not decode.
func (f *function) wakeups(ctx context.Context, e events.KinesisEvent) (all []*wakeup) {
	of := map[projections.Shard]*wakeup{}
	for _, r := range e.Records {
		w, wakes, err := stream.Decode(r.Kinesis.Data)
		if err != nil {
			f.setAside(ctx, r.Kinesis.SequenceNumber, err)
		}
		if !wakes {
			continue
		}
		sum := of[w.Shard]
		if sum == nil {
			sum = &wakeup{Wakeup: w}
			of[w.Shard] = sum
			all = append(all, sum)
		}
		if sum.At == 0 || w.At > 0 && w.At < sum.At {
			sum.At = w.At // of the change that waited longest
		}
		sum.Reach.Ledger = max(sum.Reach.Ledger, w.Reach.Ledger)
		sum.Reach.Messages = max(sum.Reach.Messages, w.Reach.Messages)
		sum.records = append(sum.records, r.Kinesis.SequenceNumber)
	}
	return all
}

func (f *function) setAside(ctx context.Context, record string, err error) {
	f.telemetry.add(poison, 1)
	f.telemetry.logger.ErrorContext(ctx, "a record of the stream was set aside", slog.String("record", record), slog.Any("error", err))
}

// follow gives the follower of this process.
func (f *function) follow(p projections.Projection) (*views.Follower, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.follower != nil {
		return f.follower, nil
	}
	s, err := f.store()
	if err == nil {
		f.follower = &views.Follower{Log: s, Store: s, Projections: []projections.Projection{p}}
	}
	return f.follower, err
}

// store gives the tables to a function that needs no key. f.mu is held.
func (f *function) store() (*store.Store, error) {
	if f.tables != nil {
		return f.tables, nil
	}
	c, err := FromEnvironment(f.getenv)
	if err != nil {
		return nil, err
	}
	c.Now, c.Consumed = f.now, f.telemetry.consumed
	c.fill()
	f.tables, err = openStore(c)
	return f.tables, err
}

// instant is the function's clock.
func (f *function) instant() leaselog.Instant {
	if f.now != nil {
		return f.now()
	}
	return leaselog.Instant(time.Now().UnixMilli())
}

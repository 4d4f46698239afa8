package host

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/aws/aws-lambda-go/lambda"
	"golang.org/x/sync/errgroup"

	leaselog "github.com/leaselog/leaselog/events"
	"github.com/leaselog/leaselog/internal/aws/store"
	"github.com/leaselog/leaselog/internal/broker"
)

// ReportName is the function that tells CloudWatch what is in the queues, since that changes with time alone.
const ReportName = "report-queues"

// Report is that function. It is due every minute. It reads the views and needs no key.
func Report() { lambda.Start(newFunction(ReportName, os.Getenv, os.Stdout).reporting()) }

// reportAtOnce bounds how many queues' views are read at once.
const reportAtOnce = 16

func (f *function) reporting() func(context.Context, json.RawMessage) error {
	return func(ctx context.Context, _ json.RawMessage) error {
		ctx, end := f.telemetry.begin(ctx, "")
		defer end()
		ctx, cancel := shorter(ctx)
		defer cancel()
		f.mu.Lock()
		s, err := f.store()
		f.mu.Unlock()
		if err != nil {
			return fmt.Errorf("%s: %w", ReportName, err)
		}
		all, err := f.count(ctx, s, f.instant())
		if err != nil {
			return fmt.Errorf("%s: %w", ReportName, err)
		}
		f.telemetry.report(time.Now(), idsOf(ctx), all)
		f.telemetry.add(sweptThrough, 1)
		return nil
	}
}

// count reads the depth of every queue from its views. A queue that has none yet is left out.
func (f *function) count(ctx context.Context, s *store.Store, at leaselog.Instant) (all []counted, err error) {
	if all, err = registered(ctx, s); err != nil {
		return nil, err
	}
	group, inner := errgroup.WithContext(ctx)
	group.SetLimit(reportAtOnce)
	for i := range all {
		group.Go(func() (err error) {
			q := &all[i]
			q.Depth, _, err = broker.ReadKept(inner, s, q.ID, q.Registered.Shards, at)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, fmt.Errorf("read the views: %w", err)
	}
	known := all[:0]
	for _, q := range all {
		if q.Depth != nil {
			known = append(known, q)
		}
	}
	if n := len(all) - len(known); n > 0 {
		f.telemetry.logger.WarnContext(ctx, "queues have no depth view yet, and are not counted", slog.Int("queues", n))
	}
	return known, nil
}

// registered lists the queues that are not deleted. A record that does not decode keeps no other from being counted, and is
// told by the sweeps.
func registered(ctx context.Context, s *store.Store) (all []counted, err error) {
	const page = 100
	for after := ""; ; {
		claims, err := s.Claims(ctx, broker.QueuePrefix, after, page)
		if err != nil {
			return nil, fmt.Errorf("list the queues: %w", err)
		}
		for _, c := range claims {
			after = c.Key
			if r, err := broker.ReadRegistered(c.Value); err == nil && !r.Gone() {
				all = append(all, counted{Registered: r})
			}
		}
		if len(claims) < page {
			return all, nil
		}
	}
}

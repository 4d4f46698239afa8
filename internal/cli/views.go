package cli

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/leaselog/leaselog/events"
	"github.com/leaselog/leaselog/internal/auth"
	awshost "github.com/leaselog/leaselog/internal/aws/host"
	"github.com/leaselog/leaselog/internal/sweep"
	"github.com/leaselog/leaselog/internal/views"
	"github.com/leaselog/leaselog/projections"
)

// viewed is what the commands about views share: where they are, and of which queue.
type viewed struct {
	Program
	backing
	account, queue string
}

func (p Program) views() *cobra.Command {
	v := &viewed{Program: p}
	cmd := &cobra.Command{
		Use:   "views",
		Short: "Show and rebuild what projections keep of queues",
		Long: `Show and rebuild what projections keep of queues, in a deployment in AWS: --store dynamodb. Views follow the log, within
a second or so, and say up to where; whatever happens to them, the log has everything to make them again.`,
		Args: cobra.NoArgs,
		RunE: needsCommand,
	}
	v.flags(cmd)
	f := cmd.PersistentFlags()
	f.StringVar(&v.queue, "queue", "", "name or id of the only queue (default: all)")
	f.StringVar(&v.account, "account", auth.AccountDefault, "account of a queue that is named")
	cmd.AddCommand(v.show(), v.rebuild())
	return cmd
}

// on opens the deployment and calls work with the shards to work on.
func (v *viewed) on(work func(context.Context, *awshost.Deployment, []projections.Shard) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, _ []string) error {
		remote, err := v.remote(cmd)
		if err != nil {
			return err
		}
		if !remote {
			return usage("views are kept in AWS only: give --store %s", dynamodb)
		}
		d, err := v.backing.connect(cmd.Context(), awshost.Config{})
		if err != nil {
			return err
		}
		defer d.Close()
		shards, err := v.shards(cmd.Context(), d)
		if err != nil {
			return err
		}
		return work(cmd.Context(), d, shards)
	}
}

func (v *viewed) shards(ctx context.Context, d *awshost.Deployment) (all []projections.Shard, err error) {
	var only events.QueueID
	if v.queue != "" {
		if only, err = d.FindQueue(ctx, v.account, v.queue); err != nil {
			return nil, err
		}
	}
	err = sweep.Shards(ctx, d.Log, func(name projections.Shard) error {
		if v.queue == "" || name.Queue == only {
			all = append(all, name)
		}
		return nil
	})
	return all, err
}

func (v *viewed) rebuild() *cobra.Command {
	return &cobra.Command{
		Use:   "rebuild",
		Short: "Make views again from the log, whatever is kept",
		Long: `Make views again from the log, whatever is kept. Nothing stops meanwhile: what is written while a view is made comes
into it by the next change. A view that was right before has the same bytes after.`,
		Example: "  leaselog views rebuild --store dynamodb --queue orders",
		Args:    cobra.NoArgs,
		RunE: v.on(func(ctx context.Context, d *awshost.Deployment, shards []projections.Shard) error {
			began, entries, made := time.Now(), 0, 0
			bar := v.begin(-1, "entries", false)
			var errs []error
			for _, p := range projections.All() {
				f := &views.Follower{Log: d.Log, Store: d.Views}
				for _, name := range shards {
					if err := f.Rebuild(ctx, name, p, func(n int) { entries += n; bar.add(n) }); err != nil {
						errs = append(errs, err)
						continue
					}
					made++
				}
			}
			bar.end()
			if err := errors.Join(errs...); err != nil {
				return err
			}
			if v.options.json {
				return v.printJSON(map[string]any{"views": made, "entries": entries, "seconds": time.Since(began).Seconds()})
			}
			return v.printf("made %s of %d entries in %v\n", count(made, "view"), entries, time.Since(began).Round(time.Millisecond))
		}),
		ValidArgsFunction: cobra.NoFileCompletions,
	}
}

// shownDepth is one shard's view as it is printed.
type shownDepth struct {
	Queue     string `json:"queue_id"`
	Shard     int    `json:"shard"`
	Available int64  `json:"available"`
	InFlight  int64  `json:"in_flight"`
	Delayed   int64  `json:"delayed"`
	Waiting   int64  `json:"oldest_waiting_milliseconds"`
	Total     int64  `json:"oldest_total_milliseconds"`
	Ledger    uint64 `json:"ledger"`
	Messages  uint64 `json:"messages"`
	Log       string `json:"log_time"` // of the last entry that is in it
}

func (v *viewed) show() *cobra.Command {
	return &cobra.Command{
		Use:   "show",
		Short: "Print the depth view of every shard, as it is now, and up to where it knows the log",
		Long: `Print the depth view of every shard, as it is now: counts, the ages of the message that waits longest (since it became
deliverable here, and since it was first sent), and up to where in the ledger and in the message stream it knows the log.`,
		Example: "  leaselog views show --store dynamodb --queue orders",
		Args:    cobra.NoArgs,
		RunE: v.on(func(ctx context.Context, d *awshost.Deployment, shards []projections.Shard) error {
			for _, name := range shards {
				s, err := readDepth(ctx, d, name)
				if err != nil {
					return err
				}
				if v.options.json {
					err = v.printJSON(s)
				} else {
					err = v.printf("%s shard %d: %d available, %d in flight, %d delayed; oldest waits %v, sent %v ago; up to ledger %d, messages %d, %s\n", s.Queue, s.Shard,
						s.Available, s.InFlight, s.Delayed, time.Duration(s.Waiting)*time.Millisecond, time.Duration(s.Total)*time.Millisecond, s.Ledger, s.Messages, s.Log)
				}
				if err != nil {
					return err
				}
			}
			return nil
		}),
		ValidArgsFunction: cobra.NoFileCompletions,
	}
}

func readDepth(ctx context.Context, d *awshost.Deployment, name projections.Shard) (s shownDepth, err error) {
	s = shownDepth{Queue: name.Queue.String(), Shard: name.Index, Log: "nothing"}
	k, ok, err := d.Views.Load(ctx, name.Key(projections.Depth.View))
	if err != nil || !ok {
		return s, err
	}
	ends, view, err := projections.Unpack(k.Data)
	if err != nil {
		return s, err
	}
	v, err := projections.ReadDepth(view)
	if err != nil {
		return s, err
	}
	r, err := v.ReadAt(d.Now())
	s.Available, s.InFlight, s.Delayed, s.Waiting, s.Total = r.Available, r.InFlight, r.Delayed, r.WaitingMillis, r.TotalMillis
	s.Ledger, s.Messages, s.Log = ends.Ledger, uint64(ends.Messages), time.UnixMilli(int64(v.At)).UTC().Format(time.RFC3339Nano)
	return s, err
}

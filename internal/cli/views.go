package cli

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/leaselog/leaselog/internal/auth"
	"github.com/leaselog/leaselog/internal/local/admin"
)

// viewed is what the commands about views share: where they are, and of which queue.
type viewed struct {
	Program
	backing
	account string
}

func (p Program) views() *cobra.Command {
	v := &viewed{Program: p}
	cmd := &cobra.Command{
		Use:   "views",
		Short: "Show and rebuild what projections keep of queues",
		Long: `Show and rebuild what projections keep of queues: in a data directory, through the server that runs on it or without
one, or in a deployment in AWS (--store dynamodb). Views follow the log, within a second or so, and say up to where;
whatever happens to them, the log has everything to make them again.`,
		Args: cobra.NoArgs,
		RunE: needsCommand,
	}
	v.flags(cmd)
	cmd.PersistentFlags().StringVar(&v.account, "account", auth.AccountDefault, "account of a queue that is named")
	cmd.AddCommand(v.show(), v.rebuild())
	return cmd
}

// on opens the directory or the deployment and calls work with the shards to work on: those of the queue in the arguments, or
// of all.
func (v *viewed) on(work func(context.Context, *admin.Client, []admin.Depth) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		c, err := v.administration(cmd, false)
		if err != nil {
			return err
		}
		var queue string
		if len(args) > 0 {
			queue = args[0]
		}
		shards, err := c.Views(cmd.Context(), v.account, queue)
		if err == nil {
			err = work(cmd.Context(), c, shards)
		}
		return errors.Join(err, c.Close())
	}
}

func (v *viewed) rebuild() *cobra.Command {
	return &cobra.Command{
		Use:   "rebuild [QUEUE]",
		Short: "Make views again from the log, whatever is kept",
		Long: `Make the views of a queue, or of all, again from the log, whatever is kept. Nothing stops meanwhile: what is written
while a view is made comes into it by the next change. A view that was right before has the same bytes after.`,
		Example: `  leaselog views rebuild --data ./leaselog-data
  leaselog views rebuild orders --store dynamodb`,
		Args: cobra.MaximumNArgs(1),
		RunE: v.on(func(ctx context.Context, c *admin.Client, shards []admin.Depth) error {
			began, entries, made := time.Now(), 0, 0
			bar := v.begin(-1, "entries", false)
			var errs []error
			for _, s := range shards {
				done, err := c.RebuildViews(ctx, s)
				errs = append(errs, err)
				entries += done.Entries
				made += done.Views
				bar.add(done.Entries)
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
		ValidArgsFunction: v.completeQueues(1),
	}
}

func (v *viewed) show() *cobra.Command {
	return &cobra.Command{
		Use:   "show [QUEUE]",
		Short: "Print the depth view of every shard, as it is now, and up to where it knows the log",
		Long: `Print the depth view of every shard of a queue, or of all, as it is now: counts, the ages of the message that waits longest
(since it became deliverable here, and since it was first sent), and up to where in the ledger and in the message stream it
knows the log.`,
		Example: `  leaselog views show --data ./leaselog-data
  leaselog views show orders --store dynamodb`,
		Args: cobra.MaximumNArgs(1),
		RunE: v.on(func(_ context.Context, _ *admin.Client, shards []admin.Depth) error {
			for _, s := range shards {
				var err error
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
		ValidArgsFunction: v.completeQueues(1),
	}
}

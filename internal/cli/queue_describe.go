package cli

import (
	"github.com/spf13/cobra"

	"github.com/leaselog/leaselog/internal/client"
)

func (p Program) queueDescribe() *cobra.Command {
	var exact bool
	cmd := &cobra.Command{
		Use:   "describe QUEUE",
		Short: "Show a queue's settings and how many messages it holds",
		Long: `Show a queue's settings and how many messages it holds. The API counts up to 10000 of each kind. --exact counts on, shows
how old the oldest message is, and says up to where in the log and at which instant that is true; with --json it
prints the depth alone.`,
		Example: "  leaselog queue describe orders\n  leaselog queue describe orders --exact\n  leaselog queue describe orders --json | jq .depth.approximate_available",
		Args:    cobra.ExactArgs(1),
		RunE: p.talk(func(cmd *cobra.Command, c *client.Client, args []string) error {
			q, err := c.Queue(cmd.Context(), args[0])
			if err != nil || !exact {
				return p.shown(q, nil, err)
			}
			d, err := c.Depth(cmd.Context(), q.ID)
			return p.shown(q, d, err)
		}),
		ValidArgsFunction: p.completeQueues(1),
	}
	cmd.Flags().BoolVar(&exact, "exact", false, "count without a cap, and say of which place of the log")
	return cmd
}

// shown prints a queue, with its exact depth where that is known, unless there is an error.
func (p Program) shown(q *client.Queue, d *client.WholeDepth, err error) error {
	switch {
	case err != nil:
		return err
	case d != nil && p.options.json:
		return p.printJSON(d)
	}
	return p.showQueueWith(q, d)
}

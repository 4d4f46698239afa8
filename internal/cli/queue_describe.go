package cli

import (
	"github.com/spf13/cobra"

	"github.com/leaselog/leaselog/internal/client"
)

func (p Program) queueDescribe() *cobra.Command {
	return &cobra.Command{
		Use:     "describe QUEUE",
		Short:   "Show a queue's settings and how many messages it holds",
		Example: "  leaselog queue describe orders\n  leaselog queue describe orders --json | jq .depth.approximate_available",
		Args:    cobra.ExactArgs(1),
		RunE: p.talk(func(cmd *cobra.Command, c *client.Client, args []string) error {
			q, err := c.Queue(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			return p.showQueue(q)
		}),
		ValidArgsFunction: p.completeQueues(1),
	}
}

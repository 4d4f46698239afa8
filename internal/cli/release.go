package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/leaselog/leaselog/internal/client"
)

func (p Program) release() *cobra.Command {
	return &cobra.Command{
		Use:     "release QUEUE [RECEIPT…]",
		Short:   "Give received messages back, so that others get them at once",
		Long:    "Give received messages back, so that others get them at once. The receive still counts." + receiptHelp,
		Example: "  leaselog release orders 019b2f…",
		Args:    cobra.MinimumNArgs(1),
		RunE: p.talk(func(cmd *cobra.Command, c *client.Client, args []string) error {
			s := &settling{Program: p, queue: args[0], done: "released"}
			s.act = func(ctx context.Context, receipts []string) ([]client.Result, error) {
				return c.ExtendBatch(ctx, args[0], receipts, 0)
			}
			return s.run(cmd, args[1:])
		}),
		ValidArgsFunction: p.completeQueues(1),
	}
}

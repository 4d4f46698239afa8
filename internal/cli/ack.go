package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/leaselog/leaselog/internal/client"
)

func (p Program) ack() *cobra.Command {
	return &cobra.Command{
		Use:     "ack QUEUE [RECEIPT…]",
		Short:   "Finish received messages, so that they are not delivered again",
		Long:    "Finish received messages, so that they are not delivered again." + receiptHelp,
		Example: "  leaselog ack orders 019b2f…\n  leaselog receive orders --max 10 --json | leaselog ack orders",
		Args:    cobra.MinimumNArgs(1),
		RunE: p.talk(func(cmd *cobra.Command, c *client.Client, args []string) error {
			s := &settling{Program: p, queue: args[0], done: "acked"}
			s.act = func(ctx context.Context, receipts []string) ([]client.Result, error) {
				return c.AckBatch(ctx, args[0], receipts)
			}
			return s.run(cmd, args[1:])
		}),
		ValidArgsFunction: p.completeQueues(1),
	}
}

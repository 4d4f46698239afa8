package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/leaselog/leaselog/internal/client"
)

func (p Program) release() *cobra.Command {
	cmd := p.settle("released", func(c *client.Client, ctx context.Context, queue string, receipts []string) ([]client.Result, error) {
		return c.ExtendBatch(ctx, queue, receipts, 0)
	})
	cmd.Use = "release QUEUE [RECEIPT…]"
	cmd.Short = "Give received messages back, so that others get them at once"
	cmd.Long = cmd.Short + ". The receive still counts." + receiptHelp
	cmd.Example = "  leaselog release orders 019b2f…"
	return cmd
}

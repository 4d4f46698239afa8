package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/leaselog/leaselog/internal/client"
)

func (p Program) extend() *cobra.Command {
	var lease seconds
	cmd := p.settle("extended", func(c *client.Client, ctx context.Context, queue string, receipts []string) ([]client.Result, error) {
		return c.ExtendBatch(ctx, queue, receipts, *lease.value)
	})
	cmd.Use = "extend QUEUE [RECEIPT…] --lease DURATION"
	cmd.Short = "Keep received messages for longer"
	cmd.Long = "Keep received messages for longer: their leases then end so long from now, not from when they began." + receiptHelp
	cmd.Example = "  leaselog extend orders --lease 10m 019b2f…"
	cmd.PreRunE = func(*cobra.Command, []string) error {
		if lease.value != nil && *lease.value == 0 {
			return usage("a lease of 0 seconds gives the message back: that is leaselog release")
		}
		return nil
	}
	cmd.Flags().Var(&lease, "lease", "how long from now, 1s to 12h; required")
	_ = cmd.MarkFlagRequired("lease")
	return cmd
}

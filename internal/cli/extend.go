package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/leaselog/leaselog/internal/client"
)

func (p Program) extend() *cobra.Command {
	var lease seconds
	cmd := &cobra.Command{
		Use:     "extend QUEUE [RECEIPT…] --lease DURATION",
		Short:   "Keep received messages for longer",
		Long:    "Keep received messages for longer: their leases then end so long from now, not from when they began." + receiptHelp,
		Example: "  leaselog extend orders --lease 10m 019b2f…",
		Args:    cobra.MinimumNArgs(1),
		RunE: p.talk(func(cmd *cobra.Command, c *client.Client, args []string) error {
			if *lease.value == 0 {
				return usage("a lease of 0 seconds gives the message back: that is leaselog release")
			}
			s := &settling{Program: p, queue: args[0], done: "extended"}
			s.act = func(ctx context.Context, receipts []string) ([]client.Result, error) {
				return c.ExtendBatch(ctx, args[0], receipts, *lease.value)
			}
			return s.run(cmd, args[1:])
		}),
		ValidArgsFunction: p.completeQueues(1),
	}
	cmd.Flags().Var(&lease, "lease", "how long from now, 1s to 12h; required")
	_ = cmd.MarkFlagRequired("lease")
	return cmd
}

package cli

import (
	"github.com/spf13/cobra"

	"github.com/leaselog/leaselog/internal/client"
)

func (p Program) ack() *cobra.Command {
	cmd := p.settle("acked", (*client.Client).AckBatch)
	cmd.Use = "ack QUEUE [RECEIPT…]"
	cmd.Short = "Finish received messages, so that they are not delivered again"
	cmd.Long = cmd.Short + "." + receiptHelp
	cmd.Example = "  leaselog ack orders 019b2f…\n  leaselog receive orders --max 10 --json | leaselog ack orders"
	return cmd
}

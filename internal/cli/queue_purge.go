package cli

import (
	"github.com/spf13/cobra"

	"github.com/leaselog/leaselog/internal/client"
)

func (p Program) queuePurge() *cobra.Command {
	var yes bool
	cmd := &cobra.Command{
		Use:   "purge QUEUE",
		Short: "Delete every message of a queue",
		Long: `Delete every message of a queue: those that are available, those that are leased and those that are delayed. Receipts
that were given out do no longer count. On a terminal it asks first.`,
		Example: "  leaselog queue purge orders --yes",
		Args:    cobra.ExactArgs(1),
		RunE: p.talk(func(cmd *cobra.Command, c *client.Client, args []string) error {
			if err := p.confirm(yes, "Delete every message of %s?", args[0]); err != nil {
				return err
			}
			n, err := c.Purge(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			if p.options.json {
				return p.printJSON(map[string]int{"messages_deleted": n})
			}
			return p.printf("deleted %s of %s\n", count(n, "message"), args[0])
		}),
		ValidArgsFunction: p.completeQueues(1),
	}
	yesFlag(cmd, &yes)
	return cmd
}

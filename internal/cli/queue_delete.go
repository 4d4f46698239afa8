package cli

import (
	"github.com/spf13/cobra"

	"github.com/leaselog/leaselog/internal/client"
)

func (p Program) queueDelete() *cobra.Command {
	var yes bool
	cmd := &cobra.Command{
		Use:     "delete QUEUE",
		Short:   "Delete a queue with its messages",
		Long:    `Delete a queue with its messages. On a terminal it asks first.`,
		Example: "  leaselog queue delete orders --yes",
		Args:    cobra.ExactArgs(1),
		RunE: p.talk(func(cmd *cobra.Command, c *client.Client, args []string) error {
			if err := p.confirm(yes, "Delete the queue %s with all its messages?", args[0]); err != nil {
				return err
			}
			if err := c.DeleteQueue(cmd.Context(), args[0]); err != nil {
				return err
			}
			return p.deleted(args[0])
		}),
		ValidArgsFunction: p.completeQueues(1),
	}
	yesFlag(cmd, &yes)
	return cmd
}

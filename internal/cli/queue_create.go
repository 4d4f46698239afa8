package cli

import (
	"github.com/spf13/cobra"

	"github.com/leaselog/leaselog/internal/client"
)

func (p Program) queueCreate() *cobra.Command {
	var s settings
	var contentDedup bool
	var key string
	cmd := &cobra.Command{
		Use:   "create NAME",
		Short: "Create a queue",
		Long:  `Create a queue. A name that ends in .fifo makes a FIFO queue, which keeps the order inside each message group.`,
		Example: `  leaselog queue create orders --lease 5m --retention 7d
  leaselog queue create orders.fifo --content-dedup
  leaselog queue create work --dead-letter failed --max-receives 3 --tag team=billing`,
		Args: cobra.ExactArgs(1),
		RunE: p.talk(func(cmd *cobra.Command, c *client.Client, args []string) error {
			in := client.CreateQueue{Name: args[0], IdempotencyKey: key}
			var err error
			if in.Settings, err = s.read(cmd); err != nil {
				return err
			}
			if cmd.Flags().Changed("content-dedup") {
				in.ContentBasedDeduplication = &contentDedup
			}
			q, err := c.CreateQueue(cmd.Context(), in)
			if err != nil {
				return err
			}
			return p.showQueue(q)
		}),
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	f := s.flags(p, cmd)
	f.BoolVar(&contentDedup, "content-dedup", false, "FIFO: messages with the same body within 5 minutes are one")
	f.StringVar(&key, "idempotency-key", "", "makes the command repeatable: the same key again gives the first outcome")
	return cmd
}

package cli

import (
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/leaselog/leaselog/internal/client"
)

func (p Program) queueUpdate() *cobra.Command {
	var s settings
	var in client.UpdateQueue
	cmd := &cobra.Command{
		Use:   "update QUEUE",
		Short: "Change a queue's settings",
		Long: `Change a queue's settings; what is not named stays as it is. Tags that are given replace all former ones. Name, kind and
content deduplication are fixed when the queue is created.`,
		Example: `  leaselog queue update orders --lease 2m
  leaselog queue update orders --no-dead-letter --no-tags`,
		Args: cobra.ExactArgs(1),
		RunE: p.talk(func(cmd *cobra.Command, c *client.Client, args []string) error {
			if !anyChanged(cmd) {
				return usage("nothing to change was named; see: leaselog queue update --help")
			}
			var err error
			if in.Settings, err = s.read(cmd); err != nil {
				return err
			}
			q, err := c.UpdateQueue(cmd.Context(), args[0], in)
			if err != nil {
				return err
			}
			return p.showQueue(q)
		}),
		ValidArgsFunction: p.completeQueues(1),
	}
	f := s.flags(p, cmd)
	f.BoolVar(&in.ClearRedrivePolicy, "no-dead-letter", false, "remove the dead letter queue")
	f.BoolVar(&in.ClearTags, "no-tags", false, "remove all tags")
	f.BoolVar(&in.ClearKMSKey, "no-key", false, "go back to the platform's key, for new messages")
	cmd.MarkFlagsMutuallyExclusive("dead-letter", "no-dead-letter")
	cmd.MarkFlagsMutuallyExclusive("tag", "no-tags")
	cmd.MarkFlagsMutuallyExclusive("key", "no-key")
	return cmd
}

// anyChanged says whether a flag of the command itself was given.
func anyChanged(cmd *cobra.Command) (changed bool) {
	cmd.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) { changed = changed || f.Changed })
	return changed
}

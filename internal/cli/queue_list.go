package cli

import (
	"github.com/spf13/cobra"

	"github.com/leaselog/leaselog/internal/client"
)

func (p Program) queueList() *cobra.Command {
	return &cobra.Command{
		Use:     "list",
		Aliases: []string{"ls"},
		Short:   "List all queues, by name",
		Example: "  leaselog queue list\n  leaselog queue list --json | jq -r .name",
		Args:    cobra.NoArgs,
		RunE: p.talk(func(cmd *cobra.Command, c *client.Client, _ []string) error {
			var all []*client.Queue
			for q, err := range c.Queues(cmd.Context()) {
				if err != nil {
					return err
				}
				all = append(all, q)
			}
			if len(all) == 0 {
				p.note("there are no queues; make one with: leaselog queue create NAME")
			}
			return list(p, all, []string{"NAME", "KIND", "LEASE", "RETENTION", "DEAD LETTER", "CREATED"}, queueRow)
		}),
		ValidArgsFunction: cobra.NoFileCompletions,
	}
}

func queueRow(q *client.Queue) []string {
	deadLetter := "-"
	if r := q.RedrivePolicy; r != nil {
		deadLetter = r.DeadLetterQueue.Name
		if deadLetter == "" {
			deadLetter = "(gone)"
		}
	}
	return []string{q.Name, q.Kind, duration(q.Attributes.VisibilityTimeoutSeconds), duration(q.Attributes.MessageRetentionSeconds),
		deadLetter, when(q.CreatedAt)}
}

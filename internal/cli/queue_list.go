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
			t := newTable("NAME", "KIND", "LEASE", "RETENTION", "DEAD LETTER", "CREATED")
			n := 0
			for q, err := range c.Queues(cmd.Context()) {
				switch {
				case err != nil:
					return err
				case p.options.json:
					if err := p.printJSON(q); err != nil {
						return err
					}
				default:
					n++
					t.row(queueRow(q)...)
				}
			}
			if n == 0 {
				if !p.options.json {
					p.warn("there are no queues; make one with: leaselog queue create NAME")
				}
				return nil
			}
			return p.printTable(t)
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

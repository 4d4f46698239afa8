package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/leaselog/leaselog/internal/client"
)

func (p Program) queueList() *cobra.Command {
	var deep, exact bool
	cmd := &cobra.Command{
		Use:     "list",
		Aliases: []string{"ls"},
		Short:   "List all queues, by name",
		Long: `List all queues, by name. --depth shows how many messages each holds and how old the oldest available one is: since it
became deliverable there, and since it was first sent. Where the server keeps views the counts come from those, which
are a second or so behind; --exact counts in the state instead. Either way AS OF is when they were counted.`,
		Example: "  leaselog queue list\n  leaselog queue list --depth\n  leaselog queue list --json | jq -r .name",
		Args:    cobra.NoArgs,
		RunE: p.talk(func(cmd *cobra.Command, c *client.Client, _ []string) error {
			if deep || exact {
				return p.listDepths(cmd.Context(), c, exact)
			}
			var all []*client.Queue
			for q, err := range c.Queues(cmd.Context()) {
				if err != nil {
					return err
				}
				all = append(all, q)
			}
			p.noteNone(len(all))
			return list(p, all, []string{"NAME", "KIND", "LEASE", "RETENTION", "DEAD LETTER", "CREATED"}, queueRow)
		}),
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	cmd.Flags().BoolVar(&deep, "depth", false, "show how many messages each holds")
	cmd.Flags().BoolVar(&exact, "exact", false, "--depth, counted in the state though there are views")
	return cmd
}

func (p Program) listDepths(ctx context.Context, c *client.Client, exact bool) error {
	all, err := depths(ctx, c, exact)
	if err != nil {
		return err
	}
	p.noteNone(len(all))
	return list(p, all, []string{"NAME", "AVAILABLE", "IN FLIGHT", "DELAYED", "WAITS", "SENT AGO", "AS OF", "SOURCE"}, depthRow)
}

func (p Program) noteNone(queues int) {
	if queues == 0 {
		p.note("there are no queues; make one with: leaselog queue create NAME")
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

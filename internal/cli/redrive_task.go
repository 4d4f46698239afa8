package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/leaselog/leaselog/internal/client"
)

func (p Program) redriveStatus() *cobra.Command {
	var wait bool
	cmd := &cobra.Command{
		Use:     "status QUEUE [TASK]",
		Short:   "Show how far a queue's move task has come",
		Long:    "Show how far a queue's move task has come: the one that is named, or the latest.",
		Example: "  leaselog redrive status failed\n  leaselog redrive status failed --wait",
		Args:    cobra.RangeArgs(1, 2),
		RunE: p.talk(func(cmd *cobra.Command, c *client.Client, args []string) error {
			m, err := p.task(cmd, c, args)
			if err != nil {
				return err
			}
			if wait {
				return p.await(cmd, c, args[0], m)
			}
			return p.showMove(m)
		}),
		ValidArgsFunction: p.completeQueues(1),
	}
	cmd.Flags().BoolVar(&wait, "wait", false, "wait for the end")
	return cmd
}

// task gives the task that is named, or the latest of the queue.
func (p Program) task(cmd *cobra.Command, c *client.Client, args []string) (latest *client.Move, err error) {
	if len(args) > 1 {
		return c.Move(cmd.Context(), args[0], args[1])
	}
	for m, err := range c.Moves(cmd.Context(), args[0]) {
		if err != nil {
			return nil, err
		}
		latest = m
	}
	if latest == nil {
		return nil, fmt.Errorf("%s has no move task; start one with: leaselog redrive start %s", args[0], args[0])
	}
	return latest, nil
}

func (p Program) redriveCancel() *cobra.Command {
	return &cobra.Command{
		Use:   "cancel QUEUE [TASK]",
		Short: "End a queue's move task where it stands",
		Long: `End a queue's move task where it stands: the one that is named, or the latest. What was moved stays moved, and the count
that it shows is final. One that has ended already is shown as it is.`,
		Example: "  leaselog redrive cancel failed",
		Args:    cobra.RangeArgs(1, 2),
		RunE: p.talk(func(cmd *cobra.Command, c *client.Client, args []string) error {
			m, err := p.task(cmd, c, args)
			if err != nil {
				return err
			}
			if m, err = c.CancelMove(cmd.Context(), args[0], m.ID); err != nil {
				return err
			}
			return p.showMove(m)
		}),
		ValidArgsFunction: p.completeQueues(1),
	}
}

func (p Program) redriveList() *cobra.Command {
	return &cobra.Command{
		Use:     "list QUEUE",
		Aliases: []string{"ls"},
		Short:   "List a queue's move tasks, oldest first",
		Long:    "List a queue's move tasks, oldest first. A task is listed for 14 days after its end.",
		Example: "  leaselog redrive list failed",
		Args:    cobra.ExactArgs(1),
		RunE: p.talk(func(cmd *cobra.Command, c *client.Client, args []string) error {
			var all []*client.Move
			for m, err := range c.Moves(cmd.Context(), args[0]) {
				if err != nil {
					return err
				}
				all = append(all, m)
			}
			if len(all) == 0 {
				p.note("%s has no move tasks", args[0])
			}
			return list(p, all, []string{"TASK", "STATE", "TO", "MOVED", "TOTAL", "SKIPPED", "FAILED", "STARTED"}, func(m *client.Move) []string {
				return []string{m.ID, m.State, moveTarget(m), fmt.Sprint(m.Moved), fmt.Sprint(m.Total), fmt.Sprint(m.Skipped), fmt.Sprint(m.Failed), when(*m.StartedAt)}
			})
		}),
		ValidArgsFunction: p.completeQueues(1),
	}
}

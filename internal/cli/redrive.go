package cli

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/leaselog/leaselog/internal/client"
)

func (p Program) redrive() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "redrive",
		Short: "Move what is in a queue elsewhere, or back to where it came from",
		Long: `Move what is in a dead letter queue back to where it came from, or what is in any queue to another one. The server does it,
each message in one step, so that it is never in two queues or in none; ids, times and the order in groups stay. What is
leased is waited for. One task runs for a queue at a time.`,
		Args: cobra.NoArgs,
		RunE: needsCommand,
	}
	cmd.AddCommand(p.redriveStart(), p.redriveStatus(), p.redriveCancel(), p.redriveList())
	return cmd
}

// redriving is what redrive start is asked for.
type redriving struct {
	Program
	in           client.StartMove
	toSource     bool
	age          seconds
	attributes   []string
	dryRun, wait bool
}

func (p Program) redriveStart() *cobra.Command {
	r := &redriving{Program: p}
	cmd := &cobra.Command{
		Use:   "start QUEUE",
		Short: "Start to move what is in a queue now",
		Long: `Start to move what is in a queue now: back to the queues that the messages came from, or to another queue with --to. Without
--wait it returns at once, and "leaselog redrive status" tells how far the server has come. Filters that are given must
all apply.`,
		Example: `  leaselog redrive start failed --wait
  leaselog redrive start failed --dry-run --body-matches 'timeout|refused'
  leaselog redrive start failed --to archive --older-than 1d --rate 200`,
		Args:              cobra.ExactArgs(1),
		RunE:              p.talk(r.run),
		ValidArgsFunction: p.completeQueues(1),
	}
	f := cmd.Flags()
	f.StringVar(&r.in.Target, "to", "", "move to this queue, of the same kind")
	f.BoolVar(&r.toSource, "to-source", false, "move each message back to the queue it came from; so it is without --to")
	f.IntVar(&r.in.RatePerSecond, "rate", 0, "at most so many messages a second (default as fast as it goes)")
	f.Var(&r.age, "older-than", "only messages first sent so long ago")
	f.StringVar(&r.in.Source, "source", "", "only messages that came from this queue")
	f.StringVar(&r.in.GroupID, "group", "", "only messages of this group")
	f.StringArrayVar(&r.attributes, "attribute", nil, "name=value; only messages with this attribute; may be repeated")
	f.StringVar(&r.in.BodyMatches, "body-matches", "", "only messages in whose body this regular expression (RE2) matches")
	f.StringVar(&r.in.IdempotencyKey, "idempotency-key", "", "makes the command repeatable: the same key again gives the first outcome")
	f.BoolVar(&r.dryRun, "dry-run", false, "move nothing, and say what would be moved")
	f.BoolVar(&r.wait, "wait", false, "wait for the end")
	for _, flag := range []string{"to", "source"} {
		_ = cmd.RegisterFlagCompletionFunc(flag, func(cmd *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
			return p.queueNames(cmd.Context(), typed), cobra.ShellCompDirectiveNoFileComp
		})
	}
	return cmd
}

func (r *redriving) run(cmd *cobra.Command, c *client.Client, args []string) (err error) {
	switch {
	case r.toSource && r.in.Target != "":
		return usage("--to and --to-source say two different things; give one")
	case r.dryRun && r.wait:
		return usage("--dry-run starts nothing that could be waited for")
	case cmd.Flags().Changed("rate") && r.in.RatePerSecond < 1:
		return usage("--rate must be 1 or more messages a second, not %d", r.in.RatePerSecond)
	}
	if r.in.Attributes, err = parsePairs("attribute", r.attributes); err != nil {
		return err
	}
	if r.age.value != nil {
		r.in.OlderThanSeconds = *r.age.value
	}
	if r.dryRun {
		m, err := c.PreviewMove(cmd.Context(), args[0], r.in)
		if err != nil {
			return err
		}
		return r.preview(m, args[0])
	}
	m, err := c.StartMove(cmd.Context(), args[0], r.in)
	if err != nil {
		return err
	}
	if r.wait {
		return r.await(cmd, c, args[0], m)
	}
	r.note("started; follow it with: leaselog redrive status %s --wait", args[0])
	return r.showMove(m)
}

func (p Program) preview(m *client.Move, queue string) error {
	if p.options.json {
		return p.printJSON(m)
	}
	if err := p.printf("would move %s of %s%s\n", count(m.Moved, "message"), queue, others(m)); err != nil || m.Reason == "" {
		return err
	}
	return p.printf("%s\n", m.Reason)
}

// others says what becomes of the messages that are not moved.
func others(m *client.Move) (text string) {
	for _, x := range []struct {
		n    int
		what string
	}{{m.Skipped, "skipped by the filter"}, {m.Failed, "without a queue to go to"}, {m.Waiting, "waited for"}} {
		if x.n > 0 {
			text += fmt.Sprintf(", %d %s", x.n, x.what)
		}
	}
	return text
}

// lookEvery is how often a task is looked at that is waited for.
const lookEvery = 300 * time.Millisecond

// await shows a task's progress until its end. Who leaves before does not end it.
func (p Program) await(cmd *cobra.Command, c *client.Client, queue string, m *client.Move) error {
	bar := p.begin(int64(m.Total), "moving", false)
	shown := 0
	for m.State == "running" {
		bar.add(m.Moved + m.Skipped + m.Failed - shown)
		shown = m.Moved + m.Skipped + m.Failed
		err := c.Wait(cmd.Context(), lookEvery)
		if err == nil {
			m, err = c.Move(cmd.Context(), queue, m.ID)
		}
		if err != nil {
			bar.end()
			p.note("the task goes on; end it with: leaselog redrive cancel %s", queue)
			return err
		}
	}
	bar.end()
	if err := p.showMove(m); err != nil {
		return err
	}
	switch {
	case m.State == "failed":
		return errors.New("the task failed: " + m.Reason)
	case m.State == "cancelled":
		return partly{errors.New("the task was cancelled before its end")}
	case m.Failed > 0:
		return partly{fmt.Errorf("%s could not be moved", count(m.Failed, "message"))}
	}
	return nil
}

// showMove prints all that is known of a task.
func (p Program) showMove(m *client.Move) error {
	if p.options.json {
		return p.printJSON(m)
	}
	t := newTable()
	t.row("task", m.ID)
	t.row("state", m.State)
	t.row("to", moveTarget(m))
	t.row("moved", fmt.Sprintf("%d of %d%s", m.Moved, m.Total, others(m)))
	if m.RatePerSecond > 0 {
		t.row("rate", fmt.Sprintf("%d a second", m.RatePerSecond))
	}
	if m.Reason != "" {
		t.row("reason", m.Reason)
	}
	t.row("started", when(*m.StartedAt))
	if m.EndedAt != nil {
		t.row("ended", when(*m.EndedAt))
	}
	return p.printTable(t)
}

func moveTarget(m *client.Move) string {
	switch {
	case m.Target == nil:
		return "the sources"
	case m.Target.Name == "":
		return m.Target.ID + " (gone)"
	}
	return m.Target.Name
}

package cli

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/leaselog/leaselog/events"
	awshost "github.com/leaselog/leaselog/internal/aws/host"
	"github.com/leaselog/leaselog/internal/local/admin"
	"github.com/leaselog/leaselog/internal/local/host"
	"github.com/leaselog/leaselog/internal/sweep"
)

// sweeping is what leaselog sweep works with.
type sweeping struct {
	Program
	backing
	dry bool
}

func (p Program) sweep() *cobra.Command {
	s := &sweeping{Program: p}
	cmd := &cobra.Command{
		Use:   "sweep [NAME]",
		Short: "List the sweeps, or do one now",
		Long: `List the sweeps, or do one now. Sweeps are what time must do: the server does them by itself, and so do functions in AWS.
Without a name each is listed with how often it is due, when it last went through all queues, and what it does. With one it
goes through all queues at once and says what it did; it may be run at any time, also twice and beside the others.

With --dry-run it changes nothing, and says what it would do.

It acts on a data directory: through the server that runs on it, or on its store where none runs. With --store dynamodb it
acts on a deployment in AWS.`,
		Example: "  leaselog sweep\n  leaselog sweep expired --dry-run\n  leaselog sweep anchors --store dynamodb --stack leaselog",
		Args:    cobra.MaximumNArgs(1),
		RunE:    s.run,
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) (all []string, _ cobra.ShellCompDirective) {
			if len(args) == 0 {
				for _, c := range sweep.Chores() {
					all = append(all, c.Word()+"\t"+c.Does)
				}
			}
			return all, cobra.ShellCompDirectiveNoFileComp
		},
	}
	s.flags(cmd)
	cmd.Flags().BoolVar(&s.dry, "dry-run", false, "change nothing, and say what would be done")
	return cmd
}

func (s *sweeping) run(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		if s.dry {
			return usage("--dry-run is for one sweep: leaselog sweep NAME --dry-run")
		}
		return s.on(cmd, s.showAll)
	}
	c, ok := sweep.Find(args[0])
	if !ok {
		return usage("there is no sweep %q; they are %s", args[0], words())
	}
	return s.on(cmd, func(ctx context.Context, on sweeper) error { return s.do(ctx, on, c) })
}

func words() string {
	var all []string
	for _, c := range sweep.Chores() {
		all = append(all, c.Word())
	}
	return strings.Join(all, ", ")
}

// sweeper does sweeps somewhere.
type sweeper interface {
	Sweeps(ctx context.Context) ([]sweep.Standing, error)
	Sweep(ctx context.Context, name string, dry bool, progress func(queues int)) (sweep.Report, error)
}

var _ sweeper = (*admin.Client)(nil)

// here does them in this process.
type here struct{ sweep.Site }

// Sweeps implements [sweeper].
func (h here) Sweeps(ctx context.Context) ([]sweep.Standing, error) {
	return sweep.Standings(ctx, h.Site)
}

// Sweep implements [sweeper].
func (h here) Sweep(ctx context.Context, name string, dry bool, progress func(int)) (sweep.Report, error) {
	c, _ := sweep.Find(name)
	return c.ByHand(ctx, h.Site, dry, progress)
}

// on opens where sweeps are done, and closes it after work.
func (s *sweeping) on(cmd *cobra.Command, work func(context.Context, sweeper) error) error {
	remote, err := s.remote(cmd)
	if err != nil {
		return err
	}
	ctx := cmd.Context()
	if remote {
		d, err := s.backing.connect(ctx, awshost.Config{})
		if err != nil {
			return err
		}
		defer d.Close()
		return work(ctx, here{d.Site()})
	}
	running, err := admin.Running(s.data)
	if err != nil {
		return err
	}
	if running != nil {
		defer running.Close()
		return work(ctx, running)
	}
	b, err := host.OpenData(host.Config{Data: s.data})
	if err != nil {
		return err
	}
	err = work(ctx, here{b.Sweeps})
	b.Broker.Close()
	return errors.Join(err, b.Close())
}

// shownSweep is a sweep as it is printed.
type shownSweep struct {
	Sweep   string `json:"sweep"`
	Due     int    `json:"due_seconds"` // 0: never here
	Always  bool   `json:"always"`
	Through string `json:"through_at,omitempty"`
	Half    bool   `json:"half_done"`
	Does    string `json:"does"`
}

func (s *sweeping) showAll(ctx context.Context, on sweeper) error {
	standings, err := on.Sweeps(ctx)
	if err != nil {
		return err
	}
	var all []shownSweep
	for _, st := range standings {
		v := shownSweep{strings.TrimPrefix(st.Name, "sweep-"), int(st.Due.Seconds()), st.Always && st.Due > 0, "", st.Half, st.Does}
		if st.Through > 0 {
			v.Through = when(time.UnixMilli(int64(st.Through)))
		}
		all = append(all, v)
	}
	return list(s.Program, all, []string{"NAME", "DUE", "LAST THROUGH", "STANDS", "DOES"}, sweepRow)
}

func sweepRow(v shownSweep) []string {
	due, through, stands := "every "+duration(v.Due), v.Through, "at the front"
	if v.Due == 0 {
		due = "not needed here"
	}
	if v.Always {
		due = "at once, and " + due // by a ticker that does not go through queues
	}
	if through == "" {
		through = "never"
	}
	if v.Half {
		stands = "half way"
	}
	return []string{v.Sweep, due, through, stands, v.Does}
}

func (s *sweeping) do(ctx context.Context, on sweeper, c sweep.Chore) error {
	began := events.Instant(time.Now().UnixMilli())
	bar := s.begin(-1, "queues", false)
	r, err := on.Sweep(ctx, c.Name, s.dry, bar.add)
	bar.end()
	if err != nil && r.Sweep == "" {
		return err
	}
	if shown := s.showSwept(r, events.Instant(time.Now().UnixMilli())-began); shown != nil {
		return errors.Join(err, shown)
	}
	return err
}

func (s *sweeping) showSwept(r sweep.Report, took events.Instant) error {
	if s.options.json {
		return s.printJSON(r)
	}
	verb := "did"
	if r.Dry {
		verb = "would do"
	}
	lines := fmt.Sprintf("looked at %s in %v, and %s:\n", count(r.Queues, "queue"), time.Duration(took)*time.Millisecond, verb)
	for _, w := range slices.Sorted(maps.Keys(r.Done)) {
		lines += fmt.Sprintf("  %-10s %d\n", w, r.Done[w])
	}
	if r.Total() == 0 {
		lines += "  nothing\n"
	}
	return s.printf("%s", lines)
}

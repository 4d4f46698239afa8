package cli

import (
	"bufio"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/leaselog/leaselog/internal/client"
)

func (p Program) queue() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "queue",
		Short: "Create, list, describe, update, delete and purge queues",
		Long:  "Create, list, describe, update, delete and purge queues. A queue is named by its name, its id or its CRN.",
		Args:  cobra.NoArgs,
		RunE:  needsCommand,
	}
	cmd.AddCommand(p.queueCreate(), p.queueList(), p.queueDescribe(), p.queueUpdate(), p.queueDelete(), p.queuePurge())
	return cmd
}

// needsCommand is for commands that are only a place for others.
func needsCommand(cmd *cobra.Command, _ []string) error {
	return usageError{fmt.Errorf("%s needs a command", cmd.CommandPath()), cmd.CommandPath()}
}

// settings are the flags of a queue's settings.
type settings struct {
	lease, retention, delay, wait, keyReuse seconds
	maxBytes                                size
	deadLetter, key                         string
	maxReceives                             int
	tags                                    []string
}

// maxReceivesDefault is how often a message is delivered before it goes to the dead letter queue, if nothing is said.
const maxReceivesDefault = 5

func (s *settings) flags(p Program, cmd *cobra.Command) *pflag.FlagSet {
	f := cmd.Flags()
	f.Var(&s.lease, "lease", "how long a received message stays hidden, 0s to 12h (API default 30s)")
	f.Var(&s.retention, "retention", "how long a message is kept, 1m to 14d (API default 4d)")
	f.Var(&s.maxBytes, "max-bytes", "largest message with its attributes, 1KB to 256KB (API default 256KB)")
	f.Var(&s.delay, "delay", "how long a new message is hidden, 0s to 15m; not on FIFO queues (API default 0s)")
	f.Var(&s.wait, "wait", "how long a receive waits that names no time, 0s to 20s (API default 0s)")
	f.Var(&s.keyReuse, "key-reuse", "how long an unwrapped data key is kept, 1m to 1d (API default 5m)")
	f.StringVar(&s.key, "key", "", "key that wraps the data keys, by id, CRN or name (default the platform's)")
	f.StringVar(&s.deadLetter, "dead-letter", "", "queue for messages that were received too often, of the same kind")
	f.IntVar(&s.maxReceives, "max-receives", maxReceivesDefault, "with --dead-letter: how often a message is delivered at most, 1 to 1000")
	f.StringArrayVar(&s.tags, "tag", nil, "key=value; may be repeated")
	_ = cmd.RegisterFlagCompletionFunc("dead-letter", func(cmd *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
		return p.queueNames(cmd.Context(), typed), cobra.ShellCompDirectiveNoFileComp
	})
	return f
}

func (s *settings) read(cmd *cobra.Command) (client.Settings, error) {
	tags, err := parsePairs("tag", s.tags)
	if err != nil {
		return client.Settings{}, err
	}
	out := client.Settings{
		VisibilityTimeoutSeconds: s.lease.value, MessageRetentionSeconds: s.retention.value, MaxMessageBytes: s.maxBytes.value,
		DelaySeconds: s.delay.value, ReceiveWaitTimeSeconds: s.wait.value, KMSDataKeyReusePeriodSeconds: s.keyReuse.value, Tags: tags,
	}
	if s.key != "" {
		out.KMSKey = &s.key
	}
	if s.deadLetter != "" {
		out.RedrivePolicy = &client.Redrive{DeadLetterQueue: s.deadLetter, MaxReceiveCount: s.maxReceives}
	} else if cmd.Flags().Changed("max-receives") {
		return out, usage("--max-receives needs --dead-letter beside it")
	}
	return out, nil
}

// showQueue prints all that is known of a queue.
func (p Program) showQueue(q *client.Queue) error { return p.showQueueWith(q, nil) }

// showQueueWith shows an exact depth where there is one.
func (p Program) showQueueWith(q *client.Queue, exact *client.WholeDepth) error {
	if p.options.json {
		return p.printJSON(q)
	}
	t := newTable()
	t.row("name", q.Name)
	t.row("kind", q.Kind)
	t.row("id", q.ID)
	t.row("crn", q.CRN)
	if exact != nil {
		showDepth(t, exact)
	} else if q.Depth != nil {
		t.row("messages", depth(q.Depth))
	}
	a := q.Attributes
	t.row("lease", duration(a.VisibilityTimeoutSeconds))
	t.row("retention", duration(a.MessageRetentionSeconds))
	t.row("max bytes", byteSize(a.MaxMessageBytes))
	t.row("delay", duration(a.DelaySeconds))
	t.row("wait", duration(a.ReceiveWaitTimeSeconds))
	t.row("key reuse", duration(a.KMSDataKeyReusePeriodSeconds))
	showPolicies(t, q)
	t.row("created", when(q.CreatedAt))
	t.row("updated", when(q.UpdatedAt))
	return p.printTable(t)
}

func showPolicies(t *table, q *client.Queue) {
	if q.ContentBasedDeduplication != nil {
		t.row("content dedup", fmt.Sprint(*q.ContentBasedDeduplication))
	}
	if r := q.RedrivePolicy; r != nil {
		name := r.DeadLetterQueue.Name
		if name == "" {
			name = r.DeadLetterQueueID + " (gone)"
		}
		t.row("dead letter", name+" after "+count(r.MaxReceiveCount, "receive"))
	}
	if q.KMSKey != nil {
		t.row("key", q.KMSKey.CRN)
	}
	for _, k := range slices.Sorted(maps.Keys(q.Tags)) {
		t.row("tag", brief(k+" = "+q.Tags[k], 400))
	}
}

func depth(d *client.Depth) string {
	text := fmt.Sprintf("%d available, %d in flight, %d delayed", d.Available, d.InFlight, d.Delayed)
	if d.CountsCapped {
		text += " (10000 stands for as many or more)"
	}
	return text
}

// yesFlag is for commands that confirm.
func yesFlag(cmd *cobra.Command, yes *bool) {
	cmd.Flags().BoolVarP(yes, "yes", "y", false, "do not ask")
}

// confirm asks before something is lost, where a person can answer. A script is not asked: it has no terminal.
func (p Program) confirm(yes bool, format string, args ...any) error {
	if _, ok := terminal(p.Stdin); !ok || yes {
		return nil
	}
	fmt.Fprintf(p.Stderr, format+" [y/N] ", args...)
	answer, _ := bufio.NewReader(p.Stdin).ReadString('\n')
	if a := strings.ToLower(strings.TrimSpace(answer)); a != "y" && a != "yes" {
		return fmt.Errorf("nothing was done")
	}
	return nil
}

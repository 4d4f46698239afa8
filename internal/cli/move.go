package cli

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/leaselog/leaselog/internal/client"
)

// moving is one run of move.
type moving struct {
	Program
	max   int
	group string

	client      *client.Client
	from, to    *client.Queue
	failedLease []string // receipts of what was not sent, to be given back at the end
	moved       int
	duplicates  int // of moved: the target had them already
	failed      int // not sent: still in the source
	uncertain   int // sent, and not acked: perhaps in both
	bar         *progress
}

func (p Program) move() *cobra.Command {
	m := &moving{Program: p}
	cmd := &cobra.Command{
		Use:   "move SOURCE TARGET",
		Short: "Move messages to another queue",
		Long: `Move messages to another queue: each is received, sent to the target and only then acked. So no message is lost, whatever
happens between; but this is at least once: if a lease lapses or the command dies between send and ack, a message is in
both queues. To a FIFO target the message's id is sent as its deduplication id, so that a repeat within five minutes adds
nothing there; a standard target cannot tell.

Body, attributes and group stay; id, time and receive count are new in the target. What is leased or delayed in the source
stays there. To move from a standard queue to a FIFO queue, --group names the group.

What is in a dead letter queue is brought back better by leaselog redrive, which the server does, each message in one step.`,
		Example:           "  leaselog move failed orders\n  leaselog move failed orders --max 100",
		Args:              cobra.ExactArgs(2),
		RunE:              p.talk(m.run),
		ValidArgsFunction: p.completeQueues(2),
	}
	cmd.Flags().IntVar(&m.max, "max", 0, "at most so many (default all)")
	cmd.Flags().StringVar(&m.group, "group", "", "group in a FIFO target for messages that have none")
	return cmd
}

// run moves until the source is empty, or until Ctrl-C: then what is under way is finished, and said.
func (m *moving) run(cmd *cobra.Command, c *client.Client, args []string) error {
	ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	m.client = c
	if err := m.prepare(ctx, args); err != nil {
		return err
	}
	total := int64(m.from.Depth.Available)
	if m.max > 0 {
		total = min(total, int64(m.max))
	}
	m.bar = m.begin(total, "moving", false)
	err := m.all(ctx)
	m.bar.end()
	m.giveBack(context.WithoutCancel(ctx))
	if said := m.summary(); err == nil {
		err = said
	}
	return err
}

// prepare finds both queues before anything is moved.
func (m *moving) prepare(ctx context.Context, args []string) (err error) {
	if m.max < 0 {
		return usage("--max must be 0, for all, or more, not %d", m.max)
	}
	if err := queueNamed(args[1]); err != nil {
		return err
	}
	if m.from, err = m.client.Queue(ctx, args[0]); err != nil {
		return fmt.Errorf("the source: %w", err)
	}
	if m.to, err = m.client.Queue(ctx, args[1]); err != nil {
		return fmt.Errorf("the target: %w", err)
	}
	switch {
	case m.from.ID == m.to.ID:
		return usage("source and target are the same queue")
	case m.to.FIFO() && !m.from.FIFO() && m.group == "":
		return usage("%s is a FIFO queue and %s is not: name the group of the messages with --group", m.to.Name, m.from.Name)
	case !m.to.FIFO() && m.group != "":
		return usage("%s is no FIFO queue, so its messages have no group", m.to.Name)
	}
	if m.from.Depth == nil {
		m.from.Depth = &client.Depth{}
	}
	return nil
}

// all moves until there is nothing more. The queue's own wait does not count: an empty source is the end.
func (m *moving) all(ctx context.Context) error {
	zero := 0
	for m.max == 0 || m.moved+m.failed+m.uncertain < m.max {
		most := client.EntriesMax
		if m.max > 0 {
			most = min(most, m.max-m.moved-m.failed-m.uncertain)
		}
		got, err := m.client.Receive(ctx, m.from.ID, client.Receive{MaxMessages: most, WaitTimeSeconds: &zero})
		if err != nil {
			return err
		}
		if len(got) == 0 {
			return nil
		}
		if err := m.pass(context.WithoutCancel(ctx), got); err != nil {
			return err
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	return nil
}

// pass sends what was received and acks what was sent. It is not interrupted: that would make copies.
func (m *moving) pass(ctx context.Context, got []client.Received) error {
	out := make([]client.Outgoing, len(got))
	for i := range got {
		out[i] = m.outgoing(&got[i])
	}
	sent, err := m.client.SendBatch(ctx, m.to.ID, out, "")
	if err != nil {
		m.uncertain += len(got)
		return fmt.Errorf("sending %d messages to %s: %w", len(got), m.to.Name, err)
	}
	var receipts []string
	for i, r := range sent {
		if r.Code != "" {
			m.failed++
			m.failedLease = append(m.failedLease, got[i].ReceiptHandle)
			m.warn("message %s stays in %s: %s", got[i].ID, m.from.Name, r.Message)
			continue
		}
		if r.Duplicate {
			m.duplicates++
		}
		receipts = append(receipts, got[i].ReceiptHandle)
	}
	return m.acknowledge(ctx, receipts)
}

func (m *moving) outgoing(r *client.Received) client.Outgoing {
	out := client.Outgoing{Body: r.Body, Attributes: r.Attributes}
	if m.to.FIFO() {
		out.GroupID, out.DeduplicationID = r.GroupID, r.ID
		if out.GroupID == "" {
			out.GroupID = m.group
		}
	}
	return out
}

func (m *moving) acknowledge(ctx context.Context, receipts []string) error {
	if len(receipts) == 0 {
		return nil
	}
	results, err := m.client.AckBatch(ctx, m.from.ID, receipts)
	if err != nil {
		m.uncertain += len(receipts)
		return fmt.Errorf("acking %d messages of %s: %w", len(receipts), m.from.Name, err)
	}
	for _, r := range results {
		if r.Code != "" {
			m.uncertain++
			m.warn("a message was sent to %s and not acked in %s: %s", m.to.Name, m.from.Name, r.Message)
		} else {
			m.moved++
		}
	}
	m.bar.add(len(results))
	return nil
}

// giveBack ends the leases of what was not sent. Those that it does not reach lapse by themselves.
func (m *moving) giveBack(ctx context.Context) {
	for len(m.failedLease) > 0 {
		n := min(len(m.failedLease), client.EntriesMax)
		if _, err := m.client.ExtendBatch(ctx, m.from.ID, m.failedLease[:n], 0); err != nil {
			m.warn("messages that were not moved stay leased until their leases lapse: %v", err)
			return
		}
		m.failedLease = m.failedLease[n:]
	}
}

// summary says what became of all messages.
func (m *moving) summary() error {
	if m.options.json {
		if err := m.printJSON(map[string]int{"moved": m.moved, "duplicates": m.duplicates, "failed": m.failed, "uncertain": m.uncertain}); err != nil {
			return err
		}
	} else if err := m.printf("moved %s from %s to %s%s\n", count(m.moved, "message"), m.from.Name, m.to.Name, m.repeated()); err != nil {
		return err
	}
	switch {
	case m.uncertain > 0:
		return partly{fmt.Errorf("%d more may now be in both queues, since they were not acked", m.uncertain)}
	case m.failed > 0:
		return partly{fmt.Errorf("%d more were refused by %s and stay in %s", m.failed, m.to.Name, m.from.Name)}
	}
	return nil
}

func (m *moving) repeated() string {
	if m.duplicates == 0 {
		return ""
	}
	return fmt.Sprintf(" (%d of them it had already)", m.duplicates)
}

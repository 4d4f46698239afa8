package cli

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/leaselog/leaselog/internal/client"
)

// waitMax is the longest that the server waits in one receive (section 4.6); a longer wait is several.
const waitMax = 20

// receiving is one run of receive.
type receiving struct {
	Program
	max         int
	wait, lease seconds
	ack, follow bool
	dir         string

	client *client.Client
	queue  string
	got    int
	failed int
}

func (p Program) receive() *cobra.Command {
	r := &receiving{Program: p}
	cmd := &cobra.Command{
		Use:   "receive QUEUE",
		Short: "Receive messages: lease them, and print or keep them",
		Long: `Receive messages: each is leased, printed, and hidden from others until its lease lapses. Not acked by then, it comes
back. With --ack a message is acked once it was written to the output, or to its file; a crash between the two delivers it
again, never not at all.

Without messages the exit status is 3. With --follow it goes on until Ctrl-C, and waits for a server that restarts.`,
		Example: `  leaselog receive orders
  leaselog receive orders --max 100 --wait 20s --ack
  leaselog receive orders --follow --ack --json | jq -r .body
  leaselog receive orders --max 50 --to inbox --ack`,
		Args:              cobra.ExactArgs(1),
		RunE:              p.talk(r.run),
		ValidArgsFunction: p.completeQueues(1),
	}
	f := cmd.Flags()
	f.IntVar(&r.max, "max", 1, "how many messages at most")
	f.Var(&r.wait, "wait", "how long to wait for the first message (default the queue's)")
	f.Var(&r.lease, "lease", "how long the messages stay hidden, 0s to 12h (default the queue's)")
	f.BoolVar(&r.ack, "ack", false, "ack each message once it was written")
	f.BoolVar(&r.follow, "follow", false, "go on until Ctrl-C")
	f.StringVar(&r.dir, "to", "", "write each body to a file of this directory, named by the message's id")
	_ = cmd.MarkFlagDirname("to")
	cmd.MarkFlagsMutuallyExclusive("follow", "max")
	cmd.MarkFlagsMutuallyExclusive("follow", "wait")
	return cmd
}

func (r *receiving) run(cmd *cobra.Command, c *client.Client, args []string) error {
	if r.max < 1 {
		return usage("--max must be 1 or more, not %d", r.max)
	}
	if r.ack && r.lease.value != nil && *r.lease.value == 0 {
		return usage("a lease of 0 seconds has ended before its message can be acked")
	}
	if r.dir != "" {
		if err := os.MkdirAll(r.dir, 0o777); err != nil {
			return usageError{error: err}
		}
	}
	r.client, r.queue = c, args[0]
	var err error
	if r.follow {
		err = r.untilStopped(cmd.Context())
	} else {
		err = r.upToMax(cmd.Context())
	}
	if err == nil && r.failed > 0 {
		err = partly{fmt.Errorf("%d of %d messages were not acked, and come again", r.failed, r.got)}
	}
	return err
}

// upToMax receives until there is enough or nothing more. Only the first message is waited for.
func (r *receiving) upToMax(ctx context.Context) error {
	for wait := r.wait.value; r.got < r.max; {
		n, err := r.once(ctx, min(r.max-r.got, client.EntriesMax), wait)
		if err != nil {
			return err
		}
		if n > 0 {
			wait = new(int)
			continue
		}
		if r.got > 0 {
			return nil
		}
		if wait == nil || *wait <= waitMax {
			return errNothing
		}
		left := *wait - waitMax
		wait = &left
	}
	return nil
}

// untilStopped receives until Ctrl-C, which is how it ends well. What was received before is written and acked. A server
// that answered once and then is away, as in a restart, is waited for.
func (r *receiving) untilStopped(ctx context.Context) error {
	polling, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	wait := 0 // the first answer comes at once, and the first after a failure: it tells whether there is a server
	for answered, failures := false, 0; ; {
		n, err := r.once(polling, client.EntriesMax, &wait)
		answered = answered || n > 0 // it may have gone before the ack
		switch {
		case err == nil:
			if failures > 0 {
				r.warn("the server answers again")
			}
			answered, failures, wait = true, 0, waitMax
			continue
		case polling.Err() != nil && ctx.Err() == nil && errors.Is(err, context.Canceled):
			return nil
		case !answered || r.explain(err).exit != exitUnreachable:
			return err
		}
		wait = 0
		if failures++; failures == 1 {
			r.warn("%v; trying again until Ctrl-C", err)
		}
		if r.client.Wait(polling, r.client.Backoff(failures)) != nil {
			return ctx.Err()
		}
	}
}

// once makes one receive, and writes and acks what it gives. Only the receive can be interrupted.
func (r *receiving) once(ctx context.Context, most int, wait *int) (int, error) {
	in := client.Receive{MaxMessages: most, VisibilityTimeoutSeconds: r.lease.value}
	if wait != nil {
		w := min(*wait, waitMax)
		in.WaitTimeSeconds = &w
	}
	got, err := r.client.Receive(ctx, r.queue, in)
	if err != nil {
		return 0, err
	}
	var receipts []string
	for i := range got {
		if err = r.put(&got[i]); err != nil {
			break
		}
		r.got++
		receipts = append(receipts, got[i].ReceiptHandle)
	}
	if r.ack && len(receipts) > 0 {
		err = errors.Join(err, r.acknowledge(context.WithoutCancel(ctx), receipts))
	}
	return len(got), err
}

func (r *receiving) acknowledge(ctx context.Context, receipts []string) error {
	results, err := r.client.AckBatch(ctx, r.queue, receipts)
	if err != nil {
		return fmt.Errorf("the messages were received, but perhaps not acked: %w", err)
	}
	for _, res := range results {
		if res.Code != "" {
			r.failed++
			r.warn("not acked: %s", res.Message)
		}
	}
	return nil
}

// put writes one message where it belongs.
func (r *receiving) put(m *client.Received) error {
	file := ""
	if r.dir != "" {
		var err error
		if file, err = keep(r.dir, m); err != nil {
			return err
		}
	}
	switch {
	case r.options.json:
		return r.printJSON(struct {
			*client.Received
			File string `json:"file,omitempty"`
		}{m, file})
	case file != "":
		return r.printf("%s\n", file)
	}
	return r.write(r.readable(m))
}

// readable shows a message to people: what is known of it, an empty line, its body.
func (r *receiving) readable(m *client.Received) []byte {
	var b strings.Builder
	if r.got > 0 {
		b.WriteString("\n")
	}
	line := func(name, value string) { fmt.Fprintf(&b, "%-9s  %s\n", name, value) }
	line("message", m.ID)
	line("received", times(m.ReceiveCount))
	line("enqueued", when(m.EnqueuedAt))
	line("leased to", when(m.VisibleAt))
	if m.GroupID != "" {
		line("group", m.GroupID)
	}
	for _, name := range slices.Sorted(maps.Keys(m.Attributes)) {
		a := m.Attributes[name]
		line("attribute", brief(fmt.Sprintf("%s:%s = %s", name, a.Type, a.Value), 200))
	}
	line("receipt", m.ReceiptHandle)
	fmt.Fprintf(&b, "\n%s", m.Body)
	if !strings.HasSuffix(m.Body, "\n") {
		b.WriteString("\n")
	}
	return []byte(b.String())
}

func times(n int) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}

package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/leaselog/leaselog/internal/client"
)

// states are what peek can filter by, as people type them and as the API has them.
var states = map[string]string{"": "", "available": "available", "in-flight": "in_flight", "in_flight": "in_flight", "delayed": "delayed"}

// briefBody is how much of a body a table shows.
const briefBody = 60

func (p Program) peek() *cobra.Command {
	var state, message string
	var limit int
	cmd := &cobra.Command{
		Use:   "peek QUEUE",
		Short: "Look at messages without taking them",
		Long: `Look at messages without taking them: nothing is leased or counted. It shows every message that is neither deleted nor
expired, oldest first. The table shows the beginning of each body; --json shows all of it.`,
		Example: `  leaselog peek orders
  leaselog peek orders --state in-flight --limit 20
  leaselog peek orders --json | jq -r .body`,
		Args: cobra.ExactArgs(1),
		RunE: p.talk(func(cmd *cobra.Command, c *client.Client, args []string) error {
			visibility, ok := states[state]
			if !ok {
				return usage("--state must be available, in-flight or delayed, not %q", state)
			}
			if limit < 0 {
				return usage("--limit must be 0, for all, or more, not %d", limit)
			}
			crn, err := p.messageCRN(cmd, c, args[0], message)
			if err != nil {
				return err
			}
			return p.showMessages(cmd, c, args[0], client.Peek{CRN: crn, Visibility: visibility}, limit)
		}),
		ValidArgsFunction: p.completeQueues(1),
	}
	f := cmd.Flags()
	f.StringVar(&state, "state", "", "only messages that are available, in-flight or delayed")
	f.StringVar(&message, "message", "", "only this message, by id or CRN")
	f.IntVar(&limit, "limit", 0, "at most so many (default all)")
	_ = cmd.RegisterFlagCompletionFunc("state", cobra.FixedCompletions([]string{"available", "in-flight", "delayed"}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

// messageCRN makes a CRN of a message's id: crn:queue:<region>:<account>:message/<queue name>/<id> (section 1).
func (p Program) messageCRN(cmd *cobra.Command, c *client.Client, queue, message string) (string, error) {
	if message == "" || strings.HasPrefix(message, "crn:") {
		return message, nil
	}
	q, err := c.Queue(cmd.Context(), queue)
	if err != nil {
		return "", err
	}
	return strings.TrimSuffix(q.CRN, "queue/"+q.Name) + "message/" + q.Name + "/" + message, nil
}

func (p Program) showMessages(cmd *cobra.Command, c *client.Client, queue string, by client.Peek, limit int) error {
	t := newTable("MESSAGE", "STATE", "RECEIVED", "ENQUEUED", "BYTES", "MOVED", "BODY")
	n := 0
	for m, err := range c.Peek(cmd.Context(), queue, by) {
		switch {
		case err != nil:
			return err
		case p.options.json:
			if err := p.printJSON(m); err != nil {
				return err
			}
		default:
			t.row(messageRow(m)...)
		}
		if n++; n == limit {
			break
		}
	}
	if p.options.json {
		return nil
	}
	if n == 0 {
		p.warn("there are no such messages in %s", queue)
		return nil
	}
	return p.printTable(t)
}

func messageRow(m *client.Peeked) []string {
	body, bytes := "(cannot be opened now)", "-"
	if m.Body != nil {
		body = brief(*m.Body, briefBody)
	}
	if m.BodyBytes != nil {
		bytes = fmt.Sprint(*m.BodyBytes)
	}
	return []string{m.ID, m.Visibility, fmt.Sprint(m.ReceiveCount), when(m.EnqueuedAt), bytes, movedFrom(m.MovedFrom), body}
}

// movedFrom shows in a few words what became of a message before.
func movedFrom(m *client.MovedFrom) string {
	switch {
	case m == nil:
		return "-"
	case m.Reason == "redrive":
		return "redriven"
	}
	return fmt.Sprintf("dead after %d", m.ReceiveCount)
}

package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/leaselog/leaselog/internal/client"
)

func (p Program) history() *cobra.Command {
	return &cobra.Command{
		Use:   "history QUEUE MESSAGE",
		Short: "Tell all that happened to a message",
		Long: `Tell all that happened to a message, by its id: when it was sent, each receive with its lease and how that ended, moves to a
dead letter queue and back, and its end. The history is followed into the queues that the message was moved to and from. It
is read from the log, which keeps it for a while after the message is gone ("leaselog serve --history-age").`,
		Example:           "  leaselog history orders 019ad3c2-6f60-7d01-9c53-0b5a6f0c2f11",
		Args:              cobra.ExactArgs(2),
		RunE:              p.talk(p.tellHistory),
		ValidArgsFunction: p.completeQueues(1),
	}
}

// told is a happening with the queue where it happened.
type told struct {
	QueueID string `json:"queue_id"`
	Queue   string `json:"queue,omitempty"` // empty: it is gone, or may not be seen
	*client.Happening
}

func (p Program) tellHistory(cmd *cobra.Command, c *client.Client, args []string) error {
	q, err := c.Queue(cmd.Context(), args[0])
	if err != nil {
		return err
	}
	h := historian{Client: c, message: args[1], names: map[string]string{q.ID: q.Name}, stays: map[string][][]told{}}
	if err := h.read(cmd.Context(), q.ID); err != nil {
		return err
	}
	for len(h.others) > 0 {
		id := h.others[0]
		h.others = h.others[1:]
		if err := h.read(cmd.Context(), id); err != nil {
			p.warn("what happened in queue %s cannot be told: %v", id, err)
		}
	}
	if h.lost {
		p.warn("the log does not go back to the beginning any more")
	}
	return p.showHistory(h.chain())
}

func (p Program) showHistory(all []told) error {
	if p.options.json {
		for _, t := range all {
			if err := p.printJSON(t); err != nil {
				return err
			}
		}
		return nil
	}
	rows := newTable("TIME", "QUEUE", "EVENT", "DETAIL")
	for _, t := range all {
		rows.row(t.At.UTC().Format("2006-01-02T15:04:05.000Z"), t.name(t.QueueID), strings.ReplaceAll(t.Event, "_", " "), t.detail())
	}
	return p.printTable(rows)
}

func (t told) name(id string) string {
	if id == t.QueueID && t.Queue != "" {
		return t.Queue
	}
	return id
}

// detail says in words what an event brings with it.
func (t told) detail() string {
	var words []string
	if t.Receives > 0 {
		words = append(words, fmt.Sprintf("receive %d", t.Receives))
	}
	if t.LeaseID != "" {
		words = append(words, "lease "+t.LeaseID)
	}
	if t.VisibleAt != nil {
		end := "until "
		if t.Event == "released" {
			end = "visible at "
		}
		words = append(words, end+when(*t.VisibleAt))
	}
	if t.Reason != "" {
		words = append(words, strings.ReplaceAll(t.Reason, "_", " "))
	}
	if len(words) == 0 {
		return "-"
	}
	return strings.Join(words, ", ")
}

// historian puts together what happened to a message in several queues.
type historian struct {
	*client.Client
	message string
	names   map[string]string   // of the queues that were read or are about to be, by id
	others  []string            // that are to be read
	stays   map[string][][]told // by queue id: each from an arrival to a departure, in order
	order   []string            // the queues that were read
	lost    bool
}

// read takes the history in one queue, and notes where it leads.
func (h *historian) read(ctx context.Context, queue string) error {
	if h.names[queue] == "" {
		if q, err := h.Queue(ctx, queue); err == nil {
			h.names[queue] = q.Name
		}
	}
	h.order = append(h.order, queue)
	for e, err := range h.History(ctx, queue, h.message, &h.lost) {
		if err != nil {
			return err
		}
		for _, id := range []string{e.MovedTo, e.MovedFrom} {
			if _, known := h.names[id]; id != "" && !known {
				h.names[id] = ""
				h.others = append(h.others, id)
			}
		}
		all := h.stays[queue]
		if n := len(all); n == 0 || e.Event == "sent" || e.Event == "arrived" {
			all = append(all, nil)
		}
		last := &all[len(all)-1]
		*last = append(*last, told{queue, h.names[queue], e})
		h.stays[queue] = all
	}
	return nil
}

// chain puts the stays in their order: the first is the one that begins with the sending, or the oldest that is known,
// and each leads to the next. Instants do not tell: a move has one for both sides.
func (h *historian) chain() (all []told) {
	take := func(queue string) (next string, ok bool) {
		if len(h.stays[queue]) == 0 {
			return "", false
		}
		stay := h.stays[queue][0]
		h.stays[queue] = h.stays[queue][1:]
		all = append(all, stay...)
		return stay[len(stay)-1].MovedTo, true
	}
	for {
		var first string
		for _, q := range h.order {
			if len(h.stays[q]) > 0 && (first == "" || h.before(q, first)) {
				first = q
			}
		}
		if first == "" {
			return all
		}
		for next, ok := take(first); ok && next != ""; next, ok = take(next) {
		}
	}
}

// before says whether a queue's first stay is older than another's.
func (h *historian) before(queue, other string) bool {
	a, b := h.stays[queue][0][0], h.stays[other][0][0]
	return a.At.Before(b.At) || a.At.Equal(b.At) && a.Event == "sent"
}

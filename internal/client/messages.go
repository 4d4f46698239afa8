package client

import (
	"context"
	"iter"
	"maps"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// EntriesMax is the most entries of a batch and the most messages of a receive.
const EntriesMax = 10

// Attribute is a named value beside the body: String, Number or Binary.
type Attribute struct {
	Type  string `json:"type"`
	Value string `json:"value"`
}

// Outgoing is section 4.5.
type Outgoing struct {
	Body            string               `json:"body"`
	Attributes      map[string]Attribute `json:"attributes,omitempty"`
	DelaySeconds    *int                 `json:"delay_seconds,omitempty"`
	GroupID         string               `json:"message_group_id,omitempty"`
	DeduplicationID string               `json:"message_deduplication_id,omitempty"`
}

// Sent says what became of a message that was taken.
type Sent struct {
	MessageID string `json:"message_id"`
	Duplicate bool   `json:"duplicate"`
}

// Result is what became of one entry of a batch: Code and Message are "" for a success.
type Result struct {
	ID        string `json:"id"`
	MessageID string `json:"message_id,omitempty"`
	Duplicate bool   `json:"duplicate,omitempty"`
	Code      string `json:"error,omitempty"`
	Message   string `json:"message,omitempty"`
}

// Received is a message with its lease.
type Received struct {
	ID            string               `json:"id"`
	ReceiptHandle string               `json:"receipt_handle"`
	Body          string               `json:"body"`
	Attributes    map[string]Attribute `json:"attributes,omitempty"`
	ReceiveCount  int                  `json:"receive_count"`
	GroupID       string               `json:"message_group_id,omitempty"`
	EnqueuedAt    time.Time            `json:"enqueued_at"`
	VisibleAt     time.Time            `json:"visible_at"` // when the lease lapses
}

// Receive is section 4.6; nil means the queue's setting.
type Receive struct {
	MaxMessages              int  `json:"max_messages,omitempty"` // 0: one
	VisibilityTimeoutSeconds *int `json:"visibility_timeout_seconds,omitempty"`
	WaitTimeSeconds          *int `json:"wait_time_seconds,omitempty"`
}

// Peeked is section 4.7. Body is nil where it cannot be opened.
type Peeked struct {
	ID              string               `json:"id"`
	CRN             string               `json:"crn"`
	QueueID         string               `json:"queue_id"`
	Body            *string              `json:"body,omitempty"`
	Attributes      map[string]Attribute `json:"attributes,omitempty"`
	Visibility      string               `json:"visibility"`
	ReceiveCount    int                  `json:"receive_count"`
	BodyBytes       *int                 `json:"body_bytes,omitempty"`
	GroupID         string               `json:"message_group_id,omitempty"`
	EnqueuedAt      time.Time            `json:"enqueued_at"`
	VisibleAt       time.Time            `json:"visible_at"`
	ExpiresAt       time.Time            `json:"expires_at"`
	FirstReceivedAt *time.Time           `json:"first_received_at"`
	MovedFrom       *MovedFrom           `json:"moved_from,omitempty"`
}

// MovedFrom says what a moved message went through before.
type MovedFrom struct {
	QueueID      string `json:"queue_id"`
	Reason       string `json:"reason"` // received_too_often or redrive
	ReceiveCount int    `json:"receive_count"`
	LeaseID      string `json:"lease_id,omitempty"` // the last lease there
}

// Peek filters; "" is no filter.
type Peek struct {
	CRN        string // one message
	Visibility string // available, in_flight or delayed
}

func messagesPath(queue, what string) string { return queuePath(queue) + "/messages" + what }

// Send sends one message. key, if not "", makes the call repeatable.
func (c *Client) Send(ctx context.Context, queue string, m Outgoing, key string) (Sent, error) {
	var out struct {
		Result Sent `json:"result"`
	}
	err := c.do(ctx, call{method: http.MethodPost, path: messagesPath(queue, ""), body: m, key: key, into: &out})
	return out.Result, err
}

// SendBatch sends up to ten messages. Each succeeds or fails alone: results come in their order.
func (c *Client) SendBatch(ctx context.Context, queue string, messages []Outgoing, key string) ([]Result, error) {
	type entry struct {
		ID string `json:"id"`
		Outgoing
	}
	entries := make([]entry, len(messages))
	for i, m := range messages {
		entries[i] = entry{strconv.Itoa(i), m}
	}
	return c.batch(ctx, queue, "/batch", entries, len(entries), key)
}

// Receive leases messages. It blocks for as long as it may wait.
func (c *Client) Receive(ctx context.Context, queue string, in Receive) ([]Received, error) {
	var out struct {
		Messages []Received `json:"messages"`
	}
	err := c.do(ctx, call{method: http.MethodPost, path: messagesPath(queue, "/receive"), body: in, into: &out})
	return out.Messages, err
}

// Peek walks over messages without taking them, page by page. The first error ends it.
func (c *Client) Peek(ctx context.Context, queue string, p Peek) iter.Seq2[*Peeked, error] {
	return walk(100, func(page url.Values) ([]Peeked, meta, error) {
		query := maps.Clone(page)
		for name, value := range map[string]string{"crn": p.CRN, "visibility": p.Visibility} {
			if value != "" {
				query.Set(name, value)
			}
		}
		var out struct {
			Messages []Peeked `json:"messages"`
			Meta     meta     `json:"meta"`
		}
		err := c.do(ctx, call{method: http.MethodGet, path: messagesPath(queue, ""), query: query, into: &out})
		return out.Messages, out.Meta, err
	})
}

// Ack deletes a message under its lease.
func (c *Client) Ack(ctx context.Context, queue, receipt string) error {
	return c.do(ctx, call{method: http.MethodDelete, path: messagesPath(queue, ""), query: url.Values{"receipt_handle": {receipt}}})
}

// AckBatch deletes up to ten messages, each alone.
func (c *Client) AckBatch(ctx context.Context, queue string, receipts []string) ([]Result, error) {
	return c.batch(ctx, queue, "/delete-batch", leases(receipts, nil), len(receipts), "")
}

// ExtendBatch lets up to ten leases end so many seconds from now; 0 releases them.
func (c *Client) ExtendBatch(ctx context.Context, queue string, receipts []string, seconds int) ([]Result, error) {
	return c.batch(ctx, queue, "/visibility-batch", leases(receipts, &seconds), len(receipts), "")
}

type lease struct {
	ID            string `json:"id"`
	ReceiptHandle string `json:"receipt_handle"`
	Seconds       *int   `json:"visibility_timeout_seconds,omitempty"`
}

func leases(receipts []string, seconds *int) []lease {
	all := make([]lease, len(receipts))
	for i, r := range receipts {
		all[i] = lease{strconv.Itoa(i), r, seconds}
	}
	return all
}

// batch makes a call of entries numbered from 0, and gives a result for each in that order.
func (c *Client) batch(ctx context.Context, queue, what string, entries any, n int, key string) ([]Result, error) {
	var out struct {
		Results []Result `json:"results"`
	}
	body := map[string]any{"entries": entries}
	if err := c.do(ctx, call{method: http.MethodPost, path: messagesPath(queue, what), body: body, key: key, into: &out}); err != nil {
		return nil, err
	}
	if len(out.Results) != n {
		return nil, &Malformed{URL: c.Endpoint, Cause: errResults(n, len(out.Results))}
	}
	return out.Results, nil
}

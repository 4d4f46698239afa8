package client

import (
	"context"
	"errors"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

const queuesPath = "/v1/queues"

// queuePath names a queue by id, CRN or name. Everything outside of A-Za-z0-9-._~ is escaped, slashes too (section 1),
// which is the escaping of a query but for the blank.
func queuePath(queue string) string {
	return queuesPath + "/" + strings.ReplaceAll(url.QueryEscape(queue), "+", "%20")
}

// Queue is section 4.4.
type Queue struct {
	ID                        string            `json:"id"`
	CRN                       string            `json:"crn"`
	Name                      string            `json:"name"`
	Kind                      string            `json:"kind"` // standard or fifo
	Attributes                Attributes        `json:"attributes"`
	RedrivePolicy             *RedrivePolicy    `json:"redrive_policy,omitempty"`
	ContentBasedDeduplication *bool             `json:"content_based_deduplication,omitempty"`
	KMSKey                    *ResourceRef      `json:"kms_key,omitempty"`
	Tags                      map[string]string `json:"tags,omitempty"`
	Depth                     *Depth            `json:"depth,omitempty"` // not in lists
	CreatedAt                 time.Time         `json:"created_at"`
	UpdatedAt                 time.Time         `json:"updated_at"`
}

// FIFO says whether the queue keeps the order of its groups.
func (q *Queue) FIFO() bool { return q.Kind == "fifo" }

// Attributes are the six settings that every queue has.
type Attributes struct {
	VisibilityTimeoutSeconds     int `json:"visibility_timeout_seconds"`
	MessageRetentionSeconds      int `json:"message_retention_seconds"`
	MaxMessageBytes              int `json:"max_message_bytes"`
	DelaySeconds                 int `json:"delay_seconds"`
	ReceiveWaitTimeSeconds       int `json:"receive_wait_time_seconds"`
	KMSDataKeyReusePeriodSeconds int `json:"kms_data_key_reuse_period_seconds"`
}

// RedrivePolicy says where a message goes that was received too often.
type RedrivePolicy struct {
	DeadLetterQueue   ResourceRef `json:"dead_letter_queue"`
	DeadLetterQueueID string      `json:"dead_letter_queue_id"`
	MaxReceiveCount   int         `json:"max_receive_count"`
}

// ResourceRef names another resource; Name is "" when it is gone.
type ResourceRef struct {
	ID   string `json:"id"`
	CRN  string `json:"crn"`
	Name string `json:"name,omitempty"`
}

// Depth counts messages, each count up to 10000. What is below the cap's flag is ours, and absent of another server.
type Depth struct {
	Available    int          `json:"approximate_available"`
	InFlight     int          `json:"approximate_in_flight"`
	Delayed      int          `json:"approximate_delayed"`
	CountsCapped bool         `json:"counts_capped"`
	Source       string       `json:"source,omitempty"`
	AsOf         *time.Time   `json:"as_of,omitempty"`
	Shards       []DepthPlace `json:"shards,omitempty"`
}

// Settings are the fields of section 4.1 and 4.2 that may be left out: nil keeps what is, or the default.
type Settings struct {
	VisibilityTimeoutSeconds     *int              `json:"visibility_timeout_seconds,omitempty"`
	MessageRetentionSeconds      *int              `json:"message_retention_seconds,omitempty"`
	MaxMessageBytes              *int              `json:"max_message_bytes,omitempty"`
	DelaySeconds                 *int              `json:"delay_seconds,omitempty"`
	ReceiveWaitTimeSeconds       *int              `json:"receive_wait_time_seconds,omitempty"`
	KMSDataKeyReusePeriodSeconds *int              `json:"kms_data_key_reuse_period_seconds,omitempty"`
	RedrivePolicy                *Redrive          `json:"redrive_policy,omitempty"`
	KMSKey                       *string           `json:"kms_key,omitempty"`
	Tags                         map[string]string `json:"tags,omitempty"`
}

// Redrive is a redrive policy as it is asked for: the queue by id, CRN or name.
type Redrive struct {
	DeadLetterQueue string `json:"dead_letter_queue"`
	MaxReceiveCount int    `json:"max_receive_count"`
}

// CreateQueue is section 4.1.
type CreateQueue struct {
	Name string `json:"name"`
	Settings
	ContentBasedDeduplication *bool  `json:"content_based_deduplication,omitempty"`
	IdempotencyKey            string `json:"-"` // makes the call repeatable
}

// UpdateQueue is section 4.2. What is cleared may not be set as well.
type UpdateQueue struct {
	Settings
	ClearTags          bool   `json:"-"`
	ClearRedrivePolicy bool   `json:"clear_redrive_policy,omitempty"`
	ClearKMSKey        bool   `json:"clear_kms_key,omitempty"`
	IdempotencyKey     string `json:"-"`
}

type queueAnswer struct {
	Queue Queue `json:"queue"`
}

// CreateQueue makes a queue.
func (c *Client) CreateQueue(ctx context.Context, in CreateQueue) (*Queue, error) {
	var out queueAnswer
	err := c.do(ctx, call{method: http.MethodPost, path: queuesPath, body: in, key: in.IdempotencyKey, into: &out})
	return &out.Queue, err
}

// Queue describes a queue, with its depth.
func (c *Client) Queue(ctx context.Context, queue string) (*Queue, error) {
	var out queueAnswer
	err := c.do(ctx, call{method: http.MethodGet, path: queuePath(queue), into: &out})
	return &out.Queue, err
}

// UpdateQueue changes what is given and keeps the rest.
func (c *Client) UpdateQueue(ctx context.Context, queue string, in UpdateQueue) (*Queue, error) {
	body := struct {
		UpdateQueue
		Tags *map[string]string `json:"tags,omitempty"` // hides the one inside: an empty map must be sent
	}{UpdateQueue: in}
	if in.Tags != nil || in.ClearTags {
		tags := in.Tags
		if tags == nil {
			tags = map[string]string{}
		}
		body.Tags = &tags
	}
	var out queueAnswer
	err := c.do(ctx, call{method: http.MethodPatch, path: queuePath(queue), body: body, key: in.IdempotencyKey, into: &out})
	return &out.Queue, err
}

// DeleteQueue deletes a queue with its messages.
func (c *Client) DeleteQueue(ctx context.Context, queue string) error {
	return c.do(ctx, call{method: http.MethodDelete, path: queuePath(queue)})
}

// Purge deletes every message of a queue and gives their number.
func (c *Client) Purge(ctx context.Context, queue string) (int, error) {
	var out struct {
		MessagesDeleted int `json:"messages_deleted"`
	}
	err := c.do(ctx, call{method: http.MethodPost, path: queuePath(queue) + "/purge", into: &out})
	return out.MessagesDeleted, err
}

// meta is section 7.
type meta struct {
	Marker  string `json:"marker"`
	HasMore bool   `json:"has_more"`
}

// Queues walks over all queues of the account by name, page by page. The first error ends it.
func (c *Client) Queues(ctx context.Context) iter.Seq2[*Queue, error] {
	return walk(1000, func(page url.Values) ([]Queue, meta, error) {
		var out struct {
			Queues []Queue `json:"queues"`
			Meta   meta    `json:"meta"`
		}
		err := c.do(ctx, call{method: http.MethodGet, path: queuesPath, query: page, into: &out})
		return out.Queues, out.Meta, err
	})
}

// walk follows the markers. One that comes again would never end, so it is an error.
func walk[T any](limit int, page func(url.Values) ([]T, meta, error)) iter.Seq2[*T, error] {
	return func(yield func(*T, error) bool) {
		seen := map[string]bool{}
		for marker := ""; ; {
			query := url.Values{"limit": {strconv.Itoa(limit)}}
			if marker != "" {
				query.Set("marker", marker)
			}
			items, m, err := page(query)
			if err != nil {
				yield(nil, err)
				return
			}
			for i := range items {
				if !yield(&items[i], nil) {
					return
				}
			}
			if !m.HasMore {
				return
			}
			if marker = m.Marker; marker == "" || seen[marker] {
				yield(nil, errors.New("the server's pages do not end: a marker is missing or came twice"))
				return
			}
			seen[marker] = true
		}
	}
}

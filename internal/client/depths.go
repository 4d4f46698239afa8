package client

import (
	"context"
	"iter"
	"net/http"
	"net/url"
	"time"
)

// DepthPlace names the ends of a shard's log for which counts are true, and when they were counted.
type DepthPlace struct {
	Ledger   uint64    `json:"ledger"`
	Messages uint64    `json:"messages"`
	AsOf     time.Time `json:"as_of"`
	LogTime  time.Time `json:"log_time"` // the highest instant that the log names up to there
}

// WholeDepth counts a queue's messages without a cap, which is no part of the platform's API.
type WholeDepth struct {
	QueueID       string       `json:"queue_id"`
	QueueName     string       `json:"queue_name"`
	Available     uint64       `json:"available"`
	InFlight      uint64       `json:"in_flight"`
	Delayed       uint64       `json:"delayed"`
	OldestWaiting *int64       `json:"oldest_waiting_milliseconds,omitempty"` // nil where none is available
	OldestTotal   *int64       `json:"oldest_total_milliseconds,omitempty"`
	Source        string       `json:"source"` // state, or view, which may be behind the log
	AsOf          time.Time    `json:"as_of"`
	Shards        []DepthPlace `json:"shards"`
}

// Depth counts a queue's messages in its state.
func (c *Client) Depth(ctx context.Context, queue string) (*WholeDepth, error) {
	var out struct {
		Depth WholeDepth `json:"depth"`
	}
	err := c.do(ctx, call{method: http.MethodGet, path: "/x" + queuePath(queue) + "/depth", into: &out})
	return &out.Depth, err
}

// Depths walks over the depths of all queues of the account by name, as the server's views have them. The first error ends it.
func (c *Client) Depths(ctx context.Context) iter.Seq2[*WholeDepth, error] {
	return walk(100, func(page url.Values) ([]WholeDepth, meta, error) {
		var out struct {
			Depths []WholeDepth `json:"depths"`
			Meta   meta         `json:"meta"`
		}
		err := c.do(ctx, call{method: http.MethodGet, path: "/x/v1/depths", query: page, into: &out})
		return out.Depths, out.Meta, err
	})
}

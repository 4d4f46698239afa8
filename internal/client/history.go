package client

import (
	"context"
	"iter"
	"net/http"
	"net/url"
	"time"
)

// Happening is one thing that happened to a message in a queue, which is no part of the platform's API. Fields that do
// not belong to the event are empty.
type Happening struct {
	Event     string     `json:"event"`
	At        time.Time  `json:"at"`
	Shard     int        `json:"shard"`
	Position  uint64     `json:"position"`
	Ledger    uint64     `json:"ledger_position,omitempty"`
	LeaseID   string     `json:"lease_id,omitempty"`
	VisibleAt *time.Time `json:"visible_at,omitempty"`
	Receives  int        `json:"receive_count,omitempty"`
	Reason    string     `json:"reason,omitempty"`
	MovedTo   string     `json:"moved_to,omitempty"`
	MovedFrom string     `json:"moved_from,omitempty"`
}

// History walks over what happened to a message in a queue. lost is set before the first one where the log does not go
// back to its beginning any more. The first error ends it.
func (c *Client) History(ctx context.Context, queue, message string, lost *bool) iter.Seq2[*Happening, error] {
	return walk(1000, func(page url.Values) ([]Happening, meta, error) {
		var out struct {
			History []Happening `json:"history"`
			Lost    bool        `json:"beginning_lost"`
			Meta    meta        `json:"meta"`
		}
		path := "/x" + messagesPath(queue, "/"+url.PathEscape(message)+"/history")
		err := c.do(ctx, call{method: http.MethodGet, path: path, query: page, into: &out})
		*lost = *lost || out.Lost
		return out.History, out.Meta, err
	})
}

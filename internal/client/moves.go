package client

import (
	"context"
	"iter"
	"net/http"
	"net/url"
	"time"
)

// Move is a move task, which is no part of the platform's API.
type Move struct {
	ID            string     `json:"id,omitempty"`
	QueueID       string     `json:"queue_id,omitempty"`
	Target        *MoveTo    `json:"target,omitempty"` // nil: each message goes back to its source
	State         string     `json:"state,omitempty"`  // running, completed, cancelled or failed
	RatePerSecond int        `json:"rate_per_second,omitempty"`
	Total         int        `json:"total"`
	Moved         int        `json:"moved"`
	Skipped       int        `json:"skipped"`
	Failed        int        `json:"failed"`
	Waiting       int        `json:"waiting"`
	Reason        string     `json:"reason,omitempty"`
	StartedAt     *time.Time `json:"started_at,omitempty"`
	UpdatedAt     *time.Time `json:"updated_at,omitempty"`
	EndedAt       *time.Time `json:"ended_at,omitempty"`
}

// MoveTo is a queue that messages go to; Name is "" when it is gone.
type MoveTo struct {
	ID   string `json:"id"`
	Name string `json:"name,omitempty"`
}

// StartMove asks for a move task. Fields that are empty ask for nothing.
type StartMove struct {
	Target           string            `json:"target,omitempty"` // "": back to the sources
	RatePerSecond    int               `json:"rate_per_second,omitempty"`
	OlderThanSeconds int               `json:"older_than_seconds,omitempty"`
	Source           string            `json:"source,omitempty"`
	GroupID          string            `json:"message_group_id,omitempty"`
	Attributes       map[string]string `json:"attributes,omitempty"`
	BodyMatches      string            `json:"body_matches,omitempty"`
	IdempotencyKey   string            `json:"-"`
}

func movesPath(queue, what string) string { return "/x" + queuePath(queue) + "/moves" + what }

// StartMove starts a move task.
func (c *Client) StartMove(ctx context.Context, queue string, in StartMove) (*Move, error) {
	return c.move(ctx, call{method: http.MethodPost, path: movesPath(queue, ""), body: in, key: in.IdempotencyKey})
}

// PreviewMove says what a task would do.
func (c *Client) PreviewMove(ctx context.Context, queue string, in StartMove) (*Move, error) {
	body := struct {
		StartMove
		DryRun bool `json:"dry_run"`
	}{in, true}
	var out struct {
		Preview Move `json:"preview"`
	}
	err := c.do(ctx, call{method: http.MethodPost, path: movesPath(queue, ""), body: body, into: &out})
	return &out.Preview, err
}

// Move shows a move task.
func (c *Client) Move(ctx context.Context, queue, id string) (*Move, error) {
	return c.move(ctx, call{method: http.MethodGet, path: movesPath(queue, "/"+url.PathEscape(id))})
}

// CancelMove ends a move task where it stands.
func (c *Client) CancelMove(ctx context.Context, queue, id string) (*Move, error) {
	return c.move(ctx, call{method: http.MethodPost, path: movesPath(queue, "/"+url.PathEscape(id)+"/cancel")})
}

func (c *Client) move(ctx context.Context, o call) (*Move, error) {
	var out struct {
		Move Move `json:"move"`
	}
	o.into = &out
	err := c.do(ctx, o)
	return &out.Move, err
}

// Moves walks over a queue's move tasks, oldest first. The first error ends it.
func (c *Client) Moves(ctx context.Context, queue string) iter.Seq2[*Move, error] {
	return walk(100, func(page url.Values) ([]Move, meta, error) {
		var out struct {
			Moves []Move `json:"moves"`
			Meta  meta   `json:"meta"`
		}
		err := c.do(ctx, call{method: http.MethodGet, path: movesPath(queue, ""), query: page, into: &out})
		return out.Moves, out.Meta, err
	})
}

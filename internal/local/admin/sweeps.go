package admin

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/leaselog/leaselog/internal/fault"
	"github.com/leaselog/leaselog/internal/sweep"
)

// step is one line of the answer to a sweep, which may take long: how many queues more were looked at, and at the end what
// came of it.
type step struct {
	Queues  int           `json:"queues,omitempty"`
	Report  *sweep.Report `json:"report,omitempty"`
	Failure *failure      `json:"failure,omitempty"`
}

// sweeps serves the server's sweeps.
func sweeps(m *http.ServeMux, site sweep.Site) {
	on(m, "GET /sweeps", func(r *http.Request, _ none) (any, error) { return sweep.Standings(r.Context(), site) })
	m.HandleFunc("POST /sweeps/{name}", func(w http.ResponseWriter, r *http.Request) {
		c, ok := sweep.Find(r.PathValue("name"))
		if !ok {
			fail(w, fault.New(fault.NotFound, "there is no sweep %q", r.PathValue("name")))
			return
		}
		out := http.NewResponseController(w)
		_ = out.SetWriteDeadline(time.Time{}) // it may take long
		lines := json.NewEncoder(w)
		report, err := c.ByHand(r.Context(), site, r.FormValue("dry") != "", func(queues int) {
			_ = lines.Encode(step{Queues: queues}) // whoever has left ends the context
			_ = out.Flush()
		})
		last := step{Report: &report}
		if err != nil {
			last.Failure = &failure{fault.Of(err).Code, err.Error()} // of every queue that failed
		}
		_ = lines.Encode(last)
	})
}

// Sweeps says where the server's sweeps stand.
func (c *Client) Sweeps(ctx context.Context) (all []sweep.Standing, err error) {
	err = c.do(ctx, "GET", "/sweeps", nil, &all)
	return all, err
}

// Sweep has the server do a sweep by hand. progress hears how many queues more were looked at.
func (c *Client) Sweep(ctx context.Context, name string, dry bool, progress func(queues int)) (report sweep.Report, err error) {
	target := "http://admin/sweeps/" + url.PathEscape(name)
	if dry {
		target += "?dry=true"
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, target, nil)
	if err != nil {
		return report, err
	}
	patient := c.http
	patient.Timeout = 0
	response, err := patient.Do(r)
	if err != nil {
		return report, fmt.Errorf("the server does not answer: %w", err)
	}
	defer response.Body.Close()
	if err := failed(response); err != nil {
		return report, err
	}
	lines := bufio.NewScanner(response.Body)
	for lines.Scan() {
		var s step
		if err := json.Unmarshal(lines.Bytes(), &s); err != nil {
			return report, fmt.Errorf("the server's answer: %w", err)
		}
		if s.Report == nil {
			progress(s.Queues)
			continue
		}
		if s.Failure != nil {
			err = fault.New(s.Failure.Code, "%s", s.Failure.Message)
		}
		return *s.Report, err
	}
	return report, errors.Join(errors.New("the server broke off the sweep; it goes on with the next one"), lines.Err())
}

package client

import (
	"context"
	"io"
	"net/http"
	"time"
)

// Probe is what one look at the server shows.
type Probe struct {
	Status int
	Took   time.Duration
	// Date is the server's clock when it answered, to the second; zero where it did not say. Middle is this machine's
	// clock at about that instant.
	Date, Middle time.Time
	Server       string // what the server calls itself; "" where it does not say
}

// Probe asks the server for one queue, without retries, and tells how it answered, be it with an error.
// Errors: [*Unreachable], or that of the token exchange.
func (c *Client) Probe(ctx context.Context) (Probe, error) {
	token := c.Token
	if c.Sign == nil && token == "" {
		var err error
		if token, err = c.exchanged(ctx); err != nil {
			return Probe{}, err
		}
	}
	limited, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	r, err := c.request(limited, call{method: http.MethodGet, path: queuesPath, query: map[string][]string{"limit": {"1"}}}, nil, token)
	if err != nil {
		return Probe{}, err
	}
	began := c.Now()
	resp, err := c.HTTP.Do(r)
	if err != nil {
		return Probe{}, unreachable(ctx, c.Endpoint, err)
	}
	defer resp.Body.Close()
	took := c.Now().Sub(began)
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, answerBytesMax)) // so that the connection is kept
	p := Probe{Status: resp.StatusCode, Took: took, Middle: began.Add(took / 2), Server: resp.Header.Get("Server")}
	p.Date, _ = http.ParseTime(resp.Header.Get("Date"))
	return p, nil
}

package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// Retries are those of the official clients (section 11.2).
const (
	backoffFirst  = 200 * time.Millisecond
	backoffMax    = 20 * time.Second
	retryAfterMax = 20 * time.Second // a server that asks for more gets its error shown at once

	answerBytesMax = 64 << 20
)

// call is one operation.
type call struct {
	method, path string
	query        url.Values
	body         any // nil: none
	key          string
	into         any // nil: the answer's body is discarded
}

// repeatable says whether the operation may arrive twice: it changes nothing the second time, or has a key by which
// the server knows it again.
func (o *call) repeatable() bool {
	return o.method != http.MethodPost && o.method != http.MethodPatch || o.key != ""
}

// do runs an operation with its retries. Errors: [*Error], [*Unreachable], [*Malformed], or that of ctx.
func (c *Client) do(ctx context.Context, o call) error {
	var body []byte
	if o.body != nil {
		var err error
		if body, err = encode(o.body); err != nil {
			return err
		}
	}
	for attempt := 1; ; attempt++ {
		err := c.authorized(ctx, o, body)
		pause, again := c.again(err, attempt)
		if err == nil || !again || !o.repeatable() {
			return err
		}
		if c.Wait(ctx, pause) != nil {
			return err
		}
	}
}

// encode leaves <, > and & as they are: a body must not grow by being sent.
func encode(v any) ([]byte, error) {
	var buf bytes.Buffer
	e := json.NewEncoder(&buf)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return bytes.TrimSuffix(buf.Bytes(), []byte("\n")), err
}

// again says whether an error may be gone at the next attempt, and how long to wait for it.
func (c *Client) again(err error, attempt int) (time.Duration, bool) {
	if attempt >= c.Attempts {
		return 0, false
	}
	var answer *Error
	var lost *Unreachable
	switch {
	case errors.As(err, &answer) && !answer.Exchange && transient(answer.Status):
		if answer.RetryAfter > 0 {
			return answer.RetryAfter, answer.RetryAfter <= retryAfterMax
		}
	case errors.As(err, &lost):
	default:
		return 0, false
	}
	return c.Backoff(attempt), true
}

// Backoff gives how long to wait after so many failures in a row: anything up to a bound that doubles.
func (c *Client) Backoff(failures int) time.Duration {
	most := min(backoffFirst<<min(failures-1, 10), backoffMax)
	return time.Duration(c.Rand() * float64(most))
}

func transient(status int) bool {
	switch status {
	case http.StatusTooManyRequests, http.StatusInternalServerError, http.StatusBadGateway,
		http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	}
	return false
}

// authorized makes one attempt. A token that was refused is dropped and the call repeated once, at once, whatever it
// is: a 401 comes before any effect (section 2.1).
func (c *Client) authorized(ctx context.Context, o call, body []byte) error {
	if c.Sign != nil || c.Token != "" {
		return c.once(ctx, o, body, c.Token)
	}
	for first := true; ; first = false {
		token, err := c.exchanged(ctx)
		if err != nil {
			return err
		}
		err = c.once(ctx, o, body, token)
		if !first || !IsStatus(err, http.StatusUnauthorized) {
			return err
		}
		c.tokens.drop(token)
	}
}

func (c *Client) once(ctx context.Context, o call, body []byte, token string) error {
	limited, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	r, err := c.request(limited, o, body, token)
	if err != nil {
		return err
	}
	resp, err := c.HTTP.Do(r)
	if err != nil {
		return unreachable(ctx, c.Endpoint, err)
	}
	return c.answer(ctx, resp, c.Endpoint, o.into)
}

func (c *Client) request(ctx context.Context, o call, body []byte, token string) (*http.Request, error) {
	target := c.Endpoint + o.path
	if len(o.query) > 0 {
		target += "?" + strings.ReplaceAll(o.query.Encode(), "+", "%20") // the documents' form of a blank
	}
	var in io.Reader
	if o.body != nil {
		in = bytes.NewReader(body)
	}
	r, err := http.NewRequestWithContext(ctx, o.method, target, in)
	if err != nil {
		return nil, err
	}
	r.Header.Set("Accept", "application/json")
	r.Header.Set("User-Agent", c.UserAgent)
	for name, value := range map[string]string{"X-Account-Id": c.Account, "Idempotency-Key": o.key} {
		if value != "" {
			r.Header.Set(name, value)
		}
	}
	if o.body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	if c.Sign != nil {
		return r, c.Sign(r, body)
	}
	r.Header.Set("Authorization", "Bearer "+token)
	return r, nil
}

// answer reads the answer into a value, or as an error.
func (c *Client) answer(ctx context.Context, r *http.Response, base string, into any) error {
	defer r.Body.Close()
	text, err := io.ReadAll(io.LimitReader(r.Body, answerBytesMax))
	switch {
	case r.StatusCode/100 != 2:
		return parseError(r, text, c.Now())
	case err != nil:
		return unreachable(ctx, base, err)
	case into == nil || len(text) == 0:
		return nil
	}
	if err := json.Unmarshal(text, into); err != nil {
		return &Malformed{URL: base, Cause: err}
	}
	return nil
}

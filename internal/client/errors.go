package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Error is what the server answered instead of a success. Its codes are those of section 6 of the API page; those of
// the token endpoint are OAuth's.
type Error struct {
	Status     int
	Code       string // "" where the answer had none, as a proxy's
	Message    string
	RequestID  string
	RetryAfter time.Duration // what the server asked to wait; 0 where it said nothing
	Exchange   bool          // it was the token endpoint that refused, not the operation
}

func (e *Error) Error() string {
	text := e.Message
	if text == "" {
		text = fmt.Sprintf("the server answered %d %s", e.Status, http.StatusText(e.Status))
	}
	if e.Exchange {
		text = "the key pair was not exchanged for a token: " + text
	}
	return text
}

// Unreachable says that no answer came: nothing listens there, the connection broke, or time ran out. What was asked
// for may have been done all the same.
type Unreachable struct {
	URL   string // of the server, without the path
	Cause error
}

func (u *Unreachable) Error() string { return fmt.Sprintf("cannot reach %s: %v", u.URL, u.Cause) }
func (u *Unreachable) Unwrap() error { return u.Cause }

// Malformed says that an answer is none of this API's.
type Malformed struct {
	URL   string
	Cause error
}

func (m *Malformed) Error() string {
	return fmt.Sprintf("%s answered with something that is not of the queue API: %v", m.URL, m.Cause)
}
func (m *Malformed) Unwrap() error { return m.Cause }

// IsStatus says whether err is an answer with a status.
func IsStatus(err error, status int) bool {
	var e *Error
	return errors.As(err, &e) && e.Status == status
}

// envelope is the error of an operation or, flat, of the token endpoint.
type envelope struct {
	Error       json.RawMessage `json:"error"`
	Description string          `json:"error_description"`
}

// parseError reads an answer that is no success. Whatever it is, the status is kept.
func parseError(r *http.Response, body []byte, now time.Time) *Error {
	e := &Error{Status: r.StatusCode, RequestID: r.Header.Get("X-Request-Id"), RetryAfter: retryAfter(r.Header, now)}
	var env envelope
	if json.Unmarshal(body, &env) != nil {
		return e
	}
	var inner struct {
		Code      string `json:"code"`
		Message   string `json:"message"`
		RequestID string `json:"request_id"`
	}
	if json.Unmarshal(env.Error, &inner) == nil {
		e.Code, e.Message = inner.Code, inner.Message
		if inner.RequestID != "" {
			e.RequestID = inner.RequestID
		}
	} else if json.Unmarshal(env.Error, &e.Code) == nil {
		e.Message = env.Description
	}
	return e
}

// retryAfter reads seconds or an HTTP date.
func retryAfter(h http.Header, now time.Time) time.Duration {
	v := strings.TrimSpace(h.Get("Retry-After"))
	if n, err := strconv.Atoi(v); err == nil && n >= 0 {
		return time.Duration(n) * time.Second
	}
	if at, err := http.ParseTime(v); err == nil && at.After(now) {
		return at.Sub(now)
	}
	return 0
}

// unreachable says why no answer came. The end of the caller's context is the caller's doing and stays what it is.
func unreachable(ctx context.Context, base string, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return &Unreachable{URL: base, Cause: plainCause(err)}
}

// plainCause takes off what net/http says of the URL, which stands in front already.
func plainCause(err error) error {
	if errors.Is(err, context.DeadlineExceeded) {
		return errors.New("no answer in time")
	}
	for {
		inner := errors.Unwrap(err)
		if inner == nil {
			return err
		}
		err = inner
	}
}

func errResults(want, got int) error {
	return fmt.Errorf("%d results for a batch of %d entries", got, want)
}

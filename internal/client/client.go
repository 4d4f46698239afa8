// Package client speaks the queue API that leaselog serves, over HTTP.
//
// It is the vendor's dialect (apis/basaltic.md): the same paths, credentials and retries as the official clients, so
// that it also works against the vendor's service. It reads no environment: what it needs is in [Config].
package client

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// Config says where the server is and who calls. One of Token, KeyID with Secret, and Sign is required.
type Config struct {
	Endpoint string // http://host:port, perhaps with a path; required
	// TokenEndpoint is where a key pair is exchanged for a token; default Endpoint.
	TokenEndpoint string
	Token         string // a bearer token, sent as it is
	KeyID, Secret string // a key pair, exchanged for tokens
	// Sign authenticates each attempt by itself instead of a token: it adds headers to a request whose body is given.
	// It is called for every attempt, since a signature has a nonce that may be seen once.
	Sign      func(r *http.Request, body []byte) error
	Account   string        // the account acted on, by id or handle; default the credential's own
	UserAgent string        // default "leaselog"
	Attempts  int           // 1 to 10; default 4
	Timeout   time.Duration // of one attempt; default 30 s, since a long poll takes 20

	HTTP *http.Client                                     // default: one that follows no redirects
	Now  func() time.Time                                 // default: the clock
	Wait func(ctx context.Context, d time.Duration) error // pauses before another attempt; default: a timer
	Rand func() float64                                   // 0 to 1, for jitter; default math/rand's
}

// Client calls the API. It may be used by many goroutines at once.
type Client struct {
	Config
	tokens tokens
}

const (
	attemptsDefault = 4
	attemptsMax     = 10
	timeoutDefault  = 30 * time.Second
)

// New makes a client, and reports every problem of its configuration at once.
func New(c Config) (*Client, error) {
	c.fill()
	var problems []error
	problems = append(problems, checkEndpoint("the endpoint", c.Endpoint), checkEndpoint("the token endpoint", c.TokenEndpoint))
	if (c.KeyID == "") != (c.Secret == "") {
		problems = append(problems, errors.New("a key pair needs both its id and its secret"))
	}
	if c.Token == "" && c.KeyID == "" && c.Sign == nil {
		problems = append(problems, errors.New("there are no credentials: a token or a key pair is needed"))
	}
	if c.Attempts < 1 || c.Attempts > attemptsMax {
		problems = append(problems, fmt.Errorf("attempts must be 1 to %d, not %d", attemptsMax, c.Attempts))
	}
	if err := errors.Join(problems...); err != nil {
		return nil, err
	}
	return &Client{Config: c}, nil
}

func (c *Config) fill() {
	c.Endpoint = strings.TrimSuffix(c.Endpoint, "/")
	if c.TokenEndpoint = strings.TrimSuffix(c.TokenEndpoint, "/"); c.TokenEndpoint == "" {
		c.TokenEndpoint = c.Endpoint
	}
	if c.UserAgent == "" {
		c.UserAgent = "leaselog"
	}
	if c.Attempts == 0 {
		c.Attempts = attemptsDefault
	}
	if c.Timeout == 0 {
		c.Timeout = timeoutDefault
	}
	if c.HTTP == nil {
		// A redirect would carry the credentials to another host (section 1: redirects are never followed).
		c.HTTP = &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Wait == nil {
		c.Wait = wait
	}
	if c.Rand == nil {
		c.Rand = rand.Float64
	}
}

// checkEndpoint refuses what the official clients refuse (section 11.1).
func checkEndpoint(what, endpoint string) error {
	u, err := url.Parse(endpoint)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || strings.ContainsAny(endpoint, " \t\r\n"):
		return fmt.Errorf("%s must be a URL such as http://127.0.0.1:8080, not %q", what, endpoint)
	case u.User != nil || u.RawQuery != "" || u.Fragment != "" || strings.HasSuffix(endpoint, "?") || strings.HasSuffix(endpoint, "#"):
		return fmt.Errorf("%s must hold no credentials, query or fragment: %q", what, u.Redacted())
	}
	return nil
}

func wait(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}

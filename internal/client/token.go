package client

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"time"
)

// tokens keeps the token that the key pair was exchanged for.
type tokens struct {
	mu    sync.Mutex // held during an exchange, so that many callers make one
	token string
	until time.Time
}

func (t *tokens) drop(token string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.token == token {
		t.token = ""
	}
}

// exchanged gives a token for the key pair, the former one for as long as it is fresh: until 10 % of its life, or
// five minutes, are left (section 2.1).
func (c *Client) exchanged(ctx context.Context) (string, error) {
	t := &c.tokens
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.token != "" && c.Now().Before(t.until) {
		return t.token, nil
	}
	began := c.Now()
	token, lifetime, err := c.exchange(ctx)
	if err != nil {
		return "", err
	}
	t.token, t.until = token, began.Add(lifetime-min(5*time.Minute, lifetime/10))
	return token, nil
}

// Exchange gets a token for the key pair, whatever is kept. It is for trying the credentials.
func (c *Client) Exchange(ctx context.Context) (lifetime time.Duration, err error) {
	if c.KeyID == "" {
		return 0, errors.New("there is no key pair to exchange")
	}
	_, lifetime, err = c.exchange(ctx)
	return lifetime, err
}

// exchange is never repeated, as the official clients do not.
func (c *Client) exchange(ctx context.Context) (token string, lifetime time.Duration, err error) {
	limited, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	r, err := http.NewRequestWithContext(limited, http.MethodPost, c.TokenEndpoint+"/v1/oauth/token",
		strings.NewReader("grant_type=client_credentials"))
	if err != nil {
		return "", 0, err
	}
	r.SetBasicAuth(c.KeyID, c.Secret)
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Accept", "application/json")
	r.Header.Set("User-Agent", c.UserAgent)
	resp, err := c.HTTP.Do(r)
	if err != nil {
		return "", 0, unreachable(ctx, c.TokenEndpoint, err)
	}
	var got struct {
		AccessToken string  `json:"access_token"`
		ExpiresIn   float64 `json:"expires_in"`
	}
	err = c.answer(ctx, resp, c.TokenEndpoint, &got)
	var refused *Error
	if errors.As(err, &refused) {
		refused.Exchange = true
	}
	if err == nil && (got.AccessToken == "" || got.ExpiresIn <= 0) {
		err = &Malformed{URL: c.TokenEndpoint, Cause: errors.New("a token or its lifetime is missing")}
	}
	return got.AccessToken, time.Duration(got.ExpiresIn * float64(time.Second)), err
}

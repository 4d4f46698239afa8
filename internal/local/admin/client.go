package admin

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/leaselog/leaselog/events"
	"github.com/leaselog/leaselog/internal/auth"
	"github.com/leaselog/leaselog/internal/fault"
	"github.com/leaselog/leaselog/internal/local/keys"
	"github.com/leaselog/leaselog/internal/local/store"
	"github.com/leaselog/leaselog/projections"
)

// Client manages the accounts, keys and views of a data directory, and the sweeps of a server.
type Client struct {
	http  http.Client
	close func() error
}

// Open connects to the server that runs on a data directory, or opens its store where none runs. A directory that does
// not exist is made where create is true, so that keys can be there before the first start. Close gives it back.
func Open(data string, create bool) (*Client, error) {
	if _, err := os.Stat(data); errors.Is(err, fs.ErrNotExist) && !create {
		return nil, fault.New(fault.NotFound, "there is no data directory %s; name the server's own with --data", data)
	}
	c, err := Running(data)
	if c == nil && err == nil {
		return direct(data)
	}
	return c, err
}

// Running connects to the server that runs on a data directory, and gives nil where none runs.
func Running(data string) (*Client, error) {
	path := Socket(data)
	conn, err := net.Dial("unix", path)
	switch {
	case err == nil:
		conn.Close()
		dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", path)
		}
		c := &Client{http: http.Client{Transport: &http.Transport{DialContext: dial}}}
		c.close = func() error { c.http.CloseIdleConnections(); return nil }
		return c, nil
	case errors.Is(err, fs.ErrPermission):
		return nil, fmt.Errorf("the server's socket may be used by the user that runs the server, and by root: %w", err)
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ECONNREFUSED): // none runs, or one was killed
		return nil, nil
	}
	return nil, err
}

// direct opens the store, which nobody else may use meanwhile.
func direct(data string) (_ *Client, err error) {
	s, err := store.Open(store.Config{Dir: filepath.Join(data, "store"), Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return nil, fmt.Errorf("%w; if a server is starting or stopping on it, try again in a moment", err)
	}
	defer func() {
		if err != nil {
			s.Close()
		}
	}()
	k, err := keys.Open(filepath.Join(data, "key"))
	if err != nil {
		return nil, err
	}
	now := func() events.Instant { return events.Instant(time.Now().UnixMilli()) }
	d, err := Directory(s, k, now)
	if err != nil {
		return nil, err
	}
	return Over(d, Views{s, s, projections.Embedded(), now}, s.Close), nil
}

// Over manages what this process has opened. Close calls closing.
func Over(d *auth.Directory, v Views, closing func() error) *Client {
	return &Client{http: http.Client{Transport: inside{Handler(d, v, func() {}, nil)}}, close: closing}
}

// Close ends the client.
func (c *Client) Close() error { return c.close() }

// inside is a transport that has the server in it.
type inside struct{ handler http.Handler }

// RoundTrip implements [http.RoundTripper].
func (i inside) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body == nil {
		r.Body = http.NoBody
	}
	w := &recorded{header: http.Header{}}
	i.handler.ServeHTTP(w, r)
	return &http.Response{StatusCode: w.status, Header: w.header, Body: io.NopCloser(&w.body), Request: r}, nil
}

type recorded struct {
	header http.Header
	status int
	body   bytes.Buffer
}

// Header implements [http.ResponseWriter].
func (w *recorded) Header() http.Header { return w.header }

// WriteHeader implements [http.ResponseWriter].
func (w *recorded) WriteHeader(status int) { w.status = status }

// Write implements [http.ResponseWriter].
func (w *recorded) Write(b []byte) (int, error) { return w.body.Write(b) }

// CreateAccount makes an account. Faults of all methods are those of [auth.Directory].
func (c *Client) CreateAccount(ctx context.Context, handle string) (a auth.Account, err error) {
	err = c.do(ctx, "POST", "/accounts", named{handle}, &a)
	return a, err
}

// Accounts lists all accounts.
func (c *Client) Accounts(ctx context.Context) (all []auth.Account, err error) {
	err = c.do(ctx, "GET", "/accounts", nil, &all)
	return all, err
}

// EnableAccount lets the keys of an account open, or not.
func (c *Client) EnableAccount(ctx context.Context, ref string, enable bool) (a auth.Account, err error) {
	err = c.do(ctx, "POST", "/accounts/"+url.PathEscape(ref)+verb(enable), nil, &a)
	return a, err
}

// DeleteAccount removes an account without keys and queues.
func (c *Client) DeleteAccount(ctx context.Context, ref string) error {
	return c.do(ctx, "DELETE", "/accounts/"+url.PathEscape(ref), nil, nil)
}

// CreateKey makes a key; its secret is in the answer and nowhere else.
func (c *Client) CreateKey(ctx context.Context, n auth.NewKey) (k auth.Issued, err error) {
	err = c.do(ctx, "POST", "/keys", n, (*issued)(&k))
	return k, err
}

// Keys lists the keys of an account, or all.
func (c *Client) Keys(ctx context.Context, account string) (all []auth.Key, err error) {
	err = c.do(ctx, "GET", "/keys?account="+url.QueryEscape(account), nil, &all)
	return all, err
}

// EnableKey lets a key open, or not.
func (c *Client) EnableKey(ctx context.Context, ref string, enable bool) (k auth.Key, err error) {
	err = c.do(ctx, "POST", "/keys/"+url.PathEscape(ref)+verb(enable), nil, &k)
	return k, err
}

// RotateKey gives a key a new secret; the former one opens for the grace.
func (c *Client) RotateKey(ctx context.Context, ref string, grace time.Duration) (k auth.Issued, err error) {
	err = c.do(ctx, "POST", "/keys/"+url.PathEscape(ref)+"/rotate", rotation{grace.Milliseconds()}, (*issued)(&k))
	return k, err
}

// SetPolicies replaces a key's policies.
func (c *Client) SetPolicies(ctx context.Context, ref string, policies [][]byte) (k auth.Key, err error) {
	err = c.do(ctx, "PUT", "/keys/"+url.PathEscape(ref)+"/policies", documents{policies}, &k)
	return k, err
}

// DeleteKey removes a key.
func (c *Client) DeleteKey(ctx context.Context, ref string) error {
	return c.do(ctx, "DELETE", "/keys/"+url.PathEscape(ref), nil, nil)
}

func verb(enable bool) string {
	if enable {
		return "/enable"
	}
	return "/disable"
}

// do makes a request that is answered soon.
func (c *Client) do(ctx context.Context, method, path string, in, out any) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	return c.patient(ctx, method, path, in, out)
}

// patient makes a request. The host is none: the connection decides where it goes.
func (c *Client) patient(ctx context.Context, method, path string, in, out any) error {
	text, err := json.Marshal(in)
	if err != nil {
		return err
	}
	r, err := http.NewRequestWithContext(ctx, method, "http://admin"+path, bytes.NewReader(text))
	if err != nil {
		return err
	}
	resp, err := c.http.Do(r)
	if err != nil {
		return fault.Because(fault.Unconfirmed, err, "the server did not answer; look whether the change took effect: %v", err)
	}
	defer resp.Body.Close()
	if err := failed(resp); err != nil || out == nil {
		return err
	}
	return json.NewDecoder(resp.Body).Decode(out)
}

// failed reads an answer that is an error.
func failed(resp *http.Response) error {
	if resp.StatusCode == http.StatusOK {
		return nil
	}
	f := failure{Code: fault.Internal, Message: "the server answered " + resp.Status}
	_ = json.NewDecoder(resp.Body).Decode(&f) // what is no failure of ours leaves the text above
	return fault.New(f.Code, "%s", f.Message)
}

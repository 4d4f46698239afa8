package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// step is one request that a script expects, as "METHOD path", and what it answers.
type step struct {
	want   string
	status int
	header map[string]string
	body   string
}

// scripted is a server that answers step by step, and notes what it got.
type scripted struct {
	*httptest.Server
	t        *testing.T
	steps    []step
	requests []*http.Request
	bodies   []string
	waits    []time.Duration
}

func serve(t *testing.T, steps ...step) *scripted {
	t.Helper()
	s := &scripted{t: t, steps: steps}
	s.Server = httptest.NewServer(s)
	t.Cleanup(func() {
		s.Close()
		if len(s.steps) > 0 {
			t.Errorf("never asked for: %v", s.steps)
		}
	})
	return s
}

func (s *scripted) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	s.requests, s.bodies = append(s.requests, r), append(s.bodies, string(body))
	got := r.Method + " " + r.URL.RequestURI()
	if len(s.steps) == 0 || s.steps[0].want != got {
		s.t.Errorf("unexpected: %s", got)
		w.WriteHeader(http.StatusTeapot)
		return
	}
	next := s.steps[0]
	s.steps = s.steps[1:]
	for k, v := range next.header {
		w.Header().Set(k, v)
	}
	w.WriteHeader(next.status)
	io.WriteString(w, next.body)
}

// client gives one whose waits are noted and take no time.
func (s *scripted) client(c Config) *Client {
	s.t.Helper()
	c.Endpoint = s.URL
	if c.Token == "" && c.KeyID == "" && c.Sign == nil {
		c.Token = "t"
	}
	c.Rand = func() float64 { return 1 }
	c.Wait = func(_ context.Context, d time.Duration) error {
		s.waits = append(s.waits, d)
		return nil
	}
	client, err := New(c)
	if err != nil {
		s.t.Fatal(err)
	}
	return client
}

const unavailable = `{"error":{"code":"UNAVAILABLE","message":"not now","request_id":"r1"}}`

func TestRetries(t *testing.T) {
	get, send, del := "GET /v1/queues/q", "POST /v1/queues/q/messages", "DELETE /v1/queues/q"
	for name, test := range map[string]struct {
		steps []step
		call  func(*Client) error
		waits []time.Duration
		fails bool
	}{
		"a read is tried four times, with doubled waits": {
			steps: []step{{want: get, status: 503}, {want: get, status: 500}, {want: get, status: 429}, {want: get, status: 502}},
			call:  func(c *Client) error { _, err := c.Queue(t.Context(), "q"); return err },
			waits: []time.Duration{200 * time.Millisecond, 400 * time.Millisecond, 800 * time.Millisecond}, fails: true,
		},
		"a delete as well": {
			steps: []step{{want: del, status: 504}, {want: del, status: 204}},
			call:  func(c *Client) error { return c.DeleteQueue(t.Context(), "q") },
			waits: []time.Duration{200 * time.Millisecond},
		},
		"a send is tried once": {
			steps: []step{{want: send, status: 503}},
			call:  func(c *Client) error { _, err := c.Send(t.Context(), "q", Outgoing{}, ""); return err },
			fails: true,
		},
		"but again with a key": {
			steps: []step{{want: send, status: 503, body: unavailable}, {want: send, status: 200, body: `{"result":{"message_id":"m"}}`}},
			call:  func(c *Client) error { _, err := c.Send(t.Context(), "q", Outgoing{}, "key"); return err },
			waits: []time.Duration{200 * time.Millisecond},
		},
		"what the server asks for is waited": {
			steps: []step{{want: get, status: 503, header: map[string]string{"Retry-After": "7"}}, {want: get, status: 200, body: `{"queue":{}}`}},
			call:  func(c *Client) error { _, err := c.Queue(t.Context(), "q"); return err },
			waits: []time.Duration{7 * time.Second},
		},
		"unless it is too long": {
			steps: []step{{want: get, status: 503, header: map[string]string{"Retry-After": "21"}}},
			call:  func(c *Client) error { _, err := c.Queue(t.Context(), "q"); return err }, fails: true,
		},
		"a refusal stands": {
			steps: []step{{want: get, status: 409}},
			call:  func(c *Client) error { _, err := c.Queue(t.Context(), "q"); return err }, fails: true,
		},
		"a redirect is an error": {
			steps: []step{{want: get, status: 308, header: map[string]string{"Location": "/elsewhere"}}},
			call:  func(c *Client) error { _, err := c.Queue(t.Context(), "q"); return err }, fails: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, test.steps...)
			if err := test.call(s.client(Config{})); (err != nil) != test.fails {
				t.Error(err)
			}
			if d := cmp.Diff(test.waits, s.waits); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestErrors(t *testing.T) {
	for name, test := range map[string]struct {
		step step
		want Error
	}{
		"envelope": {step{status: 404, body: `{"error":{"code":"NOT_FOUND","message":"no","request_id":"r"}}`},
			Error{Status: 404, Code: "NOT_FOUND", Message: "no", RequestID: "r"}},
		"id in the header": {step{status: 403, header: map[string]string{"X-Request-Id": "h"}, body: `{"error":{"code":"ACCESS_DENIED"}}`},
			Error{Status: 403, Code: "ACCESS_DENIED", RequestID: "h"}},
		"a proxy's": {step{status: 413, body: `<html>`}, Error{Status: 413}},
		"empty":     {step{status: 405}, Error{Status: 405}},
	} {
		t.Run(name, func(t *testing.T) {
			test.step.want = "GET /v1/queues/q"
			_, err := serve(t, test.step).client(Config{}).Queue(t.Context(), "q")
			var got *Error
			if !errors.As(err, &got) {
				t.Fatal(err)
			}
			if d := cmp.Diff(test.want, *got); d != "" {
				t.Error(d)
			}
			if got.Error() == "" {
				t.Error("says nothing")
			}
		})
	}
}

func TestKeyPair(t *testing.T) {
	token := func(name string) step {
		return step{want: "POST /v1/oauth/token", status: 200, body: fmt.Sprintf(`{"access_token":%q,"token_type":"Bearer","expires_in":3600}`, name)}
	}
	send := "POST /v1/queues/q/messages"
	s := serve(t, token("one"), step{want: send, status: 200}, step{want: send, status: 401}, token("two"), step{want: send, status: 200},
		step{want: send, status: 401}, token("three"), step{want: send, status: 401})
	c := s.client(Config{KeyID: "AK", Secret: "s"})
	for i, fails := range []bool{false, false, true} {
		if _, err := c.Send(t.Context(), "q", Outgoing{}, ""); IsStatus(err, 401) != fails || (err != nil) != fails {
			t.Errorf("send %d: %v", i, err)
		}
	}
	if id, secret, _ := s.requests[0].BasicAuth(); id != "AK" || secret != "s" || s.bodies[0] != "grant_type=client_credentials" {
		t.Errorf("exchanged %s:%s with %q", id, secret, s.bodies[0])
	}
	var used []string
	for _, r := range s.requests {
		used = append(used, r.Header.Get("Authorization"))
	}
	if d := cmp.Diff([]string{"Bearer one", "Bearer one"}, used[1:3]); d != "" || used[4] != "Bearer two" {
		t.Error(used)
	}
}

func TestTokenIsRenewedBeforeItEnds(t *testing.T) {
	token := step{want: "POST /v1/oauth/token", status: 200, body: `{"access_token":"x","expires_in":1000}`}
	get := step{want: "GET /v1/queues/q", status: 200}
	s := serve(t, token, get, get, token, get)
	now := time.Unix(0, 0)
	c := s.client(Config{KeyID: "AK", Secret: "s", Now: func() time.Time { return now }})
	for _, at := range []int64{0, 899, 900} { // 10 % are left
		now = time.Unix(at, 0)
		if _, err := c.Queue(t.Context(), "q"); err != nil {
			t.Fatal(err)
		}
	}
}

func TestExchangeFails(t *testing.T) {
	s := serve(t, step{want: "POST /v1/oauth/token", status: 401, body: `{"error":"invalid_client","error_description":"unknown key"}`})
	_, err := s.client(Config{KeyID: "AK", Secret: "s"}).Queue(t.Context(), "q")
	var got *Error
	if !errors.As(err, &got) || !got.Exchange || got.Code != "invalid_client" || !strings.Contains(err.Error(), "unknown key") {
		t.Error(err)
	}
}

// Every attempt is signed anew: a nonce counts once.
func TestSign(t *testing.T) {
	get := "GET /v1/queues/q"
	s := serve(t, step{want: get, status: 503}, step{want: get, status: 200})
	n := 0
	c := s.client(Config{Sign: func(r *http.Request, body []byte) error {
		n++
		r.Header.Set("Authorization", fmt.Sprint("signature ", n))
		return nil
	}})
	if _, err := c.Queue(t.Context(), "q"); err != nil || s.requests[1].Header.Get("Authorization") != "signature 2" {
		t.Error(err, s.requests[1].Header)
	}
}

func TestPathsAndHeaders(t *testing.T) {
	s := serve(t, step{want: "DELETE /v1/queues/crn%3Aqueue%3Ar%3Aa%3Aqueue%2Fa%20b%2Bc/messages?receipt_handle=a%20%2F%2B", status: 204})
	if err := s.client(Config{Account: "acme"}).Ack(t.Context(), "crn:queue:r:a:queue/a b+c", "a /+"); err != nil {
		t.Fatal(err)
	}
	h := s.requests[0].Header
	if h.Get("X-Account-Id") != "acme" || h.Get("Accept") != "application/json" || h.Get("Content-Type") != "" || h.Get("User-Agent") != "leaselog" {
		t.Error(h)
	}
}

func TestUpdateSendsWhatIsCleared(t *testing.T) {
	patch := step{want: "PATCH /v1/queues/q", status: 200}
	s := serve(t, patch, patch, patch)
	c := s.client(Config{})
	zero := 0
	for _, u := range []UpdateQueue{{ClearTags: true}, {Settings: Settings{DelaySeconds: &zero}}, {Settings: Settings{Tags: map[string]string{"a": "<"}}, ClearRedrivePolicy: true}} {
		if _, err := c.UpdateQueue(t.Context(), "q", u); err != nil {
			t.Fatal(err)
		}
	}
	want := []string{`{"tags":{}}`, `{"delay_seconds":0}`, `{"clear_redrive_policy":true,"tags":{"a":"<"}}`}
	if d := cmp.Diff(want, s.bodies); d != "" {
		t.Error(d)
	}
}

func TestPages(t *testing.T) {
	page := func(marker, next string, names ...string) step {
		body := map[string]any{"queues": []any{}, "meta": map[string]any{"has_more": next != "", "marker": next}}
		for _, n := range names {
			body["queues"] = append(body["queues"].([]any), map[string]string{"name": n})
		}
		text, _ := json.Marshal(body)
		return step{want: "GET /v1/queues?limit=1000" + marker, status: 200, body: string(text)}
	}
	s := serve(t, page("", "m1", "a", "b"), page("&marker=m1", "m2"), page("&marker=m2", "", "c"))
	var got []string
	for q, err := range s.client(Config{}).Queues(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, q.Name)
	}
	if d := cmp.Diff([]string{"a", "b", "c"}, got); d != "" {
		t.Error(d)
	}
	endless := serve(t, page("", "m1", "a"), page("&marker=m1", "m1", "a"))
	var last error
	for _, err := range endless.client(Config{}).Queues(t.Context()) {
		last = err
	}
	if last == nil {
		t.Error("walks in a circle")
	}
}

func TestBatchNeedsAllResults(t *testing.T) {
	s := serve(t, step{want: "POST /v1/queues/q/messages/delete-batch", status: 200, body: `{"results":[{"id":"0"}]}`})
	_, err := s.client(Config{}).AckBatch(t.Context(), "q", []string{"a", "b"})
	var malformed *Malformed
	if !errors.As(err, &malformed) {
		t.Error(err)
	}
}

func TestUnreachable(t *testing.T) {
	s := serve(t)
	c := s.client(Config{})
	s.Close()
	_, err := c.Queue(t.Context(), "q")
	var lost *Unreachable
	if !errors.As(err, &lost) || lost.URL != s.URL || len(s.waits) != 3 || strings.Contains(err.Error(), "dial") {
		t.Error(err, s.waits)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.Queue(ctx, "q"); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func TestNewRefuses(t *testing.T) {
	for _, test := range []struct {
		c    Config
		want []string
	}{
		{Config{}, []string{"the endpoint must be", "no credentials"}},
		{Config{Endpoint: "ftp://x", Token: "t"}, []string{"must be a URL"}},
		{Config{Endpoint: "http://u:p@x", Token: "t"}, []string{"no credentials, query or fragment"}},
		{Config{Endpoint: "http://x?a=b", Token: "t"}, []string{"no credentials, query or fragment"}},
		{Config{Endpoint: "http://x", KeyID: "a"}, []string{"both its id and its secret"}},
		{Config{Endpoint: "http://x", Token: "t", Attempts: 11}, []string{"1 to 10"}},
	} {
		_, err := New(test.c)
		for _, want := range test.want {
			if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), ":p@") {
				t.Errorf("%+v: %v should say %q", test.c, err, want)
			}
		}
	}
}

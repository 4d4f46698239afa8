package rest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/leaselog/leaselog/internal/auth"
	"github.com/leaselog/leaselog/internal/fault"
)

// TestEveryFaultHasAWireError holds the table complete, in both directions.
func TestEveryFaultHasAWireError(t *testing.T) {
	for _, code := range fault.Codes {
		if w := wires[code]; w.status < 400 || w.code == "" {
			t.Errorf("the fault %s has no wire error", code)
		}
	}
	if len(wires) != len(fault.Codes) {
		t.Errorf("the table has %d rows for %d faults", len(wires), len(fault.Codes))
	}
}

// TestFaultsOnTheWire sends each fault through an operation: what the broker says reaches the user, and what is not a
// fault does not.
func TestFaultsOnTheWire(t *testing.T) {
	f := new(fake)
	h := serving(t, f)
	expect(t, h, "POST", "/v1/queues", `{"name":"q"}`, 201)
	for _, c := range []struct {
		err     error
		status  int
		code    string
		message string
	}{
		{fault.New(fault.Invalid, "because of 7"), 400, "INVALID_INPUT", "because of 7"},
		{fault.New(fault.TooLarge, "9 of 8"), 400, "QUEUE_MESSAGE_TOO_LARGE", "9 of 8"},
		{fault.New(fault.NotFound, "gone"), 404, "NOT_FOUND", "gone"},
		{fault.New(fault.ForeignLease, "not ours"), 400, "INVALID_INPUT", "not ours"},
		{fault.New(fault.LeaseEnded, "over"), 409, "QUEUE_RECEIPT_HANDLE_EXPIRED", "over"},
		{fault.New(fault.Quota, "full"), 403, "QUEUE_QUOTA_EXCEEDED", "full"},
		{fault.New(fault.Limit, "100000 delayed"), 403, "QUEUE_LIMIT_EXCEEDED", "100000 delayed"},
		{fault.New(fault.KeyLost, "disabled"), 409, "KMS_KEY_UNAVAILABLE", "disabled"},
		{fault.Because(fault.Unavailable, errors.New("secret"), "busy"), 503, "UNAVAILABLE", "busy"},
		{fault.New(fault.Unconfirmed, "perhaps"), 503, "UNAVAILABLE", "perhaps"},
		{fmt.Errorf("appending: %w", fault.New(fault.Limit, "wrapped")), 403, "QUEUE_LIMIT_EXCEEDED", "wrapped"},
		{errors.New("disk secret"), 500, "INTERNAL", internalText},
		{fault.New(fault.Internal, "disk secret"), 500, "INTERNAL", internalText},
		{context.Canceled, 503, "UNAVAILABLE", "given up"},
	} {
		f.err = c.err
		a := httptest.NewRecorder() // not held to the contract: no send gives some of these
		h.ServeHTTP(a, request(strings.NewReader(`{"body":"x"}`), ""))
		if err := checkAnswer(a); err != nil {
			t.Error(err)
		}
		body := a.Body.String()
		if a.Code != c.status || !strings.Contains(body, `"code":"`+c.code+`"`) || !strings.Contains(body, c.message) || strings.Contains(body, "secret") {
			t.Errorf("%v: %d %s", c.err, a.Code, body)
		}
		if retry := a.Header().Get("Retry-After"); (retry == "1") != fault.Is(c.err, fault.Unavailable) {
			t.Errorf("%v: Retry-After %q", c.err, retry)
		}
	}
}

// TestAPanicIsAnInternalError: it is answered, logged with its stack, counted, and the next request is served.
func TestAPanicIsAnInternalError(t *testing.T) {
	f := &fake{panics: true}
	var log bytes.Buffer
	counts := map[string]int{}
	h, err := New(Config{
		Broker: f, Auth: auth.Development{}, Secret: secret, Logger: slog.New(slog.NewTextHandler(&log, nil)),
		Failed: func(status int, code string) { counts[fmt.Sprint(status, code)]++ },
	})
	if err != nil {
		t.Fatal(err)
	}
	expect(t, h, "POST", "/v1/queues", `{"name":"q"}`, 201)
	expect(t, h, "POST", "/v1/queues/q/messages", `{"body":"x"}`, 500, `"code":"INTERNAL"`, internalText)
	f.panics = false
	expect(t, h, "POST", "/v1/queues/q/messages", `{"body":"x"}`, 200)
	if !strings.Contains(log.String(), "fake_test.go") || counts["500INTERNAL"] != 1 {
		t.Errorf("log %s\ncounts %v", &log, counts)
	}
}

// TestEveryErrorIsCounted: an answer once, and each failed entry of a batch once.
func TestEveryErrorIsCounted(t *testing.T) {
	var codes []string
	h, err := New(Config{Broker: new(fake), Auth: auth.Development{}, Secret: secret,
		Failed: func(_ int, code string) { codes = append(codes, code) }})
	if err != nil {
		t.Fatal(err)
	}
	do(t, h, "GET", "/nothing", "")
	do(t, h, "POST", "/v1/queues", `{"name":"q"}`)
	do(t, h, "POST", "/v1/queues/q/messages/batch", `{"entries":[{"id":"a","body":"","delay_seconds":901},{"id":"b","body":""}]}`)
	if got := strings.Join(codes, " "); got != "NOT_FOUND INVALID_INPUT" {
		t.Error(got)
	}
}

func TestConfigNamesEveryProblem(t *testing.T) {
	_, err := New(Config{Region: "São Paulo", Secret: []byte("short")})
	if err == nil {
		t.Fatal("no error")
	}
	for _, part := range []string{"Broker", "Auth", "Secret", "Region"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%v does not name %s", err, part)
		}
	}
}

// TestATokenlessHostHasNoTokenEndpoint: the paths are unknown, not broken.
func TestATokenlessHostHasNoTokenEndpoint(t *testing.T) {
	h, err := New(Config{Broker: new(fake), Auth: auth.Development{}, Secret: secret})
	if err != nil {
		t.Fatal(err)
	}
	expect(t, h, "POST", "/v1/oauth/token", "grant_type=client_credentials", 404)
}

// TestEndpointsServeTheirOperationAlone builds each handler as a Lambda function would.
func TestEndpointsServeTheirOperationAlone(t *testing.T) {
	f := new(fake)
	expect(t, serving(t, f), "POST", "/v1/queues", `{"name":"q"}`, 201)
	h, err := serve(Config{Broker: f, Auth: auth.Development{}, Secret: secret}, []*operation{sendMessage})
	if err != nil {
		t.Fatal(err)
	}
	expect(t, h, "POST", "/v1/queues/q/messages", `{"body":"x"}`, 200)
	expect(t, h, "GET", "/v1/queues/q/messages", "", 405)
	expect(t, h, "GET", "/v1/queues/q", "", 404)
	names := map[string]bool{}
	for _, e := range Endpoints() {
		if names[e.Name] || e.New == nil {
			t.Errorf("endpoint %q is there twice or has no constructor", e.Name)
		}
		names[e.Name] = true
	}
	if len(names) != 23 {
		t.Errorf("%d endpoints", len(names))
	}
}

// TestOverRealHTTP looks at what only a server shows: no redirect, HEAD, bodies without a length, keep-alive.
func TestOverRealHTTP(t *testing.T) {
	server := httptest.NewServer(serving(t, new(fake)))
	defer server.Close()
	client := server.Client()
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return errors.New("a redirect") }
	for _, c := range []struct {
		method, path, body string
		status             int
	}{
		{"POST", "/v1/queues", `{"name":"a..b"}`, 201},
		{"GET", "/v1/queues/a..b", "", 200},
		{"POST", "/v1/queues/crn%3Aqueue%3Asa-saopaulo-1%3Alocal%3Aqueue%2Fa..b/messages", `{"body":"x"}`, 200},
		{"POST", "/v1/queues/a..b/messages/receive", "", 200},
		{"GET", "/v1//queues/../queues", "", 404},
		{"GET", "/v1/queues/a..b/", "", 404},
		{"HEAD", "/v1/queues", "", 405},
		{"GET", "/v1/queues/a%2F..%2Fb", "", 404},
	} {
		r, err := http.NewRequest(c.method, server.URL+c.path, struct{ *strings.Reader }{strings.NewReader(c.body)}) // chunked
		if err != nil {
			t.Fatal(err)
		}
		if c.body == "" {
			r.Body = nil
		}
		r.Header.Set("Authorization", "Bearer x")
		a, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		a.Body.Close()
		if a.StatusCode != c.status {
			t.Errorf("%s %s: %d, want %d", c.method, c.path, a.StatusCode, c.status)
		}
	}
}

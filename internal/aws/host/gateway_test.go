package host

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/lambda"
	"github.com/google/go-cmp/cmp"

	"github.com/leaselog/leaselog/internal/api"
	"github.com/leaselog/leaselog/internal/api/rest"
)

func same(path string) string { return path }

// TestRequest: an event becomes the request that was sent.
func TestRequest(t *testing.T) {
	var e event
	if err := json.Unmarshal([]byte(`{"version":"2.0","routeKey":"$default","rawPath":"/v1/queues/crn%3Aqueue%3Ar%3Aa%3Aqueue%2Forders/messages",
		"rawQueryString":"receipt_handle=a%2Bb&x=%20&x=2","cookies":["a=1","b=2"],
		"headers":{"host":"queue.example.com","x-nonce":"n","accept":"a, b","authorization":"S Credential=x, SignedHeaders=y","content-type":"application/json"},
		"requestContext":{"domainName":"x.execute-api","requestId":"r","http":{"method":"DELETE","sourceIp":"203.0.113.7"}},
		"body":"AAH/","isBase64Encoded":true}`), &e); err != nil {
		t.Fatal(err)
	}
	r, err := request(t.Context(), &e, same)
	if err != nil {
		t.Fatal(err)
	}
	body, _ := io.ReadAll(r.Body)
	got := []any{r.Method, r.URL.Path, r.URL.EscapedPath(), r.URL.RawQuery, r.Host, r.RemoteAddr, r.RequestURI, string(body), r.ContentLength, r.Header}
	want := []any{"DELETE", "/v1/queues/crn:queue:r:a:queue/orders/messages", "/v1/queues/crn%3Aqueue%3Ar%3Aa%3Aqueue%2Forders/messages",
		"receipt_handle=a%2Bb&x=%20&x=2", "queue.example.com", "203.0.113.7", "/v1/queues/crn%3Aqueue%3Ar%3Aa%3Aqueue%2Forders/messages?receipt_handle=a%2Bb&x=%20&x=2",
		"\x00\x01\xff", int64(3), http.Header{"X-Nonce": {"n"}, "Accept": {"a, b"}, "Authorization": {"S Credential=x, SignedHeaders=y"},
			"Content-Type": {"application/json"}, "Cookie": {"a=1; b=2"}}}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	e.Body = "not base64!"
	if _, err := request(t.Context(), &e, same); err == nil {
		t.Error("a body that is no base64 was taken")
	}
}

// TestPaths: a path is kept as it came, encoded by a function's URL or decoded by an HTTP API, and what a gateway cut at
// the slash of a CRN is whole again.
func TestPaths(t *testing.T) {
	crn := "crn%3Aqueue%3Aeu-west-1%3Aacme%3Aqueue%2Forders"
	for raw, want := range map[string]string{
		"/v1/queues/" + crn + "/messages":                             "/v1/queues/" + crn + "/messages",
		"/v1/queues/crn:queue:eu-west-1:acme:queue/orders/messages":   "/v1/queues/crn:queue:eu-west-1:acme:queue%2Forders/messages",
		"/v1/queues/crn:queue:eu-west-1:acme:queue%2Forders/messages": "/v1/queues/crn:queue:eu-west-1:acme:queue%2Forders/messages",
		"/v1/queues/a b/messages":                                     "/v1/queues/a%20b/messages",
		"/v1/queues/100%/messages":                                    "/v1/queues/100%25/messages",
		"/v1/queues/a%2Fb/messages":                                   "/v1/queues/a%2Fb/messages",
		"/v1/queues//messages":                                        "/v1/queues//messages",
		"/":                                                           "/",
	} {
		e := event{RawPath: raw}
		r, err := request(t.Context(), &e, rest.SendMessage.Encoded)
		if err != nil || r.URL.EscapedPath() != want {
			t.Errorf("%s: %s, want %s (%v)", raw, r.URL.EscapedPath(), want, err)
		}
	}
}

// TestResponse: status, headers with several values, cookies apart, and a body that is no text, or long, in base64.
func TestResponse(t *testing.T) {
	a := newAnswer()
	a.Header().Add("Allow", "GET")
	a.Header().Add("Allow", "POST")
	a.Header().Add("Set-Cookie", "a=1; Path=/, x")
	a.Header().Add("Set-Cookie", "b=2")
	a.WriteHeader(http.StatusConflict)
	a.WriteHeader(http.StatusOK) // too late
	a.Header().Set("Too-Late", "x")
	a.Write([]byte(`{"<>&":"é"}`))
	want := response{StatusCode: 409, Headers: map[string]string{"Allow": "GET,POST"}, Cookies: []string{"a=1; Path=/, x", "b=2"}, Body: `{"<>&":"é"}`}
	if d := cmp.Diff(want, a.response()); d != "" {
		t.Error(d)
	}
	if got := newAnswer().response(); got.StatusCode != 200 || got.Body != "" {
		t.Errorf("%+v", got)
	}
	for _, body := range []string{"\xff\xfe", strings.Repeat("\"", plainBytesMax+1), strings.Repeat("\\\"", 2<<20)} {
		a := newAnswer()
		a.Write([]byte(body))
		out := a.response()
		plain, err := base64.StdEncoding.DecodeString(out.Body)
		if !out.IsBase64Encoded || err != nil || string(plain) != body {
			t.Errorf("%d bytes came out as others", len(body))
		}
		if text, err := json.Marshal(out); err != nil || len(text) > 6<<20 {
			t.Errorf("an answer of %d bytes becomes %d, more than Lambda passes on: %v", len(body), len(text), err)
		}
	}
}

// endpoint is one of a dialect that does what a test wants.
func endpoint(h http.HandlerFunc) api.Endpoint {
	return api.Endpoint{Name: "test", Encoded: same, New: func(api.Services) (http.Handler, error) { return h, nil }, Fail: rest.SendMessage.Fail}
}

// ready is a function whose deployment is open: it needs none for what these tests ask.
func ready(out io.Writer, env map[string]string) *function {
	f := newFunction("test", func(name string) string { return env[name] }, out)
	f.deployment = &Deployment{root: func() []byte { return make([]byte, 32) }}
	return f
}

// TestPanic: a panic is a 500 in the dialect's form, is logged with the invocation, and the process goes on.
func TestPanic(t *testing.T) {
	var out strings.Builder
	f := ready(&out, nil)
	calls := 0
	invoke := f.serving(endpoint(func(w http.ResponseWriter, r *http.Request) {
		if calls++; calls == 1 {
			w.Header().Set("Half", "written")
			panic("at the disco")
		}
		w.WriteHeader(http.StatusNoContent)
	}))
	e := event{RawPath: "/"}
	e.RequestContext.RequestID = "gateway-1"
	a, err := invoke(context.WithValue(t.Context(), traceKey, "Root=1-2"), e)
	if err != nil || a.StatusCode != 500 || !strings.Contains(a.Body, `"code":"INTERNAL"`) || strings.Contains(a.Body, "disco") || a.Headers["Half"] != "" {
		t.Errorf("%+v %v", a, err)
	}
	for _, part := range []string{`"level":"ERROR"`, "at the disco", "gateway_test.go", `"gatewayId":"gateway-1"`, `"trace":"Root=1-2"`, `"Faults":1`} {
		if !strings.Contains(out.String(), part) {
			t.Errorf("no %s in %s", part, out.String())
		}
	}
	if a, err := invoke(t.Context(), e); err != nil || a.StatusCode != 204 {
		t.Errorf("the next one: %+v %v", a, err)
	}
}

// TestDeadline: a handler's time ends before its invocation's.
func TestDeadline(t *testing.T) {
	f := ready(io.Discard, nil)
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	given, _ := ctx.Deadline()
	_, err := f.serving(endpoint(func(_ http.ResponseWriter, r *http.Request) {
		if end, ok := r.Context().Deadline(); !ok || given.Sub(end) != answerMargin {
			t.Errorf("it ends %v before", given.Sub(end))
		}
	}))(ctx, event{RawPath: "/"})
	if err != nil {
		t.Error(err)
	}
}

// TestEnvironment: whatever is wrong with the configuration is told at once, in one sentence, to the log; the caller is
// told that it is not his fault; and it is tried again.
func TestEnvironment(t *testing.T) {
	var out strings.Builder
	env := map[string]string{envShards: "many", envClaims: "claims"}
	f := newFunction("send-message", func(name string) string { return env[name] }, &out)
	for range 2 {
		a, err := f.serving(rest.SendMessage)(t.Context(), event{RawPath: "/v1/queues/q/messages"})
		if err != nil || a.StatusCode != 500 || strings.Contains(a.Body, "LEASELOG") {
			t.Errorf("%+v %v", a, err)
		}
	}
	want := `the environment is not complete: LEASELOG_LOG_TABLE, LEASELOG_VIEWS_TABLE, LEASELOG_KMS_KEY, LEASELOG_DEPLOYMENT, AWS_REGION, AWS_ACCESS_KEY_ID, ` +
		`AWS_SECRET_ACCESS_KEY must be set; LEASELOG_SHARDS must be a whole number from 1 to 1024, not \"many\"`
	if strings.Count(out.String(), want) != 2 {
		t.Errorf("%s", out.String())
	}
}

// TestFromEnvironment: everything is taken, and an endpoint only where one is named.
func TestFromEnvironment(t *testing.T) {
	env := map[string]string{envLog: "l", envClaims: "c", envViews: "v", envKey: "k", envDeployment: "d", envShards: "7", envRegion: "r",
		"AWS_REGION": "eu-west-1", "AWS_ACCESS_KEY_ID": "id", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_SESSION_TOKEN": "session"}
	c, err := FromEnvironment(func(name string) string { return env[name] })
	if err != nil || c.Tables.Log != "l" || c.Tables.Claims != "c" || c.Tables.Views != "v" || c.Key != "k" || c.Deployment != "d" || c.Shards != 7 ||
		c.Region != "r" || c.AWS.Region != "eu-west-1" || c.AWS.BaseEndpoint != nil {
		t.Errorf("%+v %v", c, err)
	}
	if k, err := c.AWS.Credentials.Retrieve(t.Context()); err != nil || k.AccessKeyID != "id" || k.SecretAccessKey != "secret" || k.SessionToken != "session" {
		t.Error(err)
	}
	env["AWS_ENDPOINT_URL"] = "http://127.0.0.1:4566"
	if c, _ := FromEnvironment(func(name string) string { return env[name] }); *c.AWS.BaseEndpoint != env["AWS_ENDPOINT_URL"] {
		t.Error("the endpoint was not taken")
	}
}

// TestHandlers: Lambda's library takes the handlers as they are.
func TestHandlers(t *testing.T) {
	f := ready(io.Discard, nil)
	h := lambda.NewHandler(f.serving(endpoint(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "<&>") })))
	out, err := h.Invoke(t.Context(), []byte(`{"rawPath":"/"}`))
	if err != nil || !strings.Contains(string(out), `"body":"<&>"`) {
		t.Errorf("%s %v", out, err)
	}
}

// TestLog: a line names its invocation, and nothing below the level is written.
func TestLog(t *testing.T) {
	var out strings.Builder
	telemetry := newTelemetry("test", func(name string) string { return map[string]string{envLogLevel: "WARN"}[name] }, &out)
	ctx, end := telemetry.begin(t.Context(), "gateway-1")
	telemetry.logger.InfoContext(ctx, "not this")
	telemetry.logger.With("a", 1).WithGroup("g").WarnContext(ctx, "this", "error", errors.New("e"))
	telemetry.off = true
	end()
	if text := out.String(); strings.Contains(text, "not this") || strings.Count(text, "\n") != 1 || !strings.Contains(text, `"gatewayId":"gateway-1"`) || !strings.Contains(text, `"level":"WARN"`) {
		t.Error(text)
	}
	if telemetry.logger.Enabled(ctx, slog.LevelInfo) {
		t.Error("info is on")
	}
}

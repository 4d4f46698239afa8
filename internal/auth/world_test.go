package auth

import (
	"bytes"
	"crypto/rand"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/leaselog/leaselog/events"
	"github.com/leaselog/leaselog/internal/eventlog"
	"github.com/leaselog/leaselog/internal/eventlog/eventlogtest"
	"github.com/leaselog/leaselog/internal/fault"
)

// world is a log with a directory, and a clock that stands still until it is moved.
type world struct {
	t   testing.TB
	log *eventlogtest.Faulty
	now events.Instant
	d   *Directory
	v   *Verifier
}

var begin = events.Instant(time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC).UnixMilli())

func newWorld(t testing.TB) *world {
	w := &world{t: t, log: eventlogtest.NewFaulty(eventlog.NewMemory()), now: begin}
	w.d = w.another(w.log)
	w.v = &Verifier{Directory: w.d, Region: "local"}
	return w
}

// another opens a directory, as another process would.
func (w *world) another(log eventlog.Log) *Directory {
	w.t.Helper()
	d, err := NewDirectory(Config{Log: log, Secret: [32]byte{1}, Now: func() events.Instant { return w.now }, Rand: rand.Reader})
	if err != nil {
		w.t.Fatal(err)
	}
	return d
}

func (w *world) pass(d time.Duration) { w.now += events.Instant(d.Milliseconds()) }

func (w *world) key(n NewKey) Issued {
	w.t.Helper()
	k, err := w.d.CreateKey(w.t.Context(), n)
	if err != nil {
		w.t.Fatal(err)
	}
	return k
}

// token exchanges a key pair, and gives "" and the code where it is refused.
func (w *world) token(id, secret string) (text, code string) {
	text, refused := w.d.exchange(w.t.Context(), exchange{id: id, secret: secret}, 3600)
	if refused != nil {
		return "", refused.code
	}
	return text, ""
}

func (w *world) mustToken(k Issued) string {
	w.t.Helper()
	text, code := w.token(k.ID, k.Secret)
	if code != "" {
		w.t.Fatalf("the exchange answers %s", code)
	}
	return text
}

// as authenticates a request with a bearer token.
func (w *world) as(token string) (Caller, error) { return asWith(w.v, token, "") }

func asWith(v *Verifier, token, account string) (Caller, error) {
	r := httptest.NewRequest("GET", "/v1/queues", nil)
	r.Header.Set("Authorization", "Bearer "+token)
	r.Header.Set("X-Account-Id", account)
	return v.Authenticate(r)
}

// refused demands a 401 whose text holds something.
func (w *world) refused(what string, err error, part string) {
	w.t.Helper()
	if !fault.Is(err, fault.Unauthorized) || !strings.Contains(fault.Of(err).Message, part) {
		w.t.Errorf("%s: %v, want unauthorized with %q", what, err, part)
	}
}

func (w *world) ok(what string, err error) {
	w.t.Helper()
	if err != nil {
		w.t.Errorf("%s: %v", what, err)
	}
}

// request is one that is yet to be signed.
func request(method, target, body string) *http.Request {
	r := httptest.NewRequest(method, target, strings.NewReader(body))
	r.Host = "queue.example:8080"
	return r
}

func (w *world) signed(k Issued, r *http.Request, nonce string) *http.Request {
	w.t.Helper()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	c := Credentials{ID: k.ID, Secret: k.Secret, Region: "local"}
	if err := c.Sign(r, body, time.UnixMilli(int64(w.now)), nonce); err != nil {
		w.t.Fatal(err)
	}
	return r
}

func readAll(into io.Writer, r *http.Request) (int64, error) {
	if r.Body == nil {
		return 0, nil
	}
	return io.Copy(into, r.Body)
}

func body(text string) io.ReadCloser { return io.NopCloser(strings.NewReader(text)) }

// broken is a body that breaks off.
type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }
func (broken) Close() error             { return nil }

package store

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/leaselog/leaselog/internal/eventlog"
)

// network is the way to DynamoDB, on which one call after another meets what a test has planned for it.
type network struct {
	next http.RoundTripper
	mu   sync.Mutex
	plan []func(*http.Request, http.RoundTripper) (*http.Response, error)
	seen []string // operations that were sent
}

func (n *network) RoundTrip(r *http.Request) (*http.Response, error) {
	_, operation, _ := strings.Cut(r.Header.Get("X-Amz-Target"), ".")
	n.mu.Lock()
	n.seen = append(n.seen, operation)
	var meet func(*http.Request, http.RoundTripper) (*http.Response, error)
	if writing := operation != "Query" && operation != "GetItem"; writing && len(n.plan) > 0 {
		meet, n.plan = n.plan[0], n.plan[1:]
	}
	n.mu.Unlock()
	if meet == nil {
		return n.next.RoundTrip(r)
	}
	return meet(r, n.next)
}

// meets plans for the next writes.
func (n *network) meets(plan ...func(*http.Request, http.RoundTripper) (*http.Response, error)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.plan, n.seen = plan, nil
}

// writes counts the writes that were sent since the last plan.
func (n *network) writes() (count int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, o := range n.seen {
		if o != "Query" && o != "GetItem" {
			count++
		}
	}
	return count
}

// openFaulty gives a store with its network, and another store on the same tables whose network never fails.
func openFaulty(t *testing.T) (s *Store, n *network, other *Store) {
	d := startDatabase(t)
	n = &network{}
	tables := Tables(d.Tables(t))
	s = d.openOn(t, tables, d.through(func(next http.RoundTripper) http.RoundTripper {
		n.next = next
		return n
	}))
	return s, n, d.openOn(t, tables)
}

func passes(r *http.Request, next http.RoundTripper) (*http.Response, error) {
	return next.RoundTrip(r)
}

// answerLost lets the write take effect.
func answerLost(r *http.Request, next http.RoundTripper) (*http.Response, error) {
	resp, err := next.RoundTrip(r)
	if err == nil {
		resp.Body.Close()
	}
	return nil, errors.New("connection reset by peer")
}

func neverSent(*http.Request, http.RoundTripper) (*http.Response, error) {
	return nil, errors.New("connection refused")
}

// answers makes an answer of DynamoDB's without executing anything.
func answers(status int, code, more string) func(*http.Request, http.RoundTripper) (*http.Response, error) {
	return func(r *http.Request, _ http.RoundTripper) (*http.Response, error) {
		body := fmt.Sprintf(`{"__type":"com.amazonaws.dynamodb.v20120810#%s","message":"made up"%s}`, code, more)
		return &http.Response{StatusCode: status, Status: http.StatusText(status), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: r,
			Header: http.Header{"Content-Type": {"application/x-amz-json-1.0"}}, Body: io.NopCloser(strings.NewReader(body))}, nil
	}
}

func cancelled(codes ...string) func(*http.Request, http.RoundTripper) (*http.Response, error) {
	var reasons []string
	for _, c := range codes {
		reasons = append(reasons, fmt.Sprintf(`{"Code":%q}`, c))
	}
	return answers(400, "TransactionCanceledException", `,"CancellationReasons":[`+strings.Join(reasons, ",")+`]`)
}

// commitOf is a commit of now, with a writer of its own.
func commitOf(parts ...any) eventlog.Commit {
	c := eventlog.Commit{At: time.Now().UnixMilli()}
	rand.Read(c.Writer[:])
	for _, p := range parts {
		switch p := p.(type) {
		case eventlog.Append:
			c.Appends = append(c.Appends, p)
		case eventlog.Claim:
			c.Claims = append(c.Claims, p)
		}
	}
	return c
}

func entryAt(s eventlog.Stream, seq eventlog.Seq) eventlog.Append {
	return eventlog.Append{Stream: s, Seq: seq, Width: 1, Header: []byte("header"), Data: []byte("data")}
}

func forever(key string) eventlog.Claim {
	return eventlog.Claim{Key: key, Holder: "h", Until: eventlog.Forever}
}

// kinds are the three calls that a commit can be.
var kinds = map[string]func(at eventlog.Seq) eventlog.Commit{
	"put":         func(at eventlog.Seq) eventlog.Commit { return commitOf(entryAt("s", at)) },
	"update":      func(eventlog.Seq) eventlog.Commit { return commitOf(forever("k/" + rand.Text())) },
	"transaction": func(at eventlog.Seq) eventlog.Commit { return commitOf(entryAt("s", at), forever("k/"+rand.Text())) },
}

// The outcomes, as a test wants them.
const (
	unknown = "unknown"
	refused = "refused"
	content = "refused for its content"
	done    = "done"
	against = "conflict"
)

func outcomeOf(err error) string {
	var conflict *eventlog.Conflict
	var r *eventlog.Refused
	switch {
	case err == nil:
		return done
	case errors.As(err, &conflict):
		return against
	case errors.As(err, &r) && r.Content:
		return content
	case errors.As(err, &r):
		return refused
	}
	return unknown
}

// TestOutcomes lets each kind of commit meet each fault, and looks at the answer, at what stands after it, and at what
// the identical commit is answered then.
func TestOutcomes(t *testing.T) {
	s, n, other := openFaulty(t)
	type fault = func(*http.Request, http.RoundTripper) (*http.Response, error)
	faults := []struct {
		name   string
		meet   fault
		want   string
		stands bool
	}{
		{"the answer is lost", answerLost, unknown, true},
		{"nobody listens", neverSent, unknown, false},
		{"500", answers(500, "InternalServerError", ""), unknown, false},
		{"503", answers(503, "ServiceUnavailable", ""), unknown, false},
		{"500 by another name", answers(500, "ThrottlingException", ""), unknown, false},
		{"an answer that nobody knows", answers(400, "NewException", ""), unknown, false},
		{"in progress", answers(400, "TransactionInProgressException", ""), unknown, false},
		{"conflicts with a transaction", answers(400, "TransactionConflictException", ""), refused, false},
		{"throttled", answers(400, "ThrottlingException", ""), refused, false},
		{"throughput exceeded", answers(400, "ProvisionedThroughputExceededException", ""), refused, false},
		{"requests exceeded", answers(400, "RequestLimitExceeded", ""), refused, false},
		{"no table", answers(400, "ResourceNotFoundException", ""), refused, false},
		{"not allowed", answers(400, "AccessDeniedException", ""), refused, false},
		{"too large", answers(400, "ValidationException", ""), content, false},
		{"cancelled for a conflict", cancelled("TransactionConflict", "None"), refused, false},
		{"cancelled by throttling", cancelled("None", "ThrottlingError"), refused, false},
		{"cancelled for its size", cancelled("None", "ValidationError"), content, false},
		{"cancelled without a reason", cancelled(), refused, false},
	}
	for _, f := range faults {
		for kind, commit := range kinds {
			t.Run(f.name+"/"+kind, func(t *testing.T) {
				last, _, err := other.Last(t.Context(), "s")
				if err != nil {
					t.Fatal(err)
				}
				c := commit(last.Next())
				n.meets(f.meet)
				if got := outcomeOf(s.Commit(t.Context(), c)); got != f.want {
					t.Errorf("the outcome is %s, want %s", got, f.want)
				}
				if n.writes() != 1 {
					t.Errorf("%d writes were sent, a write must not be repeated by itself", n.writes())
				}
				if got := standsIn(t, other, c); got != f.stands {
					t.Errorf("it stands: %v, want %v", got, f.stands)
				}
				for range 2 {
					if got := outcomeOf(s.Commit(t.Context(), c)); got != done {
						t.Errorf("the identical commit again: %s, want done", got)
					}
				}
				if !standsIn(t, other, c) {
					t.Error("it does not stand after it was answered as done")
				}
			})
		}
	}
}

// standsIn says whether all of a commit stands; a part of it is a failure.
func standsIn(t *testing.T, s *Store, c eventlog.Commit) bool {
	t.Helper()
	found := 0
	for _, a := range c.Appends {
		entries, err := s.Read(t.Context(), a.Stream, a.Seq, eventlog.Limits{})
		if err != nil {
			t.Fatal(err)
		}
		if len(entries) > 0 && entries[0].Writer == c.Writer {
			found++
		}
	}
	for _, want := range c.Claims {
		claim, ok, err := s.Claim(t.Context(), want.Key)
		if err != nil {
			t.Fatal(err)
		}
		if ok && claim.Writer == c.Writer {
			if found++; claim.Version != 1 {
				t.Errorf("claim %s has version %d, it took effect more than once", claim.Key, claim.Version)
			}
		}
	}
	if found != 0 && found != len(c.Appends)+len(c.Claims) {
		t.Fatalf("%d of %d parts of the commit stand", found, len(c.Appends)+len(c.Claims))
	}
	return found > 0
}

// A caller who goes, or whose time is over, while the write is on its way is told that the outcome is unknown.
func TestCallerGoesMeanwhile(t *testing.T) {
	s, n, _ := openFaulty(t)
	for kind, commit := range kinds {
		c := commit(0)
		if kind == "transaction" {
			c = commitOf(entryAt("t", 0), forever("k/t"))
		}
		ctx, cancel := context.WithCancel(t.Context())
		n.meets(func(r *http.Request, next http.RoundTripper) (*http.Response, error) {
			r2 := r.Clone(context.WithoutCancel(r.Context())) // it has left
			resp, err := next.RoundTrip(r2)
			if err == nil {
				resp.Body.Close()
			}
			cancel()
			return nil, r.Context().Err()
		})
		if got := outcomeOf(s.Commit(ctx, c)); got != unknown {
			t.Errorf("%s: %s, want unknown", kind, got)
		}
		if got := outcomeOf(s.Commit(ctx, c)); got != refused {
			t.Errorf("%s, by one who has gone already: %s, want refused", kind, got)
		}
		if got := outcomeOf(s.Commit(t.Context(), c)); got != done {
			t.Errorf("%s again: %s, want done", kind, got)
		}
	}
}

// A write whose answer was lost, and that lost its place to nobody, is done however late it is repeated; one whose
// place was taken by another while it was under way is a conflict that shows the other.
func TestRepeatsAfterOthers(t *testing.T) {
	s, n, other := openFaulty(t)
	stood, came := commitOf(entryAt("s", 0)), commitOf(entryAt("s", 1))
	n.meets(answerLost)
	if got := outcomeOf(s.Commit(t.Context(), stood)); got != unknown {
		t.Fatal(got)
	}
	mustCommit(t, other, came)
	if got := outcomeOf(s.Commit(t.Context(), stood)); got != done {
		t.Errorf("the one that stood: %s", got)
	}
	mine, theirs := commitOf(entryAt("s", 2)), commitOf(entryAt("s", 2))
	n.meets(neverSent)
	if got := outcomeOf(s.Commit(t.Context(), mine)); got != unknown {
		t.Fatal(got)
	}
	mustCommit(t, other, theirs)
	var met *eventlog.Conflict
	if err := s.Commit(t.Context(), mine); !errors.As(err, &met) || len(met.Entries) != 1 || met.Entries[0].Writer != theirs.Writer {
		t.Errorf("the one whose place was taken: %v %+v", err, met)
	}
}

// A request's body that the SDK has closed, because the answer came, ends for whoever still looks at it.
func TestBodiesEnd(t *testing.T) {
	s, n, _ := openFaulty(t)
	for kind, c := range map[string]eventlog.Commit{"put": commitOf(entryAt("a", 0)), "update": commitOf(forever("k")),
		"transaction": commitOf(entryAt("b", 0), forever("l"))} {
		var sent io.Reader
		n.meets(func(r *http.Request, next http.RoundTripper) (*http.Response, error) {
			sent = r.Body
			return next.RoundTrip(r)
		})
		mustCommit(t, s, c)
		if left, err := io.Copy(io.Discard, sent); left != 0 || err != nil {
			t.Errorf("%s: the closed body has %d bytes left: %v", kind, left, err)
		}
	}
}

// What an error says may be logged: no body, no header and no value of a claim is in it.
func TestErrorsTellNothing(t *testing.T) {
	s, n, other := openFaulty(t)
	secret := []byte("a-secret-that-nobody-may-read")
	c := commitOf(eventlog.Append{Stream: "s", Seq: 0, Width: 1, Header: secret, Data: secret}, eventlog.Claim{Key: "k", Until: eventlog.Forever, Value: secret})
	mustCommit(t, other, c)
	c.Writer[0]++
	for _, f := range []func(*http.Request, http.RoundTripper) (*http.Response, error){passes, answerLost, answers(500, "InternalServerError", ""), answers(400, "ValidationException", "")} {
		n.meets(f)
		if err := s.Commit(t.Context(), c); err == nil || bytes.Contains(fmt.Appendf(nil, "%v %+v", err, err), secret) {
			t.Errorf("the error is %v", err)
		}
	}
}

func mustCommit(t testing.TB, s eventlog.Log, c eventlog.Commit) {
	t.Helper()
	if err := s.Commit(t.Context(), c); err != nil {
		t.Fatal(err)
	}
}

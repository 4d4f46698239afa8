package rest

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/leaselog/leaselog/events"
	"github.com/leaselog/leaselog/internal/auth"
	"github.com/leaselog/leaselog/internal/broker"
	"github.com/leaselog/leaselog/internal/eventlog"
	"github.com/leaselog/leaselog/internal/local/keys"
)

// gated is the dialect over a real broker and real credentials.
type gated struct {
	t testing.TB
	d *auth.Directory
	h http.Handler
}

func newGated(t testing.TB) *gated {
	t.Helper()
	k, err := keys.Open(filepath.Join(t.TempDir(), "key"))
	if err != nil {
		t.Fatal(err)
	}
	log, clock := eventlog.NewMemory(), func() events.Instant { return events.Instant(time.Now().UnixMilli()) }
	b, err := broker.New(broker.Config{Log: log, Keys: k, ReceiptKey: k.Secret("receipt"), Now: clock, Rand: rand.Reader, Exclusive: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	d, err := auth.NewDirectory(auth.Config{Log: log, Secret: k.Secret("auth"), Now: clock, Rand: rand.Reader})
	if err != nil {
		t.Fatal(err)
	}
	v := &auth.Verifier{Directory: d, Region: "local"}
	h, err := New(Config{Broker: b, Auth: v, Tokens: v, Region: "local", Secret: secret})
	if err != nil {
		t.Fatal(err)
	}
	return &gated{t: t, d: d, h: h}
}

// user calls with the credentials of one key.
type user struct {
	*gated
	key   auth.Issued
	token string
}

// user makes a key, in an account that is made where it is missing, with policies of these statements.
func (g *gated) user(account string, statements ...string) *user {
	g.t.Helper()
	g.d.CreateAccount(g.t.Context(), account) // it may be there
	n := auth.NewKey{Account: account}
	if len(statements) > 0 {
		n.Policies = [][]byte{fmt.Appendf(nil, `{"version":"2024-01-01","statements":[%s]}`, strings.Join(statements, ","))}
	}
	k, err := g.d.CreateKey(g.t.Context(), n)
	if err != nil {
		g.t.Fatal(err)
	}
	u := &user{gated: g, key: k}
	r := httptest.NewRequest("POST", "/v1/oauth/token", strings.NewReader("grant_type=client_credentials"))
	r.SetBasicAuth(k.ID, k.Secret)
	a := httptest.NewRecorder()
	g.h.ServeHTTP(a, r)
	token, _ := at(a.Body.Bytes(), "access_token")
	if u.token, _ = token.(string); u.token == "" {
		g.t.Fatalf("no token: %d %s", a.Code, a.Body)
	}
	return u
}

// do sends a request; headers come as pairs.
func (u *user) do(method, target, body string, headers ...string) *httptest.ResponseRecorder {
	u.t.Helper()
	r := httptest.NewRequest(method, target, strings.NewReader(body))
	r.Header.Set("Authorization", "Bearer "+u.token)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	a := httptest.NewRecorder()
	u.h.ServeHTTP(a, r)
	if err := checkAnswer(a); err != nil {
		u.t.Errorf("%s %s: %v", method, target, err)
	}
	return a
}

// want demands a status, and gives a place in the answer as text.
func (u *user) want(status int, place, method, target, body string, headers ...string) string {
	u.t.Helper()
	a := u.do(method, target, body, headers...)
	if a.Code != status {
		u.t.Errorf("%s %s %s: %d %s, want %d", method, target, body, a.Code, a.Body, status)
	}
	v, ok := at(a.Body.Bytes(), place)
	if !ok && place != "" {
		u.t.Errorf("%s %s: there is no %s in %s", method, target, place, a.Body)
	}
	if s, is := v.(string); is {
		return s
	}
	text, _ := json.Marshal(v)
	return string(text)
}

func allow(rest string) string { return `{"effect":"allow",` + rest + `}` }
func deny(rest string) string  { return `{"effect":"deny",` + rest + `}` }

// TestPermissionOfEveryOperation: each needs its own action on its queue, and is told so before its body is looked at.
func TestPermissionOfEveryOperation(t *testing.T) {
	g := newGated(t)
	root := g.user("acme")
	root.want(201, "", "POST", "/v1/queues", `{"name":"q"}`)
	root.want(201, "", "POST", "/v1/queues", `{"name":"other"}`)
	for _, op := range operations() {
		if op.action == (auth.Action{}) {
			continue
		}
		own := op.action.Batch
		if own == "" {
			own = op.action.Name
		}
		name := strings.TrimPrefix(own, "queue:")
		if kebab(name) != op.name {
			t.Errorf("%s needs %s, which is another operation", op.name, own)
		}
		only := g.user("acme", allow(`"actions":["`+own+`"],"resources":["crn:queue:local:acme:queue/q*"]`))
		none := g.user("acme", allow(`"actions":["*"],"resources":["*"]`), deny(`"actions":["`+own+`"],"resources":["*"]`))
		for _, c := range []struct {
			who   *user
			queue string
			may   bool
		}{{only, "q", true}, {only, "other", false}, {none, "q", op.shows != (auth.Action{})}} {
			if op.access == inAccount && c.queue == "other" {
				continue
			}
			a := c.who.do(op.method, strings.Replace(op.path, "{queue_id}", c.queue, 1), "{")
			if (a.Code != 403) != c.may {
				t.Errorf("%s on %s, allowed %v: %d %s", op.name, c.queue, c.may, a.Code, a.Body)
			}
			if a.Code == 403 && !strings.Contains(a.Body.String(), op.action.Name) {
				t.Errorf("%s does not name the action: %s", op.name, a.Body)
			}
			if op.access == byPath && a.Code == 204 { // it was deleted
				root.want(201, "", "POST", "/v1/queues", `{"name":"q"}`)
			}
		}
	}
}

func kebab(name string) string {
	var b strings.Builder
	for i, c := range name {
		if c >= 'A' && c <= 'Z' && i > 0 {
			b.WriteByte('-')
		}
		b.WriteRune(c | 0x20)
	}
	return b.String()
}

// TestOrderOfChecks is that of section 2.3: who, what, where, whether, how.
func TestOrderOfChecks(t *testing.T) {
	g := newGated(t)
	root := g.user("acme")
	root.want(201, "", "POST", "/v1/queues", `{"name":"q"}`)
	u := g.user("acme", allow(`"actions":["queue:DescribeQueue"],"resources":["*"]`))
	bad := *u
	bad.token = "x"
	bad.want(401, "", "GET", "/nothing", "")
	bad.want(401, "", "PUT", "/v1/queues/q", "")
	u.want(404, "", "GET", "/nothing", "")
	u.want(405, "", "PUT", "/v1/queues/q", "")
	u.want(404, "", "POST", "/v1/queues/none/messages", "{")
	u.want(403, "", "POST", "/v1/queues/q/messages", "{")
	u.want(200, "", "GET", "/v1/queues/q", "")
	root.want(400, "", "POST", "/v1/queues/q/messages", "{")
	root.want(409, "", "POST", "/v1/queues", `{"name":"q"}`)
}

// TestCreatingNeedsTheName: the queue that is to be made is the resource.
func TestCreatingNeedsTheName(t *testing.T) {
	u := newGated(t).user("acme", allow(`"actions":["queue:CreateQueue"],"resources":["crn:queue:*:acme:queue/mine-*"]`))
	u.want(201, "", "POST", "/v1/queues", `{"name":"mine-1"}`)
	u.want(403, "", "POST", "/v1/queues", `{"name":"yours-1"}`)
	u.want(403, "", "POST", "/v1/queues", `{"name":"yours-1","delay_seconds":901}`)
	u.want(400, "", "POST", "/v1/queues", `{"name":"mine-2","delay_seconds":901}`)
	u.want(400, "", "POST", "/v1/queues", `{"name":""}`)
}

// TestDeadLettersAreSends: whoever sets a dead letter queue must be allowed to send there.
func TestDeadLettersAreSends(t *testing.T) {
	g := newGated(t)
	root := g.user("acme")
	id := root.want(201, "queue.id", "POST", "/v1/queues", `{"name":"dead"}`)
	root.want(201, "", "POST", "/v1/queues", `{"name":"open"}`)
	u := g.user("acme", allow(`"actions":["queue:CreateQueue","queue:UpdateQueue"],"resources":["*"]`),
		allow(`"actions":["queue:SendMessage"],"resources":["crn:queue:*:*:queue/open"]`))
	for i, ref := range []string{"dead", id, "crn:queue:local:acme:queue/dead"} {
		u.want(403, "", "POST", "/v1/queues", fmt.Sprintf(`{"name":"a%d","redrive_policy":{"dead_letter_queue":%q,"max_receive_count":1}}`, i, ref))
	}
	u.want(400, "", "POST", "/v1/queues", `{"name":"a","redrive_policy":{"dead_letter_queue":"none","max_receive_count":1}}`)
	u.want(201, "", "POST", "/v1/queues", `{"name":"a","redrive_policy":{"dead_letter_queue":"open","max_receive_count":1}}`)
	u.want(403, "", "PATCH", "/v1/queues/a", `{"redrive_policy":{"dead_letter_queue":"dead","max_receive_count":1}}`)
	u.want(200, "", "PATCH", "/v1/queues/a", `{"redrive_policy":null}`)
}

// TestListsShowWhatMayBeSeen: neither a page's length nor its marker tells of the others.
func TestListsShowWhatMayBeSeen(t *testing.T) {
	g := newGated(t)
	root := g.user("acme")
	for i := range 9 {
		root.want(201, "", "POST", "/v1/queues", fmt.Sprintf(`{"name":"%c%d"}`, 'a'+i%3, i))
	}
	u := g.user("acme", allow(`"actions":["queue:ListQueues"],"resources":["*queue/a*"]`), allow(`"actions":["queue:DescribeQueue"],"resources":["*queue/c*"]`))
	var seen []string
	marker := ""
	for pages := 1; ; pages++ {
		a := u.do("GET", "/v1/queues?limit=2&marker="+marker, "")
		var page struct {
			Queues []struct{ Name string }
			Meta   struct {
				Marker string
				More   bool `json:"has_more"`
			}
		}
		if err := json.Unmarshal(a.Body.Bytes(), &page); err != nil || a.Code != 200 {
			t.Fatalf("%d %s", a.Code, a.Body)
		}
		for _, q := range page.Queues {
			seen = append(seen, q.Name)
		}
		if page.Meta.More != (pages < 3) || pages < 3 && len(page.Queues) != 2 {
			t.Errorf("page %d: %s", pages, a.Body)
		}
		if marker = page.Meta.Marker; !page.Meta.More {
			break
		}
	}
	if got := strings.Join(seen, " "); got != "a0 a3 a6 c2 c5 c8" {
		t.Error(got)
	}
	for name, n := range map[string]int{"a0": 1, "b1": 0, "c2": 1, "none": 0} {
		a := u.do("GET", "/v1/queues?name="+name, "")
		if got := strings.Count(a.Body.String(), `"name"`); got != n || a.Code != 200 {
			t.Errorf("%s: %d %s", name, a.Code, a.Body)
		}
	}
	g.user("acme", allow(`"actions":["queue:SendMessage"],"resources":["*"]`)).want(403, "", "GET", "/v1/queues", "")
}

// TestDeletingAgainWithPolicies: an id that is gone since a moment is deleted again with success; a name is not.
func TestDeletingAgainWithPolicies(t *testing.T) {
	g := newGated(t)
	root := g.user("acme")
	id := root.want(201, "queue.id", "POST", "/v1/queues", `{"name":"q"}`)
	u := g.user("acme", allow(`"actions":["queue:DeleteQueue"],"resources":["*queue/q"]`))
	u.want(204, "", "DELETE", "/v1/queues/"+id, "")
	u.want(204, "", "DELETE", "/v1/queues/"+id, "")
	u.want(404, "", "DELETE", "/v1/queues/q", "")
	g.user("acme", allow(`"actions":["queue:SendMessage"],"resources":["*"]`)).want(404, "", "DELETE", "/v1/queues/"+id, "")
}

// TestSignedRequests go through the whole dialect: body, nonce once, and reads as often as one likes.
func TestSignedRequests(t *testing.T) {
	g := newGated(t)
	u := g.user("acme")
	send := func(method, target, body, nonce string) int {
		r := httptest.NewRequest(method, target, strings.NewReader(body))
		c := auth.Credentials{ID: u.key.ID, Secret: u.key.Secret, Region: "local"}
		if err := c.Sign(r, []byte(body), time.Now(), nonce); err != nil {
			t.Fatal(err)
		}
		a := httptest.NewRecorder()
		g.h.ServeHTTP(a, r)
		return a.Code
	}
	for _, c := range []struct {
		method, target, body, nonce string
		want                        int
	}{
		{"POST", "/v1/queues", `{"name":"q"}`, "1", 201},
		{"POST", "/v1/queues", `{"name":"q"}`, "1", 401},
		{"POST", "/v1/queues/" + url.PathEscape("crn:queue:local:acme:queue/q") + "/messages", `{"body":"x"}`, "2", 200},
		{"POST", "/v1/queues/q/messages", `{"body":"x"}`, "2", 401},
		{"POST", "/v1/queues/q/messages/receive", "", "3", 200},
		{"GET", "/v1/queues?limit=1&name=q", "", "3", 200},
		{"GET", "/v1/queues?limit=1&name=q", "", "3", 200},
		{"POST", "/v1/queues/none/messages", `{"body":"x"}`, "4", 404},
		{"POST", "/v1/queues/q/messages", `{"body":"x"}`, "4", 200}, // what was refused before its turn used nothing up
		{"DELETE", "/v1/queues/q", "", "5", 204},
		{"POST", "/v1/queues", strings.Repeat("x", bodyBytesMax+1), "6", 413},
	} {
		if got := send(c.method, c.target, c.body, c.nonce); got != c.want {
			t.Errorf("%s %s, nonce %s: %d, want %d", c.method, c.target, c.nonce, got, c.want)
		}
	}
}

// TestMovingNeedsBothQueues: whoever moves messages sends them, to the target or to the sources.
func TestMovingNeedsBothQueues(t *testing.T) {
	g := newGated(t)
	root := g.user("acme")
	for _, q := range []string{`{"name":"dead"}`, `{"name":"to"}`, `{"name":"orders","redrive_policy":{"dead_letter_queue":"dead","max_receive_count":1}}`} {
		root.want(201, "", "POST", "/v1/queues", q)
	}
	mover := allow(`"actions":["queue:StartMove"],"resources":["crn:queue:local:acme:queue/dead"]`)
	send := func(q string) string {
		return allow(`"actions":["queue:SendMessage"],"resources":["crn:queue:local:acme:queue/` + q + `"]`)
	}
	for body, target := range map[string]string{`{"target":"to","dry_run":true}`: "to", `{"dry_run":true}`: "orders"} {
		g.user("acme", mover).want(403, "", "POST", "/x/v1/queues/dead/moves", body)
		g.user("acme", mover, send(target)).want(200, "", "POST", "/x/v1/queues/dead/moves", body)
	}
}

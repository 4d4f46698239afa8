package auth

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/leaselog/leaselog/internal/eventlog/eventlogtest"
	"github.com/leaselog/leaselog/internal/fault"
)

// example is the worked example of docs/access.md; whoever writes a signer in another language can begin with it.
var example = Credentials{ID: "LLEXAMPLEEXAMPLEEXAMPLEEXAMPL", Secret: "llsk_example", Region: "local"}

const (
	exampleCanonical = `POST
/v1/queues/a%20b/messages
limit=10&name=x%20y
host:queue.example:8080
x-content-sha256:1da63ae1d1c64f4549cece58555b23ef253aa7bb2c5ca6c48c12918863cff51a
x-date:20260131T120000Z
x-nonce:7c9e6679

host;x-content-sha256;x-date;x-nonce
`
	exampleSignature = "6e9ed552a8b76a7cb17adb00b7326fb49d0f95a614e33c12b44f0e043b568049"
)

// TestWorkedExample holds the signer to bytes that were worked out by another program (Python's hmac) and never change.
func TestWorkedExample(t *testing.T) {
	const body = `{"body":"hello"}`
	r := request("POST", "/v1/queues/a%20b/messages?name=x+y&limit=10", body)
	if err := example.Sign(r, []byte(body), time.UnixMilli(int64(begin)), "7c9e6679"); err != nil {
		t.Fatal(err)
	}
	got, err := canonical(r, []string{"host", "x-content-sha256", "x-date", "x-nonce"})
	if err != nil || string(got) != exampleCanonical {
		t.Errorf("%v\n%s", err, got)
	}
	want := "BASALTIC-HMAC-SHA256 Credential=" + example.ID + "/20260131/local/basaltic/basaltic_request, " +
		"SignedHeaders=host;x-content-sha256;x-date;x-nonce, Signature=" + exampleSignature
	if got := r.Header.Get("Authorization"); got != want {
		t.Errorf("%s", got)
	}
}

// TestSignatures: what is signed is taken, with the nonce as a claim that is not yet written.
func TestSignatures(t *testing.T) {
	w := newWorld(t)
	k := w.key(NewKey{})
	for _, c := range []struct{ method, target, body string }{
		{"GET", "/v1/queues", ""}, {"GET", "/v1/queues?limit=5&marker=", ""}, {"GET", "/v1/queues?name=a%2Bb&crn=x%20y&name=a", ""},
		{"POST", "/v1/queues", `{"name":"q"}`}, {"DELETE", "/v1/queues/crn%3Aqueue%3Alocal%3Alocal%3Aqueue%2Fq", ""}, {"PATCH", "/v1/queues/é", "{}"},
		{"POST", "/", ""},
	} {
		r := w.signed(k, request(c.method, c.target, c.body), "n1")
		caller, err := w.v.Authenticate(r)
		if err != nil || caller.Key != k.ID || caller.Account != "local" {
			t.Errorf("%s %s: %+v, %v", c.method, c.target, caller, err)
			continue
		}
		want := Nonce{Key: "nonce/" + k.ID + "/n1", Until: int64(w.now) + 600_000}
		if c.method == "GET" {
			want = Nonce{}
		}
		if caller.Nonce != want {
			t.Errorf("%s %s: %+v", c.method, c.target, caller.Nonce)
		}
		body := new(strings.Builder)
		if _, err := readAll(body, r); err != nil || body.String() != c.body {
			t.Errorf("the body is %q afterwards, %v", body, err)
		}
	}
	if w.log.Calls(eventlogtest.OpCommit) > 1 { // the key's
		t.Error("authenticating wrote something")
	}
}

// TestBadSignatures: each part of the order of checks refuses what it must.
func TestBadSignatures(t *testing.T) {
	w := newWorld(t)
	k, static := w.key(NewKey{}), w.key(NewKey{Kind: Static})
	static.Secret = static.Token[len(static.Token)-secretChars:]
	header := func(old, new string) func(*http.Request) {
		return func(r *http.Request) {
			h := r.Header.Get("Authorization")
			if !strings.Contains(h, old) {
				t.Errorf("%q is not in %s", old, h)
			}
			r.Header.Set("Authorization", strings.Replace(h, old, new, 1))
		}
	}
	set := func(name, value string) func(*http.Request) {
		return func(r *http.Request) { r.Header.Set(name, value) }
	}
	for name, c := range map[string]struct {
		change func(*http.Request)
		part   string
	}{
		"no commas":        {header(",", ";"), "cannot be read"},
		"a fourth part":    {header("Signature=", "X=1, Signature="), "cannot be read"},
		"twice":            {header("Signature=", "Credential=x, Signature="), "cannot be read"},
		"service":          {header("/basaltic/", "/aws/"), "cannot be read"},
		"terminator":       {header("basaltic_request", "aws4_request"), "cannot be read"},
		"short signature":  {header("Signature=", "Signature=00"), "cannot be read"},
		"unsorted":         {header("host;x-content-sha256", "x-content-sha256;host"), "sorted"},
		"a header twice":   {header("host;", "host;host;"), "sorted"},
		"capitals":         {header("host;", "Host;"), "lower-case"},
		"without a nonce":  {header(";x-nonce", ""), "must hold host"},
		"without the host": {header("host;", ""), "must hold host"},
		"an absent header": {header("host;x", "host;via;x"), "via was not sent"},
		"another day":      {header("/20260131/", "/20260130/"), "first 8 characters"},
		"another region":   {header("/local/", "/mars-1/"), "must be local or global"},
		"global, unsigned": {header("/local/", "/global/"), "not right"},
		"another key":      {header(k.ID, keyID{7}.String()), "not right"},
		"no key":           {header(k.ID, "AKIA"), "not right"},
		"a static key":     {func(r *http.Request) { w.signed(static, r, "n") }, "not right"},
		"another method":   {func(r *http.Request) { r.Method = "PUT" }, "not right"},
		"another path":     {func(r *http.Request) { r.URL.Path = "/v1/queue" }, "not right"},
		"another query":    {func(r *http.Request) { r.URL.RawQuery = "limit=2" }, "not right"},
		"another host":     {func(r *http.Request) { r.Host = "evil" }, "not right"},
		"another nonce":    {set(headerNonce, "other"), "not right"},
		"another date":     {set(headerDate, "20260131T120001Z"), "not right"},
		"no date":          {func(r *http.Request) { r.Header.Del(headerDate) }, "X-Date must be sent once"},
		"two dates":        {func(r *http.Request) { r.Header.Add(headerDate, "x") }, "X-Date must be sent once"},
		"a strange date":   {set(headerDate, "2026-01-31"), "X-Date must look like"},
		"no nonce":         {func(r *http.Request) { r.Header.Del(headerNonce) }, "X-Nonce must be sent once"},
		"an empty nonce":   {set(headerNonce, ""), "printable ASCII"},
		"a long nonce":     {set(headerNonce, strings.Repeat("x", 129)), "printable ASCII"},
		"a blank in it":    {set(headerNonce, "a b"), "printable ASCII"},
		"a session token":  {set(headerToken, "x"), "temporary credentials"},
		"bad escape":       {func(r *http.Request) { r.URL.RawQuery = "a=%zz" }, "bad percent escape"},
		"another body":     {func(r *http.Request) { r.Body = body("other") }, "of the body as it was sent"},
		"another hash":     {set(headerContent, hexSum([]byte("other"))), "not right"},
	} {
		r := w.signed(k, request("POST", "/v1/queues?limit=1", "{}"), "n")
		c.change(r)
		_, err := w.v.Authenticate(r)
		w.refused(name, err, c.part)
	}
}

// TestClocks: five minutes to either side, the end itself excluded, so that a nonce outlives its signature.
func TestClocks(t *testing.T) {
	w := newWorld(t)
	k := w.key(NewKey{})
	for _, c := range []struct {
		passed time.Duration
		ok     bool
	}{{0, true}, {signatureAge - time.Millisecond, true}, {signatureAge, false}, {-signatureAge, true}, {-signatureAge - time.Millisecond, false}} {
		r := w.signed(k, request("POST", "/", ""), "n")
		w.pass(c.passed)
		caller, err := w.v.Authenticate(r)
		if (err == nil) != c.ok {
			t.Errorf("after %v: %v", c.passed, err)
		}
		if err == nil && caller.Nonce.Until < int64(begin)+signatureAge.Milliseconds() {
			t.Errorf("after %v the nonce lapses before its signature", c.passed)
		}
		w.pass(-c.passed)
	}
}

// TestNonces: once, per key, until the claim lapses.
func TestNonces(t *testing.T) {
	w := newWorld(t)
	k, other := w.key(NewKey{}), w.key(NewKey{})
	claim := func(k Issued) error {
		t.Helper()
		caller, err := w.v.Authenticate(w.signed(k, request("POST", "/", ""), "n"))
		w.ok("authenticate", err)
		return w.v.Once(t.Context(), caller.Nonce)
	}
	w.ok("first", claim(k))
	w.refused("again", claim(k), "seen before")
	w.ok("another key", claim(other))
	w.pass(nonceAge)
	w.ok("when it has lapsed", claim(k))
	w.log.Script(eventlogtest.OpCommit, eventlogtest.Before, eventlogtest.After) // answers get lost, before and after the write
	w.pass(nonceAge)
	w.ok("with lost answers", claim(k))
}

// TestRotatedSignatures: the former secret signs until the grace is over.
func TestRotatedSignatures(t *testing.T) {
	w := newWorld(t)
	old := w.key(NewKey{})
	fresh, err := w.d.RotateKey(t.Context(), old.ID, time.Minute)
	w.ok("rotate", err)
	for _, k := range []Issued{old, fresh} {
		_, err = w.v.Authenticate(w.signed(k, request("POST", "/", "x"), "n"))
		w.ok("within the grace", err)
	}
	w.pass(time.Minute)
	_, err = w.v.Authenticate(w.signed(old, request("POST", "/", "x"), "n"))
	w.refused("after it", err, "not right")
	_, err = w.v.Authenticate(w.signed(fresh, request("POST", "/", "x"), "n"))
	w.ok("the new one", err)
}

// TestVariations: each of the list is taken where it is configured, and no other.
func TestVariations(t *testing.T) {
	w := newWorld(t)
	k := w.key(NewKey{})
	payload := map[Payload]string{PayloadUnsigned: unsignedPayload, PayloadEmpty: hexSum(nil), PayloadBody: hexSum([]byte("body"))}
	for _, prefix := range append(VariationsDefault.Prefixes, "OTHER") {
		for p, sum := range payload {
			r := func() *http.Request { return w.vary(k, prefix, sum) }
			if _, err := w.v.Authenticate(r()); (err == nil) != (prefix != "OTHER") {
				t.Errorf("%q, %s: %v", prefix, p, err)
			}
			strict := &Verifier{Directory: w.d, Region: "local", Variations: Variations{Prefixes: []string{"BASALTIC"}, Payloads: []Payload{PayloadUnsigned}}}
			if _, err := strict.Authenticate(r()); (err == nil) != (prefix == "BASALTIC" && p == PayloadUnsigned) {
				t.Errorf("strict, %q, %s: %v", prefix, p, err)
			}
		}
	}
}

// vary signs a request without X-Content-Sha256.
func (w *world) vary(k Issued, prefix, payload string) *http.Request {
	r := request("POST", "/v1/queues", "body")
	at := time.UnixMilli(int64(w.now)).UTC().Format(dateLayout)
	r.Header.Set(headerDate, at)
	r.Header.Set(headerNonce, "n")
	signed := []string{"host", "x-date", "x-nonce"}
	text, err := canonical(r, signed)
	w.ok("canonical", err)
	r.Header.Set("Authorization", authorization(k.ID, at, "global", signed, sign(prefix, secretOf(k.Secret), at, "global", text, payload)))
	return r
}

// TestLongBodies: one beyond the limit is neither hashed whole nor taken.
func TestLongBodies(t *testing.T) {
	w := newWorld(t)
	k := w.key(NewKey{})
	r := w.signed(k, request("POST", "/", strings.Repeat("x", bodyBytesMax+1)), "n")
	_, err := w.v.Authenticate(r)
	if _, long := errors.AsType[*http.MaxBytesError](err); !long {
		t.Errorf("%v", err)
	}
	r = w.signed(k, request("POST", "/", "x"), "n")
	r.Body = broken{}
	if _, err := w.v.Authenticate(r); !fault.Is(err, fault.Invalid) {
		t.Errorf("a body that breaks off: %v", err)
	}
}

// TestSignedHeaders: others may be signed too, with what net/http keeps elsewhere.
func TestSignedHeaders(t *testing.T) {
	w := newWorld(t)
	k := w.key(NewKey{})
	r := request("POST", "/v1/queues", "body")
	at := time.UnixMilli(int64(w.now)).UTC().Format(dateLayout)
	r.Header = http.Header{headerDate: {at}, headerNonce: {"n"}, "X-Account-Id": {"  local\t"}, "Via": {"a  b", "c"}}
	signed := []string{"content-length", "host", "via", "x-account-id", "x-date", "x-nonce"}
	text, err := canonical(r, signed)
	w.ok("canonical", err)
	if want := "content-length:4\nhost:queue.example:8080\nvia:a  b,c\nx-account-id:local\n"; !strings.Contains(string(text), want) {
		t.Errorf("%s", text)
	}
	r.Header.Set("Authorization", strings.ReplaceAll(authorization(k.ID, at, "local", signed, sign("BASALTIC", secretOf(k.Secret), at, "local", text, unsignedPayload)), ", ", "  ,\t"))
	_, err = w.v.Authenticate(r)
	w.ok("with blanks around the commas", err)
}

package auth

import (
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/leaselog/leaselog/internal/fault"
)

// FuzzTokens: no bearer token but the two that were given out is taken, and none brings anything down.
func FuzzTokens(f *testing.F) {
	w := newWorld(f)
	k, s := w.key(NewKey{}), w.key(NewKey{Kind: Static})
	good := w.mustToken(k)
	f.Add(good)
	f.Add(s.Token)
	f.Add(staticPrefix + k.ID + "_" + k.Secret)
	f.Add(tokenPrefix + strings.Repeat("A", tokenChars-len(tokenPrefix)))
	f.Add(tokenPrefix + strings.Repeat("\n", tokenChars-len(tokenPrefix)))
	f.Fuzz(func(t *testing.T, text string) {
		e, err := w.d.bearer(t.Context(), text)
		switch {
		case text == good || text == s.Token:
			if err != nil {
				t.Errorf("a good token is refused: %v", err)
			}
		case e != nil || !fault.Is(err, fault.Unauthorized):
			t.Errorf("%q: %v, %v", text, e != nil, err)
		}
	})
}

// FuzzSignatures: what is read of an Authorization header is what would be written, but for blanks, and no header
// opens a request that it was not made for.
func FuzzSignatures(f *testing.F) {
	w := newWorld(f)
	k := w.key(NewKey{})
	r := w.signed(k, request("POST", "/v1/queues", "{}"), "n")
	_, good, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	for _, seed := range []string{good, strings.ReplaceAll(good, ", ", ","), strings.ReplaceAll(good, ";", ",;"), "", ",,", "Credential=////, SignedHeaders=, Signature=",
		"Credential=a/20260131/local/basaltic/basaltic_request,SignedHeaders=host;x-date;x-nonce,Signature=" + strings.Repeat("0", 64)} {
		f.Add(seed, "/v1/queues?a=b")
	}
	f.Fuzz(func(t *testing.T, header, target string) {
		s, err := parseSignature(header)
		if err == nil {
			again, err := parseSignature(strings.TrimPrefix(authorization(s.key, s.date+"T", s.region, s.headers, s.sum), schemeSignature+" "))
			if len(s.date) == dayChars && (err != nil || again.key != s.key || again.sum != s.sum || len(again.headers) != len(s.headers)) {
				t.Errorf("%q became %+v, %v", header, again, err)
			}
		}
		r := httptest.NewRequest("POST", "/", strings.NewReader("{}"))
		r.URL.RawQuery = target
		r.Header.Set("Authorization", schemeSignature+" "+header)
		r.Header.Set(headerDate, "20260131T120000Z")
		r.Header.Set(headerNonce, "n")
		if _, err := w.v.Authenticate(r); !fault.Is(err, fault.Unauthorized) {
			t.Errorf("%q: %v", header, err)
		}
	})
}

// FuzzPolicies: what is not refused denies or allows the same thing each time, and never what it denies everywhere.
func FuzzPolicies(f *testing.F) {
	f.Add(string(policy(`{"effect":"allow","actions":["queue:*"],"resources":["crn:*"]}`)), orders)
	f.Add(string(policy(`{"effect":"deny","not_actions":["queue:?"],"not_resources":["*"]}`)), "")
	f.Add(`{"version":"2024-01-01","statements":null}`, orders)
	f.Add(`[]`, orders)
	f.Fuzz(func(t *testing.T, text, resource string) {
		p, err := ParsePolicies([][]byte{[]byte(text)})
		if err != nil {
			if !fault.Is(err, fault.Invalid) {
				t.Errorf("%v", err)
			}
			return
		}
		denied, err := ParsePolicies([][]byte{[]byte(text), policy(`{"effect":"deny","actions":["*"],"resources":["*"]}`)})
		for _, a := range Actions {
			if p.Allow(a, resource) && !p.AllowSomewhere(a) {
				t.Errorf("%s is allowed here and nowhere", a)
			}
			if err == nil && (denied.Allow(a, resource) || denied.AllowSomewhere(a)) {
				t.Errorf("%s is allowed though everything is denied", a)
			}
		}
	})
}

// FuzzPatterns compares the matcher with the obvious one.
func FuzzPatterns(f *testing.F) {
	f.Add("a*b?c*", "aXbYcZ")
	f.Fuzz(func(t *testing.T, pattern, text string) {
		if strings.Count(pattern, "*") > 4 || len(text) > 30 {
			return // the obvious one would take for ever
		}
		if matches(pattern, text) != slowly(pattern, text) {
			t.Errorf("%q on %q", pattern, text)
		}
	})
}

package auth

import (
	"net/http/httptest"
	"testing"

	"github.com/leaselog/leaselog/internal/fault"
)

// TestDevelopment: any credential of a known form, and none without one.
func TestDevelopment(t *testing.T) {
	for _, c := range []struct {
		header, account string
		want            Caller
		refused         bool
	}{
		{"Bearer x", "", Caller{Account: "local"}, false},
		{"bearer x", "local", Caller{Account: "local"}, false},
		{"Bearer x", "other", Caller{Account: "other", Foreign: true}, false},
		{"BASALTIC-HMAC-SHA256 Credential=a/b/c/basaltic/basaltic_request,SignedHeaders=host,Signature=0", "", Caller{Account: "local"}, false},
		{"", "", Caller{}, true},
		{"Bearer", "", Caller{}, true},
		{"Bearer  ", "", Caller{}, true},
		{"Basic YTpi", "", Caller{}, true},
		{"x", "", Caller{}, true},
	} {
		r := httptest.NewRequest("GET", "/", nil)
		if c.header != "" {
			r.Header.Set("Authorization", c.header)
		}
		r.Header.Set("X-Account-Id", c.account)
		got, err := Development{}.Authenticate(r)
		if got != c.want || fault.Is(err, fault.Unauthorized) != c.refused {
			t.Errorf("%q, %q: %+v, %v", c.header, c.account, got, err)
		}
	}
	r := httptest.NewRequest("GET", "/", nil)
	r.Header.Set("Authorization", "Bearer x")
	if got, _ := (Development{Account: "acme"}).Authenticate(r); got.Account != "acme" {
		t.Errorf("%+v", got)
	}
}

package auth

import (
	"net/http"
	"strings"
	"testing"
)

// BenchmarkBearer is what every request of an SDK pays: MAC, key, revocation.
func BenchmarkBearer(b *testing.B) {
	w := newWorld(b)
	token := w.mustToken(w.key(NewKey{}))
	measure(b, w, request("POST", "/v1/queues/q/messages", ""), "Bearer "+token)
}

// BenchmarkStatic is the same for a static token.
func BenchmarkStatic(b *testing.B) {
	w := newWorld(b)
	measure(b, w, request("POST", "/v1/queues/q/messages", ""), "Bearer "+w.key(NewKey{Kind: Static}).Token)
}

func measure(b *testing.B, w *world, r *http.Request, authorization string) {
	r.Header.Set("Authorization", authorization)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := w.v.Authenticate(r); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkSigned verifies our own signer's signature over a kilobyte; the nonce's claim comes on top. An unknown key
// and a wrong secret must cost alike, and the most, since every variation is tried.
func BenchmarkSigned(b *testing.B) {
	w := newWorld(b)
	k := w.key(NewKey{})
	for _, c := range []struct {
		name       string
		id, secret string
	}{{"right", k.ID, k.Secret}, {"wrong secret", k.ID, strings.Repeat("x", secretChars)}, {"unknown key", keyID{9}.String(), k.Secret}} {
		b.Run(c.name, func(b *testing.B) {
			r := w.signed(Issued{Key: Key{ID: c.id}, Secret: c.secret}, request("POST", "/v1/queues/q/messages", strings.Repeat("x", 1024)), "n")
			b.ReportAllocs()
			for b.Loop() {
				if _, err := w.v.Authenticate(r); (err == nil) != (c.name == "right") {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkPolicies judges a request by three statements.
func BenchmarkPolicies(b *testing.B) {
	p, err := ParsePolicies([][]byte{policy(
		`{"effect":"allow","actions":["queue:ReceiveMessages","queue:DeleteMessage"],"resources":["crn:queue:*:acme:queue/in-*"]}`,
		`{"effect":"allow","actions":["queue:SendMessage"],"resources":["crn:queue:*:acme:queue/orders*"]}`,
		`{"effect":"deny","actions":["queue:PurgeQueue","queue:DeleteQueue"],"resources":["*"]}`)})
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if !p.Allow(SendMessage, orders) {
			b.Fatal("denied")
		}
	}
}

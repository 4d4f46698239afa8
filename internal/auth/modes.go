package auth

import (
	"context"
	"net/http"
	"sync/atomic"
)

// Scheme is a way of knowing callers: [Development], [Verifier], or [Opening], which goes from one to the other.
type Scheme interface {
	// Authenticate gives the caller of a request. It has no effect.
	Authenticate(r *http.Request) (Caller, error)
	// Once writes the claim of a caller's nonce alone. Faults: Unauthorized when it stands already.
	Once(ctx context.Context, n Nonce) error
	// Exchange gives a token for a key pair. The request is not authenticated in any other way.
	Exchange(w http.ResponseWriter, r *http.Request)
	// Revoke makes a token of the caller's account useless, and answers unless it gives an error.
	Revoke(w http.ResponseWriter, r *http.Request, caller Caller) error
}

var _, _, _ Scheme = Development{}, (*Verifier)(nil), (*Opening)(nil)

// Once has nothing to write: without keys there are no nonces.
func (Development) Once(context.Context, Nonce) error { return nil }

// Opening is development mode until there is a key. From then on credentials are verified, also when that key is
// deleted: a server that was closed does not open by itself.
type Opening struct {
	development Development
	verifier    *Verifier
	closed      atomic.Bool
}

// NewOpening makes one for a server without keys. When the first is made, tell it with Close.
func NewOpening(v *Verifier) *Opening { return &Opening{verifier: v} }

// Close ends development mode, and says whether it did so now.
func (o *Opening) Close() bool { return !o.closed.Swap(true) }

func (o *Opening) now() Scheme {
	if o.closed.Load() {
		return o.verifier
	}
	return o.development
}

// Authenticate implements [Scheme].
func (o *Opening) Authenticate(r *http.Request) (Caller, error) { return o.now().Authenticate(r) }

// Once implements [Scheme].
func (o *Opening) Once(ctx context.Context, n Nonce) error { return o.now().Once(ctx, n) }

// Exchange implements [Scheme].
func (o *Opening) Exchange(w http.ResponseWriter, r *http.Request) { o.now().Exchange(w, r) }

// Revoke implements [Scheme].
func (o *Opening) Revoke(w http.ResponseWriter, r *http.Request, caller Caller) error {
	return o.now().Revoke(w, r, caller)
}

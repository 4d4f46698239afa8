package auth

import "net/http"

// Development takes every credential that has the right form and lets it act on one account. It verifies nothing: no
// secret is compared, no signature computed, no expiry read. It is for a laptop and for tests, and a host that uses
// it says so when it starts.
type Development struct {
	// Account is the handle of the one account; default "local".
	Account string
}

// accountDefault is the one account of a server that was told nothing.
const accountDefault = "local"

// The two schemes of the API page, section 2: the bearer token of the SDKs and the signature of the documents.
// RFC 9110 compares scheme names without regard to case.
const (
	schemeBearer    = "Bearer"
	schemeSignature = "BASALTIC-HMAC-SHA256"
)

func (d Development) account() string {
	if d.Account == "" {
		return accountDefault
	}
	return d.Account
}

// Authenticate gives the caller of a request. A missing header, an unknown scheme and a scheme without anything after
// it are Unauthorized, so that a client that forgot its credentials learns it here and not in production.
func (d Development) Authenticate(r *http.Request) (Caller, error) {
	if _, _, err := credentials(r); err != nil {
		return Caller{}, err
	}
	return d.selected(r.Header.Get("X-Account-Id")), nil
}

// selected gives the caller that acts on an account; empty is the credential's own (section 2.3).
func (d Development) selected(account string) Caller {
	if own := d.account(); account == "" || account == own {
		return Caller{Account: own}
	}
	return Caller{Account: account, Foreign: true}
}

// Package auth says who calls, and what they may do.
//
// A [Directory] keeps accounts and access keys in the log; a [Verifier] takes the two schemes of the API page, bearer
// tokens and signatures, and gives the token endpoint; [Policies] judge an action on a resource. [Development] takes
// every credential, for a laptop. Each scheme's making and checking stand in one file.
//
// Secrets are compared in constant time, and neither an error nor a log line holds one: secrets have a type that does
// not print. A credential that names no key is worked on like one with a wrong secret, and is answered alike.
package auth

// Caller is who made a request, and the account that the request acts on.
type Caller struct {
	// Account is the handle of the account acted on: the credential's own, or the one that the request selected.
	Account string
	// Foreign is true when the credential has no right in Account. What is in that account then does not exist for
	// the caller, and what would make or list things there is denied (API page, section 2.3).
	Foreign bool
	// Key is the access key's id, empty in development mode.
	Key string
	// Nonce is what makes the request count once; without a key there is none to claim.
	Nonce Nonce

	policies *Policies // nil: everything in the account
	account  id        // the credential's own
}

// Nonce is a claim that a signed request stands for, not yet written: a request whose nonce is taken is a replay. It
// belongs into the commit of the request's effect where there is one, and is written alone otherwise.
type Nonce struct {
	Key   string // of the claim; empty: none
	Until int64  // Unix milliseconds: from then on the signature is too old anyway
}

// Limited says whether policies bound the caller. One that is not limited may do everything in its account, and need
// not be asked about.
func (c Caller) Limited() bool { return c.policies != nil }

// May says whether the caller may do an action on a resource, named by its CRN.
func (c Caller) May(a Action, resource string) bool {
	return c.policies == nil || c.policies.Allow(a, resource)
}

// MaySomewhere says whether there can be a resource that the caller may do an action on.
func (c Caller) MaySomewhere(a Action) bool {
	return c.policies == nil || c.policies.AllowSomewhere(a)
}

// Package auth says who calls, and what they may do.
//
// So far it holds the development mode alone: see [Development]. Real credentials, signatures and policies take its
// place behind the same [Caller].
package auth

// Caller is who made a request, and the account that the request acts on.
type Caller struct {
	// Account is the account acted on: the credential's own, or the one that the request selected.
	Account string
	// Foreign is true when the credential has no right in Account. What is in that account then does not exist for
	// the caller, and what would make or list things there is denied (API page, section 2.3).
	Foreign bool
}

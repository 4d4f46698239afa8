package rest

import "net/http"

// The token endpoint stands on the same listener as the queues (section 2.1), so that one URL serves for both.

var createToken = &operation{name: "create-token", method: http.MethodPost, path: "/v1/oauth/token", access: tokens,
	run: func(c *call) error {
		c.stamp()
		c.sent = true
		c.h.Tokens.Exchange(c.w, c.r)
		return nil
	}}

var revokeToken = &operation{name: "revoke-token", method: http.MethodPost, path: "/v1/oauth/revoke", access: revocation,
	run: func(c *call) error {
		c.stamp()
		return c.h.Tokens.Revoke(c.w, c.r, c.caller)
	}}

package rest

// once makes a signed request count once. The claim is written alone and before the operation: a replay is refused
// before it has an effect, and a request that fails afterwards has used its nonce up, which clients do not mind, since
// they sign every attempt anew.
//
// SEAM: the one place where nonces are claimed. When commands carry claims, the nonce goes with the command and only an
// operation without an effect writes it alone.
func (c *call) once() error {
	if c.caller.Nonce.Key == "" {
		return nil
	}
	return c.h.Auth.Once(c.context(), c.caller.Nonce)
}

// Package envelope seals what the log keeps, so that nothing readable is stored.
//
// Each queue has a [Ring]: data keys in versions, and one name key for keyed hashes. The ring is kept in the queue's
// record with every key wrapped by [Keys]; a [Keyring] works with it and keeps an unwrapped key for the queue's reuse
// period and no longer. Whoever destroys the ring destroys all that was sealed with it.
package envelope

import (
	"context"

	"github.com/leaselog/leaselog/events"
)

// Context is bound to a wrapped key: it unwraps only with the same one.
type Context struct {
	Deployment string
	Queue      events.QueueID
	Version    uint32 // of the data key; 0 is the name key
}

// Keys wraps and unwraps data keys of 32 bytes under a key that never leaves it: KMS, or a local key file. The plain keys
// that it gives are the caller's, who clears them.
type Keys interface {
	// Generate makes a data key and wraps it under the key that ref names; "" is the platform's key.
	// Faults: Invalid for a key that does not exist; KeyLost for one that cannot be used now; Unavailable where the
	// service that has the key does not answer.
	Generate(ctx context.Context, ref string, c Context) (key, wrapped []byte, err error)
	// Unwrap gives the data key back. Faults: KeyLost when the wrapping key cannot be used now; Unavailable as above.
	Unwrap(ctx context.Context, ref string, wrapped []byte, c Context) (key []byte, err error)
}

// Resolver is implemented by [Keys] that know keys of customers.
type Resolver interface {
	// Resolve gives the key that a reference, an id or a name, leads to now. Faults: Invalid for an unknown one.
	Resolve(ctx context.Context, ref string) (KeyName, error)
}

// KeyName is how a customer's key is kept and shown: its id, which never changes and is a reference as well, and the
// name that it had when it was chosen.
type KeyName struct {
	ID   string `cbor:"1,keyasint"`
	Name string `cbor:"2,keyasint,omitempty"`
}

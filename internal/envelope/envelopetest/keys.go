// Package envelopetest has a stand-in for a KMS with keys of customers, for tests.
package envelopetest

import (
	"context"
	"crypto/rand"
	"sync"

	"github.com/leaselog/leaselog/internal/envelope"
	"github.com/leaselog/leaselog/internal/fault"
)

var _ interface {
	envelope.Keys
	envelope.Resolver
} = (*Keys)(nil)

// Keys has the platform's key, named "", and keys of customers, each of which can be disabled and enabled. What is
// wrapped is a random number, under which the data key is remembered here with all that it is bound to.
type Keys struct {
	mu       sync.Mutex
	ids      map[string]string // by name
	disabled map[string]bool   // by id
	wrapped  map[string]held
	unwraps  int
}

type held struct {
	id      string
	context envelope.Context
	key     []byte
}

// New gives the stand-in with customers' keys: a name and an id, a UUID, of each.
func New(ids map[string]string) *Keys {
	return &Keys{ids: ids, disabled: map[string]bool{}, wrapped: map[string]held{}}
}

// Disable makes a key unusable; "" is the platform's.
func (k *Keys) Disable(name string) { k.set(name, true) }

// Enable makes it usable again.
func (k *Keys) Enable(name string) { k.set(name, false) }

func (k *Keys) set(name string, disabled bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.disabled[k.ids[name]] = disabled
}

// Unwraps counts the keys that were asked for.
func (k *Keys) Unwraps() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.unwraps
}

// Resolve implements [envelope.Resolver].
func (k *Keys) Resolve(_ context.Context, ref string) (envelope.KeyName, error) {
	for name, id := range k.ids {
		if ref == name || ref == id {
			return envelope.KeyName{ID: id, Name: name}, nil
		}
	}
	return envelope.KeyName{}, fault.New(fault.Invalid, "unknown key %q", ref)
}

// Generate implements [envelope.Keys].
func (k *Keys) Generate(ctx context.Context, ref string, c envelope.Context) (key, wrapped []byte, err error) {
	var name envelope.KeyName
	if ref != "" {
		if name, err = k.Resolve(ctx, ref); err != nil {
			return nil, nil, err
		}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.disabled[name.ID] {
		return nil, nil, errDisabled(ref)
	}
	key, wrapped = make([]byte, 32), make([]byte, 16)
	rand.Read(key)
	rand.Read(wrapped)
	k.wrapped[string(wrapped)] = held{name.ID, c, key}
	return key, wrapped, nil
}

// Unwrap implements [envelope.Keys].
func (k *Keys) Unwrap(_ context.Context, ref string, wrapped []byte, c envelope.Context) ([]byte, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.unwraps++
	h, ok := k.wrapped[string(wrapped)]
	if !ok || h.context != c || h.id != ref {
		return nil, fault.New(fault.KeyLost, "key %q does not open this", ref)
	}
	if k.disabled[h.id] {
		return nil, errDisabled(ref)
	}
	return append([]byte(nil), h.key...), nil
}

func errDisabled(ref string) error { return fault.New(fault.KeyLost, "the key %q is disabled", ref) }

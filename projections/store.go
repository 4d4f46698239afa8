package projections

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/leaselog/leaselog/events"
)

// Store keeps views, each with the ends that it is true for in one piece.
type Store interface {
	// Load gives what is kept at key, as the last answered Save left it, and false for nothing: then the version alone
	// counts, for the next Save.
	Load(ctx context.Context, key string) (Kept, bool, error)

	// Save replaces what is kept at key if its version is still ifVersion, 0 for nothing. Its error is ErrChanged where
	// another stands there; after any other one nobody knows what stands. Data has at most [DataBytesMax].
	Save(ctx context.Context, key string, data []byte, ifVersion uint64) error

	// Forget removes what is kept at key. It may be repeated.
	Forget(ctx context.Context, key string) error
}

// Kept is a view as it is kept. Version rises with every change.
type Kept struct {
	Data    []byte
	Version uint64
}

// ErrChanged is in the chain of the error of a Save that came too late.
var ErrChanged = errors.New("somebody else has saved the view")

// DataBytesMax bounds a view: it is one item of DynamoDB, which has at most 400 KB. Each projection says how it stays
// below.
const DataBytesMax = 390_000

// record is how a view is kept, with the ends in the same piece.
type record struct {
	Ends Ends   `cbor:"1,keyasint"`
	View []byte `cbor:"2,keyasint"`
}

// Pack puts a view and its ends together, for a store.
func Pack(e Ends, view []byte) []byte { return events.EncodeRecord(record{e, view}) }

// Unpack reads what Pack wrote.
func Unpack(data []byte) (Ends, []byte, error) {
	var r record
	err := events.DecodeRecord(data, &r)
	return r.Ends, r.View, err
}

// Memory is a store that lasts as long as its process.
type Memory struct {
	mu   sync.Mutex
	kept map[string]Kept
}

// NewMemory makes an empty store.
func NewMemory() *Memory { return &Memory{kept: map[string]Kept{}} }

// Load implements [Store].
func (m *Memory) Load(_ context.Context, key string) (Kept, bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	k, ok := m.kept[key]
	return k, ok, nil
}

// Save implements [Store].
func (m *Memory) Save(_ context.Context, key string, data []byte, ifVersion uint64) error {
	if len(data) > DataBytesMax {
		return fmt.Errorf("a view has at most %d bytes, not %d", DataBytesMax, len(data))
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.kept[key].Version != ifVersion {
		return ErrChanged
	}
	m.kept[key] = Kept{Data: data, Version: ifVersion + 1}
	return nil
}

// Forget implements [Store].
func (m *Memory) Forget(_ context.Context, key string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.kept, key)
	return nil
}

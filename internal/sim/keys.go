package sim

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"sync/atomic"

	"github.com/leaselog/leaselog/internal/envelope"
	"github.com/leaselog/leaselog/internal/fault"
)

// keys stands in for a KMS. What it wraps is the context, so a key unwraps only where it belongs.
type keys struct{ down atomic.Bool }

// Generate implements [envelope.Keys].
func (k *keys) Generate(_ context.Context, _ string, c envelope.Context) (key, wrapped []byte, err error) {
	if k.down.Load() {
		return nil, nil, errKeys
	}
	return plainKey(c), wrap(c), nil
}

// Unwrap implements [envelope.Keys].
func (k *keys) Unwrap(_ context.Context, _ string, wrapped []byte, c envelope.Context) ([]byte, error) {
	if k.down.Load() {
		return nil, errKeys
	}
	if !bytes.Equal(wrapped, wrap(c)) {
		return nil, errors.New("wrapped for another context")
	}
	return plainKey(c), nil
}

var errKeys = fault.New(fault.KeyLost, "the simulated keys are out of reach")

func wrap(c envelope.Context) []byte {
	return binary.BigEndian.AppendUint32(append([]byte(c.Deployment), c.Queue[:]...), c.Version)
}

// plainKey is the queue's id twice, with the version added: every queue has its own.
func plainKey(c envelope.Context) []byte {
	key := append(append([]byte(nil), c.Queue[:]...), c.Queue[:]...)
	key[31] ^= byte(c.Version) + 1
	return key
}

// Package keys keeps the key that wraps all others in a local file, for an installation without a KMS.
//
// Whoever has the file and the store can read every message; whoever loses the file can read none.
package keys

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/leaselog/leaselog/internal/envelope"
	"github.com/leaselog/leaselog/internal/fault"
)

var _ envelope.Keys = (*Keys)(nil)

const (
	keySize   = 32
	nonceSize = 12
	// format is the first byte of a wrapped key: format, nonce, ciphertext of 32 bytes, tag of 16.
	format = 1
)

// What a derived key is for. The purposes never meet: a label only ever follows the second.
const (
	wrapPurpose   = "leaselog wrap 1"
	secretPurpose = "leaselog secret 1 "
)

// Keys is an open key file. It may be used by many goroutines at once.
type Keys struct {
	derive func(purpose string) [keySize]byte // encloses the file's key, so that nothing that prints a struct finds it
	wrap   cipher.AEAD
	rand   io.Reader
}

func from(root [keySize]byte) (*Keys, error) {
	k := &Keys{rand: rand.Reader, derive: func(purpose string) [keySize]byte {
		b, err := hkdf.Key(sha256.New, root[:], nil, purpose, keySize)
		if err != nil {
			panic(err) // only an overlong output is refused
		}
		return [keySize]byte(b)
	}}
	key := k.derive(wrapPurpose)
	block, err := aes.NewCipher(key[:])
	if err != nil {
		return nil, err
	}
	k.wrap, err = cipher.NewGCM(block)
	return k, err
}

// Generate makes a data key and wraps it. Faults: Invalid for any ref but "".
func (k *Keys) Generate(_ context.Context, ref string, c envelope.Context) (key, wrapped []byte, err error) {
	if ref != "" {
		return nil, nil, unknown(ref)
	}
	fresh := make([]byte, keySize+nonceSize)
	if _, err := io.ReadFull(k.rand, fresh); err != nil {
		return nil, nil, fmt.Errorf("drawing a data key: %w", err)
	}
	key, nonce := fresh[:keySize:keySize], fresh[keySize:]
	wrapped = append([]byte{format}, nonce...)
	return key, k.wrap.Seal(wrapped, nonce, key, associated(c)), nil
}

// Unwrap gives a data key back. Faults: Invalid for any ref but ""; KeyLost when it was wrapped under another key
// file or in another context, or was changed.
func (k *Keys) Unwrap(_ context.Context, ref string, wrapped []byte, c envelope.Context) ([]byte, error) {
	if ref != "" {
		return nil, unknown(ref)
	}
	key, err := k.unwrap(wrapped, c)
	if err != nil {
		return nil, fault.Because(fault.KeyLost, err, "the server's key file does not open this queue's key: it must be the file that the queue was created with")
	}
	return key, nil
}

func (k *Keys) unwrap(wrapped []byte, c envelope.Context) ([]byte, error) {
	if len(wrapped) <= nonceSize || wrapped[0] != format {
		return nil, errors.New("this is no key that was wrapped by a key file")
	}
	return k.wrap.Open(nil, wrapped[1:1+nonceSize], wrapped[1+nonceSize:], associated(c))
}

func unknown(ref string) error {
	return fault.New(fault.Invalid, "unknown key %q: this server has its key file only; leave the key out", ref)
}

// associated binds a wrapped key to its context: format, deployment after its length, queue, version.
func associated(c envelope.Context) []byte {
	b := binary.BigEndian.AppendUint32([]byte{format}, uint32(len(c.Deployment)))
	b = append(b, c.Deployment...)
	b = append(b, c.Queue[:]...)
	return binary.BigEndian.AppendUint32(b, c.Version)
}

// Secret derives a secret of the installation, the same for the same label as long as the key file is the same.
func (k *Keys) Secret(label string) [32]byte { return k.derive(secretPurpose + label) }

// Format prints the same under every verb: nothing of the key.
func (Keys) Format(f fmt.State, _ rune) { io.WriteString(f, "key file (not shown)") }

package auth

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base32"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"strings"
	"sync"

	"github.com/leaselog/leaselog/events"
)

// sayf makes the cause of a fault, which its caller wraps with the place.
func sayf(format string, args ...any) error { return fmt.Errorf(format, args...) }

// id names an account or a token: 16 random bytes, as a UUID where people see it.
type id [16]byte

func (i id) String() string { return events.QueueID(i).String() }

// keyID names an access key: ten random bytes and a MAC over them, which tells an id that was never given out without
// a look at the store, so that guessing ids costs nobody a read. As text: "LL" and 26 characters of base32.
type keyID [16]byte

const (
	keyIDPrefix = "LL"
	keyIDChars  = len(keyIDPrefix) + 26
	keyIDRandom = 10
)

var keyIDText = base32.StdEncoding.WithPadding(base32.NoPadding)

func (k keyID) String() string { return keyIDPrefix + keyIDText.EncodeToString(k[:]) }

// parseKeyID reads the text of an id; whether it was given out is [vault.issued]'s to say.
func parseKeyID(s string) (k keyID, ok bool) {
	if len(s) != keyIDChars || !strings.HasPrefix(s, keyIDPrefix) {
		return k, false
	}
	n, err := keyIDText.Decode(k[:], []byte(s[len(keyIDPrefix):]))
	return k, err == nil && n == len(k) && k.String() == s // the last character has bits to spare
}

// secret encloses a text, so that no verb, logger or encoder finds it, wherever the value stands.
type secret func() string

func secretOf(text string) secret { return func() string { return text } }

// is compares in constant time.
func (s secret) is(given string) bool {
	return subtle.ConstantTimeCompare([]byte(s()), []byte(given)) == 1
}

// secretPrefix lets scanners for leaked secrets know ours.
const secretPrefix = "llsk_"

// secretChars is the length of every secret: the prefix and 32 bytes in base64url.
const secretChars = len(secretPrefix) + 43

func newSecret(from io.Reader) (secret, error) {
	var b [32]byte
	if _, err := io.ReadFull(from, b[:]); err != nil {
		return nil, err
	}
	return secretOf(secretPrefix + base64.RawURLEncoding.EncodeToString(b[:])), nil
}

// vault holds the keys that are derived from the deployment's secret, each for one purpose.
type vault struct {
	seal cipher.AEAD
	ids  macs
	tags macs // of tokens
}

// macs are HMACs under one key, used again and again.
type macs struct{ pool *sync.Pool }

func newMACs(key []byte) macs {
	return macs{&sync.Pool{New: func() any { return &mac{h: hmac.New(sha256.New, key)} }}}
}

type mac struct {
	h   hash.Hash
	sum [sha256.Size]byte
}

// sum gives the MAC of a text.
func (m macs) sum(text []byte) [sha256.Size]byte {
	h := m.pool.Get().(*mac)
	h.h.Reset()
	h.h.Write(text)
	h.h.Sum(h.sum[:0])
	sum := h.sum
	m.pool.Put(h)
	return sum
}

func newVault(root []byte) (*vault, error) {
	derive := func(purpose string) []byte {
		b, err := hkdf.Key(sha256.New, root, nil, "leaselog auth 1 "+purpose, 32)
		if err != nil {
			panic(err) // only an overlong output is refused
		}
		return b
	}
	block, err := aes.NewCipher(derive("seal"))
	if err != nil {
		return nil, err
	}
	v := &vault{ids: newMACs(derive("key ids")), tags: newMACs(derive("tokens"))}
	v.seal, err = cipher.NewGCM(block)
	return v, err
}

func (v *vault) newKeyID(from io.Reader) (k keyID, err error) {
	if _, err := io.ReadFull(from, k[:keyIDRandom]); err != nil {
		return k, err
	}
	sum := v.ids.sum(k[:keyIDRandom])
	copy(k[keyIDRandom:], sum[:])
	return k, nil
}

// issued says whether an id was given out here, ever.
func (v *vault) issued(k keyID) bool {
	sum := v.ids.sum(k[:keyIDRandom])
	return hmac.Equal(k[keyIDRandom:], sum[:len(k)-keyIDRandom])
}

// close seals a secret for its record. The associated data binds it to the key and to its rotation, so that it can be
// moved neither to another record nor back in time.
func (v *vault) close(from io.Reader, k keyID, generation uint32, s secret) ([]byte, error) {
	nonce := make([]byte, v.seal.NonceSize())
	if _, err := io.ReadFull(from, nonce); err != nil {
		return nil, err
	}
	return v.seal.Seal(nonce, nonce, []byte(s()), bound(k, generation)), nil
}

func (v *vault) open(k keyID, generation uint32, sealed []byte) (secret, error) {
	if len(sealed) < v.seal.NonceSize() {
		return nil, errors.New("a sealed secret is too short")
	}
	n := v.seal.NonceSize()
	text, err := v.seal.Open(nil, sealed[:n], sealed[n:], bound(k, generation))
	return secretOf(string(text)), err
}

func bound(k keyID, generation uint32) []byte {
	return fmt.Appendf(nil, "leaselog key secret 1 %s %d", k, generation)
}

// hexSum is the lower-case hex SHA-256 of a text.
func hexSum(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

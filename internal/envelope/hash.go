package envelope

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"hash"
	"sync"

	"github.com/leaselog/leaselog/events"
)

// hasher computes HMAC-SHA-256 under one key. Keying costs more than hashing a short id does, so keyed states are used
// again; the pool belongs to the key and dies with it.
type hasher struct{ pool sync.Pool }

// keyed is one state with the memory that a hash needs.
type keyed struct {
	mac  hash.Hash
	text []byte
	sum  [sha256.Size]byte
}

func newHasher(key []byte) *hasher {
	key = append([]byte(nil), key...)
	return &hasher{pool: sync.Pool{New: func() any { return &keyed{mac: hmac.New(sha256.New, key)} }}}
}

// hash is over the label and the parts, each after its length: no two lists of strings give the same bytes.
func (h *hasher) hash(label string, parts []string) events.Hash {
	k := h.pool.Get().(*keyed)
	defer h.free(k)
	k.text = appendString(k.text[:0], label)
	for _, p := range parts {
		k.text = appendString(k.text, p)
	}
	k.mac.Reset()
	k.mac.Write(k.text)
	return notZero(events.Hash(k.mac.Sum(k.sum[:0])[:len(events.Hash{})]))
}

func (h *hasher) free(k *keyed) {
	if cap(k.text) <= scratchBytesMax {
		h.pool.Put(k)
	}
}

// notZero keeps the zero hash free for "none".
func notZero(h events.Hash) events.Hash {
	if h == (events.Hash{}) {
		h[len(h)-1] = 1
	}
	return h
}

func appendString[S string | []byte](b []byte, s S) []byte {
	b = binary.BigEndian.AppendUint32(b, uint32(len(s)))
	return append(b, s...)
}

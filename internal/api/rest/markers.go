package rest

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
)

// A marker says where the next page begins. It is opaque to clients: base64url of a MAC and the key after which the
// page begins. The MAC covers what the marker is for, so that one of another list is as wrong as a garbled one.

// markerBytesMax bounds what is decoded: a queue's name, or a broker's own place in a queue.
const markerBytesMax = 1024

// macBytes is how much of the HMAC is kept; 128 bits cannot be guessed.
const macBytes = 16

// markerLabel keeps these MACs apart from others under the same secret.
const markerLabel = "rest marker 1"

// mark makes a marker of a list for a key in it.
func (h *handler) mark(list, key string) string {
	return base64.RawURLEncoding.EncodeToString(append(h.mac(list, key), key...))
}

// unmark gives a marker's key; an empty marker is the beginning (section 1: an empty value means absent).
func (h *handler) unmark(list, marker string) (key string, err error) {
	if marker == "" {
		return "", nil
	}
	var b []byte
	if len(marker) <= markerBytesMax {
		b, _ = base64.RawURLEncoding.Strict().DecodeString(marker)
	}
	if len(b) <= macBytes || !hmac.Equal(b[:macBytes], h.mac(list, string(b[macBytes:]))) {
		return "", invalid("marker is not one of this list's; take meta.marker of the page before as it is, or leave it out")
	}
	return string(b[macBytes:]), nil
}

func (h *handler) mac(list, key string) []byte {
	m := hmac.New(sha256.New, h.Secret)
	m.Write([]byte(markerLabel))
	m.Write(binary.BigEndian.AppendUint32(nil, uint32(len(list))))
	m.Write([]byte(list))
	m.Write([]byte(key))
	return m.Sum(nil)[:macBytes]
}

package events

import (
	"bytes"
	"testing"
)

// The fuzz tests feed any bytes. What decodes is encoded again: that must decode to the same bytes for ever after. The
// first step may change them, since the decoder takes numbers that are longer than they need be, fields in any order
// and zero values that the encoder leaves out. Nothing rests on that: entries are authenticated as the bytes they are.

func FuzzDecode(f *testing.F) {
	f.Add(Encode(samples))
	for _, e := range samples {
		f.Add(Encode([]Event{e}))
	}
	f.Add([]byte("\x83\x0d\x01\xa1\x01\x18\x00"))
	f.Fuzz(func(t *testing.T, data []byte) { settles(t, data, Decode, Encode) })
}

func FuzzDecodeHeader(f *testing.F) {
	for _, h := range sampleHeaders {
		f.Add(EncodeHeader(h))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		settles(t, data, DecodeHeader, EncodeHeader)
		if h, err := DecodeHeader(data); err == nil && h.Count < 1000 {
			useColumns(h)
		}
	})
}

func FuzzDecodeMessages(f *testing.F) {
	f.Add(EncodeMessages(sampleMessages))
	f.Fuzz(func(t *testing.T, data []byte) { settles(t, data, DecodeMessages, EncodeMessages) })
}

func FuzzDecodeLedgerHeader(f *testing.F) {
	f.Add(EncodeLedgerHeader(sampleLedgerHeader))
	f.Fuzz(func(t *testing.T, data []byte) { settles(t, data, DecodeLedgerHeader, EncodeLedgerHeader) })
}

func settles[T any](t *testing.T, data []byte, decode func([]byte) (T, error), encode func(T) []byte) {
	v, err := decode(data)
	if err != nil {
		return
	}
	once := encode(v)
	again, err := decode(once)
	if err != nil {
		t.Fatalf("%x decodes, and what it encodes to does not: %x: %v", data, once, err)
	}
	if twice := encode(again); !bytes.Equal(once, twice) {
		t.Fatalf("%x encodes to %x and then to %x", data, once, twice)
	}
}

// useColumns asks a header for everything it may be asked for each of its messages.
func useColumns(h *Header) {
	for i := range int(h.Count) {
		h.Group(i)
		h.Dedup(i)
		h.DueAt(i)
		h.ExpiresAt(i)
		h.Limit(i)
		h.MessageID(i)
		h.Enqueued(i)
		h.RetainedFrom(i)
	}
}

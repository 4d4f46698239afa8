package events

import (
	"bytes"
	"testing"

	"pgregory.net/rapid"
)

// TestMessageIDs says that ids are UUIDv7 of their block's instant, differ, and rise inside a block.
func TestMessageIDs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := BlockID(rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "block"))
		at := Instant(rapid.Int64Range(0, 1<<48-1).Draw(t, "at"))
		i := rapid.IntRange(0, 1<<20).Draw(t, "index")
		m, next := b.Message(at, i), b.Message(at, i+1)
		if m[6]>>4 != 7 || m[8]>>6 != 2 {
			t.Fatalf("%v: version %d, variant %d", m, m[6]>>4, m[8]>>6)
		}
		if m.Instant() != at {
			t.Fatalf("%v: instant %d, not %d", m, m.Instant(), at)
		}
		if bytes.Compare(m[:], next[:]) >= 0 {
			t.Fatalf("%v is followed by %v", m, next)
		}
	})
}

// TestMessageIDCarry takes the block whose id leaves the least room above it.
func TestMessageIDCarry(t *testing.T) {
	b := BlockID(bytes.Repeat([]byte{0xff}, 16))
	for i, want := range []string{"018bcfe5-687b-7fff-9fff-ffffffffffff", "018bcfe5-687b-7fff-a000-000000000000", "018bcfe5-687b-7fff-a000-000000000001"} {
		if got := b.Message(sampleAt, i).String(); got != want {
			t.Errorf("message %d is %s, not %s", i, got, want)
		}
	}
}

func TestParseUUID(t *testing.T) {
	const canonical = "01234567-89ab-cdef-fedc-ba9876543210"
	for _, c := range []struct {
		name, in string
		ok       bool
	}{
		{"canonical", canonical, true},
		{"upper case", "01234567-89AB-CDEF-FEDC-BA9876543210", true},
		{"empty", "", false},
		{"compact", "0123456789abcdeffedcba9876543210", false},
		{"braced", "{01234567-89ab-cdef-fedc-ba9876543210}", false},
		{"urn", "urn:uuid:" + canonical, false},
		{"no digit", "0123456g-89ab-cdef-fedc-ba9876543210", false},
		{"dash elsewhere", "0123456-789ab-cdef-fedc-ba9876543210", false},
		{"too short", canonical[:35], false},
		{"too long", canonical + "0", false},
		{"36 bytes that are fewer letters", "é123456-89ab-cdef-fedc-ba9876543210", false},
	} {
		id, ok := ParseUUID(c.in)
		if ok != c.ok || ok && QueueID(id).String() != canonical {
			t.Errorf("%s: %x, %t", c.name, id, ok)
		}
	}
}

func TestStreamNames(t *testing.T) {
	const name = "0123456789abcdeffedcba9876543210"
	for got, want := range map[string]string{
		MessageStream(sampleQueue, 0, 0):    name + "/0000/m0",
		MessageStream(sampleQueue, 0x1f, 2): name + "/001f/m2",
		LedgerStream(sampleQueue, 3):        name + "/0003/ledger",
	} {
		if got != want {
			t.Errorf("%s, not %s", got, want)
		}
		if q, err := StreamQueue(got); err != nil || q != sampleQueue {
			t.Errorf("queue of %s: %v, %v", got, q, err)
		}
	}
	for _, bad := range []string{"", "/", "0123/0000/m0", name + "00/0000/m0", "x" + name[1:] + "/0000/m0", name[:31] + "/0000/m0"} {
		if q, err := StreamQueue(bad); err == nil {
			t.Errorf("%q belongs to queue %v", bad, q)
		}
	}
}

package events

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"
)

// drawEvent draws any event with any content.
func drawEvent(t *rapid.T) Event {
	return rapid.OneOf(
		of[Configured](), of[Leased](), of[Passed](), of[Extended](), of[Released](), of[Acked](), of[Failed](), of[Recovered](),
		of[Expired](), of[Moved](), of[Arrived](), of[Purged](), of[Anchored](), of[LaneOpened](), of[LaneClosed]()).Draw(t, "event")
}

// of draws a struct by its fields.
func of[E any, P interface {
	*E
	Event
}]() *rapid.Generator[Event] {
	return rapid.Map(rapid.Make[E](), func(e E) Event { return P(&e) })
}

// TestEventsRoundTrip says that what is decoded is what was encoded, and encodes to the same bytes.
func TestEventsRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var all []Event
		for range rapid.IntRange(0, 4).Draw(t, "events") {
			all = append(all, drawEvent(t))
		}
		data := Encode(all)
		got, err := Decode(data)
		if err != nil || !bytes.Equal(Encode(got), data) {
			t.Fatalf("%v: %x became %x", err, data, Encode(got))
		}
		if diff := cmp.Diff(all, got, cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("(-encoded +decoded):\n%s", diff)
		}
	})
}

func TestHeaderRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := &Header{ID: rapid.Make[BlockID]().Draw(t, "id"), At: rapid.Make[Instant]().Draw(t, "at"), High: rapid.Make[Instant]().Draw(t, "high"),
			Totals: rapid.Make[Totals]().Draw(t, "totals"), Version: rapid.Uint64().Draw(t, "version"), Kind: Kind(rapid.IntRange(0, 2).Draw(t, "kind"))}
		if h.Kind == Block {
			h.Count = rapid.Uint32Range(1, 5).Draw(t, "count")
			h.Due = column1[Instant](t, h.Count)
			h.Limits = column1[uint32](t, h.Count)
			h.Origins = column1[Origin](t, h.Count)
			h.Groups = column1[byte](t, 16*h.Count)
		}
		got, err := DecodeHeader(EncodeHeader(h))
		if diff := cmp.Diff(h, got); err != nil || diff != "" {
			t.Fatalf("%v (-encoded +decoded):\n%s", err, diff)
		}
	})
}

// column1 draws a column that is missing or full.
func column1[T any](t *rapid.T, n uint32) []T {
	if rapid.Bool().Draw(t, "missing") {
		return nil
	}
	return rapid.SliceOfN(rapid.Make[T](), int(n), int(n)).Draw(t, "column")
}

func TestMessagesRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := rapid.SliceOfN(rapid.Make[Message](), 1, 4).Draw(t, "messages")
		data := EncodeMessages(m)
		got, err := DecodeMessages(data)
		if err != nil || !bytes.Equal(EncodeMessages(got), data) {
			t.Fatalf("%v: %x became %x", err, data, EncodeMessages(got))
		}
	})
}

// TestInvalidText says that text which is not UTF-8 can be read again: one such message must not cost its whole block.
func TestInvalidText(t *testing.T) {
	want := []Message{{Body: []byte("b"), Group: "\xff", Attributes: []Attribute{{Name: "\xfe", Type: "\x80", Value: []byte{}}}}}
	got, err := DecodeMessages(EncodeMessages(want))
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v (-encoded +decoded):\n%s", err, diff)
	}
}

// TestDecodeRefuses has what a reader must not fold over.
func TestDecodeRefuses(t *testing.T) {
	for _, c := range []struct {
		name, data string
		unknown    bool
		says       string
	}{
		{"a type of a later program", "\x83\x18\x63\x01\xa0", true, "type 99 version 1"},
		{"a version of a later program", "\x83\x0d\x03\xa0", true, "type 13 version 3"},
		{"a field that is not known", "\x83\x0d\x01\xa2\x01\x00\x09\x00", false, "type 13"},
		{"a field twice", "\x83\x0d\x01\xa2\x01\x00\x01\x00", false, "type 13"},
		{"no payload", "\x83\x0d\x01\xf6", false, "event 0"},
		{"a text key", "\x83\x0d\x01\xa1\x62At\x00", false, "type 13"},
		{"an array that is too short", "\x82\x0d\x01", false, "event 0"},
		{"cut off", "\x83\x0d\x01\xa1\x01", false, "event 0"},
		{"no end given", "\x9f\x0d\x01\xa0\xff", false, "event 0"},
		{"a tag", "\xc1\x83\x0d\x01\xa0", false, "event 0"},
		{"the second of two", "\x83\x0d\x01\xa1\x01\x00\x83\x18\x63\x01\xa0", true, "event 1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := Decode([]byte(c.data))
			if err == nil || got != nil || errors.Is(err, ErrUnknown) != c.unknown || !strings.Contains(err.Error(), c.says) {
				t.Errorf("gives %v and the error %v", got, err)
			}
		})
	}
}

func TestDecodeHeaderRefuses(t *testing.T) {
	for name, h := range map[string]*Header{
		"a column that is too short": {ID: sampleBlock, Count: 2, Groups: sampleHash[:]},
		"a column too long":          {ID: sampleBlock, Count: 1, Due: []Instant{1, 2}},
		"a block without messages":   {ID: sampleBlock},
		"a control entry with some":  {ID: sampleBlock, Kind: Control, Count: 1},
		"a kind of a later program":  {ID: sampleBlock, Kind: 3},
	} {
		if got, err := DecodeHeader(EncodeHeader(h)); err == nil {
			t.Errorf("%s: decodes to %+v", name, got)
		}
	}
	if _, err := DecodeLedgerHeader(EncodeLedgerHeader(&LedgerHeader{Kind: 3})); !errors.Is(err, ErrUnknown) {
		t.Errorf("a ledger entry of a kind of a later program: %v", err)
	}
}

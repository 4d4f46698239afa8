package events

import (
	"bytes"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// TestFastWrites holds that what is written without the library is what the library writes, for any value.
func TestFastWrites(t *testing.T) {
	t.Run("events", rapid.MakeCheck(func(t *rapid.T) {
		e := rapid.OneOf(of[Leased](), of[Passed](), of[Acked]()).Draw(t, "event")
		var w writer
		if !w.event(e) {
			t.Fatalf("%T is left to the library", e)
		}
		same(t, w.b, encodeEvent(e))
	}))
	t.Run("headers", rapid.MakeCheck(func(t *rapid.T) {
		h := rapid.Make[Header]().Draw(t, "header")
		var w writer
		if w.header(&h) {
			same(t, w.b, encode(&h))
		}
		h.Kind, h.Origins, h.Settings, h.Forgets, h.Finished = Block, nil, nil, false, 0
		w = writer{}
		if !w.header(&h) {
			t.Fatal("the header of a block is left to the library")
		}
		same(t, w.b, encode(&h))
	}))
	t.Run("ledger headers", rapid.MakeCheck(func(t *rapid.T) {
		h := rapid.Make[LedgerHeader]().Draw(t, "header")
		same(t, EncodeLedgerHeader(&h), encode(&h))
	}))
	t.Run("messages", rapid.MakeCheck(func(t *rapid.T) {
		m := rapid.SliceOf(rapid.Make[Message]()).Draw(t, "messages")
		same(t, EncodeMessages(m), encode(m))
	}))
}

func same(t *rapid.T, fast, library []byte) {
	if !bytes.Equal(fast, library) {
		t.Fatalf("%x is not the library's\n%x", fast, library)
	}
}

// TestFastReads holds that what the message path writes is read without the library.
func TestFastReads(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := rapid.OneOf(of[Leased](), of[Passed](), of[Acked]()).Filter(afterEpoch).Draw(t, "event")
		r := reader{b: encodeEvent(e)}
		got := r.event()
		if !r.done() {
			t.Fatalf("%T is left to the library", e)
		}
		again(t, encodeEvent(e), got)
	})
	for _, h := range []*Header{sampleHeaders["header-plain"], withColumns()} {
		r := reader{b: encode(h)}
		got := new(Header)
		if r.header(got); !r.done() || cmp.Diff(h, got) != "" {
			t.Errorf("read without the library: %t, %v", r.done(), cmp.Diff(h, got))
		}
	}
	r := reader{b: encode(sampleLedgerHeader)}
	if r.ledgerHeader(new(LedgerHeader)); !r.done() {
		t.Error("the header of a ledger is left to the library")
	}
	r = reader{b: encode(sampleMessages)}
	if got := readArray(&r, (*reader).message); !r.done() || cmp.Diff(sampleMessages, got) != "" {
		t.Errorf("messages: read without the library: %t, %v", r.done(), got)
	}
}

// withColumns is the header of a block with every column that a sent message has.
func withColumns() *Header {
	h := *sampleHeaders["header-block"]
	h.Origins = nil
	return &h
}

// afterEpoch says whether an event's instants are positive, as all are but those that tests draw.
func afterEpoch(e Event) bool {
	good := func(items []Taken) bool {
		for _, t := range items {
			if t.Info != nil && (t.Info.Retained < 0 || t.Info.Due < 0 || t.Info.Expires < 0) {
				return false
			}
		}
		return true
	}
	switch e := e.(type) {
	case *Leased:
		return e.At >= 0 && e.Until >= 0 && good(e.Items)
	case *Passed:
		return e.At >= 0 && good(e.Items)
	case *Acked:
		return e.At >= 0
	}
	return false
}

func again(t *rapid.T, data []byte, got Event) {
	if now := encodeEvent(got); !bytes.Equal(now, data) {
		t.Fatalf("%x was read as %x", data, now)
	}
}

// The fuzz tests feed any bytes to both readers: where the fast one reads them to the end, the library reads the same.

func FuzzFastEvent(f *testing.F) {
	for _, e := range samples {
		f.Add(Encode([]Event{e}))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		r := reader{b: data}
		got := r.event()
		if r.bad {
			return
		}
		want, rest, err := decodeEvent(data)
		agree(t, data, got, want, err)
		if !bytes.Equal(r.b, rest) {
			t.Fatalf("%x: %x is left, by the library %x", data, r.b, rest)
		}
	})
}

func FuzzFastHeader(f *testing.F) {
	f.Add(EncodeHeader(withColumns()))
	for _, h := range sampleHeaders {
		f.Add(EncodeHeader(h))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		got, want := new(Header), new(Header)
		if r := (reader{b: data}); reads(&r, func() { r.header(got) }) {
			agree(t, data, got, want, decoding.Unmarshal(data, want))
		}
	})
}

func FuzzFastLedgerHeader(f *testing.F) {
	f.Add(EncodeLedgerHeader(sampleLedgerHeader))
	f.Fuzz(func(t *testing.T, data []byte) {
		got, want := new(LedgerHeader), new(LedgerHeader)
		if r := (reader{b: data}); reads(&r, func() { r.ledgerHeader(got) }) {
			agree(t, data, got, want, decoding.Unmarshal(data, want))
		}
	})
}

func FuzzFastMessages(f *testing.F) {
	f.Add(EncodeMessages(sampleMessages))
	f.Fuzz(func(t *testing.T, data []byte) {
		var got, want []Message
		if r := (reader{b: data}); reads(&r, func() { got = readArray(&r, (*reader).message) }) {
			err := decoding.Unmarshal(data, &want)
			agree(t, data, got, want, err)
		}
	})
}

func reads(r *reader, read func()) bool {
	read()
	return r.done()
}

func agree(t *testing.T, data []byte, fast, library any, err error) {
	if err != nil {
		t.Fatalf("%x is read without the library, which gives the error %v", data, err)
	}
	if diff := cmp.Diff(library, fast); diff != "" {
		t.Fatalf("%x (-library +fast):\n%s", data, diff)
	}
}

package events

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/fxamacker/cbor/v2"
)

// The log's bytes are CBOR (RFC 8949) in its core deterministic form, with integer keys. A ledger entry's data is a
// sequence of arrays [type, version, payload]. Readers must know a type before a writer uses it: an unknown type or
// version is an error that stops the fold, never something to skip.

// kinds is the table of event types. A number is never used again for something else; a payload that changes its
// meaning gets the next version and keeps a decoder for the former one. What versions from oldest on wrote is read into
// the same struct, which leaves what they did not have at its zero value.
var kinds = map[uint64]struct {
	oldest, version uint64
	make            func() Event
}{
	1:  {1, 1, func() Event { return new(Configured) }},
	2:  {1, 1, func() Event { return new(Leased) }},
	3:  {1, 1, func() Event { return new(Passed) }},
	4:  {1, 1, func() Event { return new(Extended) }},
	5:  {1, 1, func() Event { return new(Released) }},
	6:  {1, 1, func() Event { return new(Acked) }},
	7:  {1, 1, func() Event { return new(Failed) }},
	8:  {1, 1, func() Event { return new(Recovered) }},
	9:  {1, 1, func() Event { return new(Expired) }},
	10: {1, 1, func() Event { return new(Moved) }},
	11: {1, 1, func() Event { return new(Arrived) }},
	12: {1, 1, func() Event { return new(Purged) }},
	13: {1, 2, func() Event { return new(Anchored) }},
	14: {1, 1, func() Event { return new(LaneOpened) }},
	15: {1, 1, func() Event { return new(LaneClosed) }},
}

// ErrUnknown is in the chain of an error about an event type or version that this program does not know.
var ErrUnknown = errors.New("unknown event: the log was written by a later program")

var (
	encoding = must(encodingOptions().UserBufferEncMode())
	records  = must(decodingOptions.DecMode())
	decoding = must(strictOptions().DecMode())
)

var decodingOptions = cbor.DecOptions{
	DupMapKey:         cbor.DupMapKeyEnforcedAPF,
	IndefLength:       cbor.IndefLengthForbidden,
	TagsMd:            cbor.TagsForbidden,
	ExtraReturnErrors: cbor.ExtraDecErrorUnknownField, // a field this program does not know is not to be lost
	MaxArrayElements:  1 << 20,
	UTF8:              cbor.UTF8DecodeInvalid, // what could be written must be readable; dialects check their own input
}

// encodingOptions write no null: a nil slice is an empty one.
func encodingOptions() cbor.EncOptions {
	o := cbor.CoreDetEncOptions()
	o.NilContainers = cbor.NilContainerAsEmpty
	return o
}

// strictOptions read no null either, which would leave a whole payload at its zero value.
func strictOptions() cbor.DecOptions {
	o := decodingOptions
	o.SimpleValues = must(cbor.NewSimpleValueRegistryFromDefaults(cbor.WithRejectedSimpleValue(22), cbor.WithRejectedSimpleValue(23)))
	return o
}

func must[T any](mode T, err error) T {
	if err != nil {
		panic(err) // the options above are constants
	}
	return mode
}

type written struct {
	_       struct{} `cbor:",toarray"`
	Type    uint64
	Version uint64
	Payload Event
}

type read struct {
	_       struct{} `cbor:",toarray"`
	Type    uint64
	Version uint64
	Payload cbor.RawMessage
}

// Encode gives the bytes of events as a ledger entry holds them.
func Encode(events []Event) []byte {
	w := writer{make([]byte, 0, encodedSize(events))}
	for _, e := range events {
		if !w.event(e) {
			w.b = append(w.b, encodeEvent(e)...)
		}
	}
	return w.b
}

// encodedSize is about how long the events of the message path become; others are rare.
func encodedSize(events []Event) (size int) {
	for _, e := range events {
		size += 40
		switch e := e.(type) {
		case *Leased:
			size += 40 * len(e.Items)
		case *Passed:
			size += 40 * len(e.Items)
		case *Acked:
			size += 9 * len(e.Items)
		}
	}
	return size
}

func encodeEvent(e Event) []byte {
	n := e.number()
	return encode(written{Type: n, Version: kinds[n].version, Payload: e})
}

// Decode reads what Encode wrote. Its error is ErrUnknown for a type or version of a later program.
func Decode(data []byte) ([]Event, error) {
	var events []Event
	for len(data) > 0 {
		fast := reader{b: data}
		e, rest := fast.event(), fast.b
		if fast.bad {
			var err error
			if e, rest, err = decodeEvent(data); err != nil {
				return nil, fmt.Errorf("event %d of a ledger entry: %w", len(events), err)
			}
		}
		events, data = append(events, e), rest
	}
	return events, nil
}

// decodeEvent reads the first event, of whatever type.
func decodeEvent(data []byte) (e Event, rest []byte, err error) {
	var r read
	if rest, err = decoding.UnmarshalFirst(data, &r); err != nil {
		return nil, nil, err
	}
	kind, ok := kinds[r.Type]
	if !ok || r.Version < kind.oldest || r.Version > kind.version {
		return nil, nil, fmt.Errorf("type %d version %d: %w", r.Type, r.Version, ErrUnknown)
	}
	e = kind.make()
	if err := decoding.Unmarshal(r.Payload, e); err != nil {
		return nil, nil, fmt.Errorf("type %d: %w", r.Type, err)
	}
	return e, rest, nil
}

// EncodeHeader gives the bytes of a message stream's header.
func EncodeHeader(h *Header) []byte {
	w := writer{make([]byte, 0, 96+len(h.Groups)+len(h.Dedups)+9*(len(h.Due)+len(h.Expires)))}
	if !w.header(h) {
		return encode(h)
	}
	return w.b
}

// DecodeHeader reads what EncodeHeader wrote, and checks that every column has a value for every message.
func DecodeHeader(data []byte) (*Header, error) {
	h := new(Header)
	fast := reader{b: data}
	if fast.header(h); !fast.done() {
		*h = Header{}
		if err := decoding.Unmarshal(data, h); err != nil {
			return nil, fmt.Errorf("header of a message stream: %w", err)
		}
	}
	if err := checkKind(h.Kind); err != nil {
		return nil, fmt.Errorf("header of a message stream: %w", err)
	}
	if (h.Kind == Block) != (h.Count > 0) {
		return nil, fmt.Errorf("header of a message stream: kind %d with %d messages", h.Kind, h.Count)
	}
	n := int(h.Count)
	for _, c := range []struct{ have, each int }{{len(h.Groups), 16}, {len(h.Dedups), 16}, {len(h.Due), 1},
		{len(h.Expires), 1}, {len(h.Limits), 1}, {len(h.Origins), 1}} {
		if c.have != 0 && c.have != n*c.each {
			return nil, fmt.Errorf("header of a message stream: a column does not have %d messages", n)
		}
	}
	return h, nil
}

func checkKind(k Kind) error {
	if k > Anchor {
		return fmt.Errorf("entry of kind %d: %w", k, ErrUnknown)
	}
	return nil
}

// EncodeLedgerHeader gives the bytes of a ledger entry's header.
func EncodeLedgerHeader(h *LedgerHeader) []byte {
	w := writer{make([]byte, 0, 64)}
	w.ledgerHeader(h)
	return w.b
}

// DecodeLedgerHeader reads what EncodeLedgerHeader wrote.
func DecodeLedgerHeader(data []byte) (*LedgerHeader, error) {
	h := new(LedgerHeader)
	fast := reader{b: data}
	if fast.ledgerHeader(h); !fast.done() {
		*h = LedgerHeader{}
		if err := decoding.Unmarshal(data, h); err != nil {
			return nil, fmt.Errorf("header of a ledger: %w", err)
		}
	}
	if err := checkKind(h.Kind); err != nil {
		return nil, fmt.Errorf("header of a ledger: %w", err)
	}
	return h, nil
}

// EncodeMessages gives the bytes that a block seals.
func EncodeMessages(messages []Message) []byte {
	size := 16
	for i := range messages {
		size += messages[i].Size() + 64
	}
	w := writer{make([]byte, 0, size)} // at once, or a block would be copied as often as it doubles
	w.messages(messages)
	return w.b
}

// DecodeMessages reads what EncodeMessages gave, packed or not. The messages may share the bytes of data.
func DecodeMessages(data []byte) ([]Message, error) {
	data, err := unpack(data)
	if err != nil {
		return nil, fmt.Errorf("messages of a block: %w", err)
	}
	fast := reader{b: data}
	if messages := readArray(&fast, (*reader).message); fast.done() {
		return messages, nil
	}
	var messages []Message
	if err := decoding.Unmarshal(data, &messages); err != nil {
		return nil, fmt.Errorf("messages of a block: %w", err)
	}
	return messages, nil
}

// EncodeRecord and DecodeRecord are for other records that the log keeps as opaque values: snapshots and claims.
func EncodeRecord(v any) []byte { return encode(v) }

// DecodeRecord reads what EncodeRecord wrote.
func DecodeRecord(data []byte, v any) error { return records.Unmarshal(data, v) }

func encode(v any) []byte {
	var buf bytes.Buffer
	mustEncode(&buf, v)
	return buf.Bytes()
}

// mustEncode fails on no value: the payloads hold numbers, bytes and strings only.
func mustEncode(buf *bytes.Buffer, v any) {
	if err := encoding.MarshalToBuffer(v, buf); err != nil {
		panic(fmt.Sprintf("encoding %T: %v", v, err))
	}
}

package rest

import (
	"encoding/binary"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/leaselog/leaselog/events"
)

// Answers are appended to a pooled buffer. Reflection would cost as much as the rest of a request.

// quote appends a JSON string. A byte that is not UTF-8, as another dialect may have sent it, becomes U+FFFD.
func quote[Bytes ~[]byte | ~string](b []byte, s Bytes) []byte {
	b, _ = jsontext.AppendQuote(b, s)
	return b
}

// quoteBody is quote for what may be long: eight bytes at a time while there is nothing to escape and nothing to check.
func quoteBody(b, body []byte) []byte {
	if !plainASCII(body) {
		return quote(b, body)
	}
	return append(append(append(b, '"'), body...), '"')
}

// plainASCII says whether a text is its own JSON string: no byte below a blank or above ASCII, no quote, no backslash.
// In each word, the top bit of a byte that is one of these is set; a carry may set others, but only above such a byte.
func plainASCII(s []byte) bool {
	const ones, tops = 0x0101010101010101, 0x8080808080808080
	for ; len(s) >= 8; s = s[8:] {
		x := binary.LittleEndian.Uint64(s)
		quotes, slashes := x^(ones*'"'), x^(ones*'\\')
		if (x|(x-ones*' ')|(quotes-ones)|(slashes-ones))&tops != 0 {
			return false
		}
	}
	for _, c := range s {
		if c < ' ' || c >= utf8.RuneSelf || c == '"' || c == '\\' {
			return false
		}
	}
	return true
}

// text appends a named string: `"name":"value"`.
func text[Bytes ~[]byte | ~string](b []byte, name string, s Bytes) []byte {
	b = append(append(append(b, '"'), name...), `":`...)
	return quote(b, s)
}

// number appends a named number.
func number(b []byte, name string, n uint64) []byte {
	b = append(append(append(b, '"'), name...), `":`...)
	return strconv.AppendUint(b, n, 10)
}

// uuid appends a named id.
func uuid(b []byte, name string, id [16]byte) []byte {
	b = append(append(append(b, '"'), name...), `":"`...)
	var s [36]byte
	putUUID(&s, id)
	return append(append(b, s[:]...), '"')
}

// instant appends a named time as RFC 3339 in UTC with milliseconds (section 1).
func instant(b []byte, name string, at events.Instant) []byte {
	b = append(append(append(b, '"'), name...), `":"`...)
	return append(appendTime(b, at), '"')
}

// instantMax is the last moment with a year of four digits, the most that RFC 3339 can say.
const instantMax events.Instant = 253402300799999

// appendTime writes 2006-01-02T15:04:05.000Z by hand, which is three times as fast as a layout.
func appendTime(b []byte, at events.Instant) []byte {
	t := time.UnixMilli(int64(min(max(at, 0), instantMax))).UTC()
	year, month, day := t.Date()
	hour, minute, second := t.Clock()
	b = append(digits(digits(b, year/100), year%100), '-')
	b = append(digits(b, int(month)), '-')
	b = append(digits(b, day), 'T')
	b = append(digits(b, hour), ':')
	b = append(digits(b, minute), ':')
	b = append(digits(b, second), '.')
	ms := t.Nanosecond() / 1e6
	return append(digits(append(b, byte('0'+ms/100)), ms%100), 'Z')
}

// digits appends two.
func digits(b []byte, n int) []byte { return append(b, byte('0'+n/10), byte('0'+n%10)) }

// encodedBytes is how long a text is as a JSON string, at most.
func encodedBytes[Bytes ~[]byte | ~string](s Bytes) int {
	n := len(s) + 2
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c < ' ':
			n += 5 // \u0000 at the longest
		case c == '"' || c == '\\':
			n++
		case c >= utf8.RuneSelf:
			r, size := utf8.DecodeRuneInString(string(s[i:min(i+utf8.UTFMax, len(s))]))
			if r == utf8.RuneError && size == 1 {
				n += 2 // what is not UTF-8 becomes U+FFFD
			}
			i += size - 1
		}
	}
	return n
}

// attributes appends a message's attributes as they were sent; a message without any has no such field (section 4.6).
func attributes(b []byte, all []events.Attribute) []byte {
	if len(all) == 0 {
		return b
	}
	b = append(b, `,"attributes":{`...)
	for i, a := range all {
		if i > 0 {
			b = append(b, ',')
		}
		b = quote(b, a.Name)
		b = text(append(b, ":{"...), "type", a.Type)
		b = text(append(b, ','), "value", a.Value)
		b = append(b, '}')
	}
	return append(b, '}')
}

// messageBytes is the most that a message's own texts take in an answer. Small messages are bounded and not measured:
// where even the longest encoding of every message on a page fits, the exact length decides nothing.
func messageBytes(m *events.Message, page int) int {
	texts := m.Size() + len(m.Group)
	if bound := 6*texts + 40*len(m.Attributes); bound <= answerBytesMax/page-rowBytes {
		return bound + rowBytes
	}
	n := rowBytes + encodedBytes(m.Body) + encodedBytes(m.Group)
	for _, a := range m.Attributes {
		n += 40 + encodedBytes(a.Name) + encodedBytes(a.Type) + encodedBytes(a.Value)
	}
	return n
}

// rowBytes covers everything else of a message in an answer: ids, receipt, CRN, times, field names.
const rowBytes = 1200

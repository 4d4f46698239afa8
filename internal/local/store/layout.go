package store

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/leaselog/leaselog/internal/eventlog"
)

// Keys begin with one byte that says what they are. A stream's name follows its length, so that no name is the
// beginning of another; numbers are big-endian, so that keys sort as they do.
const (
	kindClaim    = 'c' // key → claim
	kindDrop     = 'd' // stream, from → to of a dropped range
	kindEntry    = 'e' // stream, seq → entry
	kindPiece    = 'p' // stream, seq, writing, number → a piece of a snapshot
	kindSnapshot = 's' // stream, seq → head of a snapshot
	kindLapse    = 'u' // until, key → nothing: the order in which claims lapse
	kindView     = 'v' // key → view
)

// layoutVersion is the first byte of every value whose fields are packed.
const layoutVersion = 1

// keyBytesMax is the longest key: a claim's key with an instant before it.
const keyBytesMax = 1 + 8 + claimKeyBytesMax

func streamPrefix(dst []byte, kind byte, s eventlog.Stream) []byte {
	dst = append(dst, kind)
	dst = binary.BigEndian.AppendUint16(dst, uint16(len(s)))
	return append(dst, s...)
}

func streamKey(dst []byte, kind byte, s eventlog.Stream, seq eventlog.Seq) []byte {
	return binary.BigEndian.AppendUint64(streamPrefix(dst, kind, s), uint64(seq))
}

// streamBounds are the tightest bounds around a stream's keys of one kind.
func streamBounds(kind byte, s eventlog.Stream) (lower, upper []byte) {
	n := 1 + 2 + len(s)
	buf := streamPrefix(make([]byte, 0, 2*n+8+1), kind, s)
	lower, upper = buf[:n:n], append(buf[n:], buf...)
	return lower, append(upper, "\xff\xff\xff\xff\xff\xff\xff\xff\xff"...)
}

func seqOfKey(key []byte) eventlog.Seq {
	return eventlog.Seq(binary.BigEndian.Uint64(key[len(key)-8:]))
}

func claimKey(dst []byte, key string) []byte {
	return append(append(dst, kindClaim), key...)
}

func lapseKey(dst []byte, until int64, key string) []byte {
	dst = append(dst, kindLapse)
	dst = binary.BigEndian.AppendUint64(dst, uint64(until)^1<<63) // the sign flipped: negative instants sort first
	return append(dst, key...)
}

func splitLapseKey(k []byte) (until int64, key string) {
	return int64(binary.BigEndian.Uint64(k[1:9]) ^ 1<<63), string(k[9:])
}

// entryFixed is the part of an entry's value that has always the same length: version, width, writer, header length.
const entryFixed = 1 + 4 + 16 + 4

func entryBytes(a *eventlog.Append) int { return entryFixed + len(a.Header) + len(a.Data) }

func putEntry(dst []byte, w eventlog.Writer, a *eventlog.Append) {
	dst[0] = layoutVersion
	binary.BigEndian.PutUint32(dst[1:], a.Width)
	copy(dst[5:21], w[:])
	binary.BigEndian.PutUint32(dst[21:], uint32(len(a.Header)))
	n := copy(dst[entryFixed:], a.Header)
	copy(dst[entryFixed+n:], a.Data)
}

// packedEntry is an entry's value as it lies in the store, valid as long as the iterator stays where it is.
type packedEntry []byte

func (p packedEntry) check() error {
	if len(p) < entryFixed || p[0] != layoutVersion || p.width() == 0 || p.headerBytes() > len(p)-entryFixed {
		return fmt.Errorf("%w: an entry of %d bytes does not decode", eventlog.ErrCorrupt, len(p))
	}
	return nil
}

func (p packedEntry) width() uint32    { return binary.BigEndian.Uint32(p[1:]) }
func (p packedEntry) headerBytes() int { return int(binary.BigEndian.Uint32(p[21:])) }

// bytes is what the entry weighs under [eventlog.Limits].
func (p packedEntry) bytes(headersOnly bool) int {
	if headersOnly {
		return p.headerBytes()
	}
	return len(p) - entryFixed
}

// unpack copies the entry out. Header and data share one allocation.
func (p packedEntry) unpack(s eventlog.Stream, seq eventlog.Seq, headersOnly bool) eventlog.Entry {
	h := p.headerBytes()
	buf := append([]byte(nil), p[entryFixed:entryFixed+p.bytes(headersOnly)]...)
	e := eventlog.Entry{Stream: s, Seq: seq, Width: p.width(), Header: buf[:h:h]}
	copy(e.Writer[:], p[5:21])
	if !headersOnly {
		e.Data = buf[h:]
	}
	return e
}

// claimFixed is the part of a claim's value that has always the same length: version of the layout, writer, until,
// version of the claim, length of the holder.
const claimFixed = 1 + 16 + 8 + 8 + 4

func claimBytes(c *eventlog.Claim) int { return claimFixed + len(c.Holder) + len(c.Value) }

func putClaim(dst []byte, w eventlog.Writer, version uint64, c *eventlog.Claim) {
	dst[0] = layoutVersion
	copy(dst[1:17], w[:])
	binary.BigEndian.PutUint64(dst[17:], uint64(c.Until))
	binary.BigEndian.PutUint64(dst[25:], version)
	binary.BigEndian.PutUint32(dst[33:], uint32(len(c.Holder)))
	n := copy(dst[claimFixed:], c.Holder)
	copy(dst[claimFixed+n:], c.Value)
}

func parseClaim(key string, p []byte) (eventlog.Claim, error) {
	if len(p) < claimFixed || p[0] != layoutVersion {
		return eventlog.Claim{}, fmt.Errorf("%w: claim %q does not decode", eventlog.ErrCorrupt, key)
	}
	h := int(binary.BigEndian.Uint32(p[33:]))
	if h > len(p)-claimFixed {
		return eventlog.Claim{}, fmt.Errorf("%w: claim %q does not decode", eventlog.ErrCorrupt, key)
	}
	c := eventlog.Claim{
		Key:     key,
		Holder:  string(p[claimFixed : claimFixed+h]),
		Until:   int64(binary.BigEndian.Uint64(p[17:])),
		Value:   append([]byte(nil), p[claimFixed+h:]...),
		Version: binary.BigEndian.Uint64(p[25:]),
	}
	copy(c.Writer[:], p[1:17])
	return c, nil
}

// snapshotHead tells what a snapshot's pieces are: those of one writing, in the order of their numbers.
type snapshotHead struct {
	writing [8]byte // random
	bytes   int     // of all pieces
}

const headBytes = 1 + 8 + 8

func (n snapshotHead) pack() []byte {
	p := append(make([]byte, 0, headBytes), layoutVersion)
	return binary.BigEndian.AppendUint64(append(p, n.writing[:]...), uint64(n.bytes))
}

func parseHead(p []byte) (n snapshotHead, err error) {
	if len(p) != headBytes || p[0] != layoutVersion || binary.BigEndian.Uint64(p[9:]) > snapshotBytesMax {
		return n, fmt.Errorf("%w: its head does not decode", eventlog.ErrCorrupt)
	}
	copy(n.writing[:], p[1:9])
	n.bytes = int(binary.BigEndian.Uint64(p[9:]))
	return n, nil
}

func pieceKey(s eventlog.Stream, seq eventlog.Seq, writing [8]byte, number uint32) []byte {
	return binary.BigEndian.AppendUint32(append(streamKey(nil, kindPiece, s, seq), writing[:]...), number)
}

// pieceBounds are bounds around the pieces of one writing.
func pieceBounds(s eventlog.Stream, seq eventlog.Seq, writing [8]byte) (lower, upper []byte) {
	return pieceKey(s, seq, writing, 0), append(pieceKey(s, seq, writing, math.MaxUint32), 0)
}

// Package events holds every fact that the log can hold, and its bytes.
//
// It is plain data: no clock, no I/O, no rules. The numbers of fields and event types are written by hand and never
// change; golden files under testdata hold the bytes of each.
package events

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// QueueID identifies a queue for ever; a queue that is created again under the same name has another one.
type QueueID [16]byte

// BlockID identifies a block: 16 random bytes.
type BlockID [16]byte

// MessageID is a UUIDv7, see [BlockID.Message].
type MessageID [16]byte

// LeaseID is the random identity that all leases of one receive share; zero means no lease.
type LeaseID [8]byte

// Hash is a keyed hash (HMAC-SHA-256, the first 128 bits) of a group or deduplication id; zero means none.
type Hash [16]byte

// Position is a message's place in its stream: its block's Seq plus its index.
type Position uint64

// Instant is a moment in Unix milliseconds.
type Instant int64

// Never is later than every instant.
const Never Instant = 1<<63 - 1

// Add gives the instant so many seconds later.
func (i Instant) Add(seconds uint32) Instant { return i + Instant(seconds)*1000 }

// Message gives the id of the index-th message of a block written at the given instant: a UUIDv7 whose time is the
// block's and whose rest is the block's id plus the index, so that ids need not be stored and rise inside a block: the
// highest bit of the rest is left to the carry.
func (b BlockID) Message(at Instant, index int) MessageID {
	var m MessageID
	binary.BigEndian.PutUint64(m[0:8], uint64(at)<<16|0x7000|uint64(b[0]&0x0f)<<8|uint64(b[1]))
	rest := binary.BigEndian.Uint64(b[8:16])&(1<<61-1) + uint64(index)
	binary.BigEndian.PutUint64(m[8:16], rest|1<<63)
	return m
}

// Instant is the time inside a UUIDv7.
func (m MessageID) Instant() Instant { return Instant(binary.BigEndian.Uint64(m[0:8]) >> 16) }

func (q QueueID) String() string   { return uuid(q) }
func (m MessageID) String() string { return uuid(m) }

func uuid(b [16]byte) string {
	var s [36]byte
	hex.Encode(s[0:8], b[0:4])
	hex.Encode(s[9:13], b[4:6])
	hex.Encode(s[14:18], b[6:8])
	hex.Encode(s[19:23], b[8:10])
	hex.Encode(s[24:36], b[10:16])
	s[8], s[13], s[18], s[23] = '-', '-', '-', '-'
	return string(s[:])
}

// ParseUUID reads the canonical form of 36 characters, in either letter case, and nothing else.
func ParseUUID(s string) (id [16]byte, ok bool) {
	if len(s) != 36 || s[8] != '-' || s[13] != '-' || s[18] != '-' || s[23] != '-' {
		return id, false
	}
	digits := s[0:8] + s[9:13] + s[14:18] + s[19:23] + s[24:36]
	n, err := hex.Decode(id[:], []byte(digits))
	return id, err == nil && n == 16
}

// A shard has two kinds of streams. Their names are <queue>/<shard>/m<lane> and <queue>/<shard>/ledger, the queue as
// 32 hex digits and the shard as four, so that a listing by name has them in order.

// MessageStream names a lane of a shard's messages. Lane 0 is the only one so far.
func MessageStream(q QueueID, shard, lane int) string {
	return fmt.Sprintf("%x/%04x/m%d", q[:], shard, lane)
}

// LedgerStream names the stream of what happened to a shard's messages.
func LedgerStream(q QueueID, shard int) string {
	return fmt.Sprintf("%x/%04x/ledger", q[:], shard)
}

// StreamQueue gives the queue that a stream belongs to.
func StreamQueue(stream string) (q QueueID, err error) {
	name, _, _ := strings.Cut(stream, "/")
	if n, err := hex.Decode(q[:], []byte(name[:min(32, len(name))])); err != nil || n != 16 || len(name) != 32 {
		return q, errors.New("not the name of a queue's stream: " + stream)
	}
	return q, nil
}

// ReadStream takes the name of a queue's stream apart. Messages of a lane beyond 0, of which there are none yet, are an
// error as every other name is.
func ReadStream(stream string) (q QueueID, shard int, ledger bool, err error) {
	parts := strings.Split(stream, "/")
	if q, err = StreamQueue(stream); err != nil {
		return q, 0, false, err
	}
	if len(parts) == 3 && len(parts[1]) >= 4 {
		if n, err := strconv.ParseUint(parts[1], 16, 31); err == nil {
			switch stream {
			case LedgerStream(q, int(n)):
				return q, int(n), true, nil
			case MessageStream(q, int(n), 0):
				return q, int(n), false, nil
			}
		}
	}
	return q, 0, false, errors.New("not the name of a queue's stream: " + stream)
}

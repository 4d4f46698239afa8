// Package eventlog is the contract of the log that everything rests on, with its implementation in memory.
//
// A stream is a dense sequence of entries. An entry at Seq takes Width numbers, and the next one stands at exactly
// Seq+Width. Writing is one primitive, [Log.Commit]: appends to several streams and claims, all or nothing. Bytes
// are opaque here: what headers and data mean is the business of package events.
package eventlog

import (
	"context"
	"errors"
	"fmt"
)

// Stream names a sequence of entries: printable ASCII without blanks, at most 128 bytes.
type Stream string

// Seq is a number in a stream, from 0.
type Seq uint64

// Writer is the identity of one commit: 16 random bytes, the same whenever that commit is repeated, never used for
// other content. An implementation recognizes its own earlier success by it.
type Writer [16]byte

// Forever is the Until of a claim that does not lapse.
const Forever int64 = 1<<63 - 1

// Entry is one item of a stream.
type Entry struct {
	Stream Stream
	Seq    Seq
	Width  uint32 // at least 1
	Writer Writer
	Header []byte // in the clear
	Data   []byte // sealed, where its stream is; nil when read with HeadersOnly
}

// Next is the Seq of the entry after this one.
func (e Entry) Next() Seq { return e.Seq + Seq(e.Width) }

// Append asks for one entry at the end of a stream.
type Append struct {
	Stream Stream
	Seq    Seq
	Width  uint32
	Header []byte
	Data   []byte
	// Lasting asks a store that lets entries go by their age to keep this one until another lasting entry stands in the
	// stream, and for the ordinary age from then on. It is for small entries.
	Lasting bool
}

// Claim is a named cell that one holder has until an instant.
//
// In a commit it asks to set the cell. That succeeds where the key is absent, where the claim that stands there has
// lapsed (its Until is not after the commit's At), or where its version equals If. Setting a claim whose Until is
// not after At gives the key up.
type Claim struct {
	Key     string // printable ASCII or UTF-8 without NUL, at most 512 bytes
	Holder  string // who claims: the command's id, the same over its retries
	Until   int64  // Unix milliseconds, or Forever
	Value   []byte // at most 256 KB
	If      uint64 // the version to replace; 0: only where the key is free
	Version uint64 // set by the log: 1 for a new key, and one more at every change, also after a lapse
	Writer  Writer // set by the log: the commit that set it
}

// Commit is a set of appends and claims that become true together. At most one append per stream and one claim per key.
type Commit struct {
	Writer  Writer
	At      int64 // Unix milliseconds: the clock by which claims have lapsed; part of the commit's identity
	Appends []Append
	Claims  []Claim
}

// A commit has four outcomes: done (nil), [*Conflict], [*Refused], and unknown, which is every other error.

// Conflict says that the commit was not applied because something else stands at one of its places.
type Conflict struct {
	Entries []Entry // what stands at the refused appends' Seq (the entry that covers it, if it was not dropped), without Data
	Claims  []Claim // what stands at the refused claims' keys; a missing claim has Version 0
}

func (c *Conflict) Error() string {
	return fmt.Sprintf("conflict at %d entries and %d claims", len(c.Entries), len(c.Claims))
}

// Refused says that the commit was certainly not applied: it is malformed, too large, throttled before execution, or
// the store does not take writes now.
type Refused struct {
	// Content is true when the same commit would always be refused. A group of commands refused for its content
	// is split and decided one by one.
	Content bool
	Cause   error
}

func (r *Refused) Error() string { return "refused: " + r.Cause.Error() }
func (r *Refused) Unwrap() error { return r.Cause }

// Truncated says that entries which a read asked for were dropped: those of [From, To).
type Truncated struct {
	Stream   Stream
	From, To Seq
}

func (t *Truncated) Error() string {
	return fmt.Sprintf("stream %s was truncated from %d to %d", t.Stream, t.From, t.To)
}

// ErrCorrupt is in the chain of an error that says the log breaks its own rules: a gap that no drop explains, or
// bytes that do not decode. It is reported and never folded over.
var ErrCorrupt = errors.New("the log is corrupt")

// ErrClosed is in the chain of errors after the log was closed. A commit that meets it is Refused.
var ErrClosed = errors.New("the log is closed")

// Limits bound one read. Zero means no bound.
type Limits struct {
	Entries     int
	Bytes       int  // of headers and data together; the first entry always goes
	HeadersOnly bool // leave Data out
	// Lagging allows an answer that misses what was committed lately, where that is cheaper: what it holds is true, and
	// that it holds no more proves nothing.
	Lagging bool
}

// Snapshot is a folded state of a stream, true just before its entry at Seq.
type Snapshot struct {
	Seq  Seq
	Data []byte
}

// Log is the store of everything. All methods may be called by many goroutines at once.
//
// Byte slices given to a Log must not be changed afterwards by the caller, those it returns by anybody.
type Log interface {
	// Commit applies c whole or not at all, and returns once it is durable. Concurrent commits are serializable.
	//
	// An append succeeds only at the end of its stream. A stream that has an entry at or beyond Seq gives a
	// *Conflict; one that ends before Seq gives *Refused, since the append would leave a gap.
	// A commit whose writer stands at one of its places is done, since it was applied whole, whatever became of its
	// other places later: the identical commit may be repeated any number of times, also at once with itself, and
	// takes effect once. After an unknown outcome the caller must repeat it, identical, until it is done or a
	// foreign entry stands at one of its places, which shows that it never will be. Less proves nothing: neither
	// reading back "nothing", since the write may still be under way, nor a refusal, which speaks of its own call
	// only, nor a conflict about a claim, which may be given up again.
	// A commit of claims alone is forgotten when all its claims were replaced. Its repeat may then conflict though it
	// was applied, or be applied again where the keys are free.
	Commit(ctx context.Context, c Commit) error

	// Read gives entries in order, from the one that covers from, or an empty slice at the end of the stream.
	// It sees every commit that was answered before the call. The entries are dense: a gap in them is *Truncated
	// where a drop explains it, or ErrCorrupt. Entries before such a gap are returned first, without an error.
	Read(ctx context.Context, s Stream, from Seq, l Limits) ([]Entry, error)

	// Last gives the last entry of a stream, and false for a stream without entries.
	Last(ctx context.Context, s Stream) (Entry, bool, error)

	// Claim gives the claim at key, lapsed or not, and false where there is none.
	Claim(ctx context.Context, key string) (Claim, bool, error)

	// Claims gives the claims whose key starts with prefix and is greater than after, in the order of their keys'
	// bytes, lapsed or not, at most limit. A prefix names a directory, which is all of a key through its last slash, and
	// may go on with the beginning of what stands in it; claims in directories below that one may be left out.
	Claims(ctx context.Context, prefix, after string, limit int) ([]Claim, error)

	// Snapshot gives the newest snapshot of the stream at or before seq, and false where there is none.
	Snapshot(ctx context.Context, s Stream, seq Seq) (Snapshot, bool, error)

	// PutSnapshot keeps a snapshot. It is durable on return. One that stands at the same Seq is replaced.
	PutSnapshot(ctx context.Context, s Stream, snap Snapshot) error

	// Drop forgets the entries that lie wholly in [from, to), never the last one, and the stream's snapshots at or
	// before the first entry that is left if a newer snapshot stands. What was dropped is recorded with the drop.
	Drop(ctx context.Context, s Stream, from, to Seq) error
}

// CheckDense reports the first gap in entries that were read from a stream, as ErrCorrupt.
func CheckDense(entries []Entry) error {
	for i := 1; i < len(entries); i++ {
		if want := entries[i-1].Next(); entries[i].Seq != want {
			return fmt.Errorf("%w: stream %s has an entry at %d where %d must follow", ErrCorrupt, entries[i].Stream, entries[i].Seq, want)
		}
	}
	return nil
}

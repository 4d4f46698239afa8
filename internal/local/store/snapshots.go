package store

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"github.com/leaselog/leaselog/internal/eventlog"
)

// Snapshot implements [eventlog.Log].
func (s *Store) Snapshot(ctx context.Context, stream eventlog.Stream, seq eventlog.Seq) (eventlog.Snapshot, bool, error) {
	var snap eventlog.Snapshot
	var ok bool
	err := s.read(ctx, func(inst *instance) (err error) {
		snap, ok, err = inst.snapshot(stream, seq)
		return err
	})
	if err != nil {
		return eventlog.Snapshot{}, false, err
	}
	return snap, ok, nil
}

// snapshot gives the newest one at or before seq. It may be one that is not on the disk yet: it says nothing that
// the entries, which are, do not say.
func (i *instance) snapshot(s eventlog.Stream, seq eventlog.Seq) (snap eventlog.Snapshot, ok bool, err error) {
	it, err := i.iter(kindSnapshot, s)
	if err != nil {
		return eventlog.Snapshot{}, false, err
	}
	defer closeIter(it, &err)
	if !seekAtOrBefore(it, streamKey(nil, kindSnapshot, s, seq)) {
		return eventlog.Snapshot{}, false, it.Error()
	}
	value, err := it.ValueAndErr()
	if err != nil {
		return eventlog.Snapshot{}, false, err
	}
	snap, err = joinSnapshot(it, s, seqOfKey(it.Key()), value)
	return snap, err == nil, err
}

// joinSnapshot gives a snapshot by its head, with the pieces that were there when the head was found: a clone of the
// iterator sees the same state, without the lock of Pebble's that a snapshot of the database takes and that a failing disk
// may keep for good. What an error comes with has the Seq.
func joinSnapshot(at *pebble.Iterator, s eventlog.Stream, seq eventlog.Seq, head []byte) (snap eventlog.Snapshot, err error) {
	snap.Seq = seq
	n, err := parseHead(head)
	if err != nil {
		return snap, fmt.Errorf("the snapshot of stream %s at %d: %w", s, seq, err)
	}
	lower, upper := pieceBounds(s, seq, n.writing)
	it, err := at.Clone(pebble.CloneOptions{IterOptions: &pebble.IterOptions{LowerBound: lower, UpperBound: upper}})
	if err != nil {
		return snap, err
	}
	defer closeIter(it, &err)
	data := make([]byte, 0, n.bytes)
	for ok := it.First(); ok; ok = it.Next() {
		piece, err := it.ValueAndErr()
		if err != nil {
			return snap, err
		}
		data = append(data, piece...)
	}
	if err := it.Error(); err != nil {
		return snap, err
	}
	if len(data) != n.bytes {
		return snap, fmt.Errorf("%w: the snapshot of stream %s at %d has %d of %d bytes", eventlog.ErrCorrupt, s, seq, len(data), n.bytes)
	}
	snap.Data = data
	return snap, nil
}

// iter iterates over a stream's keys of one kind.
func (i *instance) iter(kind byte, s eventlog.Stream) (*pebble.Iterator, error) {
	lower, upper := streamBounds(kind, s)
	return i.db.NewIter(&pebble.IterOptions{LowerBound: lower, UpperBound: upper})
}

// seekAtOrBefore goes to the last key that is not after key.
func seekAtOrBefore(it *pebble.Iterator, key []byte) bool {
	return it.SeekLT(append(key, 0))
}

// A snapshot may have many megabytes: the state of a FIFO queue has all that it remembers for deduplication. As one value it
// would be loaded whole by every search that ends beside it, and held in memory by every compaction; as one batch it would
// hold up all commits. So it is written in pieces, a few to a batch, and counts when its head is there.
const (
	pieceBytes       = 64 << 10
	pieceBytesAtOnce = 16 * pieceBytes
	snapshotBytesMax = 1 << 30
)

// PutSnapshot implements [eventlog.Log].
func (s *Store) PutSnapshot(ctx context.Context, stream eventlog.Stream, snap eventlog.Snapshot) error {
	if len(snap.Data) > snapshotBytesMax {
		return &eventlog.Refused{Content: true, Cause: fmt.Errorf("the snapshot has %d bytes, at most %d are taken", len(snap.Data), snapshotBytesMax)}
	}
	if err := s.rewrite(ctx); err != nil {
		return err
	}
	defer s.rewritten()
	n := snapshotHead{bytes: len(snap.Data)}
	rand.Read(n.writing[:])
	for from := 0; from < len(snap.Data); from += pieceBytesAtOnce {
		some := snap.Data[from:min(from+pieceBytesAtOnce, len(snap.Data))]
		err := s.submitAlone(ctx, func(c *committer) error {
			number := uint32(from / pieceBytes)
			for piece := range slices.Chunk(some, pieceBytes) {
				if err := c.batch.Set(pieceKey(stream, snap.Seq, n.writing, number), piece, nil); err != nil {
					return err
				}
				number++
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return s.submitAlone(ctx, func(c *committer) error { return c.putHead(stream, snap.Seq, n) })
}

// Drop implements [eventlog.Log].
func (s *Store) Drop(ctx context.Context, stream eventlog.Stream, from, to eventlog.Seq) error {
	if err := s.rewrite(ctx); err != nil {
		return err
	}
	defer s.rewritten()
	return s.submitAlone(ctx, func(c *committer) error { return c.drop(stream, from, to) })
}

// rewrite waits for the right to write or drop snapshots: a drop forgets pieces that have no head.
func (s *Store) rewrite(ctx context.Context) error {
	select {
	case s.rewriting <- struct{}{}:
		return nil
	case <-ctx.Done():
		return &eventlog.Refused{Cause: ctx.Err()}
	}
}

func (s *Store) rewritten() { <-s.rewriting }

// putHead makes a snapshot count whose pieces are there, in the place of one that stood at the same Seq.
func (c *committer) putHead(s eventlog.Stream, seq eventlog.Seq, n snapshotHead) error {
	key := streamKey(nil, kindSnapshot, s, seq)
	old, closer, err := c.inst.db.Get(key)
	if err == nil {
		before, parsing := parseHead(old)
		if err := closer.Close(); err != nil {
			return err
		}
		if parsing == nil {
			lower, upper := pieceBounds(s, seq, before.writing)
			if err := c.batch.DeleteRange(lower, upper, nil); err != nil {
				return err
			}
		}
	} else if !errors.Is(err, pebble.ErrNotFound) {
		return err
	}
	return c.batch.Set(key, n.pack(), nil)
}

// dropSnapshots forgets, in the batch, the snapshots at or before the first entry that is left, apart from the newest
// of all, which is part of the truth.
func (c *committer) dropSnapshots(s eventlog.Stream, first eventlog.Seq) (err error) {
	it, err := c.inst.iter(kindSnapshot, s)
	if err != nil {
		return err
	}
	defer closeIter(it, &err)
	if !it.Last() {
		return it.Error()
	}
	newest, gone := seqOfKey(it.Key()), false
	for ok := it.First(); ok && seqOfKey(it.Key()) <= first && seqOfKey(it.Key()) < newest; ok = it.Next() {
		if err := c.batch.Delete(it.Key(), nil); err != nil {
			return err
		}
		gone = true
	}
	if err := it.Error(); err != nil || !gone {
		return err
	}
	// The iterator stands at the first that is left. Pieces without a head are what a crash has left.
	return c.batch.DeleteRange(streamKey(nil, kindPiece, s, 0), streamKey(nil, kindPiece, s, seqOfKey(it.Key())), nil)
}

package store

import (
	"context"

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
	return eventlog.Snapshot{Seq: seqOfKey(it.Key()), Data: append([]byte(nil), value...)}, true, nil
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

func (c *committer) putSnapshot(s eventlog.Stream, snap eventlog.Snapshot) error {
	return c.batch.Set(streamKey(nil, kindSnapshot, s, snap.Seq), snap.Data, nil)
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
	newest := seqOfKey(it.Key())
	for ok := it.First(); ok && seqOfKey(it.Key()) <= first && seqOfKey(it.Key()) < newest; ok = it.Next() {
		if err := c.batch.Delete(it.Key(), nil); err != nil {
			return err
		}
	}
	return it.Error()
}

package store

import (
	"encoding/binary"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"github.com/leaselog/leaselog/internal/eventlog"
)

// seqRange is [from, to). It begins and ends where an entry did.
type seqRange struct{ from, to eventlog.Seq }

// drop fills the batch with what forgets the entries that lie wholly in [from, to): one tombstone over all of them,
// and the record that explains the gap to readers.
func (c *committer) drop(s eventlog.Stream, from, to eventlog.Seq) (err error) {
	it, err := c.inst.entries(s)
	if err != nil {
		return err
	}
	defer closeIter(it.Iterator, &err)
	gone, err := it.whole(from, to)
	if err != nil {
		return err
	}
	if gone.from < gone.to {
		lower, upper := streamKey(nil, kindEntry, s, gone.from), streamKey(nil, kindEntry, s, gone.to)
		if err := c.batch.DeleteRange(lower, upper, nil); err != nil {
			return err
		}
		if err := c.recordDrop(s, gone); err != nil {
			return err
		}
	}
	first, ok, err := it.firstLeft(gone)
	if !ok || err != nil {
		return err
	}
	return c.dropSnapshots(s, first)
}

// whole narrows [from, to) to the entries that lie wholly in it, without the stream's last; empty if there are none.
func (e *entries) whole(from, to eventlog.Seq) (seqRange, error) {
	if from >= to || !e.Last() {
		return seqRange{}, e.Error()
	}
	end := min(to, e.seq())
	if !e.SeekGE(e.at(from)) || e.seq() >= end {
		return seqRange{}, e.Error()
	}
	gone := seqRange{from: e.seq()}
	if !e.SeekLT(e.at(end)) {
		return seqRange{}, e.Error()
	}
	p, err := e.packed()
	if err != nil {
		return seqRange{}, err
	}
	gone.to = e.seq() + eventlog.Seq(p.width())
	if gone.to > end {
		gone.to = e.seq()
		// The one before ends here, unless something between was dropped: then that range is merged anyway.
	}
	return gone, nil
}

// firstLeft is the Seq of the first entry that is left when a range is gone.
func (e *entries) firstLeft(gone seqRange) (eventlog.Seq, bool, error) {
	if !e.First() {
		return 0, false, e.Error()
	}
	if seq := e.seq(); seq < gone.from || seq >= gone.to {
		return seq, true, nil
	}
	ok := e.SeekGE(e.at(gone.to))
	if !ok {
		return 0, false, e.Error()
	}
	return e.seq(), true, nil
}

// recordDrop writes the record of a dropped range, one for it and all that it touches or covers.
func (c *committer) recordDrop(s eventlog.Stream, gone seqRange) (err error) {
	it, err := c.inst.iter(kindDrop, s)
	if err != nil {
		return err
	}
	defer closeIter(it, &err)
	ok := seekAtOrBefore(it, streamKey(nil, kindDrop, s, gone.from))
	if !ok {
		ok = it.First()
	}
	for ; ok; ok = it.Next() {
		before, err := dropAt(it)
		if err != nil {
			return err
		}
		if before.to < gone.from {
			continue
		}
		if before.from > gone.to {
			break
		}
		gone = seqRange{min(gone.from, before.from), max(gone.to, before.to)}
		if err := c.batch.Delete(it.Key(), nil); err != nil {
			return err
		}
	}
	to := binary.BigEndian.AppendUint64(nil, uint64(gone.to))
	return c.batch.Set(streamKey(nil, kindDrop, s, gone.from), to, nil)
}

func dropAt(it *pebble.Iterator) (seqRange, error) {
	value, err := it.ValueAndErr()
	if err != nil {
		return seqRange{}, err
	}
	if len(value) != 8 {
		return seqRange{}, fmt.Errorf("%w: the record of a drop has %d bytes", eventlog.ErrCorrupt, len(value))
	}
	return seqRange{seqOfKey(it.Key()), eventlog.Seq(binary.BigEndian.Uint64(value))}, nil
}

// explainGap tells why there is nothing in [from, next): it was dropped, or it is lost.
func (i *instance) explainGap(s eventlog.Stream, from, next eventlog.Seq) (err error) {
	it, err := i.iter(kindDrop, s)
	if err != nil {
		return err
	}
	defer closeIter(it, &err)
	if seekAtOrBefore(it, streamKey(nil, kindDrop, s, from)) {
		gone, err := dropAt(it)
		if err != nil {
			return err
		}
		if gone.from <= from && gone.to >= next { // more was dropped since, perhaps
			return &eventlog.Truncated{Stream: s, From: from, To: gone.to}
		}
	}
	if err := it.Error(); err != nil {
		return err
	}
	return fmt.Errorf("%w: stream %s has nothing from %d to %d, and no drop is recorded there", eventlog.ErrCorrupt, s, from, next)
}

package store

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/leaselog/leaselog/internal/eventlog"
)

// stuckAfter is how long a read of a dead instance may take.
const stuckAfter = 5 * time.Second

// read calls f with the instance that is in use. A dead one still answers, but could meet a lock that nobody gives
// back, so it is not waited for.
func (s *Store) read(ctx context.Context, f func(*instance) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.readers.RLock()
	inst := s.current.Load()
	select {
	case <-s.quit:
		s.readers.RUnlock()
		return errClosed
	case <-inst.dead:
		s.readers.RUnlock() // a dead instance is never closed
		return s.readDead(ctx, inst, f)
	default:
	}
	defer s.readers.RUnlock()
	return readable(f(inst))
}

func (s *Store) readDead(ctx context.Context, inst *instance, f func(*instance) error) error {
	done := make(chan error, 1)
	go func() { done <- f(inst) }()
	timer := time.NewTimer(stuckAfter)
	defer timer.Stop()
	select {
	case err := <-done:
		return readable(err)
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return fmt.Errorf("%w: %w", errStuck, inst.cause)
	}
}

// readable marks damage to a file as what it is.
func readable(err error) error {
	if err != nil && pebble.IsCorruptionError(err) {
		return fmt.Errorf("%w: %w", eventlog.ErrCorrupt, err)
	}
	return err
}

// Read implements [eventlog.Log].
func (s *Store) Read(ctx context.Context, stream eventlog.Stream, from eventlog.Seq, l eventlog.Limits) ([]eventlog.Entry, error) {
	var found []eventlog.Entry
	err := s.read(ctx, func(inst *instance) (err error) {
		found, err = inst.readEntries(stream, from, l)
		return err
	})
	if err != nil {
		return nil, err // found may still be written by a read that was given up
	}
	return found, nil
}

// Last implements [eventlog.Log].
func (s *Store) Last(ctx context.Context, stream eventlog.Stream) (eventlog.Entry, bool, error) {
	var last eventlog.Entry
	var ok bool
	err := s.read(ctx, func(inst *instance) (err error) {
		last, ok, err = inst.last(stream, false)
		return err
	})
	if err != nil {
		return eventlog.Entry{}, false, err
	}
	return last, ok, nil
}

// entries is a look at the entries of one stream, up to what is on the disk.
type entries struct {
	*pebble.Iterator
	stream eventlog.Stream
	until  eventlog.Seq // the first one that may not be shown
	key    []byte       // the stream's prefix, with room for a seq
}

func (i *instance) entries(s eventlog.Stream) (*entries, error) {
	lower, upper := streamBounds(kindEntry, s)
	it, err := i.db.NewIter(&pebble.IterOptions{LowerBound: lower, UpperBound: upper})
	if err != nil {
		return nil, err
	}
	e := &entries{Iterator: it, stream: s, until: math.MaxUint64, key: append(make([]byte, 0, len(lower)+8), lower...)}
	if end, ok := i.shown.end(s); ok {
		e.until = end.next
	}
	return e, nil
}

// at gives the key of seq; the next call overwrites it.
func (e *entries) at(seq eventlog.Seq) []byte {
	return binary.BigEndian.AppendUint64(e.key, uint64(seq))
}

// shown reports whether the iterator stands at an entry that may be shown.
func (e *entries) shown() bool { return e.Valid() && e.seq() < e.until }

func (e *entries) seq() eventlog.Seq { return seqOfKey(e.Key()) }

// packed gives the entry where the iterator stands.
func (e *entries) packed() (packedEntry, error) {
	value, err := e.ValueAndErr()
	if err != nil {
		return nil, err
	}
	p := packedEntry(value)
	if err := p.check(); err != nil {
		return nil, fmt.Errorf("stream %s at %d: %w", e.stream, e.seq(), err)
	}
	return p, nil
}

// seekCovering goes to the entry that covers seq, or begins at it. Otherwise the iterator stands behind seq, or nowhere.
func (e *entries) seekCovering(seq eventlog.Seq) (bool, error) {
	if e.SeekGE(e.at(seq)) && e.seq() == seq { // how a stream is read on
		return e.shown(), nil
	}
	if e.SeekLT(e.at(seq)) {
		p, err := e.packed()
		if err != nil {
			return false, err
		}
		if e.seq()+eventlog.Seq(p.width()) > seq {
			return e.shown(), nil
		}
	}
	e.SeekGE(e.at(seq))
	return false, e.Error()
}

func (i *instance) readEntries(s eventlog.Stream, from eventlog.Seq, l eventlog.Limits) (found []eventlog.Entry, err error) {
	if end, ok := i.shown.end(s); ok && from >= end.next {
		return nil, nil // how a stream is waited on
	}
	it, err := i.entries(s)
	if err != nil {
		return nil, err
	}
	defer closeIter(it.Iterator, &err)
	covered, err := it.seekCovering(from)
	if err != nil {
		return nil, err
	}
	if !covered {
		if it.shown() {
			return nil, i.explainGap(s, from, it.seq())
		}
		return nil, nil // the end
	}
	return it.collect(l)
}

// collect copies entries out, to a bound, a gap or the end.
func (e *entries) collect(l eventlog.Limits) (found []eventlog.Entry, err error) {
	size := 0
	for ok := true; ok && e.shown(); ok = e.Next() {
		p, err := e.packed()
		if err != nil {
			return nil, err
		}
		seq, n := e.seq(), len(found)
		size += p.bytes(l.HeadersOnly)
		if n > 0 && (found[n-1].Next() != seq || l.Entries > 0 && n >= l.Entries || l.Bytes > 0 && size > l.Bytes) {
			break
		}
		found = append(found, p.unpack(e.stream, seq, l.HeadersOnly))
		if len(found) == l.Entries {
			break
		}
	}
	return found, e.Error()
}

// last gives the last entry of a stream.
func (i *instance) last(s eventlog.Stream, headersOnly bool) (last eventlog.Entry, ok bool, err error) {
	end, known := i.shown.end(s)
	if known && end.next == 0 {
		return eventlog.Entry{}, false, nil
	}
	it, err := i.entries(s)
	if err != nil {
		return eventlog.Entry{}, false, err
	}
	defer closeIter(it.Iterator, &err)
	// Forward where that is possible, since Pebble copies what it finds backward.
	if !known || !it.SeekGE(it.at(end.seq)) || it.seq() != end.seq {
		if it.Last() && !it.shown() {
			it.SeekLT(it.at(it.until))
		}
	}
	return it.unpack(headersOnly)
}

// unpack copies out the entry where the iterator stands, if it stands at one.
func (e *entries) unpack(headersOnly bool) (eventlog.Entry, bool, error) {
	if !e.shown() {
		return eventlog.Entry{}, false, e.Error()
	}
	p, err := e.packed()
	if err != nil {
		return eventlog.Entry{}, false, err
	}
	return p.unpack(e.stream, e.seq(), headersOnly), true, nil
}

// covering gives the entry that covers seq, without its data.
func (i *instance) covering(s eventlog.Stream, seq eventlog.Seq) (found eventlog.Entry, ok bool, err error) {
	it, err := i.entries(s)
	if err != nil {
		return eventlog.Entry{}, false, err
	}
	defer closeIter(it.Iterator, &err)
	if ok, err := it.seekCovering(seq); !ok || err != nil {
		return eventlog.Entry{}, false, err
	}
	return it.unpack(true)
}

// closeIter closes an iterator and keeps its error where there is none yet.
func closeIter(it *pebble.Iterator, err *error) {
	if closing := it.Close(); *err == nil {
		*err = closing
	}
}

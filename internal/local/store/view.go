package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"os"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/wal"

	"github.com/leaselog/leaselog/internal/eventlog"
)

// View is a store opened to be looked at, raw and whole, while no server uses it. Nothing in its directory is changed.
// Where an iteration meets damage it gives an error in that place and goes on behind it, if it can.
type View struct {
	store *Store
	inst  *instance
}

// Range is the range [From, To) of entries that were dropped.
type Range struct{ From, To eventlog.Seq }

// OpenView opens the store in a directory. It refuses what [Open] refuses, and a directory without a store.
func OpenView(cfg Config) (*View, error) {
	s, err := newStore(cfg)
	if err != nil {
		return nil, err
	}
	s.readOnly = true
	if err := s.holdsStore(); err != nil {
		return nil, err
	}
	if s.lock, err = s.fs.Lock(s.fs.PathJoin(s.dir, lockName)); err != nil {
		return nil, fmt.Errorf("data directory %s is in use: stop the server first (%w)", s.dir, err)
	}
	if err := s.checkLogs(); err != nil {
		s.free()
		return nil, err
	}
	inst, err := s.openInstance(true)
	if err != nil {
		s.free()
		return nil, s.explainOpen(err)
	}
	return &View{s, inst}, nil
}

// holdsStore refuses a directory in which no store was begun.
func (s *Store) holdsStore() error {
	if _, err := s.fs.Stat(s.dir); errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("data directory %s does not exist", s.dir)
	}
	marker, err := s.readMarker()
	if err == nil && marker != markerBegun {
		err = fmt.Errorf("data directory %s holds no store", s.dir)
	}
	return err
}

// Close lets another process have the directory.
func (v *View) Close() error {
	defer v.store.free()
	return v.inst.db.Close()
}

// Torn says where the newest write-ahead log ends inside a record, "" where it ends well. After a crash that is
// harmless: nobody was told of what the record held.
func (v *View) Torn() string {
	logs, err := wal.Scan(wal.Dir{FS: v.store.fs, Dirname: v.store.dir})
	if err != nil || len(logs) == 0 {
		return "" // OpenView has said so
	}
	newest := logs[len(logs)-1]
	if at, torn := tornAt(newest); torn {
		return fmt.Sprintf("the newest write-ahead log %s ends inside a record at %d", newest.Num, at)
	}
	return ""
}

// Streams gives the names of all streams of which there is an entry, a snapshot or a dropped range, in no useful order.
func (v *View) Streams() iter.Seq2[eventlog.Stream, error] {
	return func(yield func(eventlog.Stream, error) bool) {
		seen := map[eventlog.Stream]bool{}
		for _, kind := range []byte{kindEntry, kindSnapshot, kindDrop} {
			if !v.streamsOf(kind, seen, yield) {
				return
			}
		}
	}
}

// streamsOf looks at one key of each stream only: the next stream's keys lie behind the bounds of this one's.
func (v *View) streamsOf(kind byte, seen map[eventlog.Stream]bool, yield func(eventlog.Stream, error) bool) bool {
	it, err := v.inst.db.NewIter(&pebble.IterOptions{LowerBound: []byte{kind}, UpperBound: []byte{kind + 1}})
	if err != nil {
		return yield("", readable(err))
	}
	defer it.Close()
	for ok := it.First(); ok; {
		name, err := streamOfKey(it.Key())
		if err != nil {
			if !yield("", err) {
				return false
			}
			ok = it.Next()
			continue
		}
		if !seen[name] {
			seen[name] = true
			if !yield(name, nil) {
				return false
			}
		}
		_, upper := streamBounds(kind, name)
		ok = it.SeekGE(upper)
	}
	if err := it.Error(); err != nil {
		return yield("", readable(err))
	}
	return true
}

// streamOfKey gives the stream of an entry's, a snapshot's or a drop's key.
func streamOfKey(key []byte) (eventlog.Stream, error) {
	if len(key) < 3 || len(key) != 3+int(binary.BigEndian.Uint16(key[1:]))+8 {
		return "", fmt.Errorf("%w: the key %x is none of the store's", eventlog.ErrCorrupt, key)
	}
	return eventlog.Stream(key[3 : len(key)-8]), nil
}

// Entries gives the entries of a stream in order. One that does not decode is an error with its Seq in the entry.
func (v *View) Entries(s eventlog.Stream) iter.Seq2[eventlog.Entry, error] {
	return each(v, kindEntry, s, func(it *pebble.Iterator, seq eventlog.Seq, value []byte) (eventlog.Entry, error) {
		p := packedEntry(value)
		if err := p.check(); err != nil {
			return eventlog.Entry{Stream: s, Seq: seq}, err
		}
		return p.unpack(s, seq, false), nil
	})
}

// Snapshots gives the snapshots of a stream in order.
func (v *View) Snapshots(s eventlog.Stream) iter.Seq2[eventlog.Snapshot, error] {
	return each(v, kindSnapshot, s, func(it *pebble.Iterator, seq eventlog.Seq, value []byte) (eventlog.Snapshot, error) {
		snap, err := joinSnapshot(it, s, seq, value)
		return snap, readable(err)
	})
}

// Drops gives the dropped ranges of a stream in order.
func (v *View) Drops(s eventlog.Stream) iter.Seq2[Range, error] {
	return each(v, kindDrop, s, func(it *pebble.Iterator, seq eventlog.Seq, value []byte) (Range, error) {
		r, err := dropAt(it)
		return Range{r.from, r.to}, err
	})
}

// each decodes a stream's keys of one kind. A block that does not read ends it, since Pebble cannot look behind.
func each[T any](v *View, kind byte, s eventlog.Stream, decode func(*pebble.Iterator, eventlog.Seq, []byte) (T, error)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var none T
		it, err := v.inst.iter(kind, s)
		if err != nil {
			yield(none, readable(err))
			return
		}
		defer it.Close()
		for ok := it.First(); ok; ok = it.Next() {
			value, err := it.ValueAndErr()
			if err != nil {
				yield(none, readable(err))
				return
			}
			if !yield(decode(it, seqOfKey(it.Key()), value)) {
				return
			}
		}
		if err := it.Error(); err != nil {
			yield(none, readable(err))
		}
	}
}

// Claims gives all claims, lapsed or not, in the order of their keys.
func (v *View) Claims() iter.Seq2[eventlog.Claim, error] {
	return func(yield func(eventlog.Claim, error) bool) {
		it, err := v.inst.db.NewIter(&pebble.IterOptions{LowerBound: []byte{kindClaim}, UpperBound: []byte{kindClaim + 1}})
		if err != nil {
			yield(eventlog.Claim{}, readable(err))
			return
		}
		defer it.Close()
		for ok := it.First(); ok; ok = it.Next() {
			value, err := it.ValueAndErr()
			if err != nil {
				yield(eventlog.Claim{}, readable(err))
				return
			}
			key := string(it.Key()[1:])
			claim, err := parseClaim(key, value)
			claim.Key = key
			if !yield(claim, err) {
				return
			}
		}
		if err := it.Error(); err != nil {
			yield(eventlog.Claim{}, readable(err))
		}
	}
}

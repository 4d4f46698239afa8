package store

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/leaselog/leaselog/internal/eventlog"
)

// Claim implements [eventlog.Log].
func (s *Store) Claim(ctx context.Context, key string) (eventlog.Claim, bool, error) {
	var claim eventlog.Claim
	var ok bool
	err := s.read(ctx, func(inst *instance) (err error) {
		claim, ok, err = inst.getClaim(key)
		if st, changing := inst.shown.changing()[key]; changing {
			claim, ok = st.before, st.before.Version > 0
		}
		return err
	})
	if err != nil {
		return eventlog.Claim{}, false, err
	}
	return claim, ok, nil
}

// Claims implements [eventlog.Log].
func (s *Store) Claims(ctx context.Context, prefix, after string, limit int) ([]eventlog.Claim, error) {
	var found []eventlog.Claim
	err := s.read(ctx, func(inst *instance) (err error) {
		found, err = inst.listClaims(prefix, after, limit)
		return err
	})
	if err != nil {
		return nil, err
	}
	return found, nil
}

func (i *instance) getClaim(key string) (eventlog.Claim, bool, error) {
	value, closer, err := i.db.Get(claimKey(make([]byte, 0, 1+len(key)), key))
	if errors.Is(err, pebble.ErrNotFound) {
		return eventlog.Claim{}, false, nil
	}
	if err != nil {
		return eventlog.Claim{}, false, err
	}
	defer closer.Close()
	claim, err := parseClaim(key, value)
	return claim, err == nil, err
}

func (i *instance) listClaims(prefix, after string, limit int) (found []eventlog.Claim, err error) {
	it, err := i.db.NewIter(&pebble.IterOptions{
		LowerBound: claimKey(nil, prefix),
		UpperBound: prefixEnd(claimKey(nil, prefix)),
	})
	if err != nil {
		return nil, err
	}
	defer closeIter(it, &err)
	start := claimKey(nil, max(prefix, after+"\x00")) // keys have no NUL, so this is the next one possible
	changing := i.shown.changing()
	for ok := it.SeekGE(start); ok && len(found) < limit; ok = it.Next() {
		claim, err := shownClaim(it, changing)
		if err != nil {
			return nil, err
		}
		if claim.Version > 0 {
			found = append(found, claim)
		}
	}
	return found, it.Error()
}

// shownClaim gives the claim where the iterator stands, as it is on the disk; version 0 where it is not yet.
func shownClaim(it *pebble.Iterator, changing map[string]claimState) (eventlog.Claim, error) {
	key := string(it.Key()[1:])
	if st, ok := changing[key]; ok {
		return st.before, nil
	}
	value, err := it.ValueAndErr()
	if err != nil {
		return eventlog.Claim{}, err
	}
	return parseClaim(key, value)
}

// prefixEnd is the first key behind all that start with p, which is not empty and does not start with 0xff.
func prefixEnd(p []byte) []byte {
	end := append([]byte(nil), p...)
	for i := len(end) - 1; ; i-- {
		if end[i] != 0xff {
			end[i]++
			return end[:i+1]
		}
	}
}

// Claims that lapsed an hour ago may be removed, so that signed requests, of which each leaves its nonce, do not fill the
// disk; the cloud's table waits for a day, for the sake of its clocks. A repeat that still needs one comes within minutes.
// Once removed, a key begins again at version 1.
const (
	lapsedKept   = time.Hour
	lapsedAtOnce = 1000
)

// Lapsed removes the claims that lapsed an hour ago, some at a time so that commits come between, and says how many there
// were. A dry one only counts.
func (s *Store) Lapsed(ctx context.Context, dry bool) (n int, err error) {
	l := &lapsed{before: s.now() - lapsedKept.Milliseconds(), dry: dry, from: []byte{kindLapse}}
	for l.from != nil {
		if err := s.submitAlone(ctx, l.some); err != nil {
			return l.n, err
		}
	}
	return l.n, nil
}

// lapsed goes through the index of lapses.
type lapsed struct {
	before int64
	dry    bool
	from   []byte // nil: to the end
	n      int    // claims
}

// some goes on with some of them. What is found in the index may be out of date: a claim that was set again has another
// place in it.
func (l *lapsed) some(c *committer) (err error) {
	it, err := c.inst.db.NewIter(&pebble.IterOptions{LowerBound: l.from, UpperBound: lapseKey(nil, l.before, "")})
	if err != nil {
		return err
	}
	defer closeIter(it, &err)
	l.from = nil
	n, looked := 0, 0
	for ok := it.First(); ok; ok = it.Next() {
		if looked++; looked > lapsedAtOnce {
			l.from = slices.Clone(it.Key())
			break
		}
		until, key := splitLapseKey(it.Key())
		claim, ok, err := c.inst.getClaim(key)
		if err != nil {
			return err
		}
		stands := ok && claim.Until == until
		if stands {
			n++
		}
		if l.dry {
			continue
		}
		if stands {
			_ = c.batch.Delete(claimKey(c.keyBuf[:0], key), nil)
		}
		_ = c.batch.Delete(it.Key(), nil)
	}
	l.n += n
	return it.Error()
}

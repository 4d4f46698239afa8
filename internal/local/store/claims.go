package store

import (
	"context"
	"errors"
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

// Claims that lapsed an hour ago are removed, so that signed requests, of which each leaves its nonce, do not fill the
// disk; the cloud's table waits for a day, for the sake of its clocks. A repeat that still
// needs one comes within minutes. Once removed, a key begins again at version 1.
const (
	lapsedKept  = time.Hour
	sweepEvery  = 10 * time.Minute
	sweepAtOnce = 1000
)

// sweepLapsed removes lapsed claims until the store is closed.
func (s *Store) sweepLapsed() {
	for s.pause(sweepEvery) {
		for more := true; more && s.Healthy() == nil; {
			var err error
			more, err = s.sweepOnce(context.Background(), s.now()-lapsedKept.Milliseconds())
			if err != nil {
				s.logger.Warn("store: remove lapsed claims", "err", err.Error())
			}
		}
	}
}

// sweepOnce removes some claims that lapsed before an instant, and tells whether there are more.
func (s *Store) sweepOnce(ctx context.Context, before int64) (more bool, err error) {
	err = s.submitAlone(ctx, func(c *committer) (err error) {
		more, err = c.removeLapsed(before)
		return err
	})
	return more, err
}

// removeLapsed follows the index of lapses. What is found there may be out of date: a claim that was set again has
// another place in it.
func (c *committer) removeLapsed(before int64) (more bool, err error) {
	it, err := c.inst.db.NewIter(&pebble.IterOptions{LowerBound: []byte{kindLapse}, UpperBound: lapseKey(nil, before, "")})
	if err != nil {
		return false, err
	}
	defer closeIter(it, &err)
	n := 0
	for ok := it.First(); ok && n < sweepAtOnce; ok = it.Next() {
		n++
		until, key := splitLapseKey(it.Key())
		claim, ok, err := c.inst.getClaim(key)
		if err != nil {
			return false, err
		}
		if ok && claim.Until == until {
			_ = c.batch.Delete(claimKey(c.keyBuf[:0], key), nil)
		}
		_ = c.batch.Delete(it.Key(), nil)
	}
	return n == sweepAtOnce, it.Error()
}

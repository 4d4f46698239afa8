package eventlogtest

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/leaselog/leaselog/internal/eventlog"
)

const (
	racers = 8  // goroutines at once
	rounds = 12 // of each of them
)

func testConcurrent(t *testing.T, open func(*testing.T) *suite) {
	t.Run("one place", func(t *testing.T) { testRaceForPlace(open(t)) })
	t.Run("one key", func(t *testing.T) { testRaceForKey(open(t)) })
	t.Run("one stream", func(t *testing.T) { testRaceOnStream(open(t)) })
	t.Run("one version", func(t *testing.T) { testRaceForVersion(open(t)) })
	t.Run("several streams and a key", func(t *testing.T) { testRaceOnSeveral(open(t)) })
	t.Run("one commit", func(t *testing.T) { testRaceOfRepeats(open(t)) })
	t.Run("readers", func(t *testing.T) { testReadersBeside(open(t)) })
}

// race runs f as each of the racers and waits for all.
func race(f func(racer int)) {
	var all sync.WaitGroup
	for i := range racers {
		all.Go(func() { f(i) })
	}
	all.Wait()
}

// settle commits until the answer is about c itself: a store may refuse a commit because another is under way at
// the same places, and says with the refusal that nothing was done. After an unknown outcome, which a shared store may
// give for the same reason, it repeats c as every caller must.
func (s *suite) settle(c eventlog.Commit) error {
	for unknown := 0; ; {
		err := s.log.Commit(background(s), c)
		var conflict *eventlog.Conflict
		var refused *eventlog.Refused
		switch {
		case err == nil || errors.As(err, &conflict) || errors.As(err, &refused) && refused.Content:
			return err
		case refused == nil:
			if unknown++; unknown == triesMax {
				return err
			}
		}
		runtime.Gosched()
	}
}

// testRaceForPlace lets all write at one place, round by round. One wins, and all others are shown the winner.
func testRaceForPlace(s *suite) {
	for round := range eventlog.Seq(rounds) {
		s.oneWinner(func(racer int) eventlog.Commit {
			return by(fmt.Sprintf("%d-%d", round, racer), put("s", round*3, 3), put(streamOf(racer), round, 1))
		}, func(c *eventlog.Conflict) eventlog.Writer {
			if len(c.Entries) != 1 || c.Entries[0].Seq != round*3 {
				return eventlog.Writer{}
			}
			return c.Entries[0].Writer
		})
		// Losers wrote nothing to their own streams either: they fill them up now, each at the same place.
		for racer := range racers {
			err := s.settle(by(fmt.Sprintf("%d-%d fill", round, racer), put(streamOf(racer), round, 1)))
			if conflict := (*eventlog.Conflict)(nil); err != nil && !errors.As(err, &conflict) {
				s.Fatal(err)
			}
		}
	}
}

func streamOf(racer int) eventlog.Stream { return eventlog.Stream(fmt.Sprintf("own/%d", racer)) }

// testRaceForKey lets all claim one key after it lapsed, round by round.
func testRaceForKey(s *suite) {
	for round := range int64(rounds) {
		s.oneWinner(func(racer int) eventlog.Commit {
			own := hold(fmt.Sprintf("own %d", racer), round+1)
			return at(round, by(fmt.Sprintf("%d-%d", round, racer), own, hold("k", round+1)))
		}, func(c *eventlog.Conflict) eventlog.Writer {
			if len(c.Claims) != 1 || c.Claims[0].Key != "k" || c.Claims[0].Version != uint64(round+1) {
				return eventlog.Writer{}
			}
			return c.Claims[0].Writer
		})
	}
}

// oneWinner commits as all racers at once. Exactly one must be done, and every conflict must show it.
func (s *suite) oneWinner(commit func(racer int) eventlog.Commit, shown func(*eventlog.Conflict) eventlog.Writer) {
	s.Helper()
	errs := make([]error, racers)
	race(func(racer int) { errs[racer] = s.settle(commit(racer)) })
	winner := -1
	for racer, err := range errs {
		if err == nil && winner >= 0 {
			s.Fatalf("both %d and %d won", winner, racer)
		}
		if err == nil {
			winner = racer
		}
	}
	if winner < 0 {
		s.Fatalf("nobody won: %v", errs)
	}
	for racer, err := range errs {
		var c *eventlog.Conflict
		if racer == winner {
			continue
		}
		if !errors.As(err, &c) || shown(c) != commit(winner).Writer {
			s.Fatalf("%d lost to %d and got %v %+v", racer, winner, err, c)
		}
	}
}

// testRaceOnStream lets all append to one stream wherever it ends, as a broker does: whoever loses goes on behind
// what it was shown. In the end every append stands once and the stream is dense.
func testRaceOnStream(s *suite) {
	race(func(racer int) {
		var end eventlog.Seq
		for round := range rounds {
			for try := 0; ; try++ {
				name := fmt.Sprintf("%d-%d-%d", racer, round, try)
				err := s.settle(by(name, put("s", end, uint32(racer%3+1))))
				if err == nil {
					end += eventlog.Seq(racer%3 + 1)
					break
				}
				var c *eventlog.Conflict
				if !errors.As(err, &c) || len(c.Entries) != 1 || c.Entries[0].Next() <= end {
					s.Errorf("append at %d: %v %+v", end, err, c)
					return
				}
				end = c.Entries[0].Next()
			}
		}
	})
	s.same("entries", len(s.read("s", 0, eventlog.Limits{})), racers*rounds)
}

// testRaceForVersion counts with a claim. No increment is lost, and none counts twice. Each comes with an entry in a
// stream of its own: without, a caller whose answer was lost could not tell whether a claim that was replaced
// meanwhile had been set.
func testRaceForVersion(s *suite) {
	race(func(racer int) {
		version := uint64(0)
		for round := range eventlog.Seq(rounds) {
			for try := 0; ; try++ {
				name := fmt.Sprintf("%d-%d-%d", racer, round, try)
				err := s.settle(by(name, put(streamOf(racer), round, 1), replace("k", version, eventlog.Forever)))
				if err == nil {
					version++
					break
				}
				var c *eventlog.Conflict
				if !errors.As(err, &c) || len(c.Claims) != 1 || c.Claims[0].Version <= version {
					s.Errorf("claim at version %d: %v %+v", version, err, c)
					return
				}
				version = c.Claims[0].Version
			}
		}
	})
	s.same("version", s.claim("k").Version, uint64(racers*rounds))
}

// testRaceOnSeveral commits to two streams and a key at once, in either order of the streams. Since all of a commit
// is applied or nothing, the three stay in step, whoever wins.
func testRaceOnSeveral(s *suite) {
	race(func(racer int) {
		for round := 0; round < rounds; {
			n := s.claimVersion("k")
			parts := []any{put("s", eventlog.Seq(n), 1), put("t", eventlog.Seq(2*n), 2)}
			if racer%2 == 1 {
				parts[0], parts[1] = parts[1], parts[0]
			}
			name := fmt.Sprintf("%d-%d-%d", racer, round, n)
			err := s.settle(by(name, append(parts, replace("k", n, eventlog.Forever))...))
			var c *eventlog.Conflict
			switch {
			case err == nil:
				round++
			case !errors.As(err, &c):
				s.Errorf("commit at %d: %v", n, err)
				return
			}
		}
	})
	s.same("version", s.claim("k").Version, uint64(racers*rounds))
	inS, _ := readStream(s.Context(), s.log, "s")
	inT, _ := readStream(s.Context(), s.log, "t")
	if len(inS.entries) != racers*rounds || len(inT.entries) != len(inS.entries) {
		s.Fatalf("%d entries in one stream and %d in the other, want %d", len(inS.entries), len(inT.entries), racers*rounds)
	}
	for i, e := range inS.entries {
		if inT.entries[i].Writer != e.Writer {
			s.Errorf("entry %d is by %s in one stream and by %s in the other", i, nameOf(e.Writer), nameOf(inT.entries[i].Writer))
		}
	}
}

func (s *suite) claimVersion(key string) uint64 {
	c, _, err := s.log.Claim(background(s), key)
	if err != nil {
		s.Errorf("claim %q: %v", key, err)
	}
	return c.Version
}

// testRaceOfRepeats sends each commit from all racers at once: every one of them is told that it is done.
func testRaceOfRepeats(s *suite) {
	for round := range eventlog.Seq(rounds) {
		c := at(5, by(fmt.Sprintf("w%d", round), put("s", round, 1), put("t", round*2, 2), replace("k", 0, 5)))
		race(func(int) {
			if err := s.settle(c); err != nil {
				s.Errorf("round %d: %v %+v", round, err, err)
			}
		})
	}
	s.same("entries", len(s.read("s", 0, eventlog.Limits{})), rounds)
	s.same("version", s.claim("k").Version, uint64(rounds))
}

// testReadersBeside reads while others write: what was answered before is seen, and every read is dense.
func testReadersBeside(s *suite) {
	var end atomic.Uint64 // of what was answered as done
	var all sync.WaitGroup
	all.Go(func() {
		for i := range eventlog.Seq(racers * rounds) {
			if err := s.settle(by(fmt.Sprintf("w%d", i), put("s", i*2, 2))); err != nil {
				s.Errorf("append %d: %v", i, err)
			}
			end.Store(uint64(i*2 + 2))
		}
	})
	for range 2 {
		all.Go(func() {
			for known := uint64(0); known < racers*rounds*2 && !s.Failed(); {
				known = end.Load()
				s.readBeside(eventlog.Seq(known))
			}
		})
	}
	all.Wait()
}

// readBeside reads all of a stream that ended at known, or later.
func (s *suite) readBeside(known eventlog.Seq) {
	entries, err := s.log.Read(background(s), "s", 0, eventlog.Limits{HeadersOnly: true})
	if err == nil {
		err = eventlog.CheckDense(entries)
	}
	if err != nil {
		s.Errorf("read: %v", err)
	}
	last, ok, err := s.log.Last(background(s), "s")
	if err != nil || !ok && known > 0 || last.Next() < known {
		s.Errorf("last is at %d, found %v, error %v; the stream ended at %d before", last.Seq, ok, err, known)
	}
	if n := len(entries); known > 0 && (n == 0 || entries[n-1].Next() < known) {
		s.Errorf("%d entries were read; the stream ended at %d before", n, known)
	}
}

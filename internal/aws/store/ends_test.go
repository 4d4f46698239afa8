package store

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/leaselog/leaselog/internal/eventlog"
	"github.com/leaselog/leaselog/internal/eventlog/eventlogtest"
)

// fill appends entries of width 1 from a position on.
func fill(t testing.TB, s eventlog.Log, name eventlog.Stream, from, n int) {
	t.Helper()
	for i := range n {
		mustCommit(t, s, commitOf(entryAt(name, eventlog.Seq(from+i))))
	}
}

// expireAt gives an entry another end, as if it had been written at another time.
func expireAt(t *testing.T, s *Store, name eventlog.Stream, seq eventlog.Seq, x time.Time) {
	t.Helper()
	if err := s.expire(t.Context(), s.tables.Log, entryKey(name, seq), expiry(x)); err != nil {
		t.Fatal(err)
	}
}

// remove does what DynamoDB does with what has expired.
func remove(t *testing.T, s *Store, table string, key item) {
	t.Helper()
	if _, err := s.client.DeleteItem(t.Context(), &dynamodb.DeleteItemInput{TableName: &table, Key: key}); err != nil {
		t.Fatal(err)
	}
}

func seqsOf(entries []eventlog.Entry) (all []eventlog.Seq) {
	for _, e := range entries {
		all = append(all, e.Seq)
	}
	return all
}

// What has expired is absent, whether DynamoDB has removed it or not. Before an entry that is old itself that is
// truncation, before a young one the log is corrupt.
func TestExpired(t *testing.T) {
	d := startDatabase(t)
	for _, removed := range []bool{false, true} {
		t.Run(fmt.Sprint("removed: ", removed), func(t *testing.T) {
			s := d.open(t)
			fill(t, s, "s", 0, 6)
			for _, seq := range []eventlog.Seq{0, 1, 3} {
				if expireAt(t, s, "s", seq, time.Now().Add(-time.Second)); removed {
					remove(t, s, s.tables.Log, entryKey("s", seq))
				}
			}
			if _, err := s.Read(t.Context(), "s", 0, eventlog.Limits{}); !errors.Is(err, eventlog.ErrCorrupt) {
				t.Errorf("a gap before a young entry: %v", err)
			}
			expireAt(t, s, "s", 2, time.Now().Add(entryAge-truncatedAge-time.Minute))
			for from := range eventlog.Seq(2) {
				_, err := s.Read(t.Context(), "s", from, eventlog.Limits{})
				if tr := (*eventlog.Truncated)(nil); !errors.As(err, &tr) || tr.From > from || tr.To != 2 {
					t.Errorf("a gap before an old entry, from %d: %v", from, err)
				}
			}
			found, err := s.Read(t.Context(), "s", 2, eventlog.Limits{})
			if err != nil || !slices.Equal(seqsOf(found), []eventlog.Seq{2}) {
				t.Errorf("up to the next gap: %v, %v", seqsOf(found), err)
			}
			found, err = s.Read(t.Context(), "s", 4, eventlog.Limits{})
			if err != nil || !slices.Equal(seqsOf(found), []eventlog.Seq{4, 5}) {
				t.Errorf("behind it: %v, %v", seqsOf(found), err)
			}
			mustCommit(t, s, commitOf(entryAt("s", 6)))
		})
	}
}

// A stream whose last entry has expired is not written to, not even at its start, and says why.
func TestLastExpired(t *testing.T) {
	d := startDatabase(t)
	s := d.open(t)
	fill(t, s, "s", 0, 3)
	expireAt(t, s, "s", 2, time.Now().Add(-time.Second))
	fresh := d.openOn(t, s.tables)
	for _, seq := range []eventlog.Seq{0, 2, 3} {
		err := fresh.Commit(t.Context(), commitOf(entryAt("s", seq)))
		if outcomeOf(err) != refused || !errors.Is(err, eventlog.ErrCorrupt) {
			t.Errorf("an entry at %d: %v", seq, err)
		}
	}
	if _, _, err := fresh.Last(t.Context(), "s"); !errors.Is(err, eventlog.ErrCorrupt) {
		t.Errorf("last: %v", err)
	}
	if err := fresh.Drop(t.Context(), "s", 0, 3); err != nil { // there is nothing left that would have to be
		t.Errorf("drop: %v", err)
	}
	for seq := range eventlog.Seq(3) {
		remove(t, s, s.tables.Log, entryKey("s", seq))
	}
	if err := fresh.Commit(t.Context(), commitOf(entryAt("s", 3))); outcomeOf(err) != refused {
		t.Errorf("an entry where all before it is lost: %v", err)
	}
}

// reads counts the calls that only read since the last plan.
func (n *network) reads() int {
	writes := n.writes()
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.seen) - writes
}

// age makes what a store knows of a stream's end older: a function that was frozen knows it from before.
func age(s *Store, name eventlog.Stream, by time.Duration) {
	s.ends.mu.Lock()
	defer s.ends.mu.Unlock()
	e := s.ends.of[name]
	e.at -= by.Milliseconds()
	s.ends.of[name] = e
}

// Whoever knows the end of a stream writes with one call; whoever knows it from long ago looks first.
func TestKnownEnd(t *testing.T) {
	s, n, other := openFaulty(t)
	calls := func(want int, what string) {
		t.Helper()
		if got := n.reads(); got != want {
			t.Errorf("%s: %d reads, want %d", what, got, want)
		}
		n.meets()
	}
	fill(t, s, "s", 0, 1)
	n.meets()
	fill(t, s, "s", 1, 5)
	calls(0, "behind our own entries")
	fill(t, other, "s", 6, 1)
	if got := outcomeOf(s.Commit(t.Context(), commitOf(entryAt("s", 6)))); got != against {
		t.Error(got)
	}
	calls(0, "a lost race")
	mustCommit(t, s, commitOf(entryAt("s", 7)))
	calls(0, "behind what the conflict has shown")
	mustCommit(t, s, commitOf(entryAt("s", 8), forever("k")))
	calls(0, "with a claim")
	age(s, "s", endAge+time.Second)
	mustCommit(t, s, commitOf(entryAt("s", 9)))
	calls(1, "a quarter of an hour later")
	fill(t, other, "s", 10, 3)
	if found, err := s.Read(t.Context(), "s", 10, eventlog.Limits{}); err != nil || len(found) != 3 {
		t.Fatal(found, err)
	}
	calls(1, "reading on")
	mustCommit(t, s, commitOf(entryAt("s", 13)))
	calls(0, "behind what was read")
	if found, err := s.Read(t.Context(), "s", 14, eventlog.Limits{}); err != nil || len(found) != 0 {
		t.Fatal(found, err)
	}
	calls(1, "an empty probe")
}

// A place behind which others wrote, and where what they wrote was dropped or has expired since, is taken.
func TestStaleEnd(t *testing.T) {
	d := startDatabase(t)
	for name, test := range map[string]struct {
		age     time.Duration
		removed bool
	}{
		"frozen for a minute": {time.Minute, false},
		"frozen for an hour":  {time.Hour, true},
	} {
		t.Run(name, func(t *testing.T) {
			s := d.open(t)
			other := d.openOn(t, s.tables)
			fill(t, s, "s", 0, 2)
			age(s, "s", test.age)
			fill(t, other, "s", 2, 3)
			if err := other.Drop(t.Context(), "s", 0, 4); err != nil {
				t.Fatal(err)
			}
			if test.removed {
				for seq := range eventlog.Seq(4) {
					remove(t, s, s.tables.Log, entryKey("s", seq))
				}
			}
			var met *eventlog.Conflict
			if err := s.Commit(t.Context(), commitOf(entryAt("s", 2))); !errors.As(err, &met) || len(met.Entries) != 0 {
				t.Errorf("got %v, want a conflict that shows nothing", err)
			}
			_, err := s.Read(t.Context(), "s", 1, eventlog.Limits{})
			if tr := (*eventlog.Truncated)(nil); !errors.As(err, &tr) || tr.To != 4 {
				t.Errorf("read: %v", err)
			}
			mustCommit(t, s, commitOf(entryAt("s", 5)))
		})
	}
}

// Entries expire by the commit's instant, which must therefore be one of now.
func TestInstant(t *testing.T) {
	d := startDatabase(t)
	s := d.open(t)
	for _, off := range []time.Duration{-2 * time.Hour, 2 * time.Hour} {
		c := commitOf(entryAt("s", 0))
		c.At += off.Milliseconds()
		if got := outcomeOf(s.Commit(t.Context(), c)); got != refused {
			t.Errorf("%v off: %s", off, got)
		}
	}
	mustCommit(t, s, commitOf(entryAt("s", 0)))
	it, err := s.first(t.Context(), s.newest("s", 0, true))
	if err != nil {
		t.Fatal(err)
	}
	r, _ := readRow("s", it)
	if left := time.Until(time.Unix(r.expires, 0)); left > entryAge || left < entryAge-time.Minute {
		t.Errorf("it expires in %v", left)
	}
}

// A clock that is a second off does, one that is five seconds off does not, and works again when it is set right.
func TestClock(t *testing.T) {
	d := startDatabase(t)
	for off, works := range map[time.Duration]bool{0: true, time.Second: true, -time.Second: true, 5 * time.Second: false, -5 * time.Second: false} {
		for kind, commit := range kinds {
			t.Run(fmt.Sprint(off, " ", kind), func(t *testing.T) {
				var by atomic.Int64
				by.Store(int64(off))
				s := d.open(t, func(c *Config) { c.Now = func() time.Time { return time.Now().Add(time.Duration(by.Load())) } })
				err := s.Commit(t.Context(), commit(0))
				if works {
					if err != nil {
						t.Error(err)
					}
					return
				}
				if outcomeOf(err) != refused {
					t.Fatalf("got %v, want it refused", err)
				}
				t.Log(err)
				by.Store(0)
				if _, err := s.Read(t.Context(), "s", 0, eventlog.Limits{}); err != nil {
					t.Fatal(err)
				}
				mustCommit(t, s, commit(0))
				by.Store(int64(off))
				if _, err := s.Read(t.Context(), "s", 0, eventlog.Limits{}); err != nil { // a wrong clock reads all the same
					t.Fatal(err)
				}
				if got := outcomeOf(s.Commit(t.Context(), commit(1))); got != refused {
					t.Errorf("when it goes wrong later: %s", got)
				}
			})
		}
	}
}

// What an answer says of the clocks, with all that is not known about it.
func TestObserve(t *testing.T) {
	start := time.Unix(1_800_000_000, 0)
	for _, tt := range []struct {
		began, ended time.Duration // of this clock, after DynamoDB's date
		before, want time.Duration // what is known
		told         bool
	}{
		{300 * time.Millisecond, 400 * time.Millisecond, 0, 0, true},
		{-time.Second, -900 * time.Millisecond, 0, 0, true},
		{1900 * time.Millisecond, 2 * time.Second, 0, 0, true},
		{4900 * time.Millisecond, 5 * time.Second, 0, 3900 * time.Millisecond, true},
		{-5 * time.Second, -4900 * time.Millisecond, 0, -4900 * time.Millisecond, true},
		{0, 9 * time.Second, 0, 0, false},
		{0, 9 * time.Second, 5 * time.Second, 5 * time.Second, false},
		{20 * time.Second, 29 * time.Second, 0, 19 * time.Second, true},
		{300 * time.Millisecond, 400 * time.Millisecond, 5 * time.Second, 0, true},
	} {
		c := clock{off: tt.before}
		c.observe(start.Add(tt.began), start.Add(tt.ended), start)
		if off, _ := c.look(start); off != tt.want || c.measured.IsZero() == tt.told {
			t.Errorf("between %v and %v: %v off, told %v; want %v, %v", tt.began, tt.ended, off, !c.measured.IsZero(), tt.want, tt.told)
		}
	}
}

// TestContended lets two processes with 16 workers each append to few streams, each where it believes the end is.
func TestContended(t *testing.T) {
	d := startDatabase(t)
	tables := Tables(d.Tables(t))
	const streams, workers, each = 2, 16, 12
	var won, lost atomic.Int64
	var all sync.WaitGroup
	for range 2 {
		s := d.openOn(t, tables)
		for w := range workers {
			all.Go(func() {
				name := eventlog.Stream(fmt.Sprint("s", w%streams))
				end := eventlog.Seq(0)
				for n := 0; n < each; {
					parts := []any{eventlog.Append{Stream: name, Seq: end, Width: uint32(1 + w%3)}}
					if w%4 == 0 {
						parts = append(parts, eventlog.Claim{Key: "k/" + string(name), Until: time.Now().Add(-time.Hour).UnixMilli()})
					}
					err := s.Commit(t.Context(), commitOf(parts...))
					var met *eventlog.Conflict
					switch {
					case err == nil:
						won.Add(1)
						n++
						end += eventlog.Seq(1 + w%3)
					case errors.As(err, &met) && len(met.Entries) == 1 && met.Entries[0].Next() > end:
						lost.Add(1)
						end = met.Entries[0].Next()
					case outcomeOf(err) != refused:
						t.Errorf("append at %d: %v", end, err)
						return
					}
				}
			})
		}
	}
	all.Wait()
	s := d.openOn(t, tables)
	total := 0
	for i := range streams {
		name := eventlog.Stream(fmt.Sprint("s", i))
		if err := eventlogtest.Check(t.Context(), s, name); err != nil {
			t.Error(err)
		}
		entries, err := s.Read(t.Context(), name, 0, eventlog.Limits{})
		if err != nil {
			t.Fatal(err)
		}
		total += len(entries)
	}
	if total != 2*workers*each {
		t.Errorf("%d entries stand, %d were done", total, 2*workers*each)
	}
	t.Logf("%d of %d appends lost a race", lost.Load(), lost.Load()+won.Load())
}

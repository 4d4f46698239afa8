package sim

import (
	"bytes"
	"cmp"
	"flag"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

var (
	seeds = flag.Int("sim.seeds", 0, "how many seeds to simulate; default 1000, 100 with -short")
	from  = flag.Uint64("sim.from", 0, "the first seed; default 1, and with -sim.for one of now, so that every run has fresh ones")
	lasts = flag.Duration("sim.for", 0, "simulate fresh seeds for so long, instead of a number of them")
)

// twice runs a seed two times and gives what was wrong with it, empty for nothing.
func twice(t *testing.T, o Options) Report {
	r, again := bubble(t, o), bubble(t, o)
	if r.Wrong == "" && !bytes.Equal(r.History, again.History) {
		r.Wrong = "the seed gives another history when it runs again: " + difference(r.History, again.History)
	}
	return r
}

func bubble(t *testing.T, o Options) (r Report) {
	synctest.Test(t, func(*testing.T) { r = Run(o) })
	return r
}

func difference(a, b []byte) string {
	x, y := strings.Split(string(a), "\n"), strings.Split(string(b), "\n")
	for i := range x {
		if i >= len(y) || x[i] != y[i] {
			return fmt.Sprintf("line %d\n  %s\n  %s", i+1, x[i], strings.Join(y[min(i, len(y)):min(i+1, len(y))], ""))
		}
	}
	return "the second is longer"
}

func TestSeeds(t *testing.T) {
	n := uint64(1000)
	if testing.Short() {
		n = 100
	}
	if *seeds > 0 {
		n = uint64(*seeds)
	}
	began := time.Now()
	end, start := began.Add(*lasts), cmp.Or(*from, 1)
	if *lasts > 0 && *from == 0 {
		start = uint64(began.UnixMilli())
	}
	var next atomic.Uint64
	next.Store(start)
	t.Run("all", func(t *testing.T) {
		for w := range runtime.GOMAXPROCS(0) {
			t.Run(fmt.Sprint("worker", w), func(t *testing.T) {
				t.Parallel()
				for !t.Failed() {
					seed := next.Add(1) - 1
					if *lasts > 0 && time.Now().After(end) || *lasts == 0 && seed >= start+n {
						return
					}
					one := n == 1 && *lasts == 0
					report(t, seed, one)
				}
			})
		}
	})
	done := next.Load() - start
	t.Logf("about %d seeds from %d on in %v", done, start, time.Since(began).Round(time.Millisecond))
}

// report runs a seed and says how to run it again when it fails.
func report(t *testing.T, seed uint64, show bool) {
	r := twice(t, Options{Seed: seed})
	if show {
		t.Logf("history of seed %d:\n%s", seed, r.History)
	}
	if wrong := r.Wrong; wrong != "" {
		t.Errorf("seed %d: %s\nrun it again with\n  go test ./internal/sim -run TestSeeds -sim.from=%d -sim.seeds=1 -v", seed, wrong, seed)
	}
}

// TestReach holds that the seeds come to everything that is to be judged: what never happens is not tested.
func TestReach(t *testing.T) {
	seen := map[string]int{}
	for seed := range uint64(300) {
		for what, n := range bubble(t, Options{Seed: seed + 1}).Seen {
			seen[what] += n
		}
	}
	for _, what := range slices.Sorted(maps.Keys(seen)) {
		t.Logf("%7d  %s", seen[what], what)
	}
	for _, what := range []string{
		"*events.Leased", "*events.Passed", "*events.Extended", "*events.Released", "*events.Acked", "*events.Expired", "*events.Moved",
		"*events.Arrived", "*events.Purged", "*events.Configured", "conflict", "crash", "closed", "caller left", "keys turned",
		"landed late", "call refused", "call lost before", "call lost after", "call lost, may land", "replay from a snapshot",
		"sent", "delivered", "acked", "duplicate", "ack refused", "depth judged", "nothing received, judged",
		"send answered limit", "send answered key_lost", "send answered unconfirmed", "send answered not_found",
		"receive answered not_found", "create answered exists", "a projection woke", "a view was not saved", "a view was compared",
	} {
		if seen[what] == 0 {
			t.Errorf("never: %s", what)
		}
	}
}

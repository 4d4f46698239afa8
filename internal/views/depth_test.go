package views_test

import (
	"slices"
	"testing"

	"github.com/leaselog/leaselog/events"
	"github.com/leaselog/leaselog/internal/broker"
	"github.com/leaselog/leaselog/internal/eventlog"
	"github.com/leaselog/leaselog/projections"
)

var plain = events.Settings{LeaseSeconds: 30, RetentionSeconds: 345_600}

// TestLeasesLapse: 1,000 leases of different lengths end while nothing happens, and at every second the view, which is
// from before, says what the broker says.
func TestLeasesLapse(t *testing.T) {
	w := newWorld(t)
	defer w.b.Close()
	w.now += 421 // so that leases end inside of seconds
	q := w.create("q", plain, "", 0)
	for range 100 {
		w.send(q, 10, 0, "")
	}
	for i := range 1000 {
		w.now += events.Instant(i % 3)
		if n := len(w.receive(q, 1, uint32(1+i*37%1000))); n != 1 {
			t.Fatalf("received %d messages", n)
		}
	}
	w.catchUp(q)
	w.now += 1000 - w.now%1000
	left := int64(1000)
	for range 1002 {
		d, err := w.b.Describe(w.ctx, q)
		w.must(err)
		got := w.depth(q, w.now)
		want := projections.Counts{Available: int64(d.Depth.Available), InFlight: int64(d.Depth.InFlight), Delayed: int64(d.Depth.Delayed)}
		if got.Counts != want || got.InFlight > left {
			t.Fatalf("at %d the view counts %+v, the broker %+v, and %d were in flight before", w.now, got.Counts, want, left)
		}
		left = got.InFlight
		w.now += 1000
	}
	if left != 0 {
		t.Errorf("%d messages are in flight at the end", left)
	}
	for _, s := range w.shards(q) {
		_, data := w.view(s, projections.Depth)
		t.Logf("the view of shard %d with about 500 leases has %d bytes", s.Index, len(data))
	}
}

// TestAges is case G7: no age of what is not deliverable, two ages of what was moved, none of an empty queue.
func TestAges(t *testing.T) {
	w := newWorld(t)
	defer w.b.Close()
	ages := func(name string, q events.QueueID, waiting, total int64) {
		t.Helper()
		w.catchUp(q)
		if got := w.depth(q, w.now); got.Ages != (projections.Ages{WaitingMillis: waiting, TotalMillis: total}) {
			t.Errorf("%s: the ages are %+v, want %d and %d", name, got.Ages, waiting, total)
		}
		d, err := w.b.Describe(w.ctx, q)
		w.must(err)
		if d.Depth.Ages != (projections.Ages{WaitingMillis: waiting, TotalMillis: total}) {
			t.Errorf("%s: the broker says that the ages are %+v, want %d and %d", name, d.Depth.Ages, waiting, total)
		}
	}
	empty := w.create("empty", plain, "", 0)
	ages("empty", empty, 0, 0)
	a, b := w.create("a", plain, "", 0), w.create("b", plain, "", 0)
	w.send(a, 1, 600, "")
	w.send(a, 1, 0, "")
	w.receive(a, 1, 600)
	w.send(b, 1, 0, "")
	dead := w.create("dead", plain, "", 0)
	c := w.create("c", plain, "dead", 1)
	w.send(c, 1, 0, "")
	w.receive(c, 1, 1)
	for range 3 {
		ages("a delayed and a leased message", a, 0, 0)
		w.now += 30_000
	}
	ages("a visible one, unread", b, 90_000, 90_000)
	w.receive(b, 1, 30)
	ages("right after the receive", b, 0, 0)
	w.now += 40_000
	ages("10 s after its lease has ended", b, 10_000, 130_000)
	w.now += 86_400_000 - 130_000
	w.must(w.b.Tick(w.ctx))
	w.now += 60_000
	ages("moved a day after it was sent", dead, 60_000, 86_460_000)
	ages("where it came from", c, 0, 0)
	w.now += 600_000
	ages("delayed and leased before, deliverable since they were due and let go", a, 86_400_000+60_000, 86_400_000+660_000)
}

// TestUnobserved: messages that nobody looked at leave by their retention while nothing happens, and the next ones tell
// the age.
func TestUnobserved(t *testing.T) {
	w := newWorld(t)
	defer w.b.Close()
	s := plain
	s.RetentionSeconds = 60
	s.Fifo, s.ContentDedup = true, true // one shard
	q := w.create("q.fifo", s, "", 0)
	for range 50 {
		w.send(q, 2, 0, "g")
		w.now += 1000
	}
	w.catchUp(q)
	for i := range 120 {
		d, err := w.b.Describe(w.ctx, q)
		w.must(err)
		got := w.depth(q, w.now)
		if got.Available != int64(d.Depth.Available) {
			t.Fatalf("after %d s the view has %d messages, the broker %d", i, got.Available, d.Depth.Available)
		}
		oldest := min(50+i, 59)
		if got.Available == 0 {
			oldest = 0
		}
		if got.WaitingMillis != int64(oldest)*1000 {
			t.Fatalf("after %d s the oldest of %d is %d ms, want %d s", i, got.Available, got.WaitingMillis, oldest)
		}
		w.now += 1000
	}
}

// TestBounds: the largest views there can be fit where they are kept.
func TestBounds(t *testing.T) {
	w := newWorld(t)
	defer w.b.Close()
	s := plain
	s.RetentionSeconds = 1_209_600
	s.Fifo, s.ContentDedup, s.DedupSeconds = false, false, 0
	dead := w.create("dead", s, "", 0)
	q := w.create("q", s, "dead", 1000)
	_ = dead
	sends := 26_000 // about 13,000 seconds in each of two shards
	if testing.Short() {
		sends /= 10
	}
	for i := range sends {
		w.send(q, 1, 0, "")
		if i%2 == 0 {
			w.now += 1000
		}
	}
	for i := range sends / 2 {
		w.receive(q, 1, uint32(1+i*7919%43_200))
	}
	w.catchUp(q)
	for _, shard := range w.shards(q) {
		for _, p := range projections.All() {
			_, data := w.view(shard, p)
			t.Logf("%-10s %d bytes", p.View, len(data))
			if len(data) > projections.DataBytesMax/2 {
				t.Errorf("%s has %d bytes", p.View, len(data))
			}
		}
		w.sameAsMade(shard)
	}
}

// TestSnapshotsKept: the snapshots are written when a tail is long and after a day, the next start reads little, and what
// is made from them is the same.
func TestSnapshotsKept(t *testing.T) {
	w := newWorld(t)
	defer w.b.Close()
	q := w.create("q", plain, "", 0)
	w.send(q, 10, 0, "")
	w.catchUp(q)
	w.now += 25 * 3_600_000
	w.send(q, 10, 0, "")
	w.send(q, 10, 0, "")
	w.receive(q, 10, 30)
	w.catchUp(q)
	var stands []bool
	for _, s := range w.shards(q) {
		w.sameAsMade(s)
		for _, name := range []string{events.LedgerStream(s.Queue, s.Index), events.MessageStream(s.Queue, s.Index, 0)} {
			_, ok, err := w.log.Snapshot(w.ctx, eventlog.Stream(name), 1<<62)
			w.must(err)
			stands = append(stands, ok)
		}
	}
	if !slices.Contains(stands, true) || !stands[1] || !stands[3] {
		t.Errorf("a day later these snapshots stand: %v", stands)
	}
}

// TestPurgedAndDeleted: a queue that is purged is empty, and one that is deleted says so.
func TestPurgedAndDeleted(t *testing.T) {
	w := newWorld(t)
	defer w.b.Close()
	q := w.create("q", plain, "", 0)
	shards := w.shards(q)
	w.send(q, 10, 0, "")
	w.receive(q, 3, 30)
	_, err := w.b.Purge(w.ctx, q)
	w.must(err)
	w.catchUp(q)
	if got := w.depth(q, w.now+1000); got.Counts != (projections.Counts{}) {
		t.Errorf("after the purge the view counts %+v", got.Counts)
	}
	w.must(w.b.Delete(w.ctx, broker.Ref{Account: account, ID: q}))
	for _, s := range shards {
		w.must(w.followers[0].CatchUp(w.ctx, s))
		_, data := w.view(s, projections.Depth)
		if v, err := projections.ReadDepth(data); err != nil || v.Status != events.Deleted {
			t.Errorf("the status is %d, %v", v.Status, err)
		}
	}
}

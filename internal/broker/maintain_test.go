package broker

import (
	"fmt"
	"testing"
	"time"

	"github.com/leaselog/leaselog/events"
	"github.com/leaselog/leaselog/internal/eventlog"
	"github.com/leaselog/leaselog/internal/eventlog/eventlogtest"
)

// kept is how many bytes the streams of a queue hold.
func (w *world) kept(q events.QueueID, shard int) (bytes int) {
	w.t.Helper()
	for _, name := range []string{events.MessageStream(q, shard, 0), events.LedgerStream(q, shard)} {
		last, _, err := w.mem.Last(w.ctx, eventlog.Stream(name))
		if err != nil {
			w.t.Fatal(err)
		}
		for seq := eventlog.Seq(0); seq < last.Next(); {
			entries, err := w.mem.Read(w.ctx, eventlog.Stream(name), seq, eventlog.Limits{})
			if t, gone := truncated(err); gone {
				seq = t.To
				continue
			}
			if err != nil {
				w.t.Fatal(err)
			}
			for _, e := range entries {
				bytes += len(e.Header) + len(e.Data)
				seq = e.Next()
			}
		}
	}
	return bytes
}

// History is bounded: what is finished and old is dropped, also around messages that still live, and nothing else is.
func TestMaintainDropsFinishedHistory(t *testing.T) {
	inWorld(t, func(w *world) {
		q := w.create("q", false)
		old := w.send(q, "old 1")
		for i := range 2_000 {
			w.send(q, fmt.Sprintf("m%d", i))
		}
		if first := w.receive(q, 1); len(first) != 1 || first[0].ID != old[0] {
			t.Fatalf("first delivery %v", bodies(first))
		}
		w.drain(q) // the old one lapses meanwhile, and is left
		w.send(q, "young")
		before := w.kept(q, 0)
		time.Sleep(time.Hour)
		w.maintain(History{Before: w.now() - 86_400_000})
		if now := w.kept(q, 0); now != before {
			t.Errorf("%d of %d bytes are left, and all of them are younger than a day", now, before)
		}
		w.maintain(History{Before: w.now()})
		if now := w.kept(q, 0); now > before/20 {
			t.Errorf("%d of %d bytes are left for two live messages", now, before)
		}
		w.restart()
		if all := w.drain(q); len(all) != 2 {
			t.Errorf("what lived is %v", all)
		}
	})
}

// Nothing younger than ten minutes is dropped, whatever is asked for: deduplication and repeated acks look back.
func TestMaintainKeepsTheLastMinutes(t *testing.T) {
	inWorld(t, func(w *world) {
		q := w.create("q.fifo", true)
		first := w.send(q, "g:a")
		found := w.receive(q, 1)
		w.ack(q, found...)
		time.Sleep(4 * time.Minute)
		w.maintain(History{Before: w.now()})
		w.restart()
		w.ack(q, found...)
		sent, err := w.b.Send(w.ctx, q, out("g:a"))
		if err != nil || !sent[0].Duplicate || sent[0].ID != first[0] {
			t.Errorf("the repeat of %v gave %+v, %v", first[0], sent, err)
		}
	})
}

// What is past its retention is discarded without any receive, in one step however much it is.
func TestMaintainExpires(t *testing.T) {
	inWorld(t, func(w *world) {
		q := w.create("q", false, func(c *CreateQueue) { c.Settings.RetentionSeconds = 60 })
		for i := range 500 {
			w.send(q, fmt.Sprintf("m%d", i))
		}
		w.receive(q, 10) // leased when they expire: their leases end later
		time.Sleep(50 * time.Second)
		w.send(q, "young")
		time.Sleep(15 * time.Second)
		w.log.ResetCounts()
		w.maintain(History{})
		if n := w.log.Calls(eventlogtest.OpCommit); n != 1 {
			t.Errorf("it took %d commits", n)
		}
		if all := w.drain(q); len(all) != 1 || all[0] != "young" {
			t.Errorf("what is left is %v", all)
		}
	})
}

// A queue that was deleted before the history begins leaves nothing but the end of its streams, and no keys.
func TestMaintainBuriesDeletedQueues(t *testing.T) {
	inWorld(t, func(w *world) {
		q := w.create("q", false)
		for i := range 100 {
			w.send(q, fmt.Sprintf("m%d", i))
		}
		if err := w.b.Delete(w.ctx, Ref{Account: "a", ID: q}); err != nil {
			t.Fatal(err)
		}
		before := w.kept(q, 0)
		time.Sleep(time.Hour)
		w.maintain(History{Before: w.now()})
		if now := w.kept(q, 0); now > before/10 {
			t.Errorf("%d of %d bytes are left", now, before)
		}
		r, err := w.b.readRecord(w.ctx, q)
		if err != nil || !r.has(events.Shredded) || len(r.Ring.Versions) != 0 {
			t.Errorf("the record keeps %+v, %v", r, err)
		}
		if w.buried[q] != 1 {
			t.Errorf("it was told that %d shards were buried", w.buried[q])
		}
	})
}

// What was past its retention when the retention was raised stays so, looked at or not.
func TestRaisedRetentionRevivesNothing(t *testing.T) {
	inWorld(t, func(w *world) {
		q := w.create("q", false, func(c *CreateQueue) { c.Settings.RetentionSeconds = 60 })
		for i := range 100 {
			w.send(q, fmt.Sprintf("dead %d", i))
		}
		time.Sleep(40 * time.Second)
		w.send(q, "young")
		time.Sleep(21 * time.Second)
		d, err := w.b.Update(w.ctx, UpdateQueue{Queue: q, RetentionSeconds: seconds(3600)})
		if err != nil || d.Depth.Available != 1 {
			t.Errorf("the depth is %+v, %v", d.Depth, err)
		}
		if all := w.drain(q); len(all) != 1 || all[0] != "young" {
			t.Errorf("what is left is %v", all)
		}
	})
}

// A purge finishes delayed messages too, for a process that starts later as well.
func TestPurgeOfDelayedMessages(t *testing.T) {
	inWorld(t, func(w *world) {
		q := w.create("q", false)
		m := out("later")
		m[0].DelaySeconds = seconds(600)
		w.sendBy(w.b, q, m...)
		if n, err := w.b.Purge(w.ctx, q); n != 1 || err != nil {
			t.Errorf("purged %d, %v", n, err)
		}
		w.restart()
		if d, err := w.b.Describe(w.ctx, q); err != nil || d.Depth.Counts != (Counts{}) {
			t.Errorf("the depth is %+v, %v", d.Depth, err)
		}
		time.Sleep(601 * time.Second)
		if all := w.drain(q); len(all) != 0 {
			t.Errorf("what came is %v", all)
		}
	})
}

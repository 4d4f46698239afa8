package broker

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leaselog/leaselog/internal/eventlog/eventlogtest"
)

// counting adds up what it hears.
type counting struct {
	mu     sync.Mutex
	total  Tally
	writes [Outcomes]int
	repeat int
	bytes  int
}

func (c *counting) Done(t *Tally) {
	c.mu.Lock()
	defer c.mu.Unlock()
	a := &c.total
	a.Commands += t.Commands
	a.Sent, a.SentBytes, a.Duplicates = a.Sent+t.Sent, a.SentBytes+t.SentBytes, a.Duplicates+t.Duplicates
	a.Leased, a.Redelivered, a.Acked = a.Leased+t.Leased, a.Redelivered+t.Redelivered, a.Acked+t.Acked
	a.Extended, a.Released, a.LateLeases = a.Extended+t.Extended, a.Released+t.Released, a.LateLeases+t.LateLeases
	a.Expired, a.Moved, a.Purged = a.Expired+t.Expired, a.Moved+t.Moved, a.Purged+t.Purged
	a.DeadLettered, a.EmptyReceives = a.DeadLettered+t.DeadLettered, a.EmptyReceives+t.EmptyReceives
}

func (c *counting) Wrote(w Write) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.writes[w.Outcome]++
	c.repeat, c.bytes = c.repeat+w.Repeats, c.bytes+w.Bytes
}

func metered(c *counting) func(*Config) { return func(b *Config) { b.Meter = c } }

// TestMeterHearsEverythingOnce tells a story in which each kind of thing happens a known number of times.
func TestMeterHearsEverythingOnce(t *testing.T) {
	m := new(counting)
	inWorld(t, func(w *world) {
		dead := w.create("dead.fifo", true)
		q := w.create("q.fifo", true, deadLetter(dead, 2))
		w.send(q, "a:1", "b:2", "c:3")
		w.send(q, "a:1", "d:4")
		found := w.receive(q, 10)
		w.ack(q, found[0])
		w.ack(q, found[0]) // again, with success: nothing new
		w.release(q, found[1])
		if _, err := w.b.Extend(w.ctx, q, []Extend{{Receipt: found[2].Receipt, Seconds: 60}, {Receipt: found[1].Receipt, Seconds: 60}}); err != nil {
			t.Error(err)
		}
		time.Sleep(61 * time.Second)
		w.receive(q, 10) // three that were leased before
		time.Sleep(31 * time.Second)
		w.tick() // two receives are all they get
		if _, err := w.b.Purge(w.ctx, dead); err != nil {
			t.Error(err)
		}
		w.send(q, "e:5")
		time.Sleep(5 * 24 * time.Hour)
		w.receive(q, 1)

		want := Tally{Sent: 5, SentBytes: 5, Duplicates: 1, Leased: 7, Redelivered: 3, Acked: 1, Extended: 1, Released: 1, LateLeases: 1,
			Expired: 1, Moved: 3, Purged: 3, DeadLettered: 3, EmptyReceives: 1}
		got := m.total
		got.Commands = 0
		if got != want {
			t.Errorf("got  %+v\nwant %+v", got, want)
		}
		if all, _ := w.b.Depths(w.ctx, 10); all[1].Traffic != (Traffic{Sent: 5, Received: 7, Acked: 1, Expired: 1, DeadLettered: 3, EmptyReceives: 1, Commits: all[1].Traffic.Commits}) ||
			all[0].Traffic != (Traffic{Commits: all[0].Traffic.Commits}) {
			t.Errorf("of the queues %+v", all)
		}
		if m.writes[Conflict]+m.writes[Refused]+m.writes[Unknown]+m.repeat != 0 || m.writes[Stands] < 10 || m.bytes == 0 {
			t.Errorf("writes %v, repeats %d, bytes %d", m.writes, m.repeat, m.bytes)
		}
	}, metered(m))
}

// TestMeterHearsOfTheLog: a repeat is no second write, a conflict of two brokers is one, and what is decided anew after
// it is counted once.
func TestMeterHearsOfTheLog(t *testing.T) {
	m := new(counting)
	inWorld(t, func(w *world) {
		q := w.create("q", false)
		other := w.another(shared)
		w.send(q, "1")
		w.sendBy(other, q, out("2")...)
		before := m.writes
		w.send(q, "3") // this broker believes that nobody else writes
		if m.writes[Conflict] != before[Conflict]+1 || m.writes[Stands] != before[Stands]+1 || m.total.Sent != 3 {
			t.Errorf("writes %v after %v; sent %d", m.writes, before, m.total.Sent)
		}
		w.log.Plan(eventlogtest.Nth(eventlogtest.OpCommit, w.log.Calls(eventlogtest.OpCommit)+1, eventlogtest.After))
		w.send(q, "4")
		if m.repeat != 1 || m.total.Sent != 4 {
			t.Errorf("repeats %d, sent %d", m.repeat, m.total.Sent)
		}
		if all, _ := w.b.Depths(w.ctx, 1); all[0].Traffic.Conflicts != 1 || all[0].Traffic.Sent != 3 || all[0].Available != 4 {
			t.Errorf("%+v", all)
		}
	}, metered(m), shared)
}

// TestStatsAndDepths: what is open, in the order of names, up to a number; a receive that waits; nothing is opened.
func TestStatsAndDepths(t *testing.T) {
	inWorld(t, func(w *world) {
		b, a := w.create("b", false), w.create("a", false)
		w.create("idle", false)
		w.restart()
		w.send(b, "1", "2")
		w.send(a, "1")
		w.receive(b, 1)
		all, left := w.b.Depths(w.ctx, 10)
		if len(all) != 2 || left != 0 || all[0].Name != "a" || all[0].Account != "a" || all[0].ID != a || all[1].Counts != (Counts{Available: 1, InFlight: 1}) {
			t.Errorf("%+v, %d left out", all, left)
		}
		if all, left := w.b.Depths(w.ctx, 1); len(all) != 1 || left != 1 {
			t.Errorf("%+v, %d left out", all, left)
		}
		done := make(chan struct{})
		empty := w.create("empty", false)
		go func() {
			defer close(done)
			w.receiveBy(w.b, Receive{Queue: empty, Max: 1, WaitSeconds: seconds(20)})
		}()
		synctest.Wait()
		if s := w.b.Stats(); s.Polls != 1 || s.Queues != 3 || s.Shards != 3 {
			t.Errorf("%+v", s)
		}
		<-done
		if s := w.b.Stats(); s.Polls != 0 {
			t.Errorf("%+v", s)
		}
	}, onShards(1))
}

// BenchmarkDepths is what a scrape pays for each queue.
func BenchmarkDepths(b *testing.B) {
	w := benchWorld(b)
	for i := range 100 {
		w.send(w.create(texts("q", 100)[i], false), "1")
	}
	for b.Loop() {
		if all, _ := w.b.Depths(w.ctx, 500); len(all) != 100 {
			b.Fatal(len(all))
		}
	}
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)/100, "µs/queue")
}

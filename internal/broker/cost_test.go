package broker

import (
	"fmt"
	"maps"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leaselog/leaselog/events"
	"github.com/leaselog/leaselog/internal/eventlog"
	"github.com/leaselog/leaselog/internal/eventlog/eventlogtest"
)

type calls = map[eventlogtest.Op]int

// TestStoreCalls holds what each command costs once its shard is warm.
func TestStoreCalls(t *testing.T) {
	commit, end, ends := calls{eventlogtest.OpCommit: 1}, calls{eventlogtest.OpRead: 1}, calls{eventlogtest.OpRead: 2}
	steps := []struct {
		name              string
		do                func(w *world, q events.QueueID, held *[]Delivery)
		exclusive, shared calls
	}{
		{"send", func(w *world, q events.QueueID, _ *[]Delivery) { w.send(q, "g:a", "h:b") }, commit, commit},
		{"duplicate", func(w *world, q events.QueueID, _ *[]Delivery) { w.send(q, "g:a") }, nil, end},
		{"receive", func(w *world, q events.QueueID, held *[]Delivery) { *held = w.receive(q, 10) }, commit, commit},
		{"receive nothing", func(w *world, q events.QueueID, _ *[]Delivery) { w.receive(q, 10) }, nil, ends},
		{"extend", func(w *world, q events.QueueID, held *[]Delivery) {
			if r, err := w.b.Extend(w.ctx, q, []Extend{{(*held)[0].Receipt, 60}, {(*held)[1].Receipt, 60}}); err != nil || r[0] != nil || r[1] != nil {
				w.t.Error(r, err)
			}
		}, commit, commit},
		{"describe", func(w *world, q events.QueueID, _ *[]Delivery) { w.depth(q) }, calls{eventlogtest.OpClaim: 1}, calls{eventlogtest.OpClaim: 1, eventlogtest.OpRead: 2}},
		{"find by id", func(w *world, q events.QueueID, _ *[]Delivery) {
			if _, err := w.b.Find(w.ctx, Ref{Account: "a", ID: q}); err != nil {
				w.t.Error(err)
			}
		}, nil, nil},
		{"ack", func(w *world, q events.QueueID, held *[]Delivery) { w.ack(q, *held...) }, commit, commit},
		{"repeated ack", func(w *world, q events.QueueID, held *[]Delivery) { w.ack(q, *held...) }, nil, end},
		{"send to one who waits", func(w *world, q events.QueueID, _ *[]Delivery) {
			p := w.poll(w.b, q, 1)
			w.send(q, "g:c")
			w.wantPoll(p, 0, "c")
			w.log.Plan(nil)
		}, commit, commit},
		{"tick", func(w *world, q events.QueueID, _ *[]Delivery) { w.tick() }, nil, nil},
	}
	for _, exclusive := range []bool{true, false} {
		inWorld(t, func(w *world) {
			q := w.create("q.fifo", true)
			w.tick()
			w.send(q, "warm:x")
			w.drain(q)
			var held []Delivery
			for _, s := range steps {
				w.log.ResetCounts()
				s.do(w, q, &held)
				want := s.shared
				if exclusive {
					want = s.exclusive
				}
				got := w.log.Counts()
				if !maps.Equal(got, want) {
					t.Errorf("exclusive %v: %s costs %v, not %v", exclusive, s.name, got, want)
				}
			}
		}, func(c *Config) { c.Exclusive = exclusive })
	}
}

// TestStoreCallsApart holds what they cost where each kind has a process of its own, as Lambda functions have: all that
// the others have written is read once, and nobody reads what it does not need.
func TestStoreCallsApart(t *testing.T) {
	inWorld(t, func(w *world) {
		q := w.create("q.fifo", true)
		sender, receiver, acker := w.b, w.another(), w.another()
		by := func(what string, b *Broker, commits, reads int, do func()) {
			w.t.Helper()
			w.b = b
			w.log.ResetCounts()
			do()
			if c, r, all := w.log.Calls(eventlogtest.OpCommit), w.log.Calls(eventlogtest.OpRead), w.log.Counts(); reads >= 0 && (c != commits || r != reads || len(all) > 2) {
				w.t.Errorf("%s costs %v, not %d commits and %d reads", what, all, commits, reads)
			}
		}
		for i := range 4 {
			warm := func(n int) int {
				if i == 0 {
					return -1
				}
				return n
			}
			var held []Delivery
			by("a send", sender, 1, warm(0), func() { w.send(q, fmt.Sprint("g:", i), fmt.Sprint("h:", i)) })
			by("a receive", receiver, 1, warm(2), func() { held = w.receive(q, 10) })
			if len(held) != 2 {
				t.Fatalf("%d received", len(held))
			}
			by("an ack", acker, 1, warm(1), func() { w.ack(q, held[0]) })
			by("another", acker, 1, warm(1), func() { w.ack(q, held[1]) }) // it looks once more whether others write here
			by("a receive of nothing", receiver, 0, warm(2), func() { w.receive(q, 10) })
		}
		w.b = sender
	}, shared)
}

// Commands that wait together are committed together.
func TestGroupCommit(t *testing.T) {
	inWorld(t, func(w *world) {
		q := w.create("q", false)
		w.send(q, "warm")
		w.drain(q)
		slow(w, time.Second)
		w.log.ResetCounts()
		for range 500 {
			go w.send(q, "a")
		}
		time.Sleep(3 * time.Second)
		synctest.Wait()
		if n := w.log.Calls(eventlogtest.OpCommit); n > 2 {
			t.Errorf("500 sends took %d commits", n)
		}
		w.wantDepth(q, 500, 0, 0)
	})
}

// A receive costs the same however much is behind it, and what is past its retention is jumped over, not read.
func TestCostIsFlat(t *testing.T) {
	inWorld(t, func(w *world) {
		q := w.create("q", false)
		for range 5000 {
			w.send(q, "old")
		}
		time.Sleep(5 * 24 * time.Hour)
		w.send(q, "new")
		for _, what := range []string{"warm", "cold"} {
			w.log.ResetCounts()
			w.wantDepth(q, 1, 0, 0)
			if n := w.log.Calls(eventlogtest.OpRead); n > 60 {
				t.Errorf("%s: a depth took %d reads", what, n)
			}
			if what == "warm" {
				w.restart()
			}
		}
		w.log.ResetCounts()
		w.want(w.drain(q), "new")
		if n := w.log.Calls(eventlogtest.OpRead); n > 30 {
			t.Errorf("5000 expired messages took %d reads", n)
		}
	})
}

// A group's ledger entry names a bounded number of messages, however many ask at once.
func TestGroupsAreBounded(t *testing.T) {
	inWorld(t, func(w *world) {
		q := w.create("q", false)
		for range 12 {
			w.send(q, texts("m", 1000)...)
		}
		var polls []*poll
		for range 1200 {
			polls = append(polls, w.start(w.b, Receive{Queue: q, Max: 10, WaitSeconds: seconds(20)}))
		}
		for _, p := range polls {
			<-p.done
			if len(p.found) != 10 || p.ended != p.began {
				t.Fatalf("%d messages after %v: %v", len(p.found), p.ended.Sub(p.began), p.err)
			}
		}
		for _, p := range polls { // the same, all released at once while everybody waits
			go w.b.Extend(w.ctx, q, releases(p.found))
		}
		synctest.Wait()
		w.wantDepth(q, 12000, 0, 0)
		entries, err := w.mem.Read(w.ctx, eventlog.Stream(events.LedgerStream(q, 0)), 0, eventlog.Limits{})
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			happened, _ := events.Decode(e.Data)
			n := 0
			for _, ev := range happened {
				n += named(ev)
			}
			if n > groupItemsMax+10 {
				t.Errorf("an entry names %d messages", n)
			}
		}
	})
}

func releases(found []Delivery) (all []Extend) {
	for _, d := range found {
		all = append(all, Extend{Receipt: d.Receipt})
	}
	return all
}

package broker

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/leaselog/leaselog/events"
	"github.com/leaselog/leaselog/internal/eventlog/eventlogtest"
	"github.com/leaselog/leaselog/internal/fault"
)

// life gives a message's whole life in a queue, in pages of n.
func (w *world) life(q events.QueueID, id events.MessageID, n int) (all []Happening) {
	w.t.Helper()
	for after := ""; ; {
		l, err := w.b.Life(w.ctx, LifeOf{Queue: q, ID: id, After: after, Limit: n})
		if err != nil {
			w.t.Fatalf("life: %v", err)
		}
		if l.Lost {
			w.t.Error("the log is said not to go back far enough")
		}
		all = append(all, l.Happenings...)
		if after = l.Next; after == "" {
			return all
		}
	}
}

// wantLife compares what happened, when, in seconds since the start, and what is told of it.
func (w *world) wantLife(began events.Instant, all []Happening, want ...string) {
	w.t.Helper()
	var got []string
	for _, h := range all {
		text := fmt.Sprintf("%d %s", (h.At-began)/1000, h.What)
		if h.Until != 0 {
			text += fmt.Sprintf(" until %d", (h.Until-began)/1000)
		}
		if h.Receives > 0 {
			text += fmt.Sprintf(" receive %d", h.Receives)
		}
		got = append(got, text)
	}
	if !slices.Equal(got, want) {
		w.t.Errorf("life:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// A message's life is told from its first instant to its last, through a dead-letter queue and back, page by page.
func TestLife(t *testing.T) {
	for _, k := range kinds {
		t.Run(k.name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				dead := w.create("dead", k.fifo)
				q := w.create("q", k.fifo, deadLetter(dead, 2))
				w.send(q, "g:before")
				w.ack(q, w.receive(q, 1)...)
				began := w.now()
				id := w.send(q, "g:message")[0]
				w.send(q, "h:beside")
				for found := w.receive(q, 10); len(found) > 0; found = w.receive(q, 10) {
					w.ack(q, slices.DeleteFunc(found, func(d Delivery) bool { return d.ID == id })...)
				}
				w.wantLife(began, w.life(q, id, 1), "0 sent", "0 leased until 30 receive 1")
				time.Sleep(40 * time.Second)
				w.wantLife(began, w.life(q, id, 1), "0 sent", "0 leased until 30 receive 1", "30 lease_ended")
				found := w.receive(q, 10)
				if _, err := w.b.Extend(w.ctx, q, []Extend{{Receipt: found[0].Receipt, Seconds: 60}}); err != nil {
					t.Fatal(err)
				}
				time.Sleep(70 * time.Second)
				w.tick() // takes it to the dead-letter queue
				if rows, _ := w.b.Peek(w.ctx, Peek{Queue: dead, Limit: 1}); len(rows.Rows) != 1 {
					t.Fatal("it is not dead")
				}
				first := []string{"0 sent", "0 leased until 30 receive 1", "30 lease_ended", "40 leased until 70 receive 2",
					"40 extended until 100", "100 lease_ended", "110 moved"}
				w.wantLife(began, w.life(q, id, 1), first...)
				w.wantLife(began, w.life(dead, id, 1), "110 arrived")
				w.moves()
				w.startMove(StartMove{Queue: dead})
				w.moves()
				there := w.life(dead, id, 1)
				w.wantLife(began, slices.DeleteFunc(slices.Clone(there), func(h Happening) bool { return h.What == Passed }), "110 arrived", "110 moved")
				if last := there[len(there)-1]; last.Reason != events.Redriven || last.Queue != q {
					t.Errorf("%+v", last)
				}
				w.release(q, w.receive(q, 1)[0])
				w.ack(q, w.receive(q, 1)...)
				whole := append(first, "110 arrived", "110 leased until 140 receive 1", "110 released until 110", "110 leased until 140 receive 2", "110 acked")
				for n := range 4 {
					w.wantLife(began, w.life(q, id, n+1), whole...)
				}
				w.restart()
				w.wantLife(began, w.life(q, id, 100), whole...)
				for _, h := range w.life(q, id, 100) {
					if h.What == WasMoved && (h.Reason != events.Exhausted || h.Queue != dead) || h.What == Arrived && h.Queue != dead {
						t.Errorf("%+v", h)
					}
				}
			}, onShards(k.shards))
		})
	}
}

// What ends a message without naming it is told, and of nothing else.
func TestLifeEnds(t *testing.T) {
	inWorld(t, func(w *world) {
		short := w.create("short", false, func(c *CreateQueue) { c.Settings.RetentionSeconds = 60 })
		began := w.now()
		looked, not := w.send(short, "looked at")[0], w.send(short, "not looked at")[0]
		w.receiveBy(w.b, Receive{Queue: short, Max: 1, LeaseSeconds: seconds(10), WaitSeconds: seconds(0)})
		time.Sleep(2 * time.Minute)
		if err := maintain(w.ctx, w.b, History{}); err != nil {
			t.Fatal(err)
		}
		w.want(bodies(w.receive(short, 1))) // discards what Maintain has left to it
		w.wantLife(began, w.life(short, looked, 9), "0 sent", "0 leased until 10 receive 1", "10 lease_ended", "120 expired")
		w.wantLife(began, w.life(short, not, 9), "0 sent", "120 expired")

		q, began := w.create("q", false), w.now()
		held, waits := w.send(q, "held")[0], w.send(q, "waits")[0]
		w.receive(q, 1)
		if _, err := w.b.Purge(w.ctx, q); err != nil {
			t.Fatal(err)
		}
		after := w.send(q, "after")[0]
		w.wantLife(began, w.life(q, held, 9), "0 sent", "0 leased until 30 receive 1", "0 purged")
		w.wantLife(began, w.life(q, waits, 9), "0 sent", "0 purged")
		w.wantLife(began, w.life(q, after, 9), "0 sent")

		_, err := w.b.Life(w.ctx, LifeOf{Queue: short, ID: after, Limit: 9})
		w.wantFault(err, fault.NotFound)
		before := w.log.Calls(eventlogtest.OpRead)
		_, err = w.b.Life(w.ctx, LifeOf{Queue: q, ID: events.MessageID(q), Limit: 9}) // a queue's id is as old as it
		w.wantFault(err, fault.NotFound)
		_, err = w.b.Life(w.ctx, LifeOf{Queue: q, ID: events.MessageID{6: 0x40}, Limit: 9}) // is no id of ours
		w.wantFault(err, fault.NotFound)
		if n := w.log.Calls(eventlogtest.OpRead) - before; n > 8 {
			t.Errorf("%d reads for what cannot be here", n)
		}
		_, err = w.b.Life(w.ctx, LifeOf{Queue: q, ID: after, After: "garbled", Limit: 9})
		w.wantFault(err, fault.Invalid)
	})
}

// Where the log does not go back any more, that is said.
func TestLifeLost(t *testing.T) {
	inWorld(t, func(w *world) {
		q := w.create("q", false)
		gone, held := w.send(q, "gone")[0], w.send(q, "held")[0]
		w.ack(q, w.receive(q, 1)...)
		time.Sleep(time.Hour)
		w.receiveBy(w.b, Receive{Queue: q, Max: 1, LeaseSeconds: seconds(7200), WaitSeconds: seconds(0)})
		time.Sleep(time.Hour)
		if err := maintain(w.ctx, w.b, History{Before: w.now()}); err != nil {
			t.Fatal(err)
		}
		_, err := w.b.Life(w.ctx, LifeOf{Queue: q, ID: gone, Limit: 9})
		w.wantFault(err, fault.NotFound)
		l, err := w.b.Life(w.ctx, LifeOf{Queue: q, ID: held, Limit: 9})
		if err != nil || !l.Lost || len(l.Happenings) != 2 || l.Happenings[0].What != WasSent || l.Happenings[1].What != Leased {
			t.Errorf("%+v, %v", l, err)
		}
		first, err := w.b.Life(w.ctx, LifeOf{Queue: q, ID: held, Limit: 1})
		if err != nil || first.Next == "" {
			t.Fatal(first, err)
		}
		if next, err := w.b.Life(w.ctx, LifeOf{Queue: q, ID: held, After: first.Next, Limit: 1}); err != nil || !next.Lost {
			t.Errorf("the next page does not say so: %+v, %v", next, err)
		}
	})
}

package broker

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/leaselog/leaselog/events"
	"github.com/leaselog/leaselog/internal/eventlog"
	"github.com/leaselog/leaselog/internal/fault"
)

func (w *world) startMove(s StartMove) *MoveTask {
	w.t.Helper()
	m, err := w.b.StartMove(w.ctx, s)
	if err != nil {
		w.t.Fatalf("start: %v", err)
	}
	return m
}

// moves advances the tasks for as long as there is something to do at once.
func (w *world) moves() {
	w.t.Helper()
	if err := w.redrive(w.ctx, w.b); err != nil {
		w.t.Errorf("moves: %v", err)
	}
}

func (w *world) wantMove(m *MoveTask, want string) {
	w.t.Helper()
	now, err := w.b.Move(w.ctx, m.Queue, m.ID)
	if err != nil {
		w.t.Fatal(err)
	}
	if got := tell(now); got != want {
		w.t.Errorf("the task is %q, not %q", got, want)
	}
}

func tell(m *MoveTask) string {
	s := fmt.Sprintf("%s, moved %d of %d", m.State, m.Moved, m.Total)
	for _, x := range []struct {
		n    uint64
		what string
	}{{m.Skipped, "skipped"}, {m.Failed, "failed"}, {m.Waiting, "waiting"}} {
		if x.n > 0 {
			s += fmt.Sprintf(", %s %d", x.what, x.n)
		}
	}
	return s
}

// dead fills a dead-letter queue with messages of a queue, each received once.
func (w *world) dead(q events.QueueID, bodies ...string) {
	w.t.Helper()
	w.send(q, bodies...)
	for range bodies {
		w.exhaust(q, 1)
	}
	w.tick()
}

// TestMoveBack says that messages go back to where each came from, with their ids and their history, that they begin anew
// there, and that what came into the queue after the start stays.
func TestMoveBack(t *testing.T) {
	for _, k := range kinds {
		t.Run(k.name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				dead := w.create("dead", k.fifo)
				a, b := w.create("a", k.fifo, deadLetter(dead, 1)), w.create("b", k.fifo, deadLetter(dead, 1))
				sent := w.now()
				ids := w.send(a, "g:1", "h:2")
				w.exhaust(a, 1)
				w.exhaust(a, 1)
				w.tick()
				w.dead(b, "g:3", "i:4")
				w.dead(a, "g:5")
				m := w.startMove(StartMove{Queue: dead})
				w.send(dead, "x:late")
				w.moves()
				w.wantMove(m, "completed, moved 5 of 5")
				w.wantSame(w.drain(dead), "late")
				page, err := w.b.Peek(w.ctx, Peek{Queue: a, Limit: 10})
				if err != nil || len(page.Rows) != 3 {
					t.Fatalf("%d messages, %v", len(page.Rows), err)
				}
				i := slices.IndexFunc(page.Rows, func(r Row) bool { return string(r.Message.Body) == "1" })
				r := page.Rows[i]
				if r.ID != ids[0] || r.Receives != 0 || r.Enqueued != sent || r.Origin.Queue != dead || r.Origin.Reason != events.Redriven {
					t.Errorf("came back as %+v, from %+v", r, r.Origin)
				}
				w.wantSame(w.drain(a), "1", "2", "5")
				w.wantSame(w.drain(b), "3", "4")
			}, onShards(k.shards))
		})
	}
}

// TestMoveHistory says that a moved message keeps why, how often it was received and who had it last.
func TestMoveHistory(t *testing.T) {
	inWorld(t, func(w *world) {
		dead := w.create("dead", false)
		q := w.create("q", false, deadLetter(dead, 2))
		w.send(q, "1")
		w.exhaust(q, 1)
		last := w.receiveBy(w.b, Receive{Queue: q, Max: 1, LeaseSeconds: seconds(1), WaitSeconds: seconds(0)})[0]
		time.Sleep(time.Second)
		w.tick()
		page, err := w.b.Peek(w.ctx, Peek{Queue: dead, Limit: 1})
		if err != nil {
			t.Fatal(err)
		}
		held, err := w.b.parseReceipt(last.Receipt, q)
		if err != nil {
			t.Fatal(err)
		}
		if o := page.Rows[0].Origin; o.Receives != 2 || o.Reason != events.Exhausted || o.Queue != q || o.Lease != held.lease {
			t.Errorf("the origin is %+v, the last lease was %x", o, held.lease)
		}
	})
}

// TestMoveFilters takes what passes each kind of filter, and a dry run says so before.
func TestMoveFilters(t *testing.T) {
	for name, c := range map[string]struct {
		MoveFilter
		source string
		want   []string
	}{
		"none":          {MoveFilter{}, "", []string{"old apple", "pear", "plum", "tagged"}},
		"age":           {MoveFilter{OlderThanSeconds: 600}, "", []string{"old apple"}},
		"source":        {MoveFilter{}, "b", []string{"pear", "plum"}},
		"group":         {MoveFilter{Group: "h"}, "", []string{"plum"}},
		"attribute":     {MoveFilter{Attributes: []Match{{"colour", "red"}}}, "", []string{"tagged"}},
		"another value": {MoveFilter{Attributes: []Match{{"colour", "re"}}}, "", nil},
		"body":          {MoveFilter{Body: "^p|apple$"}, "", []string{"old apple", "pear", "plum"}},
		"two at once":   {MoveFilter{Body: "p", Group: "g"}, "", []string{"old apple", "pear"}},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				dead, to := w.create("dead", true), w.create("to", true)
				queues := map[string]events.QueueID{"a": w.create("a", true, deadLetter(dead, 1)), "b": w.create("b", true, deadLetter(dead, 1))}
				w.dead(queues["a"], "g:old apple")
				time.Sleep(time.Hour)
				w.dead(queues["b"], "g:pear", "h:plum")
				tagged := out("g:tagged")
				tagged[0].Message.Attributes = []events.Attribute{{Name: "colour", Type: "String", Value: []byte("red")}}
				w.sendBy(w.b, dead, tagged...)
				c.Source = queues[c.source]
				s := StartMove{Queue: dead, Target: &Ref{Account: "a", ID: to}, Filter: c.MoveFilter}
				dry, err := w.b.PreviewMove(w.ctx, s)
				if err != nil || dry.Moved != uint64(len(c.want)) || dry.Skipped != uint64(4-len(c.want)) {
					t.Errorf("the dry run says %s, %v", tell(dry), err)
				}
				w.wantDepth(dead, 4, 0, 0)
				m := w.startMove(s)
				w.moves()
				if got, err := w.b.Move(w.ctx, dead, m.ID); err != nil || got.State != TaskCompleted || got.Moved != dry.Moved || got.Skipped != dry.Skipped {
					t.Errorf("%s, %v", tell(got), err)
				}
				w.wantSame(w.drain(to), c.want...)
				if got := w.drain(dead); len(got) != 4-len(c.want) {
					t.Errorf("%q stay", got)
				}
			})
		})
	}
}

// TestMoveRefused has what is no task.
func TestMoveRefused(t *testing.T) {
	inWorld(t, func(w *world) {
		q, fifo := w.create("q", false), w.create("fifo", true)
		for name, c := range map[string]struct {
			StartMove
			code fault.Code
		}{
			"no queue":      {StartMove{Queue: events.QueueID{1}}, fault.NotFound},
			"no target":     {StartMove{Queue: q, Target: &Ref{Account: "a", Name: "none"}}, fault.Invalid},
			"another's":     {StartMove{Queue: q, Target: &Ref{Account: "b", ID: fifo}}, fault.Invalid},
			"itself":        {StartMove{Queue: q, Target: &Ref{Account: "a", ID: q}}, fault.Invalid},
			"other kind":    {StartMove{Queue: q, Target: &Ref{Account: "a", ID: fifo}}, fault.Invalid},
			"no expression": {StartMove{Queue: q, Filter: MoveFilter{Body: "("}}, fault.Invalid},
		} {
			if _, err := w.b.StartMove(w.ctx, c.StartMove); !fault.Is(err, c.code) {
				t.Errorf("%s: %v", name, err)
			}
			if _, err := w.b.PreviewMove(w.ctx, c.StartMove); !fault.Is(err, c.code) {
				t.Errorf("%s, dry: %v", name, err)
			}
		}
		m := w.startMove(StartMove{Queue: q})
		_, err := w.b.StartMove(w.ctx, StartMove{Queue: q})
		w.wantFault(err, fault.Limit)
		if !strings.Contains(err.Error(), m.ID.String()) {
			t.Errorf("%v does not name the task that is running", err)
		}
		w.startMove(StartMove{Queue: fifo}) // on another queue, at once
		_, err = w.b.CancelMove(w.ctx, q, TaskID{1})
		w.wantFault(err, fault.NotFound)
	})
}

// TestMoveWaits says that what is leased is not taken from its holder, and what follows it in its group not before it: the
// task is over when they were moved or acked.
func TestMoveWaits(t *testing.T) {
	for _, k := range kinds {
		t.Run(k.name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				q, to := w.create("q", k.fifo), w.create("to", k.fifo)
				w.send(q, "g:1", "g:2", "h:3", "h:4", "i:5")
				var held []Delivery
				for range k.shards {
					held = append(held, w.receiveBy(w.b, Receive{Queue: q, Max: 2, LeaseSeconds: seconds(60), WaitSeconds: seconds(0)})...)
				}
				waiting := uint64(len(held))
				if k.fifo {
					waiting = 4 // with those behind
				}
				m := w.startMove(StartMove{Queue: q, Target: &Ref{Account: "a", ID: to}})
				w.moves()
				w.wantMove(m, fmt.Sprintf("running, moved %d of 5, waiting %d", 5-waiting, waiting))
				w.ack(q, held[0])
				time.Sleep(10 * time.Second)
				w.moves()
				if got, _ := w.b.Move(w.ctx, q, m.ID); got.State != TaskRunning || got.Waiting == 0 {
					t.Errorf("while one is leased: %s", tell(got))
				}
				time.Sleep(100 * time.Second)
				w.moves()
				w.wantMove(m, "completed, moved 4 of 5")
				got := w.drain(to)
				if w.wantDepth(q, 0, 0, 0); len(got) != 4 {
					t.Errorf("moved %q", got)
				}
				if k.fifo {
					w.want(got, "5", "2", "3", "4")
				}
			}, onShards(k.shards))
		})
	}
}

// TestMoveRate says that the rate holds over any time, and a pause gives no more than a second's worth at once.
func TestMoveRate(t *testing.T) {
	for _, rate := range []uint32{1, 7, 50, 3_000} {
		inWorld(t, func(w *world) {
			q, to := w.create("q", false), w.create("to", false)
			n := int(min(rate*20, 4_000))
			for i := 0; i < n; i += 500 {
				w.send(q, texts(fmt.Sprintf("%d-", i), min(500, n-i))...)
			}
			m := w.startMove(StartMove{Queue: q, Target: &Ref{Account: "a", ID: to}, Rate: rate})
			began := w.now()
			for {
				w.moves()
				now, err := w.b.Move(w.ctx, q, m.ID)
				if err != nil {
					t.Fatal(err)
				}
				took := float64(w.now()-began) / 1000
				if most := took*float64(rate) + 1; float64(now.Moved) > most {
					t.Fatalf("%d a second: %d after %v s", rate, now.Moved, took)
				}
				if now.State == TaskCompleted {
					if least := float64(n)/float64(rate)*1.1 + 1; took > least {
						t.Errorf("%d messages at %d a second took %v s", n, rate, took)
					}
					return
				}
				time.Sleep(50 * time.Millisecond)
			}
		})
	}
}

// TestMoveCancel says that a cancelled task moves nothing more, that its count is what arrived, and that the next one
// takes the rest.
func TestMoveCancel(t *testing.T) {
	inWorld(t, func(w *world) {
		q, to := w.create("q", false), w.create("to", false)
		w.send(q, texts("", 250)...)
		s := StartMove{Queue: q, Target: &Ref{Account: "a", ID: to}}
		m := w.startMove(s)
		if _, err := w.b.Moves(w.ctx); err != nil {
			t.Fatal(err)
		}
		w.restart()
		for range 2 { // the second time it is cancelled already
			got, err := w.b.CancelMove(w.ctx, q, m.ID)
			if err != nil || tell(got) != "cancelled, moved 100 of 250" || got.Ended == 0 {
				t.Fatalf("%s, %v", tell(got), err)
			}
		}
		w.moves()
		w.wantDepth(to, 100, 0, 0)
		w.wantDepth(q, 150, 0, 0)
		time.Sleep(time.Millisecond) // tasks are listed by the instants of their start
		again := w.startMove(s)
		w.moves()
		w.wantMove(again, "completed, moved 150 of 150")
		w.wantMove(m, "cancelled, moved 100 of 250")
		tasks, more, err := w.b.ListMoves(w.ctx, ListMoves{Queue: q, Limit: 1})
		if err != nil || !more || len(tasks) != 1 || tasks[0].ID != m.ID {
			t.Fatalf("%v, %t, %v", tasks, more, err)
		}
		tasks, more, err = w.b.ListMoves(w.ctx, ListMoves{Queue: q, Limit: 1, After: m.ID.String()})
		if err != nil || more || len(tasks) != 1 || tasks[0].ID != again.ID || tasks[0].TargetName != "to" {
			t.Fatalf("%v, %t, %v", tasks, more, err)
		}
		time.Sleep(15 * 24 * time.Hour)
		if tasks, _, err = w.b.ListMoves(w.ctx, ListMoves{Queue: q, Limit: 9}); err != nil || len(tasks) != 0 {
			t.Errorf("after two weeks: %v, %v", tasks, err)
		}
	})
}

// TestMoveGone says what becomes of a task whose queue, target or sources are deleted.
func TestMoveGone(t *testing.T) {
	inWorld(t, func(w *world) {
		dead := w.create("dead", false)
		a, b := w.create("a", false, deadLetter(dead, 1)), w.create("b", false, deadLetter(dead, 1))
		to := w.create("to", false)
		w.dead(a, "1", "2")
		w.dead(b, "3")
		remove := func(q events.QueueID) {
			if err := w.b.Delete(w.ctx, Ref{Account: "a", ID: q}); err != nil {
				t.Fatal(err)
			}
		}
		m := w.startMove(StartMove{Queue: dead, Target: &Ref{Account: "a", ID: to}})
		remove(to)
		w.moves()
		w.wantMove(m, "failed, moved 0 of 3")
		remove(a)
		m = w.startMove(StartMove{Queue: dead})
		w.moves()
		w.wantMove(m, "completed, moved 1 of 3, failed 2")
		if got, err := w.b.Move(w.ctx, dead, m.ID); err != nil || !strings.Contains(got.Reason, a.String()) {
			t.Errorf("%+v, %v", got, err)
		}
		w.wantDepth(dead, 2, 0, 0)
		w.startMove(StartMove{Queue: dead, Target: &Ref{Account: "a", ID: b}})
		remove(dead)
		w.moves()
		claims, err := w.mem.Claims(w.ctx, movesPrefix, "", 10)
		if err != nil || slices.ContainsFunc(claims, func(c eventlog.Claim) bool { return c.Until > int64(w.now()) }) {
			t.Errorf("still running: %v, %v", claims, err)
		}
		w.wantDepth(b, 1, 0, 0)
	})
}

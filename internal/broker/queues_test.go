package broker

import (
	"slices"
	"testing"
	"time"

	"github.com/leaselog/leaselog/events"
	"github.com/leaselog/leaselog/internal/fault"
)

func TestCreateFindList(t *testing.T) {
	inWorld(t, func(w *world) {
		ids := map[string]events.QueueID{}
		for _, name := range []string{"c", "a", "b.fifo", "d"} {
			ids[name] = w.create(name, name == "b.fifo")
		}
		_, err := w.b.Create(w.ctx, CreateQueue{Account: "a", Name: "c", Settings: settings(true)})
		w.wantFault(err, fault.Exists)
		if _, err := w.b.Create(w.ctx, CreateQueue{Account: "other", Name: "c", Settings: settings(false)}); err != nil {
			w.t.Error(err)
		}
		for name, id := range ids {
			for _, r := range []Ref{{Account: "a", Name: name}, {Account: "a", ID: id}} {
				if q, err := w.b.Find(w.ctx, r); err != nil || q.ID != id || q.Name != name || q.Settings.Fifo != (name == "b.fifo") {
					w.t.Errorf("find %v: %+v, %v", r, q, err)
				}
			}
			_, err := w.b.Find(w.ctx, Ref{Account: "other", ID: id})
			w.wantFault(err, fault.NotFound)
		}
		_, err = w.b.Find(w.ctx, Ref{Account: "a", Name: "nobody"})
		w.wantFault(err, fault.NotFound)
		if err := w.b.Delete(w.ctx, Ref{Account: "a", Name: "c"}); err != nil {
			w.t.Error(err)
		}
		var names []string
		for after, more := "", true; more; {
			var page []*Queue
			if page, more, err = w.b.List(w.ctx, ListQueues{Account: "a", After: after, Limit: 2}); err != nil {
				w.t.Fatal(err)
			}
			for _, q := range page {
				names, after = append(names, q.Name), q.Name
			}
		}
		w.want(names, "a", "b.fifo", "d")
	})
}

func TestUpdate(t *testing.T) {
	forKinds(t, func(w *world, k kind, q events.QueueID) {
		tags := map[string]string{"k": "v"}
		got, err := w.b.Update(w.ctx, UpdateQueue{Queue: q, LeaseSeconds: seconds(5), MaxBytes: seconds(2000), Tags: &tags})
		if err != nil || got.Settings.LeaseSeconds != 5 || got.Settings.MaxBytes != 2000 || got.Tags["k"] != "v" || got.Settings.RetentionSeconds == 0 {
			w.t.Fatalf("%+v %v", got, err)
		}
		w.send(q, "g:"+string(make([]byte, 2000)))
		if d := w.receive(q, 1)[0]; d.Visible != w.now().Add(5) {
			w.t.Errorf("leased until %d at %d", d.Visible, w.now())
		}
		w.log.ResetCounts()
		if again, err := w.b.Update(w.ctx, UpdateQueue{Queue: q, LeaseSeconds: seconds(5)}); err != nil || again.Updated != got.Updated {
			w.t.Error("an update that changes nothing:", again, err)
		}
		if n := w.log.Counts(); n["Commit"] > 0 {
			w.t.Errorf("an update that changes nothing: %v", n)
		}
	})
}

func TestDelete(t *testing.T) {
	forKinds(t, func(w *world, k kind, q events.QueueID) {
		w.send(q, "g:a", "h:b")
		held := w.receive(q, 1)
		if err := w.b.Delete(w.ctx, Ref{Account: "a", Name: "q"}); err != nil {
			w.t.Fatal(err)
		}
		_, err := w.b.Send(w.ctx, q, out("g:x"))
		w.wantFault(err, fault.NotFound)
		_, err = w.b.Receive(w.ctx, Receive{Queue: q, Max: 1})
		w.wantFault(err, fault.NotFound)
		_, err = w.b.Ack(w.ctx, q, receipts(held))
		w.wantFault(err, fault.NotFound)
		_, err = w.b.Describe(w.ctx, q)
		w.wantFault(err, fault.NotFound)
		w.wantFault(w.b.Delete(w.ctx, Ref{Account: "a", Name: "q"}), fault.NotFound)

		again := w.create("q", k.fifo)
		if again == q {
			w.t.Error("the same id twice")
		}
		w.send(again, "g:new")
		time.Sleep(5 * time.Minute)
		if err := w.b.Delete(w.ctx, Ref{Account: "a", ID: q}); err != nil {
			w.t.Error("repeated by id:", err)
		}
		time.Sleep(time.Millisecond)
		w.wantFault(w.b.Delete(w.ctx, Ref{Account: "a", ID: q}), fault.NotFound)
		if found, err := w.b.Find(w.ctx, Ref{Account: "a", Name: "q"}); err != nil || found.ID != again {
			w.t.Error(found, err)
		}
		w.want(w.drain(again), "new")
	})
}

func TestDeadLetterReferences(t *testing.T) {
	inWorld(t, func(w *world) {
		std, fifo := w.create("dead", false), w.create("dead.fifo", true)
		for _, c := range []struct {
			name string
			fifo bool
			ref  Ref
		}{{"other kind", false, Ref{Account: "a", ID: fifo}}, {"no such", false, Ref{Account: "a", Name: "none"}}, {"another's", false, Ref{Account: "b", ID: std}}} {
			_, err := w.b.Create(w.ctx, CreateQueue{Account: "a", Name: c.name, Settings: settings(c.fifo), DeadLetter: &DeadLetter{Queue: c.ref, Receives: 1}})
			w.wantFault(err, fault.Invalid)
		}
		_, err := w.b.Update(w.ctx, UpdateQueue{Queue: std, DeadLetter: &DeadLetter{Queue: Ref{Account: "a", ID: std}, Receives: 1}})
		w.wantFault(err, fault.Invalid)

		q := w.create("q", false, deadLetter(std, 1))
		source := func(id events.QueueID, want ...events.QueueID) {
			w.t.Helper()
			if d, err := w.b.Describe(w.ctx, id); err != nil || !slices.Equal(d.Sources, want) {
				w.t.Errorf("sources %v, %v", d.Sources, err)
			}
		}
		source(std, q)
		other := w.create("other", false)
		if got, err := w.b.Update(w.ctx, UpdateQueue{Queue: q, DeadLetter: &DeadLetter{Queue: Ref{Account: "a", Name: "other"}, Receives: 2}}); err != nil || got.DeadLetterName != "other" {
			w.t.Error(got, err)
		}
		source(std)
		source(other, q)
		if err := w.b.Delete(w.ctx, Ref{Account: "a", ID: other}); err != nil {
			w.t.Error(err)
		}
		got, err := w.b.Describe(w.ctx, q)
		if err != nil || got.DeadLetterName != "" || got.Settings.DeadLetter == nil || !got.Settings.DeadLetter.Gone {
			w.t.Errorf("%+v %v", got, err)
		}
		if got, err = w.b.Update(w.ctx, UpdateQueue{Queue: q, RemoveDeadLetter: true}); err != nil || got.Settings.DeadLetter != nil {
			w.t.Errorf("%+v %v", got, err)
		}
	})
}

// exhaust receives what is there as often as given, and lets it lapse.
func (w *world) exhaust(q events.QueueID, times int) {
	for range times {
		w.receiveBy(w.b, Receive{Queue: q, Max: 10, LeaseSeconds: seconds(1), WaitSeconds: seconds(0)})
		w.receiveBy(w.b, Receive{Queue: q, Max: 10, LeaseSeconds: seconds(1), WaitSeconds: seconds(0)})
		w.receiveBy(w.b, Receive{Queue: q, Max: 10, LeaseSeconds: seconds(1), WaitSeconds: seconds(0)})
		time.Sleep(time.Second)
	}
}

func TestMoves(t *testing.T) {
	for _, k := range kinds {
		t.Run(k.name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				dead := w.create("dead", k.fifo)
				q := w.create("q", k.fifo, deadLetter(dead, 2))
				all, want := groups(6)
				var ids []events.MessageID
				for _, s := range all {
					ids = append(ids, w.send(q, s)...)
				}
				sent := w.now()
				w.exhaust(q, 2)
				if got := w.drain(q); len(got) > 0 {
					w.t.Errorf("delivered a third time: %q", got)
				}
				w.wantDepth(q, 6, 0, 0)
				w.tick()
				w.wantDepth(q, 0, 0, 0)
				w.wantDepth(dead, 6, 0, 0)
				var found []Delivery
				for n := -1; n != len(found); {
					n = len(found)
					found = append(found, w.receive(dead, 10)...)
				}
				w.wantSame(bodies(found), want...)
				for _, d := range found {
					if !slices.Contains(ids, d.ID) || d.Receives != 1 || d.Enqueued != sent || d.Origin == nil || d.Origin.Queue != q || d.Origin.Receives != 2 {
						w.t.Errorf("%+v %+v", d, d.Origin)
					}
				}
				w.ack(dead, found...)
			}, onShards(k.shards))
		})
	}
}

// Where nobody ticks, the receive that finds nothing has moved what is exhausted, also in a process that knew nothing.
func TestUnattendedMoves(t *testing.T) {
	unattended := func(c *Config) { c.Unattended, c.Exclusive = true, false }
	for _, k := range kinds {
		t.Run(k.name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				dead := w.create("dead", k.fifo)
				q := w.create("q", k.fifo, deadLetter(dead, 1))
				all, want := groups(6)
				for _, s := range all {
					w.send(q, s)
				}
				for range 3 * len(all) { // a group goes on when its head was moved
					w.receiveBy(w.b, Receive{Queue: q, Max: 10, LeaseSeconds: seconds(1), WaitSeconds: seconds(0)})
					time.Sleep(time.Second)
					w.b = w.another()
				}
				w.wantDepth(q, 0, 0, 0)
				w.wantSame(w.drain(dead), want...)
			}, onShards(k.shards), unattended)
		})
	}
}

// A group goes on when its head was moved.
func TestMoveFreesGroup(t *testing.T) {
	inWorld(t, func(w *world) {
		dead := w.create("dead.fifo", true)
		q := w.create("q.fifo", true, deadLetter(dead, 1))
		w.send(q, "g:1", "g:2", "g:3")
		for range 2 {
			w.receiveBy(w.b, Receive{Queue: q, Max: 10, LeaseSeconds: seconds(1), WaitSeconds: seconds(0)})
			time.Sleep(time.Second)
			w.want(bodies(w.receive(q, 10)))
			w.tick()
		}
		w.want(w.drain(q), "3")
		w.want(w.drain(dead), "1", "2")
	})
}

// A policy that is removed, raised or orphaned makes what was exhausted deliverable again.
func TestPolicyChanges(t *testing.T) {
	changes := map[string]func(w *world, q, dead events.QueueID) error{
		"removed": func(w *world, q, dead events.QueueID) error {
			_, err := w.b.Update(w.ctx, UpdateQueue{Queue: q, RemoveDeadLetter: true})
			return err
		},
		"raised": func(w *world, q, dead events.QueueID) error {
			_, err := w.b.Update(w.ctx, UpdateQueue{Queue: q, DeadLetter: &DeadLetter{Queue: Ref{Account: "a", ID: dead}, Receives: 5}})
			return err
		},
		"orphaned": func(w *world, q, dead events.QueueID) error { return w.b.Delete(w.ctx, Ref{Account: "a", ID: dead}) },
	}
	for name, change := range changes {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				dead := w.create("dead", false)
				q := w.create("q", false, deadLetter(dead, 1))
				w.send(q, "a")
				w.exhaust(q, 1)
				w.want(bodies(w.receive(q, 1)))
				if err := change(w, q, dead); err != nil {
					w.t.Fatal(err)
				}
				w.tick()
				w.want(w.drain(q), "a")
			})
		})
	}
}

// A queue that was exhausted while no broker ran is moved by the next one's first tick.
func TestTickAfterRestart(t *testing.T) {
	inWorld(t, func(w *world) {
		dead := w.create("dead", false)
		q := w.create("q", false, deadLetter(dead, 1))
		w.send(q, "a")
		w.exhaust(q, 1)
		w.restart()
		w.tick()
		w.tick()
		w.want(w.drain(dead), "a")
	})
}

func TestPeek(t *testing.T) {
	forKinds(t, func(w *world, k kind, q events.QueueID) {
		all, want := groups(25)
		for _, s := range all {
			w.send(q, s)
		}
		held := w.receive(q, 3)
		var got, states []string
		for after := ""; ; {
			page, err := w.b.Peek(w.ctx, Peek{Queue: q, Limit: 4, After: after})
			if err != nil {
				w.t.Fatal(err)
			}
			if len(page.Rows) > 4 {
				w.t.Errorf("a page of %d", len(page.Rows))
			}
			for _, r := range page.Rows {
				got = append(got, string(r.Message.Body))
				if r.Visibility == InFlight {
					states = append(states, string(r.Message.Body))
				}
			}
			if after = page.Next; after == "" {
				break
			}
		}
		w.wantSame(got, want...)
		w.wantSame(states, bodies(held)...)
		one, err := w.b.Peek(w.ctx, Peek{Queue: q, Limit: 1, ID: held[0].ID})
		if err != nil || len(one.Rows) != 1 || one.Rows[0].ID != held[0].ID || one.Rows[0].Receives != 1 {
			w.t.Errorf("by id: %+v, %v", one, err)
		}
		flying, err := w.b.Peek(w.ctx, Peek{Queue: q, Limit: 10, Visibility: InFlight})
		if err != nil || len(flying.Rows) != len(held) || flying.Next != "" {
			w.t.Errorf("in flight: %+v, %v", flying, err)
		}
		fit, err := w.b.Peek(w.ctx, Peek{Queue: q, Limit: 10, BytesMax: 5, Encoded: func(*Row) int { return 2 }})
		if err != nil || len(fit.Rows) != 2 || fit.Next == "" {
			w.t.Errorf("that fit: %+v, %v", fit, err)
		}
		for _, bad := range []string{"x", "1,2,3,4", "-1"} {
			_, err = w.b.Peek(w.ctx, Peek{Queue: q, Limit: 1, After: bad})
			w.wantFault(err, fault.Invalid)
		}
	})
}

// A message whose retention ended under its last lease is discarded when that lapses: it is not moved, and keeps
// neither its group nor the ticker waiting.
func TestExhaustedAndExpired(t *testing.T) {
	inWorld(t, func(w *world) {
		dead := w.create("dead.fifo", true)
		q := w.create("q.fifo", true, deadLetter(dead, 1), func(c *CreateQueue) { c.Settings.RetentionSeconds = 60 })
		w.send(q, "g:1")
		w.receiveBy(w.b, Receive{Queue: q, Max: 1, LeaseSeconds: seconds(100), WaitSeconds: seconds(0)})
		time.Sleep(90 * time.Second)
		w.send(q, "g:2")
		p := w.poll(w.b, q, 20)
		time.Sleep(10 * time.Second)
		w.tick()
		w.wantPoll(p, 10*time.Second, "2")
		w.wantDepth(dead, 0, 0, 0)
		w.log.ResetCounts()
		w.tick()
		h, _ := w.b.open(w.ctx, q)
		if due := events.Instant(h.runner(0).exhausted.Load()); due <= w.now() {
			t.Error("the ticker is asked for again and again")
		}
	})
}

// Delayed messages that are past their retention are not counted as delayed instead of those that are available.
func TestDepthOfExpiredDelayed(t *testing.T) {
	inWorld(t, func(w *world) {
		q := w.create("q", false, func(c *CreateQueue) { c.Settings.RetentionSeconds, c.Settings.DelaySeconds = 60, 900 })
		w.send(q, "never", "due")
		time.Sleep(time.Minute)
		now := out("now")
		now[0].DelaySeconds = seconds(0)
		w.sendBy(w.b, q, now...)
		w.wantDepth(q, 1, 0, 0)
		w.want(w.drain(q), "now")
	})
}

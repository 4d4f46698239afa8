package broker

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/leaselog/leaselog/events"
	"github.com/leaselog/leaselog/internal/fault"
)

// TestMoveKeys says that a task waits for a key that is out of reach, in its queue and in its target, and goes on by itself.
func TestMoveKeys(t *testing.T) {
	inVault(t, func(w *vaulted) {
		q, to := w.create("q", w.fifo, sealedBy("blue")), w.create("to", w.fifo, sealedBy("green"))
		w.send(q, "g:1", "g:2", "h:3")
		m := w.startMove(StartMove{Queue: q, Target: &Ref{Account: "a", ID: to}})
		for _, key := range []string{"blue", "green"} {
			w.vault.Disable(key)
			time.Sleep(301 * time.Second)
			w.moves()
			got, err := w.b.Move(w.ctx, q, m.ID)
			if err != nil || got.State != TaskRunning || got.Moved != 0 || got.Reason == "" {
				w.t.Errorf("without %s: %s, %q, %v", key, tell(got), got.Reason, err)
			}
			w.vault.Enable(key)
		}
		for range 5 {
			time.Sleep(10 * time.Second)
			w.moves()
		}
		w.wantMove(m, "completed, moved 3 of 3")
		w.wantSame(w.drain(to), "1", "2", "3")
	})
}

// TestMoveByTwo lets two processes advance one task at once, while a consumer works on the queue: nothing is moved twice,
// the count is exact, and groups keep their order.
func TestMoveByTwo(t *testing.T) {
	for _, k := range kinds {
		t.Run(k.name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				q, to := w.create("q", k.fifo), w.create("to", k.fifo)
				const groups, each = 7, 90
				for i := range each {
					var all []string
					for g := range groups {
						all = append(all, fmt.Sprintf("g%d:%03d of %d", g, i, g))
					}
					w.send(q, all...)
				}
				m := w.startMove(StartMove{Queue: q, Target: &Ref{Account: "a", ID: to}, Filter: MoveFilter{Body: "of [0-5]"}})
				brokers := []*Broker{w.b, w.another()}
				var all sync.WaitGroup
				for _, b := range brokers {
					all.Go(func() { w.advancing(b, m) })
				}
				acked := map[string]bool{}
				for range 20 {
					found := w.receive(q, 3)
					time.Sleep(100 * time.Millisecond)
					for _, d := range found {
						acked[string(d.Message.Body)] = true
					}
					w.ack(q, found...)
				}
				all.Wait()
				moved := w.drain(to)
				got, err := w.b.Move(w.ctx, q, m.ID)
				if err != nil || got.State != TaskCompleted || got.Moved != uint64(len(moved)) {
					t.Errorf("%s, %v, and %d arrived", tell(got), err, len(moved))
				}
				left := w.drain(q)
				if n := len(moved) + len(left) + len(acked); n != groups*each {
					t.Errorf("%d moved, %d left and %d acked are not %d", len(moved), len(left), len(acked), groups*each)
				}
				if every := slices.Concat(moved, left); len(slices.Compact(slices.Sorted(slices.Values(every)))) != len(every) {
					t.Error("a message is there twice")
				}
				if k.fifo {
					inOrder(t, moved)
				}
			}, onShards(k.shards), shared)
		})
	}
}

// advancing calls Moves until the task has ended.
func (w *world) advancing(b *Broker, m *MoveTask) {
	for range 10_000 {
		if err := w.redrive(w.ctx, b); err != nil {
			w.t.Error(err)
		}
		if now, err := b.Move(w.ctx, m.Queue, m.ID); err != nil || now.State != TaskRunning {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	w.t.Error("the task does not end")
}

// inOrder wants "NNN of group" to rise in every group.
func inOrder(t *testing.T, bodies []string) {
	last := map[string]string{}
	for _, s := range bodies {
		if group := s[len(s)-1:]; last[group] >= s {
			t.Errorf("group %s: %s after %s", group, s, last[group])
		} else {
			last[group] = s
		}
	}
}

// mover starts move tasks from the dead-letter queue back to where its messages came from, again and again, and now and
// then cancels one.
func (c *chaos) mover(b *Broker, dead events.QueueID, stop chan struct{}) {
	for n := 0; ; n++ {
		select {
		case <-stop:
			return
		case <-time.After(300 * time.Millisecond):
		}
		_, err := b.Moves(c.ctx)
		if err == nil && n%10 == 9 {
			var m *MoveTask
			if m, err = b.StartMove(c.ctx, StartMove{Queue: dead, Filter: MoveFilter{Body: fmt.Sprintf("%d", c.chance(10))}}); err == nil && c.chance(4) == 0 {
				_, err = b.CancelMove(c.ctx, dead, m.ID)
			}
		}
		if err != nil {
			c.expect(err, fault.Unavailable, fault.Unconfirmed, fault.Limit)
		}
	}
}

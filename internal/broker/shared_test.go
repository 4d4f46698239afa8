package broker

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leaselog/leaselog/events"
	"github.com/leaselog/leaselog/internal/fault"
)

// inTwo runs a test with two brokers on one log, for every kind of queue.
func inTwo(t *testing.T, test func(w *world, other *Broker, q events.QueueID)) {
	t.Helper()
	secret := openKeys(t)
	for _, k := range kinds {
		t.Run(k.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				runIn(t, secret, func(w *world) { test(w, w.another(), w.create("q", k.fifo)) }, onShards(k.shards), shared)
			})
		})
	}
}

// Whoever is behind meets a conflict and decides again: no message is lost, doubled, or leased twice at a time.
func TestTwoBrokers(t *testing.T) {
	inTwo(t, func(w *world, other *Broker, q events.QueueID) {
		slow(w, 3*time.Millisecond)
		var mu sync.Mutex
		leased, acked := map[events.MessageID]bool{}, map[string]int{}
		var work sync.WaitGroup
		for i, b := range []*Broker{w.b, other, w.b, other} {
			work.Go(func() {
				for n := range 40 {
					w.sendBy(b, q, out(fmt.Sprintf("g%d:m%d-%d", rand.IntN(5), i, n))...)
					time.Sleep(time.Duration(rand.IntN(5)) * time.Millisecond)
				}
			})
			work.Go(func() {
				for idle := 0; idle < 3; {
					found := w.receiveBy(b, Receive{Queue: q, Max: 3, WaitSeconds: seconds(1)})
					if idle++; len(found) > 0 {
						idle = 0
					}
					mu.Lock()
					for _, d := range found {
						if leased[d.ID] {
							w.t.Errorf("%s is leased twice", d.Message.Body)
						}
						leased[d.ID] = true
					}
					mu.Unlock()
					time.Sleep(time.Duration(rand.IntN(5)) * time.Millisecond)
					mu.Lock()
					for _, d := range found { // before the answer, since then another may have it at once
						delete(leased, d.ID)
						acked[string(d.Message.Body)]++
					}
					mu.Unlock()
					if len(found) == 0 {
						continue
					}
					if r, err := b.Ack(w.ctx, q, receipts(found)); err != nil || r[0] != nil {
						w.t.Error(r, err)
					}
				}
			})
		}
		work.Wait()
		if len(acked) != 160 {
			w.t.Errorf("%d of 160 messages came", len(acked))
		}
		for m, n := range acked {
			if n != 1 {
				w.t.Errorf("%s came %d times", m, n)
			}
		}
	})
}

// A poll at one broker hears of what is written by another.
func TestPollHearsOfOthers(t *testing.T) {
	inTwo(t, func(w *world, other *Broker, q events.QueueID) {
		p := w.poll(w.b, q, 20)
		time.Sleep(10 * time.Second)
		w.sendBy(other, q, out("g:a")...)
		<-p.done
		if late := p.ended.Sub(p.began) - 10*time.Second; late > 400*time.Millisecond {
			w.t.Errorf("heard %v later", late)
		}
		w.want(bodies(p.found), "a")
	})
}

// A receive that asks for more than its broker knows of finds what others have just sent.
func TestReceiveKnowsOthers(t *testing.T) {
	inTwo(t, func(w *world, other *Broker, q events.QueueID) {
		for _, batch := range [][]string{{"a:1"}, {"b:2", "c:3"}} {
			for range w.b.Shards {
				w.sendBy(other, q, out(batch...)...)
			}
			for range w.b.Shards { // each begins at another shard
				w.receive(q, 1)
			}
		}
		for range w.b.Shards {
			w.sendBy(other, q, out("d:4")...)
		}
		for range w.b.Shards {
			w.wantSame(bodies(w.receive(q, 10)), "3", "4")
		}
	})
}

// What one broker has remembered of a queue is never stronger than what another did to it.
func TestStaleBroker(t *testing.T) {
	inTwo(t, func(w *world, other *Broker, q events.QueueID) {
		warm := func() {
			w.send(q, "g:warm"+fmt.Sprint(w.now()))
			w.drain(q)
		}
		warm()
		// settings
		if _, err := other.Update(w.ctx, UpdateQueue{Queue: q, MaxBytes: seconds(1100), LeaseSeconds: seconds(3)}); err != nil {
			w.t.Fatal(err)
		}
		w.send(q, "g:"+string(make([]byte, 1090)))
		if d := w.receive(q, 1); len(d) != 1 || d[0].Visible != w.now().Add(3) {
			w.t.Errorf("leased by old settings: %+v", d)
		} else {
			w.ack(q, d...)
		}
		// purge
		w.send(q, "g:1", "h:2")
		held := w.receive(q, 1)
		if _, err := other.Purge(w.ctx, q); err != nil {
			w.t.Fatal(err)
		}
		r, err := w.b.Ack(w.ctx, q, receipts(held))
		if err != nil {
			w.t.Fatal(err)
		}
		w.wantFault(r[0], fault.LeaseEnded)
		w.want(w.drain(q))
		// ack, repeated at the other
		w.send(q, "g:3")
		held = w.receive(q, 1)
		w.ack(q, held...)
		if r, err := other.Ack(w.ctx, q, receipts(held)); err != nil || r[0] != nil {
			w.t.Error("repeated at another broker:", r, err)
		}
		// deletion, and the name again
		if err := other.Delete(w.ctx, Ref{Account: "a", Name: "q"}); err != nil {
			w.t.Fatal(err)
		}
		again, err := other.Create(w.ctx, CreateQueue{Account: "a", Name: "q", Settings: settings(w.kindOf(q))})
		if err != nil {
			w.t.Fatal(err)
		}
		_, err = w.b.Send(w.ctx, q, out("g:x"))
		w.wantFault(err, fault.NotFound)
		_, err = w.b.Receive(w.ctx, Receive{Queue: q, Max: 1, WaitSeconds: seconds(0)})
		w.wantFault(err, fault.NotFound)
		if found, err := w.b.Find(w.ctx, Ref{Account: "a", Name: "q"}); err != nil || found.ID != again.ID {
			w.t.Errorf("by name: %+v, %v", found, err)
		}
		w.sendBy(other, again.ID, out("g:new")...)
		w.want(w.drain(again.ID), "new")
	})
}

func (w *world) kindOf(q events.QueueID) bool {
	w.b.mu.Lock()
	defer w.b.mu.Unlock()
	return w.b.queues[q].fifo
}

// A first command of a stale broker that changes nothing must not be answered from what it remembers.
func TestStaleAnswers(t *testing.T) {
	commands := map[string]func(w *world, q events.QueueID, held []Delivery) error{
		"receive": func(w *world, q events.QueueID, _ []Delivery) error {
			_, err := w.b.Receive(w.ctx, Receive{Queue: q, Max: 1, WaitSeconds: seconds(0)})
			return err
		},
		"ack": func(w *world, q events.QueueID, held []Delivery) error {
			_, err := w.b.Ack(w.ctx, q, receipts(held))
			return err
		},
		"too large": func(w *world, q events.QueueID, _ []Delivery) error {
			_, err := w.b.Send(w.ctx, q, out("g:"+string(make([]byte, 9000))))
			return err
		},
		"duplicate": func(w *world, q events.QueueID, _ []Delivery) error {
			_, err := w.b.Send(w.ctx, q, out("g:a"))
			return err
		},
		"peek": func(w *world, q events.QueueID, _ []Delivery) error {
			_, err := w.b.Peek(w.ctx, Peek{Queue: q, Limit: 1})
			return err
		},
		"purge": func(w *world, q events.QueueID, _ []Delivery) error { _, err := w.b.Purge(w.ctx, q); return err },
		"update": func(w *world, q events.QueueID, _ []Delivery) error {
			_, err := w.b.Update(w.ctx, UpdateQueue{Queue: q, LeaseSeconds: seconds(9)})
			return err
		},
		"describe": func(w *world, q events.QueueID, _ []Delivery) error { _, err := w.b.Describe(w.ctx, q); return err },
	}
	for name, command := range commands {
		t.Run(name, func(t *testing.T) {
			inTwo(t, func(w *world, other *Broker, q events.QueueID) {
				w.send(q, "g:a")
				held := w.receive(q, 1)
				if err := other.Delete(w.ctx, Ref{Account: "a", ID: q}); err != nil {
					w.t.Fatal(err)
				}
				w.wantFault(command(w, q, held), fault.NotFound)
			})
		})
	}
}

// Two brokers that tick at the same time move every message once.
func TestTwoTick(t *testing.T) {
	inTwo(t, func(w *world, other *Broker, q events.QueueID) {
		dead := w.create("dead", w.kindOf(q))
		if _, err := w.b.Update(w.ctx, UpdateQueue{Queue: q, DeadLetter: &DeadLetter{Queue: Ref{Account: "a", ID: dead}, Receives: 1}}); err != nil {
			w.t.Fatal(err)
		}
		all, want := groups(9)
		for _, m := range all {
			w.send(q, m)
		}
		w.exhaust(q, 1)
		slow(w, time.Millisecond)
		var work sync.WaitGroup
		for _, b := range []*Broker{w.b, other} {
			work.Go(func() {
				if err := b.Tick(w.ctx); err != nil {
					w.t.Error(err)
				}
			})
		}
		work.Wait()
		w.wantDepth(q, 0, 0, 0)
		w.wantSame(w.drain(dead), want...)
	})
}

// A broker that does nothing but sweep, as one on a schedule does, finds what others left behind long after its start.
func TestSweepHearsOfOthers(t *testing.T) {
	inTwo(t, func(w *world, other *Broker, q events.QueueID) {
		h, err := w.b.open(w.ctx, q)
		if err != nil {
			w.t.Fatal(err)
		}
		fifo := h.record.Load().Settings.Fifo
		if s, err := sweeps(w.ctx, other, sweepExhausted); err != nil || len(s.Done) > 0 { // before there is anything to do
			w.t.Fatal(s.Done, err)
		}
		dead := w.create("dead", fifo)
		source := w.create("source", fifo, deadLetter(dead, 1))
		w.send(source, "g:a")
		w.receiveBy(w.b, Receive{Queue: source, Max: 1, LeaseSeconds: seconds(5), WaitSeconds: seconds(1)})
		time.Sleep(time.Minute)
		if s, err := sweeps(w.ctx, other, sweepExhausted); err != nil || s.Done[WorkMoved] != 1 {
			w.t.Fatal(s.Done, err)
		}
		w.want(bodies(w.receive(dead, 1)), "a")
	})
}

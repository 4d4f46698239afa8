package broker

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leaselog/leaselog/events"
	"github.com/leaselog/leaselog/internal/fault"
)

// forKinds runs a test for every kind of queue, each in its own world.
func forKinds(t *testing.T, test func(w *world, k kind, q events.QueueID)) {
	t.Helper()
	secret := openKeys(t)
	for _, k := range kinds {
		t.Run(k.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				runIn(t, secret, func(w *world) { test(w, k, w.create("q", k.fifo)) }, onShards(k.shards))
			})
		})
	}
}

// groups gives n texts, each of a group of its own, so that a FIFO queue hands them out like a standard one.
func groups(n int) (all, want []string) {
	for _, s := range texts("m", n) {
		all, want = append(all, s+":"+s), append(want, s)
	}
	return all, want
}

func TestSendReceiveAck(t *testing.T) {
	forKinds(t, func(w *world, k kind, q events.QueueID) {
		all, want := groups(10)
		ids := w.send(q, all...)
		w.wantDepth(q, 10, 0, 0)
		found := w.receive(q, 10)
		w.want(bodies(found), want...)
		for i, d := range found {
			if d.ID != ids[i] || d.Receives != 1 || d.Visible != w.now().Add(30) || d.Enqueued != w.now() {
				w.t.Errorf("message %d: %+v, sent as %v", i, d, ids[i])
			}
		}
		w.wantDepth(q, 0, 10, 0)
		if again := w.receive(q, 10); len(again) > 0 {
			w.t.Errorf("leased twice: %q", bodies(again))
		}
		w.ack(q, found...)
		w.wantDepth(q, 0, 0, 0)
		time.Sleep(time.Minute)
		if again := w.receive(q, 10); len(again) > 0 {
			w.t.Errorf("delivered after the ack: %q", bodies(again))
		}
	})
}

func TestLapseReleaseExtend(t *testing.T) {
	forKinds(t, func(w *world, k kind, q events.QueueID) {
		w.send(q, "g:a")
		first := w.receive(q, 1)[0]
		time.Sleep(29 * time.Second)
		if r, err := w.b.Extend(w.ctx, q, []Extend{{first.Receipt, 60}}); err != nil || r[0] != nil {
			w.t.Fatal(err, r)
		}
		time.Sleep(59 * time.Second)
		w.want(bodies(w.receive(q, 1)))
		time.Sleep(time.Second)
		second := w.receive(q, 1)[0]
		if second.Receives != 2 || second.Receipt == first.Receipt {
			w.t.Errorf("the second delivery: %+v", second)
		}
		r, err := w.b.Ack(w.ctx, q, []string{first.Receipt, second.Receipt})
		if err != nil || r[1] != nil {
			w.t.Error(err, r)
		}
		w.wantFault(r[0], fault.LeaseEnded)
	})
}

func TestReleaseEndsLease(t *testing.T) {
	forKinds(t, func(w *world, k kind, q events.QueueID) {
		w.send(q, "g:a")
		first := w.receive(q, 1)[0]
		w.release(q, first)
		w.wantDepth(q, 1, 0, 0)
		r, _ := w.b.Ack(w.ctx, q, []string{first.Receipt})
		w.wantFault(r[0], fault.LeaseEnded)
		w.want(w.drain(q), "a")
	})
}

// A lease of no time hands out, counts, and lets go at once (Basaltic 9.1).
func TestLeaseOfNoTime(t *testing.T) {
	forKinds(t, func(w *world, k kind, q events.QueueID) {
		w.send(q, "g:a")
		for want := range uint32(3) {
			found := w.receiveBy(w.b, Receive{Queue: q, Max: 1, LeaseSeconds: seconds(0), WaitSeconds: seconds(0)})
			if len(found) != 1 || found[0].Receives != want+1 {
				w.t.Fatalf("receive %d: %+v", want, found)
			}
			r, _ := w.b.Ack(w.ctx, q, receipts(found))
			w.wantFault(r[0], fault.LeaseEnded)
		}
	})
}

func TestDelay(t *testing.T) {
	inWorld(t, func(w *world) {
		q := w.create("q", false, func(c *CreateQueue) { c.Settings.DelaySeconds = 10 })
		now := out("now")
		now[0].DelaySeconds = seconds(0)
		later := out("later")
		later[0].DelaySeconds = seconds(20)
		w.sendBy(w.b, q, append(append(out("queue"), later...), now...)...)
		w.wantDepth(q, 1, 0, 2)
		w.want(w.drain(q), "now")
		w.wantDepth(q, 0, 0, 2)
		time.Sleep(10 * time.Second)
		w.wantDepth(q, 1, 0, 1)
		w.want(w.drain(q), "queue")
		time.Sleep(10 * time.Second)
		w.want(w.drain(q), "later")
	})
}

func TestFifoOrder(t *testing.T) {
	inWorld(t, func(w *world) {
		q := w.create("q.fifo", true)
		w.send(q, "a:1", "a:2", "b:3", "a:4", "b:5")
		first := w.receive(q, 10)
		w.want(bodies(first), "1", "3")
		w.want(bodies(w.receive(q, 10)))
		w.ack(q, first[1])
		w.want(bodies(w.receive(q, 10)), "5")
		w.release(q, first[0])
		again := w.receive(q, 10)
		w.want(bodies(again), "1")
		w.ack(q, again...)
		w.want(w.drain(q), "2", "4")
	})
}

func TestDeduplication(t *testing.T) {
	inWorld(t, func(w *world) {
		q := w.create("q.fifo", true, func(c *CreateQueue) { c.Settings.ContentDedup = true })
		first := w.send(q, "a:x")
		again, err := w.b.Send(w.ctx, q, out("a:x", "b:y", "b:y"))
		if err != nil || !again[0].Duplicate || again[0].ID != first[0] || again[1].Duplicate || !again[2].Duplicate || again[2].ID != again[1].ID {
			w.t.Fatalf("%v %+v", err, again)
		}
		// The body stands in for an id that was not given.
		m := events.Message{Body: []byte("z"), Group: "a"}
		byBody := w.sendBy(w.b, q, Outgoing{Message: m}, Outgoing{Message: m})
		if byBody[0] != byBody[1] {
			w.t.Errorf("two ids for one body: %v", byBody)
		}
		w.want(w.drain(q), "x", "y", "z")
		time.Sleep(299 * time.Second)
		if s, _ := w.b.Send(w.ctx, q, out("a:x")); !s[0].Duplicate || s[0].ID != first[0] {
			w.t.Errorf("inside the window: %+v", s)
		}
		time.Sleep(time.Second)
		if s, _ := w.b.Send(w.ctx, q, out("a:x")); s[0].Duplicate || s[0].Err != nil {
			w.t.Errorf("after the window: %+v", s)
		}
		w.want(w.drain(q), "x")
	})
}

func TestSendRefusals(t *testing.T) {
	inWorld(t, func(w *world) {
		q, f := w.create("q", false), w.create("q.fifo", true)
		sent, err := w.b.Send(w.ctx, q, out("fits", strings.Repeat("x", 1025), "fits, too"))
		if err != nil || sent[0].Err != nil || sent[2].Err != nil {
			w.t.Fatal(err, sent)
		}
		w.wantFault(sent[1].Err, fault.TooLarge)
		w.want(w.drain(q), "fits", "fits, too")
		sent, _ = w.b.Send(w.ctx, f, []Outgoing{{Message: events.Message{Body: []byte("no group"), Dedup: "x"}},
			{Message: events.Message{Body: []byte("no id"), Group: "g"}}})
		w.wantFault(sent[0].Err, fault.Invalid)
		w.wantFault(sent[1].Err, fault.Invalid)
		w.wantDepth(f, 0, 0, 0)
		long := out("x")
		long[0].DelaySeconds = seconds(901)
		sent, _ = w.b.Send(w.ctx, q, long)
		w.wantFault(sent[0].Err, fault.Invalid)
	})
}

// What is past its retention is not delivered, not counted, and skipped by bisection where it is much.
func TestRetention(t *testing.T) {
	forKinds(t, func(w *world, k kind, q events.QueueID) {
		all, _ := groups(30)
		for _, s := range all {
			w.send(q, s)
		}
		w.receive(q, 1)
		time.Sleep(4*24*time.Hour - 10*time.Second)
		w.send(q, "n:new")
		held := w.receiveBy(w.b, Receive{Queue: q, Max: 1, LeaseSeconds: seconds(60), WaitSeconds: seconds(0)})
		time.Sleep(10 * time.Second)
		w.wantDepth(q, 1, 1, 0)
		w.ack(q, held...) // a live lease may still finish it
		if got := w.drain(q); len(got) > 1 || held[0].Message.Body[0] == 'm' && len(got) != 1 {
			w.t.Errorf("after the retention came %q", got)
		}
	})
}

func TestPurge(t *testing.T) {
	forKinds(t, func(w *world, k kind, q events.QueueID) {
		all, _ := groups(9)
		for _, s := range all {
			w.send(q, s)
		}
		held := w.receive(q, 1)
		if n, err := w.b.Purge(w.ctx, q); n != 9 || err != nil {
			w.t.Errorf("purged %d: %v", n, err)
		}
		w.wantDepth(q, 0, 0, 0)
		r, _ := w.b.Ack(w.ctx, q, receipts(held))
		w.wantFault(r[0], fault.LeaseEnded)
		if n, err := w.b.Purge(w.ctx, q); n != 0 || err != nil {
			w.t.Errorf("purged %d again: %v", n, err)
		}
		w.send(q, "new:new")
		w.want(w.drain(q), "new")
	})
}

func TestAnswersThatFit(t *testing.T) {
	forKinds(t, func(w *world, k kind, q events.QueueID) {
		all, _ := groups(6)
		w.send(q, all...)
		size := func(d *Delivery) int { return len(d.Message.Body) * 10 }
		for _, c := range []struct{ most, want int }{{1, 1}, {45, 2}, {60, 3}} {
			found := w.receiveBy(w.b, Receive{Queue: q, Max: 10, WaitSeconds: seconds(0), BytesMax: c.most, Encoded: size})
			if len(found) != c.want {
				w.t.Errorf("%d messages for %d bytes", len(found), c.most)
			}
		}
	})
}

func TestReceipts(t *testing.T) {
	forKinds(t, func(w *world, k kind, q events.QueueID) {
		other := w.create("other", k.fifo)
		w.send(q, "g:a")
		good := w.receive(q, 1)[0].Receipt
		w.log.ResetCounts()
		flipped := []byte(good)
		flipped[70] ^= 1
		for _, bad := range []string{"", "zz", good[:len(good)-2], good + "00", strings.Repeat("g", len(good)), string(flipped), strings.ToUpper(good) + "0"} {
			r, err := w.b.Ack(w.ctx, q, []string{bad})
			if err != nil {
				w.t.Fatal(err)
			}
			w.wantFault(r[0], fault.ForeignLease)
			r, _ = w.b.Extend(w.ctx, q, []Extend{{bad, 10}})
			w.wantFault(r[0], fault.ForeignLease)
		}
		r, _ := w.b.Ack(w.ctx, other, []string{good})
		w.wantFault(r[0], fault.ForeignLease)
		if n := w.log.Counts(); len(n) > 0 {
			w.t.Errorf("forged receipts reached the store: %v", n)
		}
		if r, _ := w.b.Ack(w.ctx, q, []string{good, good}); r[0] != nil || r[1] != nil {
			w.t.Error("the same receipt twice:", r)
		}
	})
}

// A repeated ack succeeds for at least five minutes, also where the ledger must be searched for it.
func TestRepeatedAck(t *testing.T) {
	forKinds(t, func(w *world, k kind, q events.QueueID) {
		w.send(q, "g:a")
		found := w.receive(q, 1)
		w.ack(q, found...)
		w.ack(q, found...)
		receipt, _ := w.b.parseReceipt(found[0].Receipt, q)
		for range 20 { // so that there is something to search
			w.send(q, "g:b")
			w.drain(q)
			time.Sleep(time.Second)
		}
		for after, want := range map[time.Duration]bool{279 * time.Second: true, 281 * time.Second: false} {
			began := w.b.Config.Now
			w.b.Config.Now = func() events.Instant { return began() + events.Instant(after.Milliseconds()) }
			if done, err := w.b.wasAcked(w.ctx, receipt); done != want || err != nil {
				w.t.Errorf("after %v: %v, %v", after+20*time.Second, done, err)
			}
			w.b.Config.Now = began
		}
		time.Sleep(279 * time.Second)
		w.restart()
		w.ack(q, found...)
	})
}

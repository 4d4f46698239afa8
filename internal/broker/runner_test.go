package broker

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leaselog/leaselog/events"
	"github.com/leaselog/leaselog/internal/envelope"
	"github.com/leaselog/leaselog/internal/eventlog"
	"github.com/leaselog/leaselog/internal/eventlog/eventlogtest"
	"github.com/leaselog/leaselog/internal/fault"
	"github.com/leaselog/leaselog/internal/queue"
)

// before lets f run before the next commit reaches the log.
func (w *world) beforeCommit(f func()) {
	var done atomic.Bool
	w.log.Plan(func(c eventlogtest.Call) eventlogtest.Fault {
		if c.Op == eventlogtest.OpCommit && !done.Swap(true) {
			f()
		}
		return eventlogtest.Pass
	})
}

// A block that lost its place is not remembered as what stands there.
func TestLostBlockIsForgotten(t *testing.T) {
	inWorld(t, func(w *world) {
		q, other := w.create("q", false), w.another()
		w.send(q, "warm")
		w.drain(q)
		polls := []*poll{w.poll(w.b, q, 20), w.poll(w.b, q, 2)}
		delayed := out("theirs")
		delayed[0].DelaySeconds = seconds(5)
		w.beforeCommit(func() { w.sendBy(other, q, delayed...) })
		w.send(q, "mine") // the first poll takes it, and the second looks behind it, before the commit fails
		w.wantPoll(polls[0], 0, "mine")
		w.wantPoll(polls[1], 2*time.Second)
		time.Sleep(3 * time.Second)
		w.want(bodies(w.receive(q, 1)), "theirs")
	}, shared)
}

// What comes while the log is busy is decided together, in one commit.
func TestReadyGathers(t *testing.T) {
	var gate atomic.Value // of a channel that is closed when the log is ready again
	inWorld(t, func(w *world) {
		q := w.create("q", false)
		w.send(q, "warm")
		w.drain(q)
		busy := make(chan struct{})
		gate.Store(busy)
		before := w.log.Calls(eventlogtest.OpCommit)
		var work sync.WaitGroup
		for i := range 5 {
			work.Go(func() { w.send(q, texts("m", 5)[i]) })
		}
		synctest.Wait()
		if n := w.log.Calls(eventlogtest.OpCommit) - before; n > 1 { // the first may have been taken already
			t.Errorf("%d commits while the log was busy", n)
		}
		close(busy)
		work.Wait()
		if n := w.log.Calls(eventlogtest.OpCommit) - before; n > 2 {
			t.Errorf("5 sends took %d commits", n)
		}
	}, func(c *Config) {
		c.Ready = func(context.Context) {
			if busy, ok := gate.Load().(chan struct{}); ok {
				<-busy
			}
		}
	})
}

// A receive whose leases have ended when its commit stands hands nothing out (promise 3).
func TestLateLease(t *testing.T) {
	inWorld(t, func(w *world) {
		q := w.create("q", false)
		w.send(q, "a")
		slow(w, 2*time.Second)
		found := w.receiveBy(w.b, Receive{Queue: q, Max: 1, LeaseSeconds: seconds(1), WaitSeconds: seconds(0)})
		w.want(bodies(found))
		w.log.Plan(nil)
		if d := w.receive(q, 1); len(d) != 1 || d[0].Receives != 2 {
			t.Errorf("%+v", d)
		}
	})
}

// The limit of leases holds, and whoever waits for room is woken by an ack and by a lapse.
func TestLeaseLimit(t *testing.T) {
	few := func(c *Config) { c.Limits = queue.DefaultLimits; c.Limits.InFlight = 3 }
	inWorld(t, func(w *world) {
		q := w.create("q", false)
		w.send(q, texts("m", 5)...)
		first := w.receive(q, 10)
		w.want(bodies(first), "m0", "m1", "m2")
		p := w.poll(w.b, q, 60)
		w.ack(q, first[0])
		w.wantPoll(p, 0, "m3")
		w.release(q, p.found[0])
		w.wantPoll(w.poll(w.b, q, 60), 0, "m3")
		w.wantPoll(w.poll(w.b, q, 60), 30*time.Second, "m4", "m1", "m2")
	}, few)
}

// Close lets what runs finish and refuses what comes.
func TestClose(t *testing.T) {
	forKinds(t, func(w *world, k kind, q events.QueueID) {
		w.send(q, "g:warm")
		w.drain(q)
		slow(w, 2*time.Second)
		var err error
		sent := make(chan struct{})
		go func() {
			_, err = w.b.Send(w.ctx, q, out("g:a"))
			close(sent)
		}()
		p := w.poll(w.b, q, 20)
		time.Sleep(time.Second)
		w.b.Close()
		<-sent
		if err != nil {
			w.t.Error("a send under way:", err)
		}
		<-p.done
		if p.err != nil {
			w.t.Error("a poll:", p.err)
		}
		_, err = w.b.Send(w.ctx, q, out("g:b"))
		w.wantFault(err, fault.Unavailable)
		_, err = w.b.Receive(w.ctx, Receive{Queue: q, Max: 1})
		w.wantFault(err, fault.Unavailable)
		w.log.Plan(nil)
		w.restart()
		if d := w.depth(q); d.Available+d.InFlight != 1 {
			w.t.Errorf("%+v", d)
		}
	})
}

// A poll is not the worse for a send beside it that the store refuses.
func TestPollSurvivesRefusal(t *testing.T) {
	forKinds(t, func(w *world, k kind, q events.QueueID) {
		p := w.poll(w.b, q, 20)
		w.log.Script(eventlogtest.OpCommit, eventlogtest.Refuse)
		_, err := w.b.Send(w.ctx, q, out("g:a"))
		w.wantFault(err, fault.Unavailable)
		if !p.waits() {
			w.t.Fatal("the poll ended:", p.err)
		}
		w.send(q, "g:a")
		w.wantPoll(p, 0, "a")
	})
}

// While a write is not confirmed everybody gets an answer in time, those too who came for a later group, and the
// shard is as before when it is over.
func TestSilentStore(t *testing.T) {
	for _, f := range []eventlogtest.Fault{eventlogtest.Before, eventlogtest.After, eventlogtest.Late} {
		forKinds(t, func(w *world, k kind, q events.QueueID) {
			w.send(q, "g:warm")
			w.drain(q)
			p := w.poll(w.b, q, 3600)
			w.log.Plan(func(c eventlogtest.Call) eventlogtest.Fault {
				if c.Op == eventlogtest.OpCommit {
					return f
				}
				return eventlogtest.Pass
			})
			ask := func() error {
				began := time.Now()
				_, err := w.b.Send(w.ctx, q, many("g:", 700))
				if took := time.Since(began); took > answeredWithin {
					w.t.Errorf("answered after %v", took)
				}
				return err
			}
			errs := make(chan error, 9)
			for range 9 {
				go func() { errs <- ask() }()
				time.Sleep(300 * time.Millisecond)
			}
			for range 9 {
				if err := <-errs; !fault.Is(err, fault.Unconfirmed) && !fault.Is(err, fault.Unavailable) {
					w.t.Error(err)
				}
			}
			time.Sleep(5 * time.Minute)
			w.log.Plan(nil)
			w.log.Land()
			time.Sleep(2 * time.Second)
			w.send(q, "g:after")
			<-p.done
			got := append(bodies(p.found), w.drain(q)...)
			if n := len(got); got[n-1] != "after" && !(k.shards > 1) {
				w.t.Errorf("%d messages, the last is %q", n, got[n-1])
			}
		})
	}
}

func many(prefix string, n int) (all []Outgoing) { return out(texts(prefix+time.Now().String(), n)...) }

// A shard that contradicts itself answers everybody with an error, and harms no other.
func TestBrokenShard(t *testing.T) {
	inWorld(t, func(w *world) {
		q, fine := w.create("q", false), w.create("fine", false)
		w.send(q, "a", "b")
		h, _ := w.b.open(w.ctx, q)
		w.receive(q, 10)
		waiting := w.poll(w.b, q, 20)
		if err := h.runner(0).still(w.ctx, func() error {
			// Nothing is left for the id of a lease: it panics with the receive's turn in hand.
			h.runner(0).rand = bufio.NewReader(bytes.NewReader(nil))
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			_, err := w.b.Receive(w.ctx, Receive{Queue: q, Max: 1, WaitSeconds: seconds(0)})
			if err == nil || fault.Of(err).Code != fault.Internal {
				t.Errorf("the answer is %v", err)
			}
		}
		<-waiting.done
		if waiting.err == nil {
			t.Error("whoever waited heard nothing")
		}
		w.send(fine, "x")
		w.want(w.drain(fine), "x")
		w.b.forget(q) // or the end would find it broken
	})
}

// Whoever wanted to hold a runner and has left does not keep it.
func TestHoldLeft(t *testing.T) {
	inWorld(t, func(w *world) {
		q := w.create("q", false)
		w.send(q, "warm")
		h, _ := w.b.open(w.ctx, q)
		slow(w, 3*time.Second)
		go w.send(q, "a")
		time.Sleep(time.Second)
		ctx, cancel := context.WithTimeout(w.ctx, time.Second)
		defer cancel()
		if err := h.runner(0).still(ctx, func() error { t.Error("held"); return nil }); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		w.send(q, "b")
		w.log.Plan(nil)
		w.wantDepth(q, 3, 0, 0)
	})
}

// A command that found the queue open before it was deleted hears that it is gone, not that the server stops.
func TestStoppedQueue(t *testing.T) {
	forKinds(t, func(w *world, k kind, q events.QueueID) {
		h, err := w.b.open(w.ctx, q)
		if err != nil {
			w.t.Fatal(err)
		}
		if err := w.b.Delete(w.ctx, Ref{Account: "a", ID: q}); err != nil {
			w.t.Fatal(err)
		}
		for i := range k.shards {
			w.wantFault(h.view(w.ctx, i, func(*group) error { return nil }), fault.NotFound)
		}
	})
}

// lockable is a key that can be taken away.
type lockable struct {
	envelope.Keys
	locked atomic.Bool
}

func (l *lockable) Unwrap(ctx context.Context, ref string, wrapped []byte, c envelope.Context) ([]byte, error) {
	if l.locked.Load() {
		return nil, errors.New("disabled")
	}
	return l.Keys.Unwrap(ctx, ref, wrapped, c)
}

// Without its key a queue neither takes nor gives, loses nothing, and still lets leases be ended and extended, also
// when that comes together with what needs the key (Basaltic 9.11).
func TestLostKey(t *testing.T) {
	l := &lockable{}
	inWorld(t, func(w *world) {
		q := w.create("q", false)
		w.send(q, "a", "b", "c")
		held := w.receive(q, 2)
		w.restart() // so that nothing is left opened in memory
		l.locked.Store(true)
		p := w.poll(w.b, q, 0)
		<-p.done
		w.wantFault(p.err, fault.KeyLost)
		_, err := w.b.Send(w.ctx, q, out("d"))
		w.wantFault(err, fault.KeyLost)
		if r, err := w.b.Extend(w.ctx, q, []Extend{{held[0].Receipt, 60}}); err != nil || r[0] != nil {
			t.Error(r, err)
		}
		page, err := w.b.Peek(w.ctx, Peek{Queue: q, Limit: 10})
		if err != nil || len(page.Rows) != 3 || page.Rows[0].Message != nil {
			t.Errorf("%+v %v", page, err)
		}
		// In one group: held still, both come at once.
		h, _ := w.b.open(w.ctx, q)
		var failed, acked error
		done := make(chan struct{}, 2)
		if err := h.runner(0).still(w.ctx, func() error {
			go func() { _, failed = w.b.Send(w.ctx, q, out("d")); done <- struct{}{} }()
			go func() {
				r, err := w.b.Ack(w.ctx, q, []string{held[0].Receipt})
				acked = errors.Join(err, r[0])
				done <- struct{}{}
			}()
			synctest.Wait()
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		<-done
		<-done
		w.wantFault(failed, fault.KeyLost)
		if acked != nil {
			t.Error("an ack beside it:", acked)
		}
		if _, err := w.b.Update(w.ctx, UpdateQueue{Queue: q, LeaseSeconds: seconds(5)}); err != nil {
			t.Error("an update:", err)
		}
		l.locked.Store(false)
		time.Sleep(2 * time.Second)
		if d := w.receive(q, 10); len(d) != 1 || d[0].Receives != 1 || string(d[0].Message.Body) != "c" || d[0].Visible != w.now().Add(5) {
			t.Errorf("%+v", d)
		}
	}, func(c *Config) {
		if l.Keys == nil {
			l.Keys = c.Keys
		}
		c.Keys = l
	})
}

// Snapshots are written when a ledger has grown, and a start begins at them.
func TestSnapshots(t *testing.T) {
	inWorld(t, func(w *world) {
		q := w.create("q", false)
		for range 25 {
			w.send(q, texts("m", 1000)...)
			w.drain(q)
		}
		w.send(q, "left", "held")
		held := w.receive(q, 1)
		if w.log.Calls(eventlogtest.OpPutSnapshot) == 0 {
			t.Fatal("no snapshot was written")
		}
		w.restart()
		w.log.ResetCounts()
		w.wantDepth(q, 1, 1, 0)
		snap, ok, err := w.mem.Snapshot(w.ctx, eventlog.Stream(events.LedgerStream(q, 0)), 1<<62)
		if !ok || err != nil || snap.Seq < 1000 {
			t.Errorf("the newest snapshot stands at %d: %v", snap.Seq, err)
		}
		w.ack(q, held...)
		w.want(w.drain(q), "held")
	})
}

// A poll that a shard could not look for, since another held its turn, is found there when it was given back.
func TestTurnElsewhere(t *testing.T) {
	inWorld(t, func(w *world) {
		q := w.create("q", false)
		w.send(q, "warm")
		w.send(q, "warm")
		h, _ := w.b.open(w.ctx, q)
		w.drain(q)
		c := &receive{reply: newReply(), request: &Receive{Queue: q, Max: 1}, deadline: w.now() + 20_000, shards: []*runner{h.runner(0), h.runner(1)}}
		c.turn.Store(deciding) // as if shard 0 were at it
		h.runner(1).do(c)
		synctest.Wait()
		c.giveBack()
		synctest.Wait()
		w.send(q, "a") // one of the two reaches shard 1
		w.send(q, "b")
		began := time.Now()
		if err := c.await(w.ctx); err != nil || len(c.taken) != 1 || time.Now() != began {
			t.Errorf("%v, %d messages after %v", err, len(c.taken), time.Since(began))
		}
	}, onShards(2))
}

// The dead-letter queue's own callers do not wait either while a move is not confirmed.
func TestSilentMove(t *testing.T) {
	forKinds(t, func(w *world, k kind, dead events.QueueID) {
		q := w.create("source", k.fifo, deadLetter(dead, 1))
		w.send(q, "g:a")
		for range k.shards {
			w.send(dead, "g:warm")
			w.drain(dead)
		}
		w.exhaust(q, 1)
		w.log.Plan(func(c eventlogtest.Call) eventlogtest.Fault {
			if c.Op == eventlogtest.OpCommit {
				return eventlogtest.Before
			}
			return eventlogtest.Pass
		})
		ticked := make(chan struct{})
		go func() {
			w.tick()
			close(ticked)
		}()
		synctest.Wait()
		for range k.shards * 3 {
			began := time.Now()
			_, err := w.b.Send(w.ctx, dead, out("g:x"))
			if took := time.Since(began); err == nil || took > answeredWithin {
				w.t.Errorf("answered after %v: %v", took, err)
			}
		}
		w.log.Plan(nil)
		<-ticked
		time.Sleep(2 * time.Second)
		if got := w.drain(dead); len(got) == 0 {
			w.t.Error("nothing was moved")
		}
	})
}

// What was refused while a write was not confirmed is not done afterwards, and a write that lost its place is not
// made elsewhere after its caller was told that its outcome is not known.
func TestSilenceThenConflict(t *testing.T) {
	inWorld(t, func(w *world) {
		q, other := w.create("q", false), w.another()
		w.send(q, "warm")
		w.drain(q)
		w.log.Plan(func(c eventlogtest.Call) eventlogtest.Fault {
			if c.Op == eventlogtest.OpCommit {
				return eventlogtest.Before
			}
			return eventlogtest.Pass
		})
		h, _ := w.b.open(w.ctx, q)
		codes := make(chan fault.Code, 3)
		if err := h.runner(0).still(w.ctx, func() error { // so that they are taken at once, and two are left for later
			for range 3 {
				go func() {
					_, err := w.b.Send(w.ctx, q, many("", 700))
					codes <- fault.Of(err).Code
				}()
			}
			synctest.Wait()
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		began, got := time.Now(), map[fault.Code]int{}
		for range 3 {
			got[<-codes]++
		}
		if took := time.Since(began); took > answeredWithin || got[fault.Unconfirmed] != 1 || got[fault.Unavailable] != 2 {
			t.Errorf("%v after %v", got, took)
		}
		w.log.Plan(nil)
		w.sendBy(other, q, out("theirs")...)
		time.Sleep(2 * time.Second)
		w.want(w.drain(q), "theirs")
	}, shared)
}

package broker

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/leaselog/leaselog/internal/eventlog/eventlogtest"
	"github.com/leaselog/leaselog/internal/fault"
)

func under(w *world, key, print string) context.Context {
	return With(w.ctx, Once{Account: "a", Key: key, Print: []byte(print)})
}

// onceCases is every use case that can count once: do carries it out and gives its result as text, seen tells how often
// it took effect.
func onceCases(w *world) map[string]struct {
	do   func(ctx context.Context) (string, error)
	seen func() int
} {
	q := w.create("q", false)
	w.send(q, "1", "2", "3")
	leased := w.receive(q, 1)
	held := w.receive(q, 1)
	depth := func() Depth {
		d, err := w.b.Describe(w.ctx, q)
		if err != nil {
			w.t.Fatal(err)
		}
		return *d.Depth
	}
	text := func(v any, err error) (string, error) { return fmt.Sprint(v), err }
	return map[string]struct {
		do   func(ctx context.Context) (string, error)
		seen func() int
	}{
		"send": {func(ctx context.Context) (string, error) {
			s, err := w.b.Send(ctx, q, out("x"))
			return text(s, err)
		}, func() int { return int(depth().Available) - 1 }},
		"receive": {func(ctx context.Context) (string, error) {
			found, err := w.b.Receive(ctx, Receive{Queue: q, Max: 1})
			return text(receipts(found), err)
		}, func() int { return int(depth().InFlight) - 2 }},
		"ack": {func(ctx context.Context) (string, error) {
			r, err := w.b.Ack(ctx, q, append(receipts(leased), "garbled"))
			return text(r, err)
		}, func() int { return 2 - int(depth().InFlight) }},
		"extend": {func(ctx context.Context) (string, error) {
			r, err := w.b.Extend(ctx, q, []Extend{{Receipt: held[0].Receipt}})
			return text(r, err)
		}, func() int { return 2 - int(depth().InFlight) }},
		"purge": {func(ctx context.Context) (string, error) {
			n, err := w.b.Purge(ctx, q)
			return text(n, err)
		}, func() int { return (3 - int(depth().Available+depth().InFlight)) / 3 }},
		"create": {func(ctx context.Context) (string, error) {
			c, err := w.b.Create(ctx, CreateQueue{Account: "a", Name: "new", Settings: settings(false), Tags: map[string]string{"k": "v"}})
			if err != nil {
				return "", err
			}
			return text(fmt.Sprintf("%+v %+v", c.ID, c.Settings), err)
		}, func() int {
			all, _, err := w.b.List(w.ctx, ListQueues{Account: "a", Limit: 10})
			if err != nil {
				w.t.Fatal(err)
			}
			return len(all) - 1
		}},
		"update": {func(ctx context.Context) (string, error) {
			u, err := w.b.Update(ctx, UpdateQueue{Queue: q, LeaseSeconds: seconds(7)})
			if err != nil {
				return "", err
			}
			return text(fmt.Sprintf("%+v %+v", u.Settings.LeaseSeconds, u.Updated), err)
		}, func() int {
			d, err := w.b.Find(w.ctx, Ref{Account: "a", ID: q})
			if err != nil {
				w.t.Fatal(err)
			}
			return int(w.b.queues[q].record.Load().Version) - 1 + 0*len(d.Name)
		}},
	}
}

// inBothWorlds runs f where nobody else writes to the log and where others may: there first requests do not look for
// another that was before them.
func inBothWorlds(t *testing.T, f func(*world)) {
	inWorld(t, f)
	inWorld(t, f, shared)
}

var onceNames = []string{"send", "receive", "ack", "extend", "purge", "create", "update"}

// A command under an idempotency key takes effect once however often it is repeated, by whichever process, and every
// repeat is answered as the first was. Another request under the same key is refused and changes nothing.
func TestOnce(t *testing.T) {
	for _, name := range onceNames {
		t.Run(name, func(t *testing.T) {
			inBothWorlds(t, func(w *world) {
				c := onceCases(w)[name]
				first, err := c.do(under(w, "k", "p"))
				if err != nil {
					w.t.Fatal(err)
				}
				w.restart()
				for range 3 {
					if again, err := c.do(under(w, "k", "p")); again != first || err != nil {
						w.t.Errorf("the repeat gave %s, %v; the first %s", again, err, first)
					}
				}
				if _, err := c.do(under(w, "k", "other")); !fault.Is(err, fault.KeyMismatch) {
					w.t.Errorf("another request under the key gave %v", err)
				}
				if n := c.seen(); n != 1 {
					w.t.Errorf("it took effect %d times", n)
				}
			})
		})
	}
}

// A repeat that runs beside the first waits for it or is answered from it.
func TestOnceAtOnce(t *testing.T) {
	for _, name := range onceNames {
		t.Run(name, func(t *testing.T) {
			inBothWorlds(t, func(w *world) {
				c := onceCases(w)[name]
				answers := make([]string, 8)
				var all sync.WaitGroup
				for i := range answers {
					all.Go(func() {
						var err error
						if answers[i], err = c.do(under(w, "k", "p")); err != nil {
							w.t.Error(err)
						}
					})
				}
				all.Wait()
				if slices.Sort(answers); answers[0] != answers[7] {
					w.t.Errorf("the answers differ: %v", answers)
				}
				if n := c.seen(); n != 1 {
					w.t.Errorf("it took effect %d times", n)
				}
			})
		})
	}
}

// The claims stand with the effect or not at all: the write fails before, after, or lands late, and the caller repeats.
func TestOnceThroughFaults(t *testing.T) {
	for _, name := range onceNames {
		for _, f := range []eventlogtest.Fault{eventlogtest.Refuse, eventlogtest.Before, eventlogtest.After, eventlogtest.Late} {
			t.Run(fmt.Sprint(name, f), func(t *testing.T) {
				inBothWorlds(t, func(w *world) {
					c := onceCases(w)[name]
					w.log.ResetCounts()
					w.log.Plan(eventlogtest.Nth(eventlogtest.OpCommit, 1, f))
					first, err := c.do(under(w, "k", "p"))
					w.log.Plan(nil)
					if err := errors.Join(w.log.Land()...); err != nil {
						w.t.Fatal(err)
					}
					again, errAgain := c.do(under(w, "k", "p"))
					if errAgain != nil || err == nil && first != again {
						w.t.Errorf("first %s, %v; then %s, %v", first, err, again, errAgain)
					}
					if n := c.seen(); n != 1 {
						w.t.Errorf("it took effect %d times", n)
					}
				})
			})
		}
	}
}

// A receive is answered again only while none of its leases has ended; then it is a new one.
func TestOnceReceiveEnds(t *testing.T) {
	inBothWorlds(t, func(w *world) {
		q := w.create("q", false)
		w.send(q, "1", "2")
		get := func() []Delivery {
			found, err := w.b.Receive(under(w, "k", "p"), Receive{Queue: q, Max: 1})
			if err != nil || len(found) != 1 {
				t.Fatalf("received %v, %v", bodies(found), err)
			}
			return found
		}
		first := get()
		if again := get(); !reflect.DeepEqual(again, first) {
			w.t.Errorf("again %+v, first %+v", again, first)
		}
		w.ack(q, first...)
		if next := get(); next[0].ID == first[0].ID {
			w.t.Error("an acked message was handed out again")
		}
		time.Sleep(31 * time.Second)
		if next := get(); next[0].Receives != 2 {
			w.t.Errorf("after the lease: %+v", next)
		}
	})
}

// A nonce counts once, whatever it is used for, and also where the command changes nothing.
func TestNonce(t *testing.T) {
	inBothWorlds(t, func(w *world) {
		q := w.create("q", false)
		with := func(nonce string) context.Context {
			return With(w.ctx, Once{Account: "a", Nonce: "nonce/k/" + nonce, NonceUntil: w.now() + 600_000})
		}
		w.log.ResetCounts()
		if _, err := w.b.Send(with("1"), q, out("x")); err != nil {
			w.t.Fatal(err)
		}
		if n := w.log.Calls(eventlogtest.OpCommit); n != 1 {
			w.t.Errorf("a send with a nonce took %d commits", n)
		}
		if _, err := w.b.Send(with("1"), q, out("y")); !fault.Is(err, fault.Unauthorized) {
			w.t.Errorf("the replay gave %v", err)
		}
		if _, err := w.b.Ack(with("2"), q, []string{"garbled"}); err != nil {
			w.t.Fatal(err)
		}
		if _, err := w.b.Receive(with("2"), Receive{Queue: q, Max: 1}); !fault.Is(err, fault.Unauthorized) {
			w.t.Errorf("the replay gave %v", err)
		}
		if all := w.drain(q); len(all) != 1 {
			w.t.Errorf("the queue holds %v", all)
		}
	})
}

// A request whose effect is in several commits changes nothing when it was seen before, where others write too.
func TestReplayOverCommits(t *testing.T) {
	inWorld(t, func(w *world) {
		q := w.create("q.fifo", true)
		with := func(nonce string) context.Context {
			return With(w.ctx, Once{Account: "a", Nonce: "nonce/k/" + nonce, NonceUntil: w.now() + 600_000})
		}
		var messages []string
		for i := range 8 {
			messages = append(messages, fmt.Sprintf("g%d:%d", i, i))
		}
		if _, err := w.b.Send(with("1"), q, out(messages...)); err != nil {
			w.t.Fatal(err)
		}
		if _, err := w.b.Send(with("1"), q, out("x:x", "y:y", "z:z", "u:u")); !fault.Is(err, fault.Unauthorized) {
			w.t.Errorf("the replay gave %v", err)
		}
		var held []string
		for range 8 {
			held = append(held, receipts(w.receive(q, 1))...)
		}
		if _, err := w.b.Ack(with("1"), q, held); !fault.Is(err, fault.Unauthorized) {
			w.t.Errorf("the replay gave %v", err)
		}
		time.Sleep(31 * time.Second)
		if all := w.drain(q); len(all) != 8 {
			w.t.Errorf("the queue holds %v", all)
		}
	}, shared, onShards(4))
}

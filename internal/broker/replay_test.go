package broker

import (
	"context"
	"testing"
	"time"

	"github.com/leaselog/leaselog/internal/eventlog/eventlogtest"
	"github.com/leaselog/leaselog/internal/fault"
)

// nonced gives the context of a signed request.
func nonced(w *world, nonce string) context.Context {
	return With(w.ctx, Once{Account: "a", Nonce: "nonce/k/" + nonce, NonceUntil: w.now() + 600_000})
}

// A long poll that is replayed while it waits is refused when its turn comes, and holds nobody up.
func TestReplayedPoll(t *testing.T) {
	for name, ctx := range map[string]func(w *world) context.Context{
		"nonce": func(w *world) context.Context { return nonced(w, "1") },
		"key":   func(w *world) context.Context { return under(w, "k", "p") },
	} {
		for _, messages := range []int{0, 1, 2} {
			t.Run(name, func(t *testing.T) {
				inWorld(t, func(w *world) {
					q := w.create("q", false)
					type outcome struct {
						found []Delivery
						err   error
					}
					got := make(chan outcome, 2)
					for range 2 {
						go func() {
							found, err := w.b.Receive(ctx(w), Receive{Queue: q, Max: 1, WaitSeconds: seconds(5)})
							got <- outcome{found, err}
						}()
					}
					time.Sleep(time.Second)
					if messages > 0 {
						w.send(q, texts("m", messages)...)
					}
					began := time.Now()
					leased, refused := map[string]bool{}, 0
					for range 2 {
						o := <-got
						switch {
						case fault.Is(o.err, fault.Unauthorized):
							refused++
						case o.err != nil:
							t.Error(o.err)
						}
						for _, d := range o.found {
							leased[d.Receipt] = true
						}
					}
					if took := time.Since(began); took > 6*time.Second {
						t.Errorf("it took %s", took)
					}
					if len(leased) > 1 || messages > 0 && len(leased) == 0 {
						t.Errorf("%d leases", len(leased))
					}
					if name == "nonce" && refused != 1 {
						t.Errorf("%d were refused", refused)
					}
				})
			})
		}
	}
}

// A signed receive that finds nothing in the first shards goes on to the others.
func TestNonceOverShards(t *testing.T) {
	inWorld(t, func(w *world) {
		q := w.create("q", false)
		w.send(q, "m")
		found := 0
		for i := range 4 {
			ctx, cancel := context.WithTimeout(nonced(w, string(rune('a'+i))), 10*time.Second)
			got, err := w.b.Receive(ctx, Receive{Queue: q, Max: 1, WaitSeconds: seconds(1)})
			cancel()
			if err != nil {
				t.Errorf("receive %d: %v", i, err)
			}
			found += len(got)
		}
		if found != 1 {
			t.Errorf("%d messages were found", found)
		}
		if _, err := w.b.Receive(nonced(w, "a"), Receive{Queue: q, Max: 1}); !fault.Is(err, fault.Unauthorized) {
			t.Errorf("the replay gave %v", err)
		}
	}, onShards(3))
}

// A caller who leaves while a command under a key is written is not told that nothing was done.
func TestOnceUnconfirmed(t *testing.T) {
	inWorld(t, func(w *world) {
		q := w.create("q", false)
		w.send(q, "first")
		ctx, leave := context.WithCancel(under(w, "k", "p"))
		w.log.Plan(func(c eventlogtest.Call) eventlogtest.Fault {
			if c.Op == eventlogtest.OpCommit {
				leave()
				return eventlogtest.After
			}
			return eventlogtest.Pass
		})
		_, err := w.b.Send(ctx, q, out("x"))
		w.wantFault(err, fault.Unconfirmed)
		w.log.Plan(nil)
	})
}

// A purge over several shards under a key counts once though its caller left in the middle: what was sent later stays.
func TestOncePurgeOverShards(t *testing.T) {
	inWorld(t, func(w *world) {
		q := w.create("q", false)
		w.send(q, "1")
		w.send(q, "2")
		w.log.ResetCounts()
		ctx, leave := context.WithCancel(under(w, "k", "p"))
		w.log.Plan(func(c eventlogtest.Call) eventlogtest.Fault {
			if c.Op == eventlogtest.OpCommit && c.N == 3 {
				leave()
			}
			return eventlogtest.Pass
		})
		_, err := w.b.Purge(ctx, q)
		w.wantFault(err, fault.Unconfirmed)
		w.log.Plan(nil)
		w.tick()
		w.send(q, "later")
		if n, err := w.b.Purge(under(w, "k", "p"), q); n != 2 || err != nil {
			t.Errorf("the repeat gave %d, %v", n, err)
		}
		w.want(w.drain(q), "later")
	}, onShards(3))
}

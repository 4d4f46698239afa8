package broker

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leaselog/leaselog/events"
	"github.com/leaselog/leaselog/internal/envelope/envelopetest"
	"github.com/leaselog/leaselog/internal/fault"
)

const (
	blueID  = "00000000-0000-4000-8000-00000000b10e"
	greenID = "00000000-0000-4000-8000-0000000093e4"
)

func customers() *envelopetest.Keys {
	return envelopetest.New(map[string]string{"blue": blueID, "green": greenID})
}

// vaulted is a world whose keys can be disabled.
type vaulted struct {
	*world
	vault *envelopetest.Keys
	fifo  bool
}

// inVault runs a test for every kind of queue, with keys that can be disabled.
func inVault(t *testing.T, test func(w *vaulted), edit ...func(*Config)) {
	t.Helper()
	secret := openKeys(t)
	for _, k := range kinds {
		t.Run(k.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				vault := customers()
				edit := append(edit, onShards(k.shards), func(c *Config) { c.Keys = vault })
				runIn(t, secret, func(w *world) { test(&vaulted{w, vault, k.fifo}) }, edit...)
			})
		})
	}
}

func sealedBy(key string) func(*CreateQueue) { return func(c *CreateQueue) { c.Key = key } }

func (w *vaulted) rekey(q events.QueueID, key string) {
	w.t.Helper()
	if _, err := w.b.Update(w.ctx, UpdateQueue{Queue: q, Key: &key}); err != nil {
		w.t.Fatalf("re-key to %q: %v", key, err)
	}
}

func (w *vaulted) wantKey(q events.QueueID, id string) {
	w.t.Helper()
	if d, err := w.b.Describe(w.ctx, q); err != nil || d.Key.ID != id {
		w.t.Errorf("the key is %+v, %v; want %q", d.Key, err, id)
	}
}

// sendFails and receiveFails want the fault of a lost key.
func (w *vaulted) sendFails(q events.QueueID, text string) {
	w.t.Helper()
	sent, err := w.b.Send(w.ctx, q, out(text))
	if err == nil && len(sent) > 0 {
		err = sent[0].Err
	}
	w.wantFault(err, fault.KeyLost)
}

func (w *vaulted) receiveFails(q events.QueueID) {
	w.t.Helper()
	for _, wait := range []uint32{0, 5} {
		_, err := w.b.Receive(w.ctx, Receive{Queue: q, Max: 10, WaitSeconds: &wait})
		w.wantFault(err, fault.KeyLost)
	}
}

// A new key is for new messages; old ones stay readable under their own until they are drained, in order.
func TestRekeyThereAndBack(t *testing.T) {
	inVault(t, func(w *vaulted) {
		q := w.create("q", w.fifo)
		var want []string
		for i, key := range []string{"", "blue", greenID, "blue", ""} {
			w.rekey(q, key)
			for n := range 3 {
				text := fmt.Sprintf("%d-%d", i, n)
				w.send(q, "g:"+text)
				want = append(want, text)
			}
			if i == 2 {
				w.restart()
			}
		}
		w.wantKey(q, "")
		got := w.drain(q)
		if w.b.Shards == 1 {
			w.want(got, want...)
		} else {
			w.wantSame(got, want...)
		}
	})
}

// An unknown key changes nothing, also of what else was asked for; the key that is there already is no change.
func TestRekeyRefused(t *testing.T) {
	inVault(t, func(w *vaulted) {
		q := w.create("q", w.fifo, sealedBy("blue"))
		w.wantKey(q, blueID)
		before, _ := w.b.Describe(w.ctx, q)
		time.Sleep(time.Second)
		odd, same := "red", blueID
		_, err := w.b.Update(w.ctx, UpdateQueue{Queue: q, Key: &odd, LeaseSeconds: seconds(7)})
		w.wantFault(err, fault.Invalid)
		w.rekey(q, same)
		if _, err := w.b.Create(w.ctx, CreateQueue{Account: "a", Name: "other", Settings: settings(w.fifo), Key: "red"}); !fault.Is(err, fault.Invalid) {
			w.t.Errorf("create: %v", err)
		}
		after, err := w.b.Describe(w.ctx, q)
		if err != nil || after.Updated != before.Updated || after.Settings != before.Settings {
			w.t.Errorf("%+v became %+v, %v", before, after, err)
		}
	})
}

// A disabled key stops sends and receives when the reuse period is over, and nothing else; nothing is lost.
func TestDisabledKey(t *testing.T) {
	inVault(t, func(w *vaulted) {
		q := w.create("q", w.fifo, sealedBy("blue"))
		w.send(q, "g:1", "h:2", "i:3")
		for range w.b.Shards {
			w.send(q, "j:more") // so that every shard has unwrapped the key
		}
		var held []Delivery
		for range 2 {
			held = append(held, w.receiveBy(w.b, Receive{Queue: q, Max: 1, LeaseSeconds: seconds(3600), WaitSeconds: seconds(0)})...)
		}
		w.vault.Disable("blue")
		time.Sleep(200 * time.Second)
		late := w.receive(q, 1)
		w.send(q, "k:4")
		time.Sleep(101 * time.Second)
		w.sendFails(q, "l:5")
		w.receiveFails(q)
		w.ack(q, held[0])
		if r, err := w.b.Extend(w.ctx, q, []Extend{{held[1].Receipt, 0}}); err != nil || r[0] != nil {
			w.t.Errorf("extend: %v, %v", r, err)
		}
		page, err := w.b.Peek(w.ctx, Peek{Queue: q, Limit: 100})
		if err != nil || len(page.Rows) != 3+w.b.Shards {
			w.t.Errorf("peek shows %d rows, %v", len(page.Rows), err)
		}
		for _, r := range page.Rows {
			if r.Message != nil {
				w.t.Errorf("peek shows the body of %s", r.ID)
			}
		}
		w.restart()
		w.receiveFails(q)
		w.vault.Enable("blue")
		time.Sleep(2 * time.Second) // a failure is remembered for one
		w.send(q, "l:5")
		if n := len(late) + len(held); n != 3 {
			w.t.Errorf("%d were received within the reuse period", n)
		}
		if got := w.drain(q); len(got) != 4+w.b.Shards {
			w.t.Errorf("what is left is %q", got)
		}
	})
}

// A receive skips what it cannot open; a FIFO group whose head it cannot open waits, and other groups go on.
func TestReceiveSkipsLostKeys(t *testing.T) {
	inVault(t, func(w *vaulted) {
		q := w.create("q", w.fifo, sealedBy("blue"))
		w.send(q, "g:1", "h:2")
		seen := w.receive(q, 1) // of the lost ones, one is pending already
		w.release(q, seen[0])
		w.rekey(q, "green")
		w.vault.Disable("blue")
		time.Sleep(301 * time.Second)
		for range w.b.Shards {
			w.send(q, "g:behind", "i:free")
		}
		var got []string
		for range w.b.Shards {
			got = append(got, bodies(w.receiveBy(w.b, Receive{Queue: q, Max: 10, LeaseSeconds: seconds(3600), WaitSeconds: seconds(0)}))...)
		}
		if want := 2 * w.b.Shards; !w.fifo && len(got) != want {
			w.t.Errorf("got %q", got)
		} else if w.fifo {
			w.want(got, "free")
		}
		w.receiveFails(q)
		w.vault.Enable("blue")
		time.Sleep(2 * time.Second)
		if rest := w.drain(q); w.fifo {
			w.wantSame(rest, "1", "2", "behind")
			w.want([]string{rest[len(rest)-1]}, "behind")
		} else {
			w.wantSame(rest, "1", "2")
		}
	})
}

// What is passed over for a lost key is bounded, and nothing is written where the newest key is the lost one.
func TestLostKeyWritesNothing(t *testing.T) {
	inVault(t, func(w *vaulted) {
		q := w.create("q", w.fifo, sealedBy("blue"))
		for i := range 50 {
			w.send(q, fmt.Sprintf("g%d:m%d", i, i))
		}
		w.vault.Disable("blue")
		time.Sleep(301 * time.Second)
		before := w.kept(q, 0)
		for range 5 {
			w.receiveFails(q)
		}
		if now := w.kept(q, 0); now != before {
			w.t.Errorf("receives without a key wrote %d bytes", now-before)
		}
	})
}

// A move to a dead-letter queue whose key is lost waits, and happens when the key is back.
func TestMoveWaitsForKey(t *testing.T) {
	inVault(t, func(w *vaulted) {
		dead := w.create("dead", w.fifo, sealedBy("green"))
		q := w.create("q", w.fifo, deadLetter(dead, 1))
		w.vault.Disable("green")
		time.Sleep(301 * time.Second)
		w.send(q, "g:1", "h:2")
		w.exhaust(q, 1)
		if err := w.b.Tick(w.ctx); !fault.Is(err, fault.KeyLost) {
			w.t.Errorf("tick: %v", err)
		}
		w.wantDepth(dead, 0, 0, 0)
		w.wantDepth(q, 2, 0, 0)
		w.vault.Enable("green")
		time.Sleep(2 * time.Second)
		w.tick()
		w.wantDepth(q, 0, 0, 0)
		w.wantSame(w.drain(dead), "1", "2")
	})
}

// One of two brokers re-keys or rotates: the other goes on without an error, and seals under the new key.
func TestRekeyBesideAnother(t *testing.T) {
	inVault(t, func(w *vaulted) {
		other := w.another()
		q := w.create("q", w.fifo)
		w.sendBy(other, q, out("g:1")...)
		w.rekey(q, "blue")
		w.sendBy(other, q, out("g:2")...)
		if h, err := other.open(w.ctx, q); err != nil || w.b.Shards == 1 && h.keys.Current() != 2 {
			w.t.Errorf("the other seals under version %d, %v", h.keys.Current(), err)
		}
		time.Sleep(25 * time.Hour)
		w.maintain(History{})
		w.send(q, "g:3")
		var got []string
		for range 3 * w.b.Shards {
			found := w.receiveBy(other, Receive{Queue: q, Max: 10, WaitSeconds: seconds(0)})
			got = append(got, bodies(found)...)
			if len(found) > 0 {
				w.ack(q, found...)
			}
		}
		w.wantSame(got, "1", "2", "3")
	}, shared)
}

// A data key is replaced after a day, and dropped when all that it sealed is past every retention.
func TestRotationByAge(t *testing.T) {
	inVault(t, func(w *vaulted) {
		q := w.create("q", w.fifo, sealedBy("blue"))
		var want []string
		for day := range 20 {
			if err := maintain(w.ctx, w.b, History{}); err != nil {
				w.t.Fatal(err)
			}
			text := fmt.Sprint("day ", day)
			if want = append(want, text); day < 16 {
				want = want[:0] // past its retention of four days by the end, or nearly
			}
			w.send(q, "g:"+text)
			if day%3 == 0 {
				w.restart()
			}
			time.Sleep(24 * time.Hour)
		}
		r, err := w.b.readRecord(w.ctx, q)
		if first := r.Ring.Versions[0].Version; err != nil || r.Ring.Current() < 19 || first < 3 || first > 6 {
			w.t.Errorf("the ring has the versions %d to %d, %v", first, r.Ring.Current(), err)
		}
		for _, v := range r.Ring.Versions {
			if v.Ref != blueID {
				w.t.Errorf("version %d is under %q", v.Version, v.Ref)
			}
		}
		if r.Updated != r.Created {
			w.t.Error("a rotation is shown as an update")
		}
		got := w.drain(q)
		if len(got) < 3 || len(got) > 4 {
			w.t.Errorf("drained %q, want about %q", got, want)
		}
	})
}

// A worn key that cannot be replaced now keeps the rest of the maintenance from nothing.
func TestRotationWithoutKey(t *testing.T) {
	inVault(t, func(w *vaulted) {
		q := w.create("q", w.fifo, sealedBy("blue"), func(c *CreateQueue) { c.Settings.RetentionSeconds = 60 })
		w.send(q, "g:1")
		w.vault.Disable("blue")
		time.Sleep(25 * time.Hour)
		if err := maintain(w.ctx, w.b, History{}); !fault.Is(err, fault.KeyLost) {
			w.t.Errorf("maintain: %v", err)
		}
		w.wantDepth(q, 0, 0, 0)
		w.vault.Enable("blue")
		time.Sleep(2 * time.Second)
		w.maintain(History{})
		w.send(q, "g:2")
		w.want(w.drain(q), "2")
	})
}

// A queue whose key is disabled goes on under another one at once; only what the disabled key sealed waits for it.
func TestRekeyAwayFromDisabledKey(t *testing.T) {
	inVault(t, func(w *vaulted) {
		q := w.create("q", w.fifo, sealedBy("blue"))
		w.send(q, "g:old")
		w.vault.Disable("blue")
		time.Sleep(301 * time.Second)
		w.restart()
		w.rekey(q, "green")
		w.send(q, "h:new")
		w.want(bodies(w.receive(q, 1)), "new")
		w.receiveFails(q)
		w.vault.Enable("blue")
		time.Sleep(2 * time.Second)
		w.want(bodies(w.receive(q, 1)), "old")
	})
}

// A queue whose key is lost can be changed, purged and deleted all the same.
func TestChangesWithoutKey(t *testing.T) {
	inVault(t, func(w *vaulted) {
		q := w.create("q", w.fifo, sealedBy("blue"))
		w.send(q, "g:1", "h:2")
		w.vault.Disable("blue")
		time.Sleep(301 * time.Second)
		if d, err := w.b.Update(w.ctx, UpdateQueue{Queue: q, MaxBytes: seconds(2048)}); err != nil || d.Settings.MaxBytes != 2048 {
			w.t.Errorf("update: %+v, %v", d, err)
		}
		w.restart()
		w.wantDepth(q, 2, 0, 0)
		if n, err := w.b.Purge(w.ctx, q); n != 2 || err != nil {
			w.t.Errorf("purged %d, %v", n, err)
		}
		w.vault.Enable("blue")
		time.Sleep(2 * time.Second)
		w.send(q, "g:3")
		w.want(w.drain(q), "3")
		w.vault.Disable("blue")
		time.Sleep(301 * time.Second)
		if err := w.b.Delete(w.ctx, Ref{Account: "a", ID: q}); err != nil {
			w.t.Error(err)
		}
	})
}

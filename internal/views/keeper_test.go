package views_test

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leaselog/leaselog/events"
	"github.com/leaselog/leaselog/internal/eventlog"
	"github.com/leaselog/leaselog/internal/views"
	"github.com/leaselog/leaselog/projections"
)

// counted is a store that counts saves, and fails while it is told to.
type counted struct {
	projections.Store
	saves  atomic.Int64
	broken atomic.Bool
}

func (c *counted) Save(ctx context.Context, key string, data []byte, ifVersion uint64) error {
	c.saves.Add(1)
	if c.broken.Load() {
		return errors.New("the store failed")
	}
	return c.Store.Save(ctx, key, data, ifVersion)
}

// kept runs a keeper of a world's log until the test ends.
func kept(t *testing.T, w *world) (*views.Keeper, *counted) {
	store := &counted{Store: w.store}
	k := views.NewKeeper(&views.Follower{Log: w.log, Store: store, Projections: projections.All()}, slog.New(slog.DiscardHandler))
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		k.Run(ctx)
	}()
	t.Cleanup(func() {
		stop()
		<-ended
	})
	return k, store
}

func (w *world) reach(s projections.Shard) projections.Ends {
	w.Helper()
	reach, err := views.Reach(w.ctx, w.log, s)
	w.must(err)
	return reach
}

// TestKeeper: a quiet shard has its views at once, a busy one now and then, and in the end both have all that the log has.
func TestKeeper(t *testing.T) {
	w := newWorld(t)
	defer w.b.Close()
	q := w.create("q", plain, "", 0)
	w.send(q, 10, 0, "")
	s := w.shards(q)[0]
	synctest.Test(t, func(t *testing.T) {
		k, store := kept(t, w)
		var longest atomic.Int64
		k.Viewed = func(lag time.Duration) { longest.Store(max(longest.Load(), int64(lag))) }
		synctest.Wait()
		k.Reached(s, w.reach(s))
		synctest.Wait()
		if ends, _ := w.view(s, projections.Depth); ends != w.reach(s) {
			t.Errorf("a quiet shard's view is at %v, and its log at %v", ends, w.reach(s))
		}
		before := store.saves.Load()
		busy := 10 * time.Second
		if testing.Short() {
			busy /= 5
		}
		for range int(busy / time.Millisecond) {
			w.commit(s)
			k.Reached(s, w.reach(s))
			time.Sleep(time.Millisecond)
		}
		if lag := time.Duration(longest.Load()); lag < views.KeeperPause*9/10 || lag > views.KeeperPause {
			t.Errorf("the views of a busy shard are told to be %v behind", lag)
		}
		made := (store.saves.Load() - before) / int64(len(projections.All()))
		if want := int64(busy / views.KeeperPause); made < want*9/10 || made > want+1 {
			t.Errorf("the views of a busy shard were made %d times in %v, and should be %d times", made, busy, want)
		}
		time.Sleep(views.KeeperPause)
		synctest.Wait()
		if ends, _ := w.view(s, projections.Depth); ends != w.reach(s) {
			t.Errorf("in the end the view is at %v, and the log at %v", ends, w.reach(s))
		}
		w.sameAsMade(s)
	})
}

// commit appends a control entry to a shard's message stream, as a broker would that anchors it.
func (w *world) commit(s projections.Shard) {
	w.Helper()
	name := eventlog.Stream(events.MessageStream(s.Queue, s.Index, 0))
	last, _, err := w.log.Last(w.ctx, name)
	w.must(err)
	h, err := events.DecodeHeader(last.Header)
	w.must(err)
	anchor := *h
	anchor.Kind, anchor.Count, anchor.Settings, anchor.Forgets, anchor.Finished = events.Anchor, 0, nil, false, 0
	anchor.Groups, anchor.Dedups, anchor.Due, anchor.Expires, anchor.Limits, anchor.Origins = nil, nil, nil, nil, nil, nil
	c := eventlog.Commit{At: int64(w.now), Appends: []eventlog.Append{{Stream: name, Seq: last.Next(), Width: 1, Header: events.EncodeHeader(&anchor)}}}
	c.Writer[0] = byte(last.Next())
	c.Writer[1], c.Writer[2] = byte(last.Next()>>8), byte(last.Next()>>16)
	w.must(w.log.Commit(w.ctx, c))
}

// TestKeeperTriesAgain: what a failing store has not taken is saved when it works, and a forgotten shard has no views.
func TestKeeperTriesAgain(t *testing.T) {
	w := newWorld(t)
	defer w.b.Close()
	q := w.create("q", plain, "", 0)
	w.send(q, 10, 0, "")
	s := w.shards(q)[0]
	synctest.Test(t, func(t *testing.T) {
		k, store := kept(t, w)
		store.broken.Store(true)
		k.Reached(s, w.reach(s))
		time.Sleep(10 * views.KeeperPause)
		if n := store.saves.Load(); n < 10 {
			t.Errorf("%d saves were tried", n)
		}
		store.broken.Store(false)
		time.Sleep(2 * views.KeeperPause)
		synctest.Wait()
		w.sameAsMade(s)
		w.must(k.Forget(w.ctx, s))
		for _, p := range projections.All() {
			if _, ok, err := w.store.Load(w.ctx, s.Key(p.View)); ok || err != nil {
				t.Errorf("%s is there after it was forgotten, %v", p.View, err)
			}
		}
	})
}

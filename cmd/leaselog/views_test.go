package main

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/leaselog/leaselog/internal/auth"
	"github.com/leaselog/leaselog/internal/eventlog"
	"github.com/leaselog/leaselog/internal/local/admin"
	"github.com/leaselog/leaselog/internal/local/host"
	"github.com/leaselog/leaselog/internal/local/store"
	"github.com/leaselog/leaselog/internal/sweep"
	"github.com/leaselog/leaselog/internal/views"
	"github.com/leaselog/leaselog/projections"
)

// unsnapped is a log that has no snapshots.
type unsnapped struct{ eventlog.Log }

func (unsnapped) Snapshot(context.Context, eventlog.Stream, eventlog.Seq) (eventlog.Snapshot, bool, error) {
	return eventlog.Snapshot{}, false, nil
}

// sameViews holds the views of a server that was stopped or killed to its log: brought up to date, each is byte for byte
// what the newest snapshots and the rest of the log give, and what all of the log gives.
func (s *server) sameViews(t *testing.T) {
	t.Helper()
	log, err := store.Open(store.Config{Dir: filepath.Join(s.data, host.StoreDir), Logger: slog.New(slog.NewTextHandler(io.Discard, nil))})
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	f := &views.Follower{Log: log, Store: log, Projections: projections.Embedded()}
	kept, same := 0, 0
	err = sweep.Shards(t.Context(), log, func(name projections.Shard) error {
		for _, p := range f.Projections {
			if _, ok, err := log.Load(t.Context(), name.Key(p.View)); err == nil && ok {
				kept++
			}
		}
		if err := f.CatchUp(t.Context(), name); err != nil {
			return err
		}
		for _, p := range f.Projections {
			k, _, err := log.Load(t.Context(), name.Key(p.View))
			if err != nil {
				return err
			}
			for from, l := range map[string]eventlog.Log{"the snapshots": log, "the first entry": unsnapped{log}} {
				made, err := (&views.Follower{Log: l}).Make(t.Context(), name, p, nil)
				if err != nil {
					return err
				}
				if !bytes.Equal(k.Data, made) {
					t.Errorf("%s is not what the log gives from %s", name.Key(p.View), from)
				}
				same++
			}
		}
		return nil
	})
	if err != nil || kept == 0 || same == 0 {
		t.Errorf("%d views were kept by the server, %d compared, %v", kept, same, err)
	}
}

// TestViewLag measures how far the depth view is behind, asked through the admin socket as leaselog views does: from a
// send's answer to the view that counts it, on a server that has nothing else to do; and the age of the last entry that is
// in the view of a queue that eight clients work on all the time.
func TestViewLag(t *testing.T) {
	s := newServer(t)
	s.start(t)
	c, err := admin.Open(s.data, false)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	depth := func(queue string) admin.Depth {
		t.Helper()
		all, err := c.Views(t.Context(), auth.AccountDefault, queue)
		if err != nil || len(all) != 1 {
			t.Fatalf("%+v, %v", all, err)
		}
		return all[0]
	}
	var idle, busy []time.Duration
	s.must(t, "POST", "/v1/queues", map[string]any{"name": "quiet"})
	for sent := range int64(40) {
		<-time.After(2 * views.KeeperPause) // or it would be measured
		s.must(t, "POST", "/v1/queues/quiet/messages", map[string]any{"body": "x"})
		began := time.Now()
		for depth("quiet").Available <= sent {
			if time.Since(began) > time.Minute {
				t.Fatal("the view does not follow")
			}
		}
		idle = append(idle, time.Since(began))
	}
	s.must(t, "POST", "/v1/queues", map[string]any{"name": "busy"})
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan int, 8)
	for range cap(ended) {
		go func() { ended <- s.cycle(ctx) }()
	}
	for range 200 {
		<-time.After(20 * time.Millisecond)
		if last, err := time.Parse(time.RFC3339Nano, depth("busy").Log); err == nil {
			busy = append(busy, time.Since(last))
		}
	}
	stop()
	n := 0
	for range cap(ended) {
		n += <-ended
	}
	for what, lags := range map[string][]time.Duration{"idle, from a send's answer to its view": idle, "the last entry in the view of a busy queue": busy} {
		slices.Sort(lags)
		p50, p99 := lags[len(lags)/2], lags[len(lags)*99/100]
		t.Logf("%s: p50 %v, p99 %v of %d", what, p50.Round(10*time.Microsecond), p99.Round(10*time.Microsecond), len(lags))
		if p50 > 5*time.Second {
			t.Errorf("%s: views are %v behind", what, p50)
		}
	}
	t.Logf("%d messages went through the busy queue meanwhile", n)
	s.stop(t)
	s.sameViews(t)
}

// cycle sends, receives and acks until ctx ends.
func (s *server) cycle(ctx context.Context) (n int) {
	for ctx.Err() == nil {
		var got received
		if s.call(ctx, "POST", "/v1/queues/busy/messages", map[string]any{"body": "x"}, nil) != nil ||
			s.call(ctx, "POST", "/v1/queues/busy/messages/receive", map[string]any{"max_messages": 1}, &got) != nil {
			continue
		}
		for _, m := range got.Messages {
			if s.call(ctx, "DELETE", "/v1/queues/busy/messages?receipt_handle="+m.Receipt, nil, nil) == nil {
				n++
			}
		}
	}
	return n
}

package store

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/leaselog/leaselog/events"
	"github.com/leaselog/leaselog/internal/broker"
	"github.com/leaselog/leaselog/internal/fault"
	"github.com/leaselog/leaselog/internal/local/keys"
)

// TestDiskFailureUnderBroker is what users meet when the disk is full or fails while they send and receive: clear
// errors, nothing acknowledged lost, reads that go on, and recovery in the same process.
func TestDiskFailureUnderBroker(t *testing.T) {
	for _, cause := range []error{syscall.ENOSPC, syscall.EIO} {
		for _, ops := range []string{"write", "sync", "create write sync rename"} {
			t.Run(fmt.Sprintf("%v on %s", cause, ops), func(t *testing.T) { diskFailure(t, cause, ops) })
		}
	}
}

func diskFailure(t *testing.T, cause error, ops string) {
	disk := &faultyFS{FS: vfs.Default}
	b := onDisk(t, disk)
	ctx := t.Context()
	q, err := b.Create(ctx, broker.CreateQueue{Account: "a", Name: "q", Settings: events.Settings{LeaseSeconds: 60, RetentionSeconds: 3600, MaxBytes: 4096, KeyReuseSeconds: 300}})
	if err != nil {
		t.Fatal(err)
	}
	l := &sends{b: b, q: q.ID, acked: map[events.MessageID]bool{}}
	l.run(ctx, t, 50) // healthy
	disk.fault(func(op, _ string) error {
		if strings.Contains(ops, op) {
			return cause
		}
		return nil
	})
	l.until(ctx, t, func() bool { return l.refused.Load() >= 20 })
	if d, err := b.Describe(ctx, q.ID); err != nil || d.Depth.Available < uint64(len(l.acked)) {
		t.Errorf("describe while the disk fails: %+v, %v; %d sends were acknowledged", d, err, len(l.acked))
	}
	if p, err := b.Peek(ctx, broker.Peek{Queue: q.ID, Limit: 10}); err != nil || len(p.Rows) != 10 {
		t.Errorf("peek while the disk fails: %d rows, %v", len(p.Rows), err)
	}
	if _, err := b.Receive(ctx, broker.Receive{Queue: q.ID, Max: 1}); !fault.Is(err, fault.Unavailable) && !fault.Is(err, fault.Unconfirmed) {
		t.Errorf("a receive while the disk fails gave %v", err)
	}
	disk.heal()
	before := len(l.acked)
	l.until(ctx, t, func() bool { return l.count() > before+50 })
	l.account(ctx, t)
}

// onDisk opens a broker on a store on a disk.
func onDisk(t *testing.T, disk vfs.FS) *broker.Broker {
	t.Helper()
	dir := t.TempDir()
	k, err := keys.Open(filepath.Join(dir, "key"))
	if err != nil {
		t.Fatal(err)
	}
	s, err := Open(Config{Dir: filepath.Join(dir, "store"), FS: disk, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	b, err := broker.New(broker.Config{Log: s, Keys: k, ReceiptKey: k.Secret("receipt"), Rand: rand.Reader, Exclusive: true,
		Now: func() events.Instant { return events.Instant(time.Now().UnixMilli()) }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		b.Close()
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return b
}

// sends is a few clients that send one message after another, and what they were answered.
type sends struct {
	b       *broker.Broker
	q       events.QueueID
	refused atomic.Int64

	mu    sync.Mutex
	acked map[events.MessageID]bool
	n     int
}

func (s *sends) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.acked)
}

func (s *sends) run(ctx context.Context, t *testing.T, n int) {
	t.Helper()
	s.until(ctx, t, func() bool { return s.count() >= n })
}

// until sends from several goroutines until done says so.
func (s *sends) until(ctx context.Context, t *testing.T, done func() bool) {
	t.Helper()
	limit := time.Now().Add(time.Minute)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for !done() && time.Now().Before(limit) {
				s.one(ctx, t)
			}
		})
	}
	all.Wait()
	if !done() {
		t.Fatalf("after a minute: %d acknowledged, %d refused", s.count(), s.refused.Load())
	}
}

func (s *sends) one(ctx context.Context, t *testing.T) {
	s.mu.Lock()
	s.n++
	body := fmt.Sprintf("message %d", s.n)
	s.mu.Unlock()
	sent, err := s.b.Send(ctx, s.q, []broker.Outgoing{{Message: events.Message{Body: []byte(body)}}})
	if err == nil {
		err = sent[0].Err
	}
	switch {
	case err == nil:
		s.mu.Lock()
		s.acked[sent[0].ID] = true
		s.mu.Unlock()
	case fault.Is(err, fault.Unavailable) || fault.Is(err, fault.Unconfirmed):
		s.refused.Add(1)
		<-time.After(5 * time.Millisecond) // as a client that backs off
	default:
		t.Errorf("a send gave %v", err)
	}
}

// account receives everything and misses nothing that was acknowledged.
func (s *sends) account(ctx context.Context, t *testing.T) {
	t.Helper()
	found := map[events.MessageID]bool{}
	for {
		got, err := s.b.Receive(ctx, broker.Receive{Queue: s.q, Max: 10})
		if err != nil {
			t.Fatal(err)
		}
		if len(got) == 0 {
			break
		}
		for _, d := range got {
			if found[d.ID] {
				t.Errorf("message %v came twice", d.ID)
			}
			found[d.ID] = true
		}
	}
	for id := range s.acked {
		if !found[id] {
			t.Errorf("message %v was acknowledged and is lost", id)
		}
	}
	t.Logf("%d acknowledged, %d refused, %d received", len(s.acked), s.refused.Load(), len(found))
}

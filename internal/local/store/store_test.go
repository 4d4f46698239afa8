package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/leaselog/leaselog/internal/eventlog"
	"github.com/leaselog/leaselog/internal/eventlog/eventlogtest"
)

func TestLog(t *testing.T) {
	t.Run("memory", func(t *testing.T) {
		eventlogtest.Run(t, func(t *testing.T) eventlog.Log { return open(t, Config{Dir: "data", FS: vfs.NewMem()}) })
	})
	if testing.Short() {
		return // the disk adds nothing to the rules, and is slow
	}
	t.Run("disk", func(t *testing.T) {
		eventlogtest.Run(t, func(t *testing.T) eventlog.Log { return open(t, Config{Dir: t.TempDir()}) })
	})
}

// open opens a store for a test, which closes it.
func open(t testing.TB, cfg Config) *Store {
	t.Helper()
	if cfg.Logger == nil {
		cfg.Logger = quiet
	}
	s, err := Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

var quiet = slog.New(slog.NewTextHandler(io.Discard, nil))

var writers atomic.Uint64

func newWriter() (w eventlog.Writer) {
	binary.BigEndian.PutUint64(w[:], writers.Add(1))
	return w
}

func entry(s eventlog.Stream, seq eventlog.Seq, data []byte) eventlog.Commit {
	return eventlog.Commit{Writer: newWriter(), Appends: []eventlog.Append{{Stream: s, Seq: seq, Width: 1, Header: []byte("h"), Data: data}}}
}

// fill appends entries of width 1 at from and after.
func fill(t testing.TB, s *Store, name eventlog.Stream, from, n int) []eventlog.Writer {
	t.Helper()
	var ws []eventlog.Writer
	for i := from; i < from+n; i++ {
		c := entry(name, eventlog.Seq(i), make([]byte, 1000))
		if err := s.Commit(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		ws = append(ws, c.Writer)
	}
	return ws
}

func TestReopenKeepsAll(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	s := open(t, Config{Dir: dir})
	ws := fill(t, s, "orders", 0, 100)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("data directory: %v, %v, want mode 0700", info.Mode(), err)
	}
	s = open(t, Config{Dir: dir})
	got, err := s.Read(t.Context(), "orders", 0, eventlog.Limits{})
	if err != nil || len(got) != len(ws) {
		t.Fatalf("read %d entries, %v; want %d", len(got), err, len(ws))
	}
	for i, e := range got {
		if e.Writer != ws[i] {
			t.Fatalf("entry %d is by %x, not %x", i, e.Writer, ws[i])
		}
	}
	if s.Size() == 0 {
		t.Error("size 0")
	}
}

func TestOpenRefuses(t *testing.T) {
	for name, test := range map[string]struct {
		prepare func(t *testing.T, dir string)
		want    string
	}{
		"other format": {func(t *testing.T, dir string) { write(t, dir, markerName, "leaselog store, format 99\n") }, "format 99"},
		"no directory": {func(t *testing.T, dir string) { os.Remove(dir); write(t, filepath.Dir(dir), filepath.Base(dir), "") }, "cannot"},
		"foreign":      {func(t *testing.T, dir string) { write(t, dir, "thesis.tex", "…") }, "it holds thesis.tex"},
		"in use":       {func(t *testing.T, dir string) { open(t, Config{Dir: dir}) }, "in use"},
		"emptied": {func(t *testing.T, dir string) {
			open(t, Config{Dir: dir}).Close()
			remove(t, dir, "*.log", "*.sst", "MANIFEST*", "marker*", "OPTIONS*")
		}, "damaged"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			test.prepare(t, dir)
			before := listing(t, dir)
			s, err := Open(Config{Dir: dir, Logger: quiet})
			if err == nil {
				s.Close()
				t.Fatal("opened")
			}
			t.Log(err)
			if !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("%q should be one line and say %q", err, test.want)
			}
			if name == "foreign" && listing(t, dir) != before {
				t.Errorf("was %s, is %s", before, listing(t, dir))
			}
		})
	}
}

func write(t *testing.T, dir, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func remove(t *testing.T, dir string, patterns ...string) {
	t.Helper()
	for _, p := range patterns {
		names, _ := filepath.Glob(filepath.Join(dir, p))
		for _, name := range names {
			if err := os.Remove(name); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func listing(t *testing.T, dir string) string {
	var names []string
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return strings.Join(names, " ")
}

func TestClosed(t *testing.T) {
	s := open(t, Config{Dir: "data", FS: vfs.NewMem()})
	fill(t, s, "a", 0, 1)
	if err := errors.Join(s.Close(), s.Close()); err != nil {
		t.Fatal(err)
	}
	err := s.Commit(t.Context(), entry("a", 1, nil))
	var refused *eventlog.Refused
	if !errors.As(err, &refused) || refused.Content || !errors.Is(err, eventlog.ErrClosed) {
		t.Errorf("commit: %v", err)
	}
	if _, err := s.Read(t.Context(), "a", 0, eventlog.Limits{}); !errors.Is(err, eventlog.ErrClosed) {
		t.Errorf("read: %v", err)
	}
	if err := s.Healthy(); !errors.Is(err, eventlog.ErrClosed) {
		t.Errorf("healthy: %v", err)
	}
}

// Senders that race with Close get an answer, and what was answered as done is there.
func TestCloseAmongSenders(t *testing.T) {
	fs := vfs.NewMem()
	s := open(t, Config{Dir: "data", FS: fs})
	var wg sync.WaitGroup
	done := make([]int, 8)
	for i := range done {
		wg.Go(func() {
			for s.Commit(t.Context(), entry(eventlog.Stream(fmt.Sprint(i)), eventlog.Seq(done[i]), nil)) == nil {
				done[i]++
			}
		})
	}
	for s.Size() == 0 {
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	wg.Wait()
	s = open(t, Config{Dir: "data", FS: fs})
	for i, n := range done {
		got, err := s.Read(t.Context(), eventlog.Stream(fmt.Sprint(i)), 0, eventlog.Limits{})
		if err != nil || len(got) != n {
			t.Errorf("stream %d has %d entries, %v; %d were done", i, len(got), err, n)
		}
	}
}

// More streams than are remembered: their ends are read again.
func TestForgottenTails(t *testing.T) {
	s := open(t, Config{Dir: "data", FS: vfs.NewMem()})
	s.current.Load().tails.max = 3
	for round := range 5 {
		for i := range 10 {
			if err := s.Commit(t.Context(), entry(eventlog.Stream(fmt.Sprint("s", i)), eventlog.Seq(round), nil)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if n := len(s.current.Load().tails.find); n > 3 {
		t.Errorf("%d tails are remembered", n)
	}
}

func TestLapsedClaimsAreRemoved(t *testing.T) {
	s := open(t, Config{Dir: "data", FS: vfs.NewMem(), Now: func() int64 { return 100 + lapsedKept.Milliseconds() }})
	claim := func(key string, until int64, replaces uint64) {
		t.Helper()
		c := eventlog.Commit{Writer: newWriter(), Claims: []eventlog.Claim{{Key: key, Until: until, If: replaces}}}
		if err := s.Commit(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	claim("lapsed", 10, 0)
	claim("negative", -10, 0)
	claim("lasting", 1000, 0)
	claim("eternal", eventlog.Forever, 0)
	claim("renewed", 10, 0)
	claim("renewed", 1000, 1)
	for i := range 2 * lapsedAtOnce {
		claim(fmt.Sprint("many/", i), 20, 0)
	}
	for _, dry := range []bool{true, true, false} {
		if n, err := s.Lapsed(t.Context(), dry); n != 2+2*lapsedAtOnce || err != nil {
			t.Fatalf("dry %v: %d, %v", dry, n, err)
		}
	}
	if n, err := s.Lapsed(t.Context(), false); n != 0 || err != nil {
		t.Fatalf("again: %d, %v", n, err)
	}
	left, err := s.Claims(t.Context(), "", "", math.MaxInt)
	if err != nil {
		t.Fatal(err)
	}
	var keys []string
	for _, c := range left {
		keys = append(keys, c.Key)
	}
	if got := strings.Join(keys, " "); got != "eternal lasting renewed" {
		t.Errorf("left: %s", got)
	}
}

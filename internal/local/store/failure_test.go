package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/leaselog/leaselog/internal/eventlog"
	"github.com/leaselog/leaselog/projections"
)

// faultyFS fails what a rule says.
type faultyFS struct {
	vfs.FS
	rule atomic.Pointer[func(op, base string) error]
}

func (f *faultyFS) fault(rule func(op, base string) error) { f.rule.Store(&rule) }
func (f *faultyFS) heal()                                  { f.rule.Store(nil) }

func (f *faultyFS) check(op, name string) error {
	if rule := f.rule.Load(); rule != nil {
		return (*rule)(op, filepath.Base(name))
	}
	return nil
}

func (f *faultyFS) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	if err := f.check("create", name); err != nil {
		return nil, err
	}
	file, err := f.FS.Create(name, c)
	return &faultyFile{file, f, name}, err
}

func (f *faultyFS) ReuseForWrite(oldname, newname string, c vfs.DiskWriteCategory) (vfs.File, error) {
	if err := f.check("create", newname); err != nil {
		return nil, err
	}
	file, err := f.FS.ReuseForWrite(oldname, newname, c)
	return &faultyFile{file, f, newname}, err
}

func (f *faultyFS) Rename(oldname, newname string) error {
	if err := f.check("rename", newname); err != nil {
		return err
	}
	return f.FS.Rename(oldname, newname)
}

func (f *faultyFS) OpenDir(name string) (vfs.File, error) {
	file, err := f.FS.OpenDir(name)
	return &faultyFile{file, f, "dir"}, err
}

type faultyFile struct {
	vfs.File
	fs   *faultyFS
	name string
}

func (w *faultyFile) Write(p []byte) (int, error) {
	if err := w.fs.check("write", w.name); err != nil {
		n, _ := w.File.Write(p[:len(p)/2]) // torn
		return n, err
	}
	return w.File.Write(p)
}

func (w *faultyFile) WriteAt(p []byte, off int64) (int, error) {
	if err := w.fs.check("write", w.name); err != nil {
		n, _ := w.File.WriteAt(p[:len(p)/2], off)
		return n, err
	}
	return w.File.WriteAt(p, off)
}

func (w *faultyFile) Stat() (vfs.FileInfo, error) {
	if err := w.fs.check("stat", w.name); err != nil {
		return nil, err
	}
	return w.File.Stat()
}

func (w *faultyFile) Sync() error {
	if err := w.fs.check("sync", w.name); err != nil {
		return err
	}
	return w.File.Sync()
}

func (w *faultyFile) SyncData() error {
	if err := w.fs.check("sync", w.name); err != nil {
		return err
	}
	return w.File.SyncData()
}

func (w *faultyFile) SyncTo(length int64) (bool, error) {
	if err := w.fs.check("sync", w.name); err != nil {
		return false, err
	}
	return w.File.SyncTo(length)
}

func (w *faultyFile) Close() error {
	if err := w.fs.check("close", w.name); err != nil {
		return err
	}
	return w.File.Close()
}

// senders append to a stream each, like a client that obeys the contract: an unknown outcome is repeated identically,
// a refusal later.
type senders struct {
	store *Store
	stop  atomic.Bool
	wg    sync.WaitGroup
	mu    sync.Mutex
	acked [][]eventlog.Writer // an element is replaced under mu; its sender reads it without
	t     *testing.T
}

func startSenders(t *testing.T, s *Store, n int) *senders {
	all := &senders{store: s, acked: make([][]eventlog.Writer, n), t: t}
	for i := range n {
		all.wg.Go(func() { all.send(i) })
	}
	all.wg.Go(all.keepView)
	return all
}

// keepView saves a view again and again, whose data is its version. A save that failed may stand, and come to light
// only when the store is open again.
func (a *senders) keepView() {
	for failed := false; !a.stop.Load(); {
		k, ok, err := a.store.Load(context.Background(), "v")
		if err != nil { // a dead instance may have no answer
			<-time.After(time.Millisecond)
			continue
		}
		if ok && string(k.Data) != fmt.Sprint(k.Version) {
			a.t.Errorf("version %d of the view is %q", k.Version, k.Data)
			return
		}
		err = a.store.Save(context.Background(), "v", fmt.Append(nil, k.Version+1), k.Version)
		if errors.Is(err, projections.ErrChanged) && !failed {
			a.t.Errorf("the view changed after version %d, and nobody else saves it", k.Version)
			return
		}
		if failed = err != nil; failed {
			<-time.After(time.Millisecond)
		}
	}
}

func (a *senders) send(i int) {
	data := make([]byte, 1000)
	for !a.stop.Load() {
		c := entry(a.stream(i), eventlog.Seq(len(a.acked[i])), data)
		if i%4 == 0 {
			c.Claims = []eventlog.Claim{{Key: fmt.Sprintf("k/%d/%d", i, c.Appends[0].Seq), Until: eventlog.Forever}}
		}
		if !a.insist(c) {
			return
		}
		a.mu.Lock()
		a.acked[i] = append(a.acked[i], c.Writer)
		a.mu.Unlock()
	}
}

func (a *senders) insist(c eventlog.Commit) bool {
	for {
		err := a.store.Commit(context.Background(), c)
		var conflict *eventlog.Conflict
		switch {
		case err == nil:
			return true
		case errors.As(err, &conflict):
			a.t.Errorf("%s at %d: conflict with %+v", c.Appends[0].Stream, c.Appends[0].Seq, conflict.Entries)
			return false
		}
		if a.stop.Load() && a.store.Healthy() != nil {
			return false
		}
		<-time.After(time.Millisecond) // a client's back-off
	}
}

func (a *senders) stream(i int) eventlog.Stream { return eventlog.Stream(fmt.Sprintf("sender/%d", i)) }

func (a *senders) finish() {
	a.stop.Store(true)
	a.wg.Wait()
}

// acknowledged gives what was acknowledged so far, for each sender.
func (a *senders) acknowledged() [][]eventlog.Writer {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.acked)
}

// progress waits until every sender has n more commits acknowledged; on a busy machine one may begin long after
// the others.
func (a *senders) progress(n int) {
	a.t.Helper()
	before := a.acknowledged()
	eventually(a.t, fmt.Sprint(n, " commits of each sender"), func() bool {
		for i, now := range a.acknowledged() {
			if len(now) < len(before[i])+n {
				return false
			}
		}
		return true
	})
}

// check demands that all that was acknowledged is there.
func (a *senders) check(s *Store) {
	a.t.Helper()
	a.checkHas(s, a.acknowledged())
}

func (a *senders) checkHas(s *Store, acked [][]eventlog.Writer) {
	a.t.Helper()
	for i, want := range acked {
		got, err := s.Read(a.t.Context(), a.stream(i), 0, eventlog.Limits{})
		if err != nil || len(got) < len(want) {
			a.t.Fatalf("%s has %d entries, %v; %d were acknowledged", a.stream(i), len(got), err, len(want))
		}
		for n, w := range want {
			if got[n].Writer != w {
				a.t.Fatalf("%s at %d is by %x, %x was acknowledged", a.stream(i), n, got[n].Writer, w)
			}
		}
	}
}

// eventually waits for something that other goroutines bring about.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !ok(); <-time.After(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain: %s", what)
		}
	}
}

func TestDiskFails(t *testing.T) {
	faults := []struct{ name, op, suffix string }{
		{"log write", "write", ".log"},
		{"log sync", "sync", ".log"},
		{"log create", "create", ".log"},
		{"log close", "close", ".log"},
		{"log stat", "stat", ".log"},
		{"table create", "create", ".sst"},
		{"table write", "write", ".sst"},
		{"table sync", "sync", ".sst"},
		{"manifest write", "write", "MANIFEST"},
		{"manifest sync", "sync", "MANIFEST"},
		{"directory sync", "sync", "dir"},
		{"everything written", "write", ""},
		{"everything", "", ""},
	}
	for _, errno := range []syscall.Errno{syscall.ENOSPC, syscall.EIO} {
		for _, f := range faults {
			t.Run(fmt.Sprint(f.name, " ", errno), func(t *testing.T) {
				t.Parallel()
				testDiskFails(t, func(op, base string) error {
					if (f.op == "" || f.op == op) && (strings.HasSuffix(base, f.suffix) || strings.HasPrefix(base, f.suffix)) {
						return fmt.Errorf("%s %s: %w", op, base, errno)
					}
					return nil
				}, errno)
			})
		}
	}
}

// state is a snapshot of several pieces.
var state = bytes.Repeat([]byte("state"), pieceBytes)

func testDiskFails(t *testing.T, rule func(op, base string) error, errno syscall.Errno) {
	fs := &faultyFS{FS: vfs.NewMem()}
	s := openImpatient(t, fs)
	fill(t, s, "a", 0, 3)
	putSnapshot(t, s, 2, state)
	all := startSenders(t, s, 8)
	for range 2 {
		all.progress(20)
		fs.fault(rule)
		eventually(t, "a failure", func() bool { return s.Healthy() != nil })
		checkFailed(t, s, errno)
		all.checkReads(s)
		fs.heal()
		eventually(t, "the recovery", func() bool { return s.Healthy() == nil })
	}
	all.progress(20)
	all.finish()
	all.check(s)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	all.check(openImpatient(t, fs))
}

// openImpatient opens a store that tries often.
func openImpatient(t *testing.T, fs vfs.FS) *Store {
	s := open(t, Config{Dir: "data", FS: fs})
	s.mu.Lock()
	s.failures = failures{retryMin: time.Millisecond, retryMax: 20 * time.Millisecond, forget: time.Hour, probeBytes: 1 << 10}
	s.mu.Unlock()
	return s
}

// checkFailed demands that a failed store refuses at once and says why.
func checkFailed(t *testing.T, s *Store, errno syscall.Errno) {
	t.Helper()
	var err error
	eventually(t, "a refusal", func() bool { // the store may have been open for a moment, until its next write
		err = s.Commit(t.Context(), entry("other", 1, nil))
		var refused *eventlog.Refused
		return errors.As(err, &refused) && !refused.Content && errors.Is(err, errno)
	})
	if errno == syscall.ENOSPC && !strings.Contains(err.Error(), "the disk is full") {
		t.Errorf("%q does not say that the disk is full", err)
	}
}

// checkReads demands that a failed store is read as before.
func (a *senders) checkReads(s *Store) {
	a.t.Helper()
	acked := a.acknowledged()
	a.checkHas(s, acked)
	for i, want := range acked {
		last, ok, err := s.Last(a.t.Context(), a.stream(i))
		if err != nil || !ok || last.Next() < eventlog.Seq(len(want)) {
			a.t.Fatalf("last of %s in the failed store: %d, %v, %v; %d were acknowledged", a.stream(i), last.Seq, ok, err, len(want))
		}
	}
	if _, err := s.Claims(a.t.Context(), "k/", "", 100); err != nil {
		a.t.Fatal(err)
	}
	checkSnapshot(a.t, s, 9, 2, state)
	if s.Size() == 0 {
		a.t.Error("the failed store has no size")
	}
}

// A commit whose entry reached the disk although the answer was unknown is recognized when it is repeated.
func TestUnknownThatStands(t *testing.T) {
	fs := &faultyFS{FS: vfs.NewMem()}
	s := openImpatient(t, fs)
	fill(t, s, "a", 0, 1)
	fs.fault(func(op, base string) error {
		if op == "sync" && strings.HasSuffix(base, ".log") { // written, but not acknowledged
			return syscall.EIO
		}
		return nil
	})
	c := entry("a", 1, []byte("twice"))
	c.Claims = []eventlog.Claim{{Key: "k", Until: eventlog.Forever}}
	var refused *eventlog.Refused
	if err := s.Commit(t.Context(), c); err == nil || errors.As(err, &refused) {
		t.Fatalf("got %v, want an unknown outcome", err)
	}
	if last, _, err := s.Last(t.Context(), "a"); err != nil || last.Seq != 0 {
		t.Fatalf("the last entry is %d, %v: it may not be shown before it is on the disk", last.Seq, err)
	}
	if got, err := s.Read(t.Context(), "a", 1, eventlog.Limits{}); err != nil || len(got) != 0 {
		t.Fatalf("read %v, %v", got, err)
	}
	if claim, ok, err := s.Claim(t.Context(), "k"); err != nil || ok {
		t.Fatalf("claim %v, %v", claim, err)
	}
	if claims, err := s.Claims(t.Context(), "", "", 9); err != nil || len(claims) != 0 {
		t.Fatalf("claims %v, %v", claims, err)
	}
	fs.heal()
	eventually(t, "the recovery", func() bool { return s.Healthy() == nil })
	if last, _, err := s.Last(t.Context(), "a"); err != nil || last.Seq != 1 {
		t.Fatalf("the last entry is %d, %v: the log held it", last.Seq, err)
	}
	for range 2 {
		if err := s.Commit(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	if claim, _, err := s.Claim(t.Context(), "k"); err != nil || claim.Version != 1 {
		t.Fatalf("claim version %d, %v", claim.Version, err)
	}
}

// A disk that is broken from the start is an error of Open, not the end of the process.
func TestOpenOnBrokenDisk(t *testing.T) {
	for _, kind := range []string{".log", ".sst", "MANIFEST", "marker", "OPTIONS", "dir"} {
		fs := &faultyFS{FS: vfs.NewMem()}
		s := open(t, Config{Dir: "data", FS: fs})
		fill(t, s, "a", 0, 10)
		if kind != ".sst" {
			s.Close()
		} else {
			s.current.Load().fail(errors.New("for the test")) // so that the log must be replayed
			s.Close()
		}
		fs.fault(func(op, base string) error {
			if strings.Contains(base, kind) {
				return syscall.ENOSPC
			}
			return nil
		})
		s, err := Open(Config{Dir: "data", FS: fs, Logger: quiet})
		if err == nil {
			s.Close()
			t.Errorf("%s: opened", kind)
		} else if !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("%s: %v", kind, err)
		}
		fs.heal()
		s = open(t, Config{Dir: "data", FS: fs})
		if got, err := s.Read(t.Context(), "a", 0, eventlog.Limits{}); err != nil || len(got) != 10 {
			t.Errorf("%s: healed: %d entries, %v", kind, len(got), err)
		}
		s.Close()
	}
}

func TestContextEnds(t *testing.T) {
	fs := &faultyFS{FS: vfs.NewMem()}
	s := open(t, Config{Dir: "data", FS: fs})
	entered, leave := make(chan bool, 1), make(chan bool)
	fs.fault(func(op, base string) error {
		if op == "sync" && strings.HasSuffix(base, ".log") {
			entered <- true
			<-leave
		}
		return nil
	})
	ctx, cancel := context.WithCancel(t.Context())
	answer := make(chan error)
	go func() { answer <- s.Commit(ctx, entry("a", 0, nil)) }()
	<-entered
	cancel()
	var refused *eventlog.Refused
	if err := <-answer; !errors.Is(err, context.Canceled) || errors.As(err, &refused) {
		t.Errorf("got %v, want an unknown outcome", err)
	}
	if err := s.Commit(ctx, entry("b", 0, nil)); !errors.As(err, &refused) {
		t.Errorf("got %v, want a refusal: the context had ended before", err)
	}
	fs.heal()
	close(leave)
	fill(t, s, "b", 0, 1) // after the first
	if last, ok, err := s.Last(t.Context(), "a"); err != nil || !ok || last.Seq != 0 {
		t.Errorf("last %v, %v, %v", last, ok, err)
	}
}

// Package store is the log in a directory of the local disk, on Pebble.
//
// One goroutine, the committer, writes for all streams: it takes the commits that wait, judges each against what
// stands and against those before it, writes them as one batch, waits for the disk, and answers. Readers see only
// what the disk has.
package store

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/leaselog/leaselog/internal/eventlog"
)

// Config says where the store is.
type Config struct {
	// Dir is the data directory. It is created with mode 0700 if it is missing. Required.
	Dir string

	// FS is the file system to use; nil is the one of the machine.
	FS vfs.FS

	// Logger gets what an operator should know, and at level debug what Pebble says; nil is [slog.Default].
	Logger *slog.Logger

	// Now is the wall clock in Unix milliseconds, by which Lapsed knows what lapsed an hour ago; nil is the
	// clock of the machine.
	Now func() int64

	// Synced, where it is set, is called by the committer for each batch that is on the disk, before its commits are
	// answered: it must not block.
	Synced func(commits, bytes int, took time.Duration)
}

// Store implements [eventlog.Log].
//
// When the disk fails, commits under way have an unknown outcome, and new ones are refused with the cause until a
// goroutine has opened the directory anew, which it tries for as long as the store is open. Reads go on meanwhile.
type Store struct {
	dir      string
	fs       vfs.FS
	readOnly bool // see [View]
	logger   *slog.Logger
	now      func() int64
	synced   func(commits, bytes int, took time.Duration) // nil: nobody counts

	lock  io.Closer // the directory's, from Open to Close
	cache *pebble.Cache
	files *pebble.FileCache

	current atomic.Pointer[instance]
	readers sync.RWMutex // held for reading during a read, for writing when the database is closed

	quit     chan struct{} // closed by Close: background work ends
	workers  sync.WaitGroup
	failures failures

	rewriting chan struct{} // has room for whoever writes or drops snapshots

	size struct {
		mu    sync.Mutex
		at    time.Time
		bytes uint64
	}

	mu      sync.Mutex
	closed  bool
	failure error      // why writes are refused; nil while they are taken
	inbox   []*request // what waits for the committer
	flight  []*request // what the committer has taken and not answered
	gate    gate
}

var _ eventlog.Log = (*Store)(nil)

// Open opens the store in a directory, or creates it where there is none. It refuses a directory that another
// process uses, one of another format, one that holds something else, and one that is damaged.
func Open(cfg Config) (*Store, error) {
	s, err := newStore(cfg)
	if err != nil {
		return nil, err
	}
	begun, err := s.takeDirectory()
	if err != nil {
		return nil, err
	}
	if err := s.start(begun); err != nil {
		s.free()
		return nil, err
	}
	return s, nil
}

func newStore(cfg Config) (*Store, error) {
	if cfg.Dir == "" {
		return nil, errors.New("the store needs a data directory")
	}
	s := &Store{
		dir: cfg.Dir, fs: cfg.FS, logger: cfg.Logger, now: cfg.Now, synced: cfg.Synced,
		quit: make(chan struct{}), failures: defaultFailures, rewriting: make(chan struct{}, 1),
	}
	if s.fs == nil {
		s.fs = vfs.Default
	}
	if s.logger == nil {
		s.logger = slog.Default()
	}
	if s.now == nil {
		s.now = func() int64 { return time.Now().UnixMilli() }
	}
	s.cache, s.files = newCaches()
	return s, nil
}

func (s *Store) start(begun bool) error {
	if !begun {
		if err := s.begin(); err != nil {
			return err
		}
	}
	if err := s.checkLogs(); err != nil {
		return err
	}
	inst, err := s.openInstance(true)
	if err != nil {
		return s.explainOpen(err)
	}
	if !s.resume(inst) {
		return s.explainOpen(inst.cause)
	}
	return nil
}

// begin creates the database. It is closed again, since Pebble makes the first log of a new database in an older
// format, which does not tell damage in its middle from its end.
func (s *Store) begin() error {
	inst, err := s.openInstance(false)
	if err != nil {
		return s.explainOpen(err)
	}
	if err := inst.close(); err != nil {
		return s.explainOpen(err)
	}
	if err := s.writeMarker(markerBegun); err != nil {
		return fmt.Errorf("data directory %s cannot be written: %w", s.dir, err)
	}
	return nil
}

// Close takes no more commits, waits for those it has, and closes the database so that the next opening has nothing
// to repair. Later calls give [eventlog.ErrClosed].
func (s *Store) Close() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.closed = true
	s.mu.Unlock()
	close(s.quit)
	s.workers.Wait()
	s.readers.Lock()
	defer s.readers.Unlock()
	defer s.free()
	return s.current.Load().close()
}

// free gives back what the store holds beside the database.
func (s *Store) free() {
	s.files.Unref()
	s.cache.Unref()
	if err := s.lock.Close(); err != nil {
		s.logger.Warn("unlock the data directory", "dir", s.dir, "err", err.Error())
	}
}

// Healthy gives the reason why the store takes no writes, or nil.
func (s *Store) Healthy() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return errClosed
	}
	return s.failure
}

// sizeAge is how old an answer of Size may be: a sweep asks for every queue.
const sizeAge = time.Second

// Size is the number of bytes that the store's files have, or had a second ago. It asks the file system: Pebble would answer
// behind a lock that a failing disk may keep for good.
func (s *Store) Size() uint64 {
	s.size.mu.Lock()
	defer s.size.mu.Unlock()
	if now := time.Now(); s.size.at.IsZero() || now.Sub(s.size.at) > sizeAge {
		s.size.bytes, s.size.at = s.measure(), now
	}
	return s.size.bytes
}

func (s *Store) measure() (bytes uint64) {
	names, err := s.fs.List(s.dir)
	if err != nil {
		return 0 // Healthy says more
	}
	for _, name := range names {
		if info, err := s.fs.Stat(s.fs.PathJoin(s.dir, name)); err == nil && !info.IsDir() {
			bytes += uint64(info.Size())
		}
	}
	return bytes
}

var errClosed = fmt.Errorf("store: %w", eventlog.ErrClosed)

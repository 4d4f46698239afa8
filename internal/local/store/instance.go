package store

import (
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/sstable"
)

// instance is one opened database with its committer. When its disk fails it is dead for good: it is never closed,
// since Pebble would wait for goroutines that stay at the fence, and another one is opened beside it. Block and file
// caches belong to the store, so that what a dead instance holds is a memtable or two.
type instance struct {
	store *Store
	fence *fence
	db    *pebble.DB

	dying sync.Once
	dead  chan struct{} // closed when the instance has failed
	cause error         // why; set before dead is closed
	born  time.Time
	wait  time.Duration // the pause before it was opened; 0 for the first

	committer
	shown shown
}

const (
	cacheBytes    = 24 << 20 // blocks and memtables together
	memtableBytes = 8 << 20
	openFilesMax  = 500
)

func newCaches() (*pebble.Cache, *pebble.FileCache) {
	return pebble.NewCache(cacheBytes), pebble.NewFileCache(runtime.GOMAXPROCS(0), openFilesMax)
}

// openInstance opens the database. begun says that there must be one.
func (s *Store) openInstance(begun bool) (*instance, error) {
	inst := &instance{store: s, dead: make(chan struct{}), born: time.Now()}
	inst.fence = &fence{FS: s.fs, fail: inst.fail}
	opened := make(chan error, 1)
	// Beside, since a failing disk keeps the opening goroutine at the fence.
	go func() {
		defer func() {
			if p := recover(); p != nil {
				opened <- fmt.Errorf("panic while opening: %v", p)
			}
		}()
		db, err := pebble.Open(s.dir, inst.options(begun))
		inst.db = db
		opened <- err
	}()
	select {
	case err := <-opened:
		if err != nil {
			return nil, err
		}
	case <-inst.dead:
		return nil, inst.cause
	}
	inst.committer.init(inst)
	return inst, nil
}

func (i *instance) options(begun bool) *pebble.Options {
	o := &pebble.Options{
		Cache:                       i.store.cache,
		FileCache:                   i.store.files,
		FS:                          i.fence,
		FormatMajorVersion:          pebble.FormatTableFormatV6, // pinned: never what happens to be newest
		ErrorIfNotExists:            begun,
		MemTableSize:                memtableBytes,
		MemTableStopWritesThreshold: 4,
		L0CompactionThreshold:       8,
		L0StopWritesThreshold:       24,
		LBaseMaxBytes:               64 << 20,
		WALBytesPerSync:             0, // every batch is synced anyway
		BytesPerSync:                512 << 10,
		CompactionConcurrencyRange:  func() (int, int) { return 1, 1 },
		Logger:                      pebbleLogger{i},
		EventListener:               i.listener(),
		ReadOnly:                    i.store.readOnly,
	}
	for l := range o.Levels {
		o.Levels[l].Compression = func() *sstable.CompressionProfile { return sstable.NoCompression } // the data is sealed
		o.Levels[l].FilterPolicy = bloom.FilterPolicy(10)                                             // most claims are new
		o.Levels[l].BlockSize = 16 << 10
	}
	return o
}

// nothingFlushed is the text of an unexported error by which Pebble reports that a flush had nothing to write.
const nothingFlushed = "pebble: empty table"

// listener hears of what Pebble does not return to anybody.
func (i *instance) listener() *pebble.EventListener {
	logger := i.store.logger
	return &pebble.EventListener{
		BackgroundError: func(err error) { logger.Warn("store: background work failed", "err", err.Error()) },
		DataCorruption: func(info pebble.DataCorruptionInfo) {
			logger.Error("store: a file is damaged", "dir", i.store.dir, "what", info.String())
		},
		// A flush that fails would be repeated at once and for ever, and writers would wait for it.
		FlushEnd: func(info pebble.FlushInfo) {
			if info.Err != nil && info.Err.Error() != nothingFlushed {
				i.fail(info.Err)
			}
		},
	}
}

// close closes the database, if the instance is alive.
func (i *instance) close() error {
	closed := make(chan error, 1)
	go func() {
		defer func() {
			if p := recover(); p != nil {
				closed <- fmt.Errorf("panic while closing: %v", p)
			}
		}()
		err := i.db.Flush()
		if closing := i.db.Close(); err == nil {
			err = closing
		}
		closed <- err
	}()
	select {
	case err := <-closed:
		return err
	case <-i.dead:
		return fmt.Errorf("store: not closed cleanly: %w", i.cause)
	}
}

// pebbleLogger keeps Pebble's chatter at debug, and Pebble from ending the process.
type pebbleLogger struct{ inst *instance }

func (l pebbleLogger) Infof(format string, args ...any) {
	l.log(slog.LevelDebug, format, args...)
}

func (l pebbleLogger) Errorf(format string, args ...any) {
	l.log(slog.LevelWarn, format, args...)
}

// Fatalf must not return, and must not exit either.
func (l pebbleLogger) Fatalf(format string, args ...any) {
	l.inst.fail(fmt.Errorf("pebble: "+format, args...))
	l.log(slog.LevelDebug, "%s", debug.Stack())
	stay()
}

func (l pebbleLogger) log(level slog.Level, format string, args ...any) {
	if logger := l.inst.store.logger; logger.Enabled(context.Background(), level) {
		logger.Log(context.Background(), level, "pebble: "+strings.TrimSpace(fmt.Sprintf(format, args...)))
	}
}

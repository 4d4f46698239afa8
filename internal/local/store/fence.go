package store

import (
	"errors"
	"io"
	"os"
	"strings"
	"sync"
	"syscall"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// fence is the file system of one Pebble instance, and the place where a failing disk is noticed.
//
// Pebble meets a failed write in one of three ways: it exits the process, it panics (in a rotation of its log even
// without the mutex that a deferred call then unlocks, which nothing can recover), or it tries again at once and for
// ever. None of them is wanted, so no failed write is ever returned to it: the fence reports the failure, which
// ends the instance, and the goroutine that met it stays where it is for good. Pebble holds none of its locks while
// it writes, so reads go on.
//
// An instance that was ended may touch no file any more, since another one is opened beside it: every later write
// stays at the fence as well.
type fence struct {
	vfs.FS
	fail func(error) // ends the instance; may be called often

	mu   sync.RWMutex // held for reading during a write
	dead bool         // guarded by mu

	logs    sync.Mutex
	hasLog  bool     // this instance has made a log
	oldLogs []string // to be removed when it has
}

// shut lets no further write through and returns when those under way have ended.
func (f *fence) shut() {
	f.mu.Lock()
	f.dead = true
	f.mu.Unlock()
}

func (f *fence) enter() {
	f.mu.RLock()
	if f.dead {
		f.mu.RUnlock()
		stay()
	}
}

func (f *fence) leave(err error) {
	f.mu.RUnlock()
	if err != nil {
		f.fail(err)
		stay()
	}
}

// stay never returns.
func stay() { select {} }

func (f *fence) file(file vfs.File, err error) (vfs.File, error) {
	if err != nil {
		return nil, err
	}
	return &fencedFile{File: file, fence: f}, nil
}

func (f *fence) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	f.enter()
	file, err := f.FS.Create(name, c)
	f.leave(err)
	if !isLog(name) {
		return f.file(file, err)
	}
	f.removeOldLogs()
	return &logFile{fencedFile: fencedFile{File: file, fence: f}}, nil
}

func (f *fence) ReuseForWrite(oldname, newname string, c vfs.DiskWriteCategory) (vfs.File, error) {
	f.enter()
	file, err := f.FS.ReuseForWrite(oldname, newname, c)
	f.leave(err)
	if !isLog(newname) {
		return f.file(file, err)
	}
	fenced := fencedFile{File: file, fence: f}
	info, _ := fenced.Stat()
	return &logFile{fencedFile: fenced, size: info.Size()}, nil
}

func (f *fence) OpenReadWrite(name string, c vfs.DiskWriteCategory, o ...vfs.OpenOption) (vfs.File, error) {
	f.enter()
	file, err := f.FS.OpenReadWrite(name, c, o...)
	f.leave(err)
	return f.file(file, err)
}

// OpenDir is for syncing, which is a write.
func (f *fence) OpenDir(name string) (vfs.File, error) { return f.file(f.FS.OpenDir(name)) }

func (f *fence) Link(oldname, newname string) error {
	f.enter()
	err := f.FS.Link(oldname, newname)
	f.leave(err)
	return err
}

func (f *fence) Rename(oldname, newname string) error {
	f.enter()
	err := f.FS.Rename(oldname, newname)
	f.leave(err)
	return err
}

func (f *fence) MkdirAll(dir string, perm os.FileMode) error {
	f.enter()
	err := f.FS.MkdirAll(dir, perm)
	f.leave(err)
	return err
}

// Remove may fail: what is left over is removed at the next opening.
func (f *fence) Remove(name string) error {
	if isLog(name) && f.keepForNow(name) {
		return nil
	}
	f.enter()
	err := f.FS.Remove(name)
	f.leave(nil)
	return err
}

func isLog(name string) bool { return strings.HasSuffix(name, ".log") }

// keepForNow puts off the removal of a log until there is a newer one. Pebble's opening removes the old logs first,
// and a crash between would leave a directory that looks as if its log had been lost: see checkLogs.
func (f *fence) keepForNow(log string) bool {
	f.logs.Lock()
	defer f.logs.Unlock()
	if !f.hasLog {
		f.oldLogs = append(f.oldLogs, log)
	}
	return !f.hasLog
}

func (f *fence) removeOldLogs() {
	f.logs.Lock()
	old := f.oldLogs
	f.hasLog, f.oldLogs = true, nil
	f.logs.Unlock()
	for _, log := range old {
		_ = f.Remove(log)
	}
}

func (f *fence) RemoveAll(name string) error {
	f.enter()
	err := f.FS.RemoveAll(name)
	f.leave(nil)
	return err
}

// Lock gives Pebble nothing: the store holds the directory's lock itself, over all instances.
func (f *fence) Lock(string) (io.Closer, error) { return io.NopCloser(nil), nil }

func (f *fence) Unwrap() vfs.FS { return f.FS }

// fencedFile is a file that Pebble writes.
type fencedFile struct {
	vfs.File
	fence *fence
}

func (w *fencedFile) Write(p []byte) (int, error) {
	w.fence.enter()
	n, err := w.File.Write(p)
	w.fence.leave(err)
	return n, err
}

func (w *fencedFile) WriteAt(p []byte, off int64) (int, error) {
	w.fence.enter()
	n, err := w.File.WriteAt(p, off)
	w.fence.leave(err)
	return n, err
}

// Preallocate is a hint, which some file systems do not take.
func (w *fencedFile) Preallocate(offset, length int64) error {
	w.fence.enter()
	err := w.File.Preallocate(offset, length)
	if errors.Is(err, syscall.ENOTSUP) || errors.Is(err, syscall.ENOSYS) || errors.Is(err, syscall.EINVAL) {
		err = nil
	}
	w.fence.leave(err)
	return err
}

// Stat is no write, but Pebble asks for a log's size in the middle of a rotation.
func (w *fencedFile) Stat() (vfs.FileInfo, error) {
	w.fence.enter()
	info, err := w.File.Stat()
	w.fence.leave(err)
	return info, err
}

func (w *fencedFile) Sync() error {
	w.fence.enter()
	err := w.File.Sync()
	w.fence.leave(err)
	return err
}

func (w *fencedFile) SyncTo(length int64) (bool, error) {
	w.fence.enter()
	full, err := w.File.SyncTo(length)
	w.fence.leave(err)
	return full, err
}

func (w *fencedFile) SyncData() error {
	w.fence.enter()
	err := w.File.SyncData()
	w.fence.leave(err)
	return err
}

func (w *fencedFile) Close() error {
	w.fence.enter()
	err := w.File.Close()
	w.fence.leave(err)
	return err
}

package store

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/cockroachdb/errors/oserror"
	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/wal"
)

// The marker is a file of the data directory that says what it is. Its first line is the format; the second is added
// when the database has been created: from then on a directory without one is damaged, and is not begun anew.
const (
	markerName   = "LEASELOG"
	markerTemp   = "LEASELOG.new"
	markerFormat = "leaselog store, format 2\n"
	markerBegun  = markerFormat + "begun\n"
	lockName     = "LOCK"
)

// takeDirectory makes the directory ours: created, locked, marked. It tells whether a database was begun in it.
func (s *Store) takeDirectory() (begun bool, err error) {
	if err := s.makeDirectory(s.dir); err != nil {
		return false, fmt.Errorf("data directory %s cannot be created: %w", s.dir, err)
	}
	// Before the lock, so that no file is made in a directory of somebody else.
	if _, err := s.readMarker(); err != nil {
		return false, err
	}
	s.lock, err = s.fs.Lock(s.fs.PathJoin(s.dir, lockName))
	if err != nil {
		return false, fmt.Errorf("data directory %s is in use by another process, or cannot be locked: %w", s.dir, err)
	}
	begun, err = s.claimDirectory()
	if err != nil {
		s.free()
	}
	return begun, err
}

// makeDirectory makes a directory and those above it that are missing, each durably in the one above.
func (s *Store) makeDirectory(dir string) error {
	_, err := s.fs.Stat(dir)
	if !oserror.IsNotExist(err) {
		return err // of a file in its place the listing tells
	}
	above := s.fs.PathDir(dir)
	if above != dir {
		if err := s.makeDirectory(above); err != nil {
			return err
		}
	}
	if err := s.fs.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	return s.syncDirectory(above)
}

func (s *Store) syncDirectory(name string) error {
	dir, err := s.fs.OpenDir(name)
	if err != nil {
		return err
	}
	defer dir.Close()
	return dir.Sync()
}

func (s *Store) claimDirectory() (begun bool, err error) {
	marker, err := s.readMarker()
	if err != nil {
		return false, err
	}
	if marker == "" {
		if err := s.writeMarker(markerFormat); err != nil {
			return false, fmt.Errorf("data directory %s cannot be written: %w", s.dir, err)
		}
	}
	return marker == markerBegun, nil
}

// readMarker gives the marker, "" for a directory that is as good as empty, and an error for one that is not ours.
func (s *Store) readMarker() (string, error) {
	names, err := s.fs.List(s.dir)
	if err != nil {
		return "", fmt.Errorf("data directory %s cannot be read: %w", s.dir, err)
	}
	foreign := ""
	for _, name := range names {
		switch name {
		case markerName:
			return s.checkMarker()
		case markerTemp, lockName, "lost+found":
		default:
			foreign = name
		}
	}
	if foreign != "" {
		return "", fmt.Errorf("data directory %s is not a leaselog store and not empty: it holds %s", s.dir, foreign)
	}
	return "", nil
}

func (s *Store) checkMarker() (string, error) {
	text, err := s.readFile(markerName)
	if err != nil {
		return "", fmt.Errorf("data directory %s: read %s: %w", s.dir, markerName, err)
	}
	if text != markerFormat && text != markerBegun {
		format, _, _ := strings.Cut(text, "\n")
		return "", fmt.Errorf("data directory %s has format %q, this program reads %q; name another directory, or run the program that made this one", s.dir, format, strings.TrimSpace(markerFormat))
	}
	return text, nil
}

func (s *Store) readFile(name string) (string, error) {
	f, err := s.fs.Open(s.fs.PathJoin(s.dir, name))
	if err != nil {
		return "", err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, 4<<10))
	return string(text), err
}

// writeMarker replaces the marker. It is durable on return, and never half written.
func (s *Store) writeMarker(text string) error {
	temp := s.fs.PathJoin(s.dir, markerTemp)
	if err := writeSynced(s.fs, temp, []byte(text)); err != nil {
		return err
	}
	if err := s.fs.Rename(temp, s.fs.PathJoin(s.dir, markerName)); err != nil {
		return err
	}
	return s.syncDirectory(s.dir)
}

func writeSynced(fs vfs.FS, name string, content []byte) error {
	f, err := fs.Create(name, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	if _, err = f.Write(content); err == nil {
		err = f.Sync()
	}
	if closing := f.Close(); err == nil {
		err = closing
	}
	return err
}

// checkLogs looks at the write-ahead logs of a database that was begun, since Pebble starts without a word when the
// newest of them was cut or is gone. A log that ends inside a record is what a crash leaves, and then nobody was
// told that the record is kept; after damage to the file it may be more. Both get a warning. Without any log, which
// not even a clean end leaves, nothing is opened.
func (s *Store) checkLogs() error {
	logs, err := wal.Scan(wal.Dir{FS: s.fs, Dirname: s.dir})
	if err != nil {
		return fmt.Errorf("data directory %s cannot be read: %w", s.dir, err)
	}
	if len(logs) == 0 {
		return fmt.Errorf("data directory %s is damaged and was not opened: its write-ahead log is missing", s.dir)
	}
	newest := logs[len(logs)-1]
	size, err := newest.PhysicalSize()
	if err != nil {
		return fmt.Errorf("data directory %s cannot be read: %w", s.dir, err)
	}
	at, torn := tornAt(newest)
	switch {
	case size == 0:
		s.logger.Warn("store: the newest write-ahead log is empty, which is well if the last process ended before it wrote",
			"dir", s.dir, "log", newest.Num)
	case torn:
		s.logger.Warn("store: the newest write-ahead log ends inside a record, which is lost; well after a crash, not after damage to the file",
			"dir", s.dir, "log", newest.Num, "at", at, "bytes", size)
	}
	return nil
}

// explainOpen says in one sentence why the database does not open.
func (s *Store) explainOpen(err error) error {
	if pebble.IsCorruptionError(err) || errors.Is(err, pebble.ErrDBDoesNotExist) || oserror.IsNotExist(err) {
		return fmt.Errorf("data directory %s is damaged and was not opened: %w", s.dir, err)
	}
	return fmt.Errorf("data directory %s cannot be opened: %w", s.dir, err)
}

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
	markerFormat = "leaselog store, format 1\n"
	markerBegun  = markerFormat + "begun\n"
	lockName     = "LOCK"
)

// takeDirectory makes the directory ours: created, locked, marked. It tells whether a database was begun in it.
func (s *Store) takeDirectory() (begun bool, err error) {
	if err := s.fs.MkdirAll(s.dir, 0o700); err != nil {
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
		return "", fmt.Errorf("data directory %s has format %q, this program reads %q", s.dir, format, strings.TrimSpace(markerFormat))
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
	dir, err := s.fs.OpenDir(s.dir)
	if err != nil {
		return err
	}
	defer dir.Close()
	return dir.Sync()
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

// warnOfTornLog tells the operator when the newest write-ahead log does not end where a record ends. After a crash
// that is a record which nobody was told about; after damage to the file it may be more. Pebble starts without a
// word in both cases.
func (s *Store) warnOfTornLog() {
	logs, err := wal.Scan(wal.Dir{FS: s.fs, Dirname: s.dir})
	if err != nil || len(logs) == 0 {
		return // Pebble's own reading will tell
	}
	newest := logs[len(logs)-1]
	r := newest.OpenForRead()
	defer r.Close()
	for {
		record, at, err := r.NextRecord()
		if err == nil {
			_, err = io.Copy(io.Discard, record)
		}
		if err == io.EOF {
			return
		}
		if err != nil {
			size, _ := newest.PhysicalSize()
			s.logger.Warn("the newest write-ahead log ends inside a record: what follows is lost, which is harmless after a crash and not after damage to the file",
				"dir", s.dir, "log", newest.String(), "at", at.String(), "bytes", size, "err", err)
			return
		}
	}
}

// explainOpen says in one sentence why the database does not open.
func (s *Store) explainOpen(err error) error {
	if pebble.IsCorruptionError(err) || errors.Is(err, pebble.ErrDBDoesNotExist) || oserror.IsNotExist(err) {
		return fmt.Errorf("data directory %s is damaged and was not opened: %w", s.dir, err)
	}
	return fmt.Errorf("data directory %s cannot be opened: %w", s.dir, err)
}

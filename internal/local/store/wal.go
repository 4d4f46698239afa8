package store

import (
	"bytes"
	"io"

	"github.com/cockroachdb/pebble/v2/wal"
)

const (
	// logAhead is by how much a write-ahead log is filled at a time. More is no gain: the page cache then keeps larger
	// pieces, of which each sync writes one.
	logAhead = 256 << 10

	// logFill is what stands where nothing was written yet. No record begins with it, and it is not zero, which damage
	// leaves and a power cut.
	logFill = 0xff
)

var logFilling = bytes.Repeat([]byte{logFill}, logAhead)

// logFile is a write-ahead log that is filled before it is written to, since a sync is faster where the file does not
// become longer: see docs/adr/0024. Pebble uses old logs again for that reason, but the first ones of a process are new,
// and those that were made first are short.
type logFile struct {
	fencedFile
	written int64 // where the next Write begins
	size    int64
}

func (w *logFile) Write(p []byte) (int, error) {
	for w.size < w.written+int64(len(p)) {
		n := logAhead - w.size%logAhead
		if _, err := w.WriteAt(logFilling[:n], w.size); err != nil {
			return 0, err
		}
		w.size += n
	}
	n, err := w.fencedFile.Write(p)
	w.written += int64(n)
	return n, err
}

// tornAt reads a log to its end, and reports whether and where that is inside a record.
func tornAt(log wal.LogicalLog) (at int64, torn bool) {
	r := log.OpenForRead()
	defer r.Close()
	for {
		record, offset, err := r.NextRecord()
		if err == nil {
			_, err = io.Copy(io.Discard, record)
		}
		if err != nil {
			return offset.Physical, err != io.EOF && !unusedAt(log, offset.Physical)
		}
	}
}

// The format of Pebble's logs: in blocks, with zeros where the rest of one is shorter than a record's header.
const (
	logBlock  = 32 << 10
	logHeader = 19
)

// unusedAt reports whether no record was written to a log at an offset, where one would begin.
func unusedAt(log wal.LogicalLog, at int64) bool {
	if left := logBlock - at%logBlock; left < logHeader {
		at += left
	}
	fs, name := log.SegmentLocation(log.NumSegments() - 1)
	f, err := fs.Open(name)
	if err != nil {
		return false
	}
	defer f.Close()
	header := make([]byte, logHeader)
	n, err := f.ReadAt(header, at)
	return (err == nil || err == io.EOF) && bytes.Equal(header[:n], logFilling[:n])
}

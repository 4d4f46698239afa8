package store

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/leaselog/leaselog/internal/eventlog"
)

// pieces gives how many pieces of snapshots there are, and how long the longest is.
func pieces(t *testing.T, s *Store) (n, longest int) {
	t.Helper()
	err := s.read(t.Context(), func(inst *instance) (err error) {
		it, err := inst.db.NewIter(&pebble.IterOptions{LowerBound: []byte{kindPiece}, UpperBound: []byte{kindPiece + 1}})
		if err != nil {
			return err
		}
		defer closeIter(it, &err)
		for ok := it.First(); ok; ok = it.Next() {
			value, err := it.ValueAndErr()
			if err != nil {
				return err
			}
			n, longest = n+1, max(longest, len(value))
		}
		return it.Error()
	})
	if err != nil {
		t.Fatal(err)
	}
	return n, longest
}

func putSnapshot(t *testing.T, s *Store, seq eventlog.Seq, data []byte) {
	t.Helper()
	if err := s.PutSnapshot(t.Context(), "a", eventlog.Snapshot{Seq: seq, Data: data}); err != nil {
		t.Fatal(err)
	}
}

func checkSnapshot(t *testing.T, s *Store, at, seq eventlog.Seq, data []byte) {
	t.Helper()
	got, ok, err := s.Snapshot(t.Context(), "a", at)
	if err != nil || !ok || got.Seq != seq || !bytes.Equal(got.Data, data) {
		t.Fatalf("the snapshot at %d: at %d, %d bytes, %v, %v; want %d bytes at %d", at, got.Seq, len(got.Data), ok, err, len(data), seq)
	}
}

// No value of a snapshot is longer than a piece, whatever the snapshot's length, and no piece outlives its snapshot.
func TestSnapshotPieces(t *testing.T) {
	fs := &faultyFS{FS: vfs.NewMem()}
	s := openImpatient(t, fs)
	fill(t, s, "a", 0, 10)
	stateOf := func(n int) []byte { return bytes.Repeat([]byte(fmt.Sprint(n, " bytes;")), n/7+1)[:n] }
	for _, n := range []int{0, 1, pieceBytes - 1, pieceBytes, pieceBytes + 1, pieceBytesAtOnce, pieceBytesAtOnce + 1, 5*pieceBytesAtOnce + 77} {
		putSnapshot(t, s, 2, stateOf(n)) // each in the place of the one before
		checkSnapshot(t, s, 9, 2, stateOf(n))
		count, longest := pieces(t, s)
		if want := (n + pieceBytes - 1) / pieceBytes; count != want || longest > pieceBytes {
			t.Errorf("%d pieces of at most %d bytes for %d bytes, want %d of at most %d", count, longest, n, want, pieceBytes)
		}
	}
	old, newer := stateOf(5*pieceBytesAtOnce+77), stateOf(3*pieceBytesAtOnce)

	// One that the disk ends in the middle does not count, and its pieces go with the snapshots before the next.
	writes := 0
	fs.fault(func(op, base string) error {
		if op == "sync" && strings.HasSuffix(base, ".log") {
			if writes++; writes > 1 {
				return syscall.ENOSPC
			}
		}
		return nil
	})
	if err := s.PutSnapshot(t.Context(), "a", eventlog.Snapshot{Seq: 5, Data: newer}); err == nil {
		t.Fatal("a snapshot was written to a full disk")
	}
	fs.heal()
	eventually(t, "the recovery", func() bool { return s.Healthy() == nil })
	checkSnapshot(t, s, 9, 2, old)
	if count, _ := pieces(t, s); count <= (len(old)+pieceBytes-1)/pieceBytes {
		t.Fatalf("%d pieces: nothing was left by the one that failed", count)
	}
	putSnapshot(t, s, 7, newer)
	if err := s.Drop(t.Context(), "a", 0, 6); err != nil {
		t.Fatal(err)
	}
	checkSnapshot(t, s, 9, 7, newer)
	if _, ok, err := s.Snapshot(t.Context(), "a", 6); ok || err != nil {
		t.Errorf("a snapshot at 6 although what it stood for was dropped: %v, %v", ok, err)
	}
	if count, _ := pieces(t, s); count != len(newer)/pieceBytes {
		t.Errorf("%d pieces are left, want %d", count, len(newer)/pieceBytes)
	}
}

// A disk that stalls and then fails keeps nobody who only reads.
func TestReadWhileDiskStalls(t *testing.T) {
	fs := &faultyFS{FS: vfs.NewMem()}
	s := openImpatient(t, fs)
	fill(t, s, "a", 0, 3)
	putSnapshot(t, s, 2, state)
	stalls, goOn := make(chan bool, 100), make(chan bool)
	fs.fault(func(op, base string) error {
		if strings.HasPrefix(base, "MANIFEST") {
			stalls <- true
			<-goOn
			return syscall.EIO
		}
		return nil
	})
	go s.current.Load().db.Flush()
	<-stalls
	read := make(chan bool)
	go func() {
		defer close(read)
		checkSnapshot(t, s, 9, 2, state)
		if last, ok, err := s.Last(t.Context(), "a"); err != nil || !ok || last.Seq != 2 {
			t.Errorf("last: %d, %v, %v", last.Seq, ok, err)
		}
		if s.Size() == 0 {
			t.Error("the store has no size")
		}
	}()
	select {
	case <-read:
	case <-time.After(10 * time.Second):
		t.Fatal("a read waits for the disk that stalls")
	}
	fs.heal()
	close(goOn)
	eventually(t, "the recovery", func() bool { return s.Healthy() == nil })
	checkSnapshot(t, s, 9, 2, state)
}

// Readers see one snapshot or the other, never a part or a mixture, while they are replaced and dropped.
func TestSnapshotReplacedWhileRead(t *testing.T) {
	s := open(t, Config{Dir: "data", FS: vfs.NewMem()})
	fill(t, s, "a", 0, 50)
	putSnapshot(t, s, 2, bytes.Repeat([]byte{255}, 300_000))
	written, read := make(chan bool), make(chan bool)
	go func() {
		defer close(read)
		for reads := 0; ; reads++ {
			got, ok, err := s.Snapshot(t.Context(), "a", 99)
			if err != nil || !ok || bytes.Count(got.Data, got.Data[:1]) != len(got.Data) {
				t.Errorf("read %d: %d bytes, %v, %v", reads, len(got.Data), ok, err)
				return
			}
			select {
			case <-written:
				return
			default:
			}
		}
	}()
	for i := range 100 {
		putSnapshot(t, s, eventlog.Seq(2+i/10), bytes.Repeat([]byte{byte(i)}, 200_000+i*100))
		if i%10 == 5 {
			if err := s.Drop(t.Context(), "a", 0, eventlog.Seq(1+i/10)); err != nil {
				t.Fatal(err)
			}
		}
	}
	close(written)
	<-read
}

// A snapshot that lost a piece is damage, not a shorter state.
func TestSnapshotLostPiece(t *testing.T) {
	s := open(t, Config{Dir: "data", FS: vfs.NewMem()})
	fill(t, s, "a", 0, 1)
	putSnapshot(t, s, 1, make([]byte, 3*pieceBytes))
	err := s.submitAlone(t.Context(), func(c *committer) error {
		it, err := c.inst.db.NewIter(&pebble.IterOptions{LowerBound: []byte{kindPiece}, UpperBound: []byte{kindPiece + 1}})
		if err != nil {
			return err
		}
		defer closeIter(it, &err)
		it.First()
		it.Next()
		return c.batch.Delete(it.Key(), nil)
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.Snapshot(t.Context(), "a", 9); !errors.Is(err, eventlog.ErrCorrupt) {
		t.Errorf("got %v", err)
	}
}

package eventlogtest

import (
	"fmt"
	"math"
	"testing"

	"github.com/leaselog/leaselog/internal/eventlog"
)

func testSnapshots(t *testing.T, open func(*testing.T) *suite) {
	t.Run("the newest at or before", func(t *testing.T) { testSnapshotAt(open(t)) })
	t.Run("replaced", func(t *testing.T) { testSnapshotReplaced(open(t)) })
	t.Run("by stream", func(t *testing.T) { testSnapshotStreams(open(t)) })
	t.Run("large", func(t *testing.T) { testSnapshotLarge(open(t)) })
	t.Run("dropped", func(t *testing.T) { testSnapshotDropped(t, open) })
}

// snapshots keeps snapshots, each with its own bytes.
func (s *suite) snapshots(name eventlog.Stream, at ...eventlog.Seq) {
	s.Helper()
	for _, seq := range at {
		snap := eventlog.Snapshot{Seq: seq, Data: snapshotData(name, seq)}
		if err := s.log.PutSnapshot(s.Context(), name, snap); err != nil {
			s.Fatalf("snapshot at %d: %v", seq, err)
		}
	}
}

func snapshotData(name eventlog.Stream, seq eventlog.Seq) []byte {
	return fmt.Appendf(nil, "%s at %d", name, seq)
}

// foundAt demands which snapshot is found for a position.
func (s *suite) foundAt(name eventlog.Stream, at, want eventlog.Seq) {
	s.Helper()
	got, ok, err := s.log.Snapshot(s.Context(), name, at)
	if err != nil || !ok {
		s.Errorf("snapshot of %s at %d: found %v, error %v; want the one at %d", name, at, ok, err, want)
		return
	}
	s.same("snapshot", got, eventlog.Snapshot{Seq: want, Data: snapshotData(name, want)})
}

func (s *suite) noneAt(name eventlog.Stream, at eventlog.Seq) {
	s.Helper()
	if got, ok, err := s.log.Snapshot(s.Context(), name, at); ok || err != nil {
		s.Errorf("snapshot of %s at %d: found %v at %d, error %v; want none", name, at, ok, got.Seq, err)
	}
}

func testSnapshotAt(s *suite) {
	s.fill("s", 5, 5, 300, 1)
	s.noneAt("s", math.MaxUint64)
	s.snapshots("s", 5, 310, 10)
	for _, seq := range []eventlog.Seq{0, 4} {
		s.noneAt("s", seq)
	}
	for at, want := range map[eventlog.Seq]eventlog.Seq{
		5: 5, 6: 5, 9: 5, 10: 10, 11: 10, 309: 10, 310: 310, 311: 310, 1 << 40: 310, math.MaxUint64: 310,
	} {
		s.foundAt("s", at, want)
	}
	s.snapshots("s", 0)
	s.foundAt("s", 4, 0)
}

func testSnapshotReplaced(s *suite) {
	s.fill("s", 5, 5)
	s.snapshots("s", 5)
	other := eventlog.Snapshot{Seq: 5, Data: []byte("folded again")}
	if err := s.log.PutSnapshot(s.Context(), "s", other); err != nil {
		s.Fatal(err)
	}
	got, ok, err := s.log.Snapshot(s.Context(), "s", 7)
	if err != nil || !ok {
		s.Fatalf("found %v, error %v", ok, err)
	}
	s.same("snapshot", got, other)
}

func testSnapshotStreams(s *suite) {
	names := []eventlog.Stream{"s", "s0", "r", "s/5", "t"}
	for _, name := range names[:4] {
		s.fill(name, 5, 5)
		s.snapshots(name, 5)
	}
	for _, name := range names[:4] {
		s.noneAt(name, 4)
		s.foundAt(name, 9, 5)
	}
	s.noneAt("t", 9)
}

// testSnapshotLarge keeps a snapshot that no single item of DynamoDB holds.
func testSnapshotLarge(s *suite) {
	s.fill("s", 1, 1)
	want := eventlog.Snapshot{Seq: 1, Data: make([]byte, 1<<20)}
	for i := range want.Data {
		want.Data[i] = byte(i * i >> 7)
	}
	if err := s.log.PutSnapshot(s.Context(), "s", want); err != nil {
		s.Fatal(err)
	}
	got, ok, err := s.log.Snapshot(s.Context(), "s", 1)
	if err != nil || !ok {
		s.Fatalf("found %v, error %v", ok, err)
	}
	s.same("snapshot", got, want)
}

// testSnapshotDropped drops from a stream of ten entries of width 1.
func testSnapshotDropped(t *testing.T, open func(*testing.T) *suite) {
	type seq = eventlog.Seq
	for _, tt := range []struct {
		name     string
		kept     []seq
		from, to seq
		left     []seq
	}{
		{"those before the first entry that is left", []seq{2, 3, 8}, 0, 5, []seq{8}},
		{"those that are needed stay", []seq{6, 8}, 0, 5, []seq{6, 8}},
		{"the newest stays, however old", []seq{2, 3}, 0, 7, []seq{3}},
		{"the only one stays", []seq{2}, 0, 9, []seq{2}},
		{"one at the end", []seq{4, 9, 10}, 0, 10, []seq{10}},
		{"a range inside leaves the first entry, so all stay", []seq{2, 5, 8}, 1, 7, []seq{2, 5, 8}},
		{"none", nil, 0, 5, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := open(t)
			s.fill("s", 1, 1, 1, 1, 1, 1, 1, 1, 1, 1)
			s.fill("t", 1, 1, 1)
			s.snapshots("t", 1, 2)
			s.snapshots("s", tt.kept...)
			s.drop("s", tt.from, tt.to)
			s.leftSnapshots("s", tt.left)
			s.leftSnapshots("t", []seq{1, 2})
		})
	}
}

// leftSnapshots walks from the newest snapshot to the oldest.
func (s *suite) leftSnapshots(name eventlog.Stream, left []eventlog.Seq) {
	s.Helper()
	next := eventlog.Seq(math.MaxUint64)
	for i := len(left) - 1; i >= 0; i-- {
		s.foundAt(name, next, left[i])
		next = left[i] - 1
	}
	s.noneAt(name, next)
}

package eventlogtest

import (
	"bytes"
	"os"
	"slices"
	"testing"

	"github.com/leaselog/leaselog/internal/eventlog"
)

func openMemory(*testing.T) eventlog.Log {
	if mutant, ok := mutants[os.Getenv(mutantVariable)]; ok {
		return mutant(eventlog.NewMemory())
	}
	return eventlog.NewMemory()
}

func TestMemory(t *testing.T) { Run(t, openMemory) }

func TestMemoryUnderFaults(t *testing.T) { RunUnderFaults(t, openMemory) }

// TestMemoryCopies breaks the rule about slices on both sides. In the reference implementation history stays what
// it was, so that such a mistake shows where it is made.
func TestMemoryCopies(t *testing.T) {
	m := eventlog.NewMemory()
	s := &suite{T: t, log: Checked(t, m)}
	c := by("a", put("s", 0, 1), hold("k", 10))
	snap := eventlog.Snapshot{Seq: 1, Data: []byte("snapshot")}
	s.must(c)
	if err := s.log.PutSnapshot(t.Context(), "s", snap); err != nil {
		t.Fatal(err)
	}
	all := func() [][]byte {
		entries, _ := m.Read(t.Context(), "s", 0, eventlog.Limits{})
		last, _, _ := m.Last(t.Context(), "s")
		kept, _, _ := m.Snapshot(t.Context(), "s", 1)
		claims, _ := m.Claims(t.Context(), "", "", 1)
		return [][]byte{entries[0].Header, entries[0].Data, last.Header, last.Data, kept.Data, s.claim("k").Value, claims[0].Value}
	}
	var before [][]byte
	for _, b := range all() {
		before = append(before, bytes.Clone(b))
	}
	for _, b := range append(all(), c.Appends[0].Header, c.Appends[0].Data, c.Claims[0].Value, snap.Data) {
		clear(b)
	}
	if after := all(); !slices.EqualFunc(before, after, bytes.Equal) {
		t.Errorf("was %q, is %q", before, after)
	}
}

func TestMemoryStreams(t *testing.T) {
	m := eventlog.NewMemory()
	s := &suite{T: t, log: Checked(t, m)}
	s.must(by("a", put("t", 0, 1), put("s", 0, 1)), by("b", put("s", 1, 1)))
	s.drop("s", 0, 2)
	s.snapshots("t", 1)
	if _, err := m.Read(t.Context(), "empty", 0, eventlog.Limits{}); err != nil {
		t.Fatal(err)
	}
	s.same("streams", m.Streams(), []eventlog.Stream{"s", "t"})
}

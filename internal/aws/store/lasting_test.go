package store

import (
	"errors"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/feature/dynamodb/expression"

	"github.com/leaselog/leaselog/internal/eventlog"
)

// lasting commits a lasting entry to two streams, as an anchor of a shard.
func lasting(t *testing.T, s *Store, seq eventlog.Seq) {
	t.Helper()
	var parts []any
	for _, name := range []eventlog.Stream{"a", "b"} {
		e := entryAt(name, seq)
		e.Lasting = true
		parts = append(parts, e)
	}
	mustCommit(t, s, commitOf(parts...))
}

// row gives an entry as it stands.
func (d database) row(t *testing.T, s *Store, name eventlog.Stream, seq eventlog.Seq) row {
	t.Helper()
	it, err := s.first(t.Context(), s.newest(name, seq, true))
	if err != nil {
		t.Fatal(err)
	}
	r, err := readRow(name, it)
	if err != nil || r.Seq != seq {
		t.Fatalf("entry %d: %+v, %v", seq, r, err)
	}
	return r
}

// A lasting entry keeps its stream writable when all before it has expired, however long that is ago, and what is missing
// before it is explained by its age.
func TestLasting(t *testing.T) {
	d := startDatabase(t)
	s := d.open(t)
	for _, name := range []eventlog.Stream{"a", "b"} {
		fill(t, s, name, 0, 3)
	}
	lasting(t, s, 3)
	if r := d.row(t, s, "a", 3); r.expires != 0 || time.Since(time.Unix(r.written, 0)).Abs() > time.Minute {
		t.Errorf("it ends at %d, and was written at %d", r.expires, r.written)
	}
	for seq := range eventlog.Seq(3) {
		expireAt(t, s, "a", seq, time.Now().Add(-time.Second))
	}
	fresh := d.openOn(t, s.tables)
	if last, ok, err := fresh.Last(t.Context(), "a"); err != nil || !ok || last.Seq != 3 {
		t.Errorf("last: %+v, %v, %v", last, ok, err)
	}
	if _, err := fresh.Read(t.Context(), "a", 0, eventlog.Limits{}); !errors.Is(err, eventlog.ErrCorrupt) {
		t.Errorf("a gap before a young entry: %v", err)
	}
	set := expression.Set(expression.Name("t"), expression.Value(time.Now().Add(-truncatedAge-time.Minute).Unix()))
	if err := s.expire(t.Context(), s.tables.Log, entryKey("a", 3), set); err != nil {
		t.Fatal(err)
	}
	_, err := fresh.Read(t.Context(), "a", 0, eventlog.Limits{})
	if tr := (*eventlog.Truncated)(nil); !errors.As(err, &tr) || tr.To != 3 {
		t.Errorf("a gap before an old entry: %v", err)
	}
	mustCommit(t, fresh, commitOf(entryAt("a", 4)))
}

// The next lasting entry gives the one before it an end: the age of an entry that is written now. One that was missed
// then is reached by the one after it.
func TestLastingEnds(t *testing.T) {
	s, n, other := openFaulty(t)
	d := database{}
	lasting(t, other, 0)
	for _, name := range []eventlog.Stream{"a", "b"} {
		fill(t, other, name, 1, 1)
	}
	ends := func(seq eventlog.Seq, wanted bool) {
		t.Helper()
		for _, name := range []eventlog.Stream{"a", "b"} {
			r := d.row(t, other, name, seq)
			if left := time.Until(time.Unix(r.expires, 0)); wanted != (left <= entryAge && left > entryAge-time.Minute) || !wanted && r.expires != 0 {
				t.Errorf("entry %d of %s expires at %d", seq, name, r.expires)
			}
		}
	}
	denied := answers(400, "AccessDeniedException", "")
	n.meets(passes, passes, passes, denied, denied) // two notes and the commit; then an end for each stream
	lasting(t, s, 2)
	ends(0, false)
	ends(2, false)
	lasting(t, s, 3)
	ends(0, true)
	ends(2, true)
	ends(3, false)
	if _, err := other.Read(t.Context(), "a", 0, eventlog.Limits{}); err != nil {
		t.Error(err)
	}
}

// What is too large for one item cannot last: its parts have an end.
func TestLargeDoesNotLast(t *testing.T) {
	s := startDatabase(t).open(t)
	e := entryAt("s", 0)
	e.Data, e.Lasting = make([]byte, inlineBytesMax), true
	var r *eventlog.Refused
	if err := s.Commit(t.Context(), commitOf(e)); !errors.As(err, &r) || !r.Content {
		t.Errorf("got %v", err)
	}
}

package store

import (
	"testing"

	"github.com/leaselog/leaselog/internal/eventlog"
)

// bill adds up what it is charged.
type bill struct{ read, write float64 }

func (b *bill) Charge(read, write float64) { b.read, b.write = b.read+read, b.write+write }

// TestBilled: whose context it is pays for a call, a write that loses too, and nobody else does.
func TestBilled(t *testing.T) {
	d := startDatabase(t)
	var u units
	s := d.open(t, func(c *Config) { c.Consumed = u.count })
	mustCommit(t, s, commitOf(entryAt("s", 0)))
	u.take()
	var mine bill
	ctx := eventlog.Billed(t.Context(), &mine)
	if err := s.Commit(ctx, commitOf(entryAt("s", 1))); err != nil {
		t.Fatal(err)
	}
	fill(t, d.openOn(t, s.tables), "s", 2, 1)
	if err := s.Commit(ctx, commitOf(entryAt("s", 2))); outcomeOf(err) != against {
		t.Fatalf("got %v, want a conflict", err)
	}
	if _, err := s.Read(ctx, "s", 0, eventlog.Limits{}); err != nil {
		t.Fatal(err)
	}
	read, write := u.take()
	if mine != (bill{read, write}) || write != 2 || read == 0 {
		t.Errorf("charged %+v, consumed %v and %v", mine, read, write)
	}
	if _, err := s.Read(t.Context(), "s", 0, eventlog.Limits{}); err != nil || mine != (bill{read, write}) {
		t.Errorf("charged %+v for another's read, %v", mine, err)
	}
}

package eventlogtest

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/leaselog/leaselog/internal/eventlog"
)

// TestCheckedFinds drives a log that breaks its contract in one way, and demands that the next check says so.
func TestCheckedFinds(t *testing.T) {
	ctx := context.Background()
	for _, tt := range []struct {
		name   string
		damage func(*broken)
		steps  []eventlog.Commit
		want   string
	}{
		{"a commit is lost", func(b *broken) {
			b.commit = func(eventlog.Commit) error { return nil }
		}, []eventlog.Commit{by("a", put("s", 0, 1))}, "its entry at 0 is gone"},
		{"a claim is lost", func(b *broken) {
			b.commit = func(eventlog.Commit) error { return nil }
		}, []eventlog.Commit{by("a", hold("k", 1))}, "version 0, but commits that set it took effect 1 to 1 times"},
		{"half a commit", func(b *broken) {
			b.commit = func(c eventlog.Commit) error { c.Claims = nil; return b.Log.Commit(ctx, c) }
		}, []eventlog.Commit{by("a", put("s", 0, 1), hold("k", 1))}, "took effect 1 to 1 times"},
		{"another half", func(b *broken) {
			b.commit = func(c eventlog.Commit) error { c.Appends = c.Appends[:1]; return b.Log.Commit(ctx, c) }
		}, []eventlog.Commit{by("a", put("s", 0, 1), put("t", 0, 1))}, "stream t: the commit by"},
		{"refused and applied", func(b *broken) {
			b.commit = func(c eventlog.Commit) error {
				_ = b.Log.Commit(ctx, c)
				return &eventlog.Refused{Cause: errors.New("no")}
			}
		}, []eventlog.Commit{by("a", put("s", 0, 1))}, "whose commit was not applied"},
		{"a claim refused and applied", func(b *broken) {
			b.commit = func(c eventlog.Commit) error {
				_ = b.Log.Commit(ctx, c)
				return &eventlog.Refused{Cause: errors.New("no")}
			}
		}, []eventlog.Commit{by("a", hold("k", 1))}, "version 1, but commits that set it took effect 0 to 0 times"},
		{"a conflict and half of it applied", func(b *broken) {
			b.commit = func(c eventlog.Commit) error {
				err := b.Log.Commit(ctx, c)
				if err != nil {
					c.Appends = c.Appends[1:]
					_ = b.Log.Commit(ctx, c)
				}
				return err
			}
		}, []eventlog.Commit{by("a", put("s", 0, 1)), by("b", put("s", 0, 1), put("t", 0, 1))}, "whose commit was not applied"},
		{"other bytes", func(b *broken) {
			b.commit = func(c eventlog.Commit) error {
				c.Appends[0].Data = []byte("other")
				return b.Log.Commit(ctx, c)
			}
		}, []eventlog.Commit{by("a", put("s", 0, 1))}, "is not the one that its writer"},
		{"another holder", func(b *broken) {
			b.commit = func(c eventlog.Commit) error {
				c.Claims[0].Holder = "other"
				return b.Log.Commit(ctx, c)
			}
		}, []eventlog.Commit{by("a", hold("k", 1))}, "not the claim that its writer"},
		{"an entry is replaced", replaceFirst, []eventlog.Commit{by("a", put("s", 0, 1)), by("b", put("s", 0, 1))}, "stands at 0"},
		{"a repeat takes effect again", func(b *broken) {
			calls := uint64(0)
			b.commit = func(c eventlog.Commit) error { calls++; return b.Log.Commit(ctx, c) }
			b.claim = func(key string) (eventlog.Claim, bool, error) {
				c, ok, err := b.Log.Claim(ctx, key)
				c.Version = calls
				return c, ok, err
			}
		}, []eventlog.Commit{by("a", put("s", 0, 1), hold("k", 1)), by("a", put("s", 0, 1), hold("k", 1))},
			"version 2, but commits that set it took effect 1 to 1 times"},
		{"a claim's version falls", func(b *broken) {
			b.claim = func(key string) (eventlog.Claim, bool, error) {
				c, ok, err := b.Log.Claim(ctx, key)
				c.Version = 1
				return c, ok, err
			}
		}, []eventlog.Commit{by("a", hold("k", 1)), by("b", replace("k", 1, 2))}, "version 1, but commits that set it took effect 2 to 2 times"},
		{"somebody nobody knows", func(b *broken) {
			b.commit = func(c eventlog.Commit) error {
				c.Writer[15]++
				return b.Log.Commit(ctx, c)
			}
		}, []eventlog.Commit{by("a", put("s", 0, 1))}, "who sent no commit"},
		{"one writer for two commits", func(*broken) {
		}, []eventlog.Commit{by("a", put("s", 0, 1)), by("a", put("s", 1, 1))}, "used for two different commits"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := &broken{Log: eventlog.NewMemory()}
			tt.damage(b)
			var r recorder
			log := Checked(&r, b)
			for _, c := range tt.steps {
				_ = log.Commit(ctx, copyCommit(c))
			}
			r.want(t, tt.want)
		})
	}
}

// want demands that a breach was reported before the test's end, and only the first.
func (r *recorder) want(t *testing.T, text string) {
	t.Helper()
	reported := len(r.errors)
	r.end()
	if reported != 1 || len(r.errors) != 1 || !strings.Contains(r.errors[0], text) {
		t.Errorf("reported %d errors at once, and in the end %q", reported, r.errors)
	}
}

// replaceFirst answers every commit as done and shows the newest in place of the first.
func replaceFirst(b *broken) {
	b.commit = func(c eventlog.Commit) error {
		m := eventlog.NewMemory()
		b.Log = m
		return m.Commit(context.Background(), c)
	}
}

func TestCheckedFindsDrops(t *testing.T) {
	ctx := context.Background()
	for _, tt := range []struct {
		name   string
		damage func(*broken)
		want   string
	}{
		{"more is dropped than was asked for", func(b *broken) {
			b.drop = func(from, to eventlog.Seq) error { return b.Log.Drop(ctx, "s", from, to+1) }
		}, "its entry at 1 is gone"},
		{"the newest snapshot is dropped", func(b *broken) {
			b.drop = func(eventlog.Seq, eventlog.Seq) error {
				b.snapshot = func(eventlog.Seq) (eventlog.Snapshot, bool, error) { return eventlog.Snapshot{}, false, nil }
				return nil
			}
		}, "the snapshot at 1 was kept"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := &broken{Log: eventlog.NewMemory()}
			tt.damage(b)
			var r recorder
			log := Checked(&r, b)
			for i, name := range []string{"a", "b", "c"} {
				_ = log.Commit(ctx, by(name, put("s", eventlog.Seq(i), 1)))
			}
			_ = log.PutSnapshot(ctx, "s", eventlog.Snapshot{Seq: 1})
			if len(r.errors) != 0 {
				t.Fatalf("before the drop: %q", r.errors)
			}
			_ = log.Drop(ctx, "s", 0, 1)
			r.want(t, tt.want)
		})
	}
}

// TestCheckedFindsLostSnapshot shows that a snapshot which was answered as kept must be found.
func TestCheckedFindsLostSnapshot(t *testing.T) {
	b := &broken{Log: eventlog.NewMemory(), put: func(eventlog.Snapshot) error { return nil }}
	var r recorder
	_ = Checked(&r, b).PutSnapshot(context.Background(), "s", eventlog.Snapshot{})
	r.want(t, "the snapshot at 0 was kept")
}

// TestCheckedReopened shows that what was answered before a restart is demanded after it.
func TestCheckedReopened(t *testing.T) {
	var r recorder
	m := eventlog.NewMemory()
	log := Checked(&r, m)
	_ = log.Commit(context.Background(), by("a", put("s", 0, 1)))
	log.Reopened(m)
	if len(r.errors) != 0 {
		t.Errorf("the same store: %q", r.errors)
	}
	log.Reopened(eventlog.NewMemory())
	r.want(t, "its entry at 0 is gone")
}

// TestCheckedDoubts shows what the answers leave open: a commit may stand after an unknown answer, until a foreign
// entry is seen in its place.
func TestCheckedDoubts(t *testing.T) {
	ctx := context.Background()
	inner := eventlog.NewMemory()
	f := NewFaulty(inner)
	var r recorder
	log := Checked(&r, f) // under the check for once, so that it sees the unknown answers
	f.Script(OpCommit, After, Before, Late)
	a, b, c := by("a", put("s", 0, 1)), by("b", put("s", 1, 1)), by("c", put("s", 1, 1), put("t", 0, 1))
	for _, commit := range []eventlog.Commit{a, b, c, b, c} {
		_ = log.Commit(ctx, commit)
	}
	f.Land()
	log.Recheck()
	if len(r.errors) != 0 {
		t.Fatalf("a log in order: %q", r.errors)
	}
	c.Appends = c.Appends[1:]
	if err := inner.Commit(ctx, c); err != nil {
		t.Fatal(err)
	}
	log.Recheck()
	r.want(t, "whose commit was not applied")
}

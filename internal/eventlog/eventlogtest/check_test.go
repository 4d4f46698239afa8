package eventlogtest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/leaselog/leaselog/internal/eventlog"
)

// broken is a log of which single methods are replaced, to show that the checks see it.
type broken struct {
	eventlog.Log
	commit   func(eventlog.Commit) error
	read     func(from eventlog.Seq, l eventlog.Limits) ([]eventlog.Entry, error)
	last     func() (eventlog.Entry, bool, error)
	claim    func(key string) (eventlog.Claim, bool, error)
	claims   func(after string) ([]eventlog.Claim, error)
	snapshot func(seq eventlog.Seq) (eventlog.Snapshot, bool, error)
	put      func(eventlog.Snapshot) error
	drop     func(from, to eventlog.Seq) error
}

func (b *broken) Commit(ctx context.Context, c eventlog.Commit) error {
	if b.commit != nil {
		return b.commit(c)
	}
	return b.Log.Commit(ctx, c)
}

func (b *broken) Read(ctx context.Context, s eventlog.Stream, from eventlog.Seq, l eventlog.Limits) ([]eventlog.Entry, error) {
	if b.read != nil {
		return b.read(from, l)
	}
	return b.Log.Read(ctx, s, from, l)
}

func (b *broken) Last(ctx context.Context, s eventlog.Stream) (eventlog.Entry, bool, error) {
	if b.last != nil {
		return b.last()
	}
	return b.Log.Last(ctx, s)
}

func (b *broken) Claim(ctx context.Context, key string) (eventlog.Claim, bool, error) {
	if b.claim != nil {
		return b.claim(key)
	}
	return b.Log.Claim(ctx, key)
}

func (b *broken) Claims(ctx context.Context, prefix, after string, limit int) ([]eventlog.Claim, error) {
	if b.claims != nil {
		return b.claims(after)
	}
	return b.Log.Claims(ctx, prefix, after, limit)
}

func (b *broken) Snapshot(ctx context.Context, s eventlog.Stream, seq eventlog.Seq) (eventlog.Snapshot, bool, error) {
	if b.snapshot != nil {
		return b.snapshot(seq)
	}
	return b.Log.Snapshot(ctx, s, seq)
}

func (b *broken) PutSnapshot(ctx context.Context, s eventlog.Stream, snap eventlog.Snapshot) error {
	if b.put != nil {
		return b.put(snap)
	}
	return b.Log.PutSnapshot(ctx, s, snap)
}

func (b *broken) Drop(ctx context.Context, s eventlog.Stream, from, to eventlog.Seq) error {
	if b.drop != nil {
		return b.drop(from, to)
	}
	return b.Log.Drop(ctx, s, from, to)
}

// good is a log with entries at 0, 2, 3 and 5, ending at 6, of which the first is dropped, two claims and a snapshot.
func good(t *testing.T) *broken {
	m := eventlog.NewMemory()
	s := &suite{T: t, log: Checked(t, m)}
	s.fill("s", 2, 1, 2, 1)
	s.drop("s", 0, 2)
	s.snapshots("s", 3, 6)
	s.must(by("k", hold("k", 10), hold("l", 10)))
	return &broken{Log: m}
}

// change replaces what a read gives.
func (b *broken) change(f func([]eventlog.Entry) []eventlog.Entry) {
	b.read = func(from eventlog.Seq, l eventlog.Limits) ([]eventlog.Entry, error) {
		entries, err := b.Log.Read(context.Background(), "s", from, l)
		return f(entries), err
	}
}

// changeFirst changes the entry at 2, the first that is left.
func (b *broken) changeFirst(f func(*eventlog.Entry)) {
	b.change(func(entries []eventlog.Entry) []eventlog.Entry {
		if len(entries) > 0 && entries[0].Seq == 2 {
			f(&entries[0])
		}
		return entries
	})
}

func TestCheckFinds(t *testing.T) {
	if err := Check(t.Context(), good(t), "s", "empty"); err != nil {
		t.Fatalf("a log in order: %v", err)
	}
	for _, tt := range []struct {
		want   string
		damage func(*broken)
	}{
		{"an entry at 3 where 2 must follow", func(b *broken) {
			b.change(func(e []eventlog.Entry) []eventlog.Entry { return e[min(1, len(e)):] })
		}},
		{"an entry at 5 where 3 must follow", func(b *broken) {
			b.change(func(e []eventlog.Entry) []eventlog.Entry {
				if len(e) < 3 {
					return e
				}
				return append(e[:1:1], e[2:]...)
			})
		}},
		{"is of stream \"other\"", func(b *broken) { b.changeFirst(func(e *eventlog.Entry) { e.Stream = "other" }) }},
		{"width 0", func(b *broken) { b.changeFirst(func(e *eventlog.Entry) { e.Width = 0 }) }},
		{"no writer", func(b *broken) { b.changeFirst(func(e *eventlog.Entry) { e.Writer = eventlog.Writer{} }) }},
		{"stands at 2 and at 3", func(b *broken) { b.changeFirst(func(e *eventlog.Entry) { e.Writer = writer("s-2") }) }},
		{"read at 0: no disk", func(b *broken) {
			b.read = func(eventlog.Seq, eventlog.Limits) ([]eventlog.Entry, error) { return nil, errors.New("no disk") }
		}},
		{"at most 64 were wanted", func(b *broken) {
			b.change(func(e []eventlog.Entry) []eventlog.Entry { return append(e, make([]eventlog.Entry, page)...) })
		}},
		{"says that [0, 0) was dropped", truncatedTo("s", 0)},
		{"truncation at 0 is of stream \"other\"", truncatedTo("other", 2)},
		{"are not merged", truncatedTo("s", 1)},
		{"no entry and 1 gaps", truncatedTo("s", 6)},
		{"the entries from 3 on were dropped, the last one among them", lastDropped},
		{"last gave false", func(b *broken) {
			b.last = func() (eventlog.Entry, bool, error) { return eventlog.Entry{}, false, nil }
		}},
		{"last gave true, the entry at 5 by", func(b *broken) {
			b.last = func() (eventlog.Entry, bool, error) {
				e, _, err := b.Log.Last(context.Background(), "s")
				e.Data = nil
				return e, true, err
			}
		}},
		{"lies beyond the end at 6", func(b *broken) {
			b.snapshot = func(eventlog.Seq) (eventlog.Snapshot, bool, error) { return eventlog.Snapshot{Seq: 7}, true, nil }
		}},
		{"got one at 6", func(b *broken) {
			b.snapshot = func(eventlog.Seq) (eventlog.Snapshot, bool, error) {
				return b.Log.Snapshot(context.Background(), "s", math.MaxUint64)
			}
		}},
		{`"k" is listed after "l"`, func(b *broken) {
			b.claims = func(string) ([]eventlog.Claim, error) { return b.Log.Claims(context.Background(), "", "", 9) }
		}},
		{"at most 64 were wanted", func(b *broken) {
			b.claims = func(string) ([]eventlog.Claim, error) { return make([]eventlog.Claim, page+1), nil }
		}},
		{`"a" has version 0`, func(b *broken) {
			b.claims = func(string) ([]eventlog.Claim, error) { return []eventlog.Claim{{Key: "a"}}, nil }
		}},
		{`"k" is listed with version 1`, func(b *broken) {
			b.claim = func(string) (eventlog.Claim, bool, error) { return eventlog.Claim{}, false, nil }
		}},
	} {
		t.Run(tt.want, func(t *testing.T) {
			b := good(t)
			tt.damage(b)
			if err := Check(t.Context(), b, "s"); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v", err)
			}
		})
	}
}

// truncatedTo lets reads that begin before 2 be truncated up to a position only, in the name of a stream.
func truncatedTo(name eventlog.Stream, to eventlog.Seq) func(*broken) {
	return func(b *broken) {
		b.read = func(from eventlog.Seq, l eventlog.Limits) ([]eventlog.Entry, error) {
			if from < to || to == 0 {
				return nil, &eventlog.Truncated{Stream: name, From: from, To: to}
			}
			return b.Log.Read(context.Background(), "s", from, l)
		}
	}
}

// lastDropped lets nothing be left behind the entry at 2.
func lastDropped(b *broken) {
	b.read = func(from eventlog.Seq, _ eventlog.Limits) ([]eventlog.Entry, error) {
		if from == 2 {
			return b.Log.Read(context.Background(), "s", 2, eventlog.Limits{Entries: 1})
		}
		if from < 6 {
			return nil, &eventlog.Truncated{Stream: "s", From: from, To: map[bool]eventlog.Seq{true: 2, false: 6}[from < 2]}
		}
		return nil, nil
	}
}

// recorder is a test that is expected to fail.
type recorder struct {
	errors   []string
	cleanups []func()
}

func (r *recorder) Helper() {}
func (r *recorder) Errorf(format string, a ...any) {
	r.errors = append(r.errors, fmt.Sprintf(format, a...))
}
func (r *recorder) Cleanup(f func()) { r.cleanups = append(r.cleanups, f) }

func (r *recorder) end() {
	for _, f := range r.cleanups {
		f()
	}
}

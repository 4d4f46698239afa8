package eventlogtest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/leaselog/leaselog/internal/eventlog"
)

// newFaulty stands around a checked log, as everywhere.
func newFaulty(t *testing.T) (*Faulty, *eventlog.Memory) {
	m := eventlog.NewMemory()
	return NewFaulty(Checked(t, m)), m
}

func TestFaultyCommit(t *testing.T) {
	for _, tt := range []struct {
		fault           Fault
		refused, stands bool
		pending         int
	}{
		{Pass, false, true, 0},
		{Refuse, true, false, 0},
		{Before, false, false, 0},
		{After, false, true, 0},
		{Late, false, false, 1},
	} {
		t.Run(tt.fault.String(), func(t *testing.T) {
			f, m := newFaulty(t)
			f.Script(OpCommit, tt.fault)
			err := f.Commit(t.Context(), by("a", put("s", 0, 1)))
			if (err == nil) != (tt.fault == Pass) || err != nil && !errors.Is(err, ErrInjected) {
				t.Errorf("error is %v", err)
			}
			var refused *eventlog.Refused
			if got := errors.As(err, &refused); got != tt.refused || got && refused.Content {
				t.Errorf("refused is %v: %v", got, err)
			}
			if _, ok, _ := m.Last(t.Context(), "s"); ok != tt.stands {
				t.Errorf("stands is %v", ok)
			}
			if n := len(f.Pending()); n != tt.pending {
				t.Errorf("%d calls are pending", n)
			}
		})
	}
}

func TestFaultyLand(t *testing.T) {
	f, m := newFaulty(t)
	ctx, cancel := context.WithCancel(t.Context())
	f.Script(OpCommit, Late, Late, Late)
	for _, name := range []string{"a", "b", "c"} {
		if err := f.Commit(ctx, by(name, put("s", 0, 1))); !errors.Is(err, ErrInjected) {
			t.Fatal(err)
		}
	}
	cancel() // a write that is under way does not end with its caller
	if pending := f.Pending(); len(pending) != 3 || pending[1].Commit.Writer != writer("b") {
		t.Errorf("pending are %+v", pending)
	}
	if err := f.LandOne(1); err != nil {
		t.Errorf("the first to land: %v", err)
	}
	answers := f.Land()
	if len(answers) != 2 || against(standing("b"), nil)(answers[0]) != nil || against(standing("b"), nil)(answers[1]) != nil {
		t.Errorf("landing on a taken place: %v", answers)
	}
	if got := f.Land(); len(got) != 0 || len(f.Pending()) != 0 {
		t.Errorf("landed twice: %v", got)
	}
	if e, _, _ := m.Last(t.Context(), "s"); e.Writer != writer("b") {
		t.Errorf("%s stands", nameOf(e.Writer))
	}
}

func TestFaultyLandsBesideItsRepeat(t *testing.T) {
	f, m := newFaulty(t)
	f.Script(OpCommit, Late)
	c := by("a", put("s", 0, 1))
	if err := (Retrying{f}).Commit(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	if err := f.Commit(t.Context(), by("b", put("s", 1, 1))); err != nil {
		t.Fatal(err)
	}
	if answers := f.Land(); len(answers) != 1 || answers[0] != nil {
		t.Errorf("the duplicate was answered %v", answers)
	}
	if e, _, _ := m.Last(t.Context(), "s"); e.Next() != 2 {
		t.Errorf("the stream ends at %d", e.Next())
	}
}

func TestFaultyForget(t *testing.T) {
	f, m := newFaulty(t)
	f.Script(OpCommit, Late)
	_ = f.Commit(t.Context(), by("a", put("s", 0, 1)))
	f.Forget()
	f.Land()
	if _, ok, _ := m.Last(t.Context(), "s"); ok {
		t.Error("what was forgotten landed")
	}
}

// TestFaultyOtherCalls lets each of the other methods fail once, in every way.
func TestFaultyOtherCalls(t *testing.T) {
	for _, fault := range []Fault{Refuse, Before, After, Late} {
		for op, call := range callsOf(t.Context()) {
			t.Run(fmt.Sprintf("%s %s", op, fault), func(t *testing.T) {
				f, _ := newFaulty(t)
				f.Plan(Nth(op, 2, fault))
				for n, want := range []bool{true, false, true} {
					if err := call(f); (err == nil) != want || err != nil && !errors.Is(err, ErrInjected) {
						t.Errorf("call %d: %v", n, err)
					}
				}
				if err := call(Retrying{f}); err != nil {
					t.Errorf("retrying: %v", err)
				}
				if n := f.Calls(op); n != 4 || len(f.Counts()) != 1 {
					t.Errorf("counts are %v", f.Counts())
				}
				f.ResetCounts()
				if n := f.Calls(op); n != 0 {
					t.Errorf("count after the reset is %d", n)
				}
			})
		}
	}
}

func callsOf(ctx context.Context) map[Op]func(eventlog.Log) error {
	return map[Op]func(eventlog.Log) error{
		OpCommit:      func(l eventlog.Log) error { return l.Commit(ctx, by("a", put("s", 0, 1))) },
		OpRead:        func(l eventlog.Log) error { _, err := l.Read(ctx, "s", 0, eventlog.Limits{}); return err },
		OpLast:        func(l eventlog.Log) error { _, _, err := l.Last(ctx, "s"); return err },
		OpClaim:       func(l eventlog.Log) error { _, _, err := l.Claim(ctx, "k"); return err },
		OpClaims:      func(l eventlog.Log) error { _, err := l.Claims(ctx, "", "", 1); return err },
		OpSnapshot:    func(l eventlog.Log) error { _, _, err := l.Snapshot(ctx, "s", 0); return err },
		OpPutSnapshot: func(l eventlog.Log) error { return l.PutSnapshot(ctx, "s", eventlog.Snapshot{}) },
		OpDrop:        func(l eventlog.Log) error { return l.Drop(ctx, "s", 0, 1) },
	}
}

// TestNthWrite counts writes of all kinds and no reads.
func TestNthWrite(t *testing.T) {
	f, _ := newFaulty(t)
	f.Plan(NthWrite(3, After))
	calls := callsOf(t.Context())
	var failed []Op
	for _, op := range []Op{OpCommit, OpRead, OpPutSnapshot, OpLast, OpDrop, OpClaim, OpCommit} {
		if calls[op](f) != nil {
			failed = append(failed, op)
		}
	}
	if !slices.Equal(failed, []Op{OpDrop}) {
		t.Errorf("%v failed", failed)
	}
}

// TestFaultyAtRandom drives clients that repeat over a log that fails in every way, stale duplicates included. The
// check around the log holds it to its answers; here it is shown that every client came through, in order.
func TestFaultyAtRandom(t *testing.T) {
	for seed := range uint64(50) {
		f, m := newFaulty(t)
		rnd := rand.New(rand.NewPCG(seed, 0))
		f.Plan(func(Call) Fault {
			if n := len(f.Pending()); n > 0 && rnd.IntN(3) == 0 {
				_ = f.LandOne(rnd.IntN(n))
			}
			return []Fault{Pass, Refuse, Before, After, Late}[rnd.IntN(5)]
		})
		var want []string
		client := Retrying{f}
		for i := range 30 {
			want = append(want, fmt.Sprint(i))
			appendBehind(t, client, fmt.Sprint(i))
		}
		f.Land()
		entries, err := m.Read(t.Context(), "s", 0, eventlog.Limits{})
		var got []string
		for _, e := range entries {
			got = append(got, string(e.Header))
		}
		if err != nil || !slices.Equal(got, want) {
			t.Fatalf("seed %d: %v, error %v", seed, got, err)
		}
	}
}

// appendBehind appends a text at the end of the stream, wherever that is.
func appendBehind(t *testing.T, log eventlog.Log, text string) {
	for try := 0; ; try++ {
		last, _, err := log.Last(t.Context(), "s")
		if err != nil {
			t.Fatal(err)
		}
		c := by(fmt.Sprintf("%s/%d", text, try), put("s", last.Next(), 1))
		c.Appends[0].Header = []byte(text)
		err = log.Commit(t.Context(), c)
		var conflict *eventlog.Conflict
		if !errors.As(err, &conflict) {
			if err != nil {
				t.Fatal(err)
			}
			return
		}
	}
}

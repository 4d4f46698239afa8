package eventlogtest

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/leaselog/leaselog/internal/eventlog"
)

// mutants are logs with one defect each, of the kind that an implementation may well have. The suite must fail on
// every one of them: a suite that passes a broken log is broken itself.
var mutants = map[string]func(*eventlog.Memory) eventlog.Log{
	"forgets the writer of a repeat": func(m *eventlog.Memory) eventlog.Log {
		return &broken{Log: m, commit: func(c eventlog.Commit) error {
			for _, a := range c.Appends {
				entries, _ := m.Read(noCtx, a.Stream, a.Seq, eventlog.Limits{Entries: 1, HeadersOnly: true})
				if len(entries) > 0 {
					return &eventlog.Conflict{Entries: entries}
				}
			}
			return m.Commit(noCtx, c)
		}}
	},
	"recognizes a repeat only where all its places stand": func(m *eventlog.Memory) eventlog.Log {
		return &broken{Log: m, commit: func(c eventlog.Commit) error {
			for _, claim := range c.Claims {
				old, ok, _ := m.Claim(noCtx, claim.Key)
				if ok && old.Writer != c.Writer && old.Until > c.At && old.Version != claim.If {
					return &eventlog.Conflict{Claims: []eventlog.Claim{old}}
				}
			}
			return m.Commit(noCtx, c)
		}}
	},
	"applies the claims of a commit that conflicts": func(m *eventlog.Memory) eventlog.Log {
		return &broken{Log: m, commit: func(c eventlog.Commit) error {
			err := m.Commit(noCtx, c)
			var conflict *eventlog.Conflict
			if c.Appends = nil; errors.As(err, &conflict) && len(conflict.Claims) == 0 {
				_ = m.Commit(noCtx, c)
			}
			return err
		}}
	},
	"fills gaps": func(m *eventlog.Memory) eventlog.Log {
		return &broken{Log: m, commit: func(c eventlog.Commit) error {
			for i, a := range c.Appends {
				if last, _, _ := m.Last(noCtx, a.Stream); a.Seq > last.Next() {
					c.Appends[i].Seq = last.Next()
				}
			}
			return m.Commit(noCtx, c)
		}}
	},
	"lets a claim live an instant too long": func(m *eventlog.Memory) eventlog.Log {
		return &broken{Log: m, commit: func(c eventlog.Commit) error { c.At--; return m.Commit(noCtx, c) }}
	},
	"takes commits that are malformed": func(m *eventlog.Memory) eventlog.Log {
		return &broken{Log: m, commit: func(c eventlog.Commit) error {
			for i, a := range c.Appends {
				if a.Width == 0 {
					c.Appends[i].Width = 1
				}
			}
			return m.Commit(noCtx, c)
		}}
	},
	"says that a gap is refused for its content": func(m *eventlog.Memory) eventlog.Log {
		return &broken{Log: m, commit: func(c eventlog.Commit) error {
			err := m.Commit(noCtx, c)
			var refused *eventlog.Refused
			if errors.As(err, &refused) {
				refused.Content = true
			}
			return err
		}}
	},
	"brings data in conflicts": func(m *eventlog.Memory) eventlog.Log {
		return &broken{Log: m, commit: func(c eventlog.Commit) error {
			err := m.Commit(noCtx, c)
			var conflict *eventlog.Conflict
			if errors.As(err, &conflict) && len(conflict.Entries) > 0 {
				conflict.Entries[0].Data = []byte("data")
			}
			return err
		}}
	},
	"races between condition and write": func(m *eventlog.Memory) eventlog.Log { return &racy{Memory: m} },
	"reads from the next entry":         func(m *eventlog.Memory) eventlog.Log { return readNext{m} },
	"ignores a bound of bytes": func(m *eventlog.Memory) eventlog.Log {
		return changedLimits{m, func(l *eventlog.Limits) { l.Bytes = 0 }}
	},
	"ignores a bound of entries": func(m *eventlog.Memory) eventlog.Log {
		return changedLimits{m, func(l *eventlog.Limits) { l.Entries = 0 }}
	},
	"brings data with headers": func(m *eventlog.Memory) eventlog.Log {
		return changedLimits{m, func(l *eventlog.Limits) { l.HeadersOnly = false }}
	},
	"lists a claim twice": func(m *eventlog.Memory) eventlog.Log {
		return &broken{Log: m, claims: func(after string) ([]eventlog.Claim, error) { return m.Claims(noCtx, "", after+"\x00", 9) }}
	},
	"gives the newest snapshot whatever is asked": func(m *eventlog.Memory) eventlog.Log { return newestSnapshot{m} },
	"drops the entry that begins in the range":    func(m *eventlog.Memory) eventlog.Log { return dropsMore{m} },
	"drops nothing": func(m *eventlog.Memory) eventlog.Log {
		return &broken{Log: m, drop: func(eventlog.Seq, eventlog.Seq) error { return nil }}
	},
	"does not record what it drops": func(m *eventlog.Memory) eventlog.Log { return silentDrop{m} },
	"gives out its own bytes":       func(m *eventlog.Memory) eventlog.Log { return &oneBuffer{Memory: m} },
}

var noCtx = context.Background()

// mutantVariable names the mutant that TestMemory opens in place of what is sound.
const mutantVariable = "EVENTLOGTEST_MUTANT"

// TestRunFindsMutants runs the suite on every mutant, each in another process, since a test that fails fails its
// parent. A mutant that crashes the process is not found by a test, and does not count.
func TestRunFindsMutants(t *testing.T) {
	for name := range mutants {
		t.Run(name, func(t *testing.T) {
			cmd := exec.CommandContext(t.Context(), os.Args[0],
				"-test.run=^TestMemory$", "-test.failfast", "-rapid.nofailfile", "-rapid.shrinktime=0s")
			cmd.Env = append(os.Environ(), mutantVariable+"="+name)
			out, err := cmd.CombinedOutput()
			if err == nil || !strings.Contains(string(out), "--- FAIL: TestMemory/") || strings.Contains(string(out), "panic:") {
				t.Errorf("the suite ended with %v:\n%s", err, out)
			}
		})
	}
}

// racy tells a loser that it won, where both came at once.
type racy struct {
	*eventlog.Memory
	inside atomic.Int32
}

func (r *racy) Commit(ctx context.Context, c eventlog.Commit) error {
	r.inside.Add(1)
	defer r.inside.Add(-1)
	for range 10 {
		runtime.Gosched() // let the others come in
	}
	err := r.Memory.Commit(ctx, c)
	var conflict *eventlog.Conflict
	if errors.As(err, &conflict) && r.inside.Load() > 1 {
		return nil
	}
	return err
}

type readNext struct{ *eventlog.Memory }

func (r readNext) Read(ctx context.Context, s eventlog.Stream, from eventlog.Seq, l eventlog.Limits) ([]eventlog.Entry, error) {
	entries, err := r.Memory.Read(ctx, s, from, l)
	if len(entries) > 0 && entries[0].Seq < from {
		return r.Memory.Read(ctx, s, entries[0].Next(), l)
	}
	return entries, err
}

type changedLimits struct {
	*eventlog.Memory
	change func(*eventlog.Limits)
}

func (c changedLimits) Read(ctx context.Context, s eventlog.Stream, from eventlog.Seq, l eventlog.Limits) ([]eventlog.Entry, error) {
	c.change(&l)
	return c.Memory.Read(ctx, s, from, l)
}

type newestSnapshot struct{ *eventlog.Memory }

func (n newestSnapshot) Snapshot(ctx context.Context, s eventlog.Stream, _ eventlog.Seq) (eventlog.Snapshot, bool, error) {
	return n.Memory.Snapshot(ctx, s, 1<<63)
}

type dropsMore struct{ *eventlog.Memory }

func (d dropsMore) Drop(ctx context.Context, s eventlog.Stream, from, to eventlog.Seq) error {
	return d.Memory.Drop(ctx, s, from, to+5)
}

// silentDrop shows what was dropped as if it had never been.
type silentDrop struct{ *eventlog.Memory }

func (s silentDrop) Read(ctx context.Context, name eventlog.Stream, from eventlog.Seq, l eventlog.Limits) ([]eventlog.Entry, error) {
	entries, err := s.Memory.Read(ctx, name, from, l)
	var tr *eventlog.Truncated
	if errors.As(err, &tr) {
		return s.Memory.Read(ctx, name, tr.To, l)
	}
	return entries, err
}

// oneBuffer reads all headers into the same few bytes, as an iterator does.
type oneBuffer struct {
	*eventlog.Memory
	mu     sync.Mutex
	buffer [64]byte
}

func (o *oneBuffer) Last(ctx context.Context, s eventlog.Stream) (eventlog.Entry, bool, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	e, ok, err := o.Memory.Last(ctx, s)
	e.Header = o.buffer[:copy(o.buffer[:], e.Header)]
	return e, ok, err
}

package sim

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/leaselog/leaselog/events"
	"github.com/leaselog/leaselog/internal/eventlog"
)

// sabotaged is a log that breaks its promise now and then. The judges must see it: a check that cannot fail checks
// nothing.
type sabotaged struct {
	*eventlog.Memory
	commits int
	// commit takes the place of every fifth commit that appends.
	commit func(m *eventlog.Memory, c eventlog.Commit) error
	read   func(m *eventlog.Memory, s eventlog.Stream, from eventlog.Seq, l eventlog.Limits) ([]eventlog.Entry, error)
}

func (s *sabotaged) Commit(ctx context.Context, c eventlog.Commit) error {
	if len(c.Appends) == 0 || s.commit == nil {
		return s.Memory.Commit(ctx, c)
	}
	if s.commits++; s.commits%5 != 0 {
		return s.Memory.Commit(ctx, c)
	}
	return s.commit(s.Memory, c)
}

func (s *sabotaged) Read(ctx context.Context, name eventlog.Stream, from eventlog.Seq, l eventlog.Limits) ([]eventlog.Entry, error) {
	if s.read == nil {
		return s.Memory.Read(ctx, name, from, l)
	}
	return s.read(s.Memory, name, from, l)
}

// TestSabotage breaks what the broker rests on, one thing at a time, and demands that some of the first seeds fail.
func TestSabotage(t *testing.T) {
	ctx := context.Background()
	store := func(commit func(*eventlog.Memory, eventlog.Commit) error) func(*eventlog.Memory) eventlog.Log {
		return func(m *eventlog.Memory) eventlog.Log { return &sabotaged{Memory: m, commit: commit} }
	}
	for name, o := range map[string]Options{
		"a commit is answered and lost": {Store: store(func(*eventlog.Memory, eventlog.Commit) error { return nil })},
		"a commit is torn": {Store: store(func(m *eventlog.Memory, c eventlog.Commit) error {
			c.Appends = c.Appends[:1]
			return m.Commit(ctx, c)
		})},
		"a commit is applied twice": {Store: store(func(m *eventlog.Memory, c eventlog.Commit) error {
			err := m.Commit(ctx, c)
			for i := range c.Appends {
				c.Appends[i].Seq += eventlog.Seq(c.Appends[i].Width)
			}
			c.Writer[0]++
			_ = m.Commit(ctx, c)
			return err
		})},
		"a commit is applied and refused": {Store: store(func(m *eventlog.Memory, c eventlog.Commit) error {
			if err := m.Commit(ctx, c); err != nil {
				return err
			}
			return &eventlog.Refused{Cause: errLost}
		})},
		"a conflict is answered as done": {Store: store(func(m *eventlog.Memory, c eventlog.Commit) error {
			_ = m.Commit(ctx, c)
			return nil
		})},
		"the end is an old one": {Store: func(m *eventlog.Memory) eventlog.Log {
			seen := map[string]int{} // how often a stream was looked at behind an end that it has had
			return &sabotaged{Memory: m, read: func(m *eventlog.Memory, s eventlog.Stream, from eventlog.Seq, l eventlog.Limits) ([]eventlog.Entry, error) {
				found, err := m.Read(ctx, s, from, l)
				end := fmt.Sprint(s, "/", from)
				if n, known := seen[end]; err != nil || !known && len(found) > 0 || n > 3 {
					return found, err
				}
				seen[end]++
				return nil, nil
			}}
		}},
		"a clock leaps": {Skew: func(now events.Instant) events.Instant { return now + now/1000%5*3000 }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			caught(t, o)
		})
	}
}

func caught(t *testing.T, o Options) {
	const enough = 60
	for seed := range uint64(enough) {
		o.Seed = seed + 1
		if wrong := bubble(t, o).Wrong; wrong != "" {
			t.Logf("seed %d: %s", o.Seed, first(wrong))
			return
		}
	}
	t.Errorf("%d seeds went by and nobody noticed", enough)
}

func first(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return fmt.Sprintf("%.200s", line)
}

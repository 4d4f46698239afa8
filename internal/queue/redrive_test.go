package queue_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/leaselog/leaselog/events"
	"github.com/leaselog/leaselog/internal/fault"
	"github.com/leaselog/leaselog/internal/queue"
	"pgregory.net/rapid"
)

// redrive surveys a part of the shard, compares what is found with the twin, and takes some of what is free.
func (m *machine) redrive(t *rapid.T) {
	if m.twin.settings.Status >= events.Deleted {
		return
	}
	at := m.at()
	c := queue.Survey{At: at, To: m.sender.Tail, Max: rapid.IntRange(1, 8).Draw(t, "max"), Window: m.window(rapid.IntRange(0, 3).Draw(t, "blocks"))}
	if m.ledger.Cursor > 0 {
		c.From = events.Position(rapid.Uint64Range(0, uint64(m.ledger.Cursor)).Draw(t, "from"))
	}
	c.Since = c.From
	if c.From > 0 && rapid.Bool().Draw(t, "marked") {
		c.Since = events.Position(rapid.Uint64Range(0, uint64(c.From)).Draw(t, "since"))
	}
	known := m.ledger.Cursor
	if k := len(c.Window.Blocks); k > 0 {
		known = c.Window.Blocks[k-1].Next()
	}
	s := m.ledger.Look(c)
	var have []string
	for _, f := range s.Found {
		have = append(have, fmt.Sprintf("%d ahead %t gone %t free %t received %d", f.Position, f.Info != nil, f.Gone, f.Free, f.Receives))
	}
	want, full := m.twin.survey(at, c.Since, c.From, known, c.Max)
	if !slices.Equal(have, want) || s.Full != full {
		t.Fatalf("found, full %t:\n%s\nthe twin says %t:\n%s", s.Full, strings.Join(have, "\n"), full, strings.Join(want, "\n"))
	}
	more := known < m.sender.Tail && !c.Window.End
	if done := s.Next == c.To && s.Need == nil; done && (more || full || slices.ContainsFunc(m.twin.all, func(x *twinMessage) bool { return !x.looked && x.position >= known })) {
		t.Fatalf("everything was seen, it says, up to %d of %d", known, m.sender.Tail)
	}
	m.take(t, at, s.Found)
}

// take redrives some of what was found.
func (m *machine) take(t *rapid.T, at events.Instant, found []queue.Found) {
	c := &queue.Redrive{At: at, Looked: found[:rapid.IntRange(0, len(found)).Draw(t, "looked")], Queue: events.QueueID{8}}
	for _, f := range c.Looked {
		if f.Free && rapid.Bool().Draw(t, "taken") {
			c.Items = append(c.Items, f.Position)
		}
	}
	if _, err := m.world.decide(c); err != nil {
		t.Fatalf("redrive of %d: %v", c.Items, err)
	}
	for _, f := range c.Looked {
		x := m.twin.all[slices.IndexFunc(m.twin.all, func(x *twinMessage) bool { return x.position == f.Position })]
		if !x.looked {
			x.looked, x.held, x.visible = true, x.group != "", x.due
			if !x.delayed {
				x.visible = min(x.due, at)
			}
		}
		x.gone = x.gone || f.Gone || slices.Contains(c.Items, f.Position)
	}
}

// survey tells what a move task meets, by looking at every message before known.
func (w *twin) survey(at events.Instant, since, from, known events.Position, most int) (all []string, full bool) {
	held, limit := w.count(func(m *twinMessage) bool { return w.pending(m) && m.held }), w.limits.LookAhead
	if !w.settings.Fifo {
		held, limit = w.count(func(m *twinMessage) bool { return w.pending(m) && !m.leased }), w.limits.Delayed
	}
	kept := map[string]bool{}
	for _, m := range w.all {
		ahead, gone := !m.looked, w.expired(m, at)
		switch {
		case m.gone || ahead && m.position >= known || gone && !ahead:
			continue
		case m.position >= from && len(all) == most:
			return all, false
		case m.position >= from && ahead && held >= limit:
			return all, true
		case gone:
			all = append(all, fmt.Sprintf("%d ahead true gone true free false received 0", m.position))
			continue
		}
		itself := m.visible <= at && !(w.spent(m) && m.visible < w.end(m))
		if ahead {
			itself = !w.notDue(m, at)
		}
		if m.position >= from {
			all = append(all, fmt.Sprintf("%d ahead %t gone false free %t received %d", m.position, ahead, itself && !kept[m.group], m.receives))
			if ahead {
				held++
			}
		}
		if m.group != "" && (!itself || m.position >= since && m.position < from) {
			kept[m.group] = true
		}
	}
	return all, false
}

// TestRedriveRefuses says that what is not free is not moved.
func TestRedriveRefuses(t *testing.T) {
	w := newWorld(queue.DefaultLimits, 1_700_000_000_000)
	w.configure(1, events.Settings{MaxBytes: 100, RetentionSeconds: 60})
	w.send(queue.Outgoing{Size: 1}, queue.Outgoing{Size: 1})
	if _, err := w.decide(&queue.Lease{At: w.at(), ID: w.lease(), Until: w.at() + 1000, Max: 1, Window: w.window(9)}); err != nil {
		t.Fatal(err)
	}
	found := w.ledger.Look(queue.Survey{At: w.at(), To: w.sender.Tail, Max: 9, Window: w.window(9)}).Found
	if len(found) != 2 || found[0].Free || !found[1].Free {
		t.Fatalf("found %+v", found)
	}
	for _, items := range [][]events.Position{{found[0].Position}, {found[1].Position, found[1].Position}, {99}} {
		if _, err := w.decide(&queue.Redrive{At: w.at(), Looked: found, Items: items}); !fault.Is(err, fault.Invalid) {
			t.Errorf("moving %d: %v", items, err)
		}
	}
}

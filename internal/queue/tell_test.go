package queue_test

import (
	"fmt"
	"strings"

	"github.com/leaselog/leaselog/events"
	"github.com/leaselog/leaselog/internal/queue"
)

// purgeAll purges what is there, or what stands before to=.
func (s *script) purgeAll(a words) []string {
	c := &queue.Purge{At: s.at(), To: s.sender.Tail, Sent: s.sender.Totals.Messages, Control: s.sender.Tail}
	if to := events.Position(a.number("to", int(c.To))); to < c.To {
		c.To, c.Sent = to, 0
		for _, b := range s.blocks {
			if b.Next() <= to {
				c.Sent = b.Header.Totals.Messages
			}
		}
	}
	d, err := s.decide(c)
	if err == nil {
		s.control(0, nil, a.has("forgets"), c.To)
	}
	return s.answer(d, err)
}

// anchor writes an entry that says nothing to both streams.
func (s *script) anchor() []string {
	d, err := s.decide(&queue.Anchor{At: s.at(), Control: s.sender.Tail})
	if err == nil {
		s.write(queue.Control{Anchor: true})
	}
	return s.answer(d, err)
}

// expireSome discards up to max=100 pending messages and, with the word ahead, those ahead of the cursor.
func (s *script) expireSome(a words) []string {
	c := &queue.Expire{At: s.at(), Max: a.number("max", 100)}
	if a.has("ahead") {
		c.To, c.Sent = s.expirable(c.At)
	}
	return s.answer(s.decide(c))
}

func (s *script) showExhausted() []string {
	var found []events.Position
	for _, m := range s.ledger.Exhausted(s.at(), 100) {
		found = append(found, m.Position)
	}
	return []string{names(found)}
}

// moveExhausted moves what is named, or all that is exhausted, to the queue= 7.
func (s *script) moveExhausted(a words) []string {
	c := &queue.Move{At: s.at(), Queue: events.QueueID{byte(a.number("queue", 7))}}
	for _, m := range s.ledger.Exhausted(s.at(), 100) {
		c.Items = append(c.Items, m.Position)
	}
	if named := a.messages(); len(named) > 0 {
		c.Items = nil
		for _, m := range named {
			c.Items = append(c.Items, s.held(a.t, m).Position)
		}
	}
	return s.answer(s.decide(c))
}

func (s *script) showDepth() []string {
	d := s.depth(s.at())
	return []string{fmt.Sprintf("available %d, in flight %d, delayed %d", d.Available, d.InFlight, d.Delayed)}
}

func (s *script) showState() []string {
	l := s.ledger
	lines := []string{fmt.Sprintf("version %d, cursor %d, seen %d, finished %d", l.Version, l.Cursor, l.Seen, l.Totals.Finished())}
	l.Pending(0, func(m *queue.Message) bool {
		line := fmt.Sprintf("m%d", m.Position)
		if m.Info.Group != (events.Hash{}) {
			line += " " + s.group(m.Info.Group)
		}
		if m.Leased {
			line += " leased under " + s.name(m.Lease) + " until " + when(m.Visible)
		} else {
			line += " visible from " + when(m.Visible)
		}
		if m.Receives > 0 {
			line += fmt.Sprintf(", received %d", m.Receives)
		}
		if m.Held {
			line += ", held back"
		}
		lines = append(lines, line)
		return true
	})
	return lines
}

// group finds the word of a hashed group.
func (s *script) group(h events.Hash) string {
	for c := 'a'; c <= 'z'; c++ {
		if hash("group", string(c)) == h {
			return "of " + string(c)
		}
	}
	return "of another group"
}

func (s *script) name(id events.LeaseID) string {
	for name, l := range s.leases {
		if l == id {
			return name
		}
	}
	return "no lease"
}

// when gives an instant in seconds since the beginning.
func when(i events.Instant) string {
	if i == events.Never {
		return "never"
	}
	if d := i - began; d%1000 != 0 {
		return fmt.Sprintf("%.3f", float64(d)/1000)
	}
	return fmt.Sprint(int64(i-began) / 1000)
}

func names(ps []events.Position) string {
	if len(ps) == 0 {
		return "none"
	}
	var all []string
	for _, p := range ps {
		all = append(all, fmt.Sprintf("m%d", p))
	}
	return strings.Join(all, " ")
}

// taken names messages; those that were looked at for the first time have a star.
func taken(items []events.Taken) string {
	var all []string
	for _, t := range items {
		star := ""
		if t.Info != nil {
			star = "*"
		}
		all = append(all, fmt.Sprintf("m%d%s", t.Position, star))
	}
	return strings.Join(all, " ")
}

// tell says what events say.
func (s *script) tell(es []events.Event) (lines []string) {
	for _, e := range es {
		lines = append(lines, s.sentence(e))
	}
	return lines
}

func (s *script) sentence(e events.Event) string {
	switch e := e.(type) {
	case *events.Configured:
		return fmt.Sprintf("Configured version %d, control entry at %d", e.Version, e.Control)
	case *events.Leased:
		return fmt.Sprintf("Leased %s under %s until %s", taken(e.Items), s.name(e.Lease), when(e.Until))
	case *events.Passed:
		return "Passed " + taken(e.Items)
	case *events.Extended:
		return fmt.Sprintf("Extended %s until %s", names(e.Items), when(e.Until))
	case *events.Released:
		return fmt.Sprintf("Released %s, visible from %s", names(e.Items), when(e.Visible))
	case *events.Acked:
		return fmt.Sprintf("Acked %s under %s", names(e.Items), s.name(e.Lease))
	case *events.Expired:
		line := "Expired " + names(e.Items)
		if e.To > 0 {
			line += fmt.Sprintf(" and %d ahead, up to %d", e.Skipped, e.To)
		}
		return line
	case *events.Moved:
		return fmt.Sprintf("Moved %s to queue %d", names(e.Items), e.Queue[0])
	case *events.Arrived:
		return fmt.Sprintf("Arrived %d", len(e.IDs))
	case *events.Purged:
		return fmt.Sprintf("Purged %d messages before %d, control entry at %d", e.Messages, e.To, e.Control)
	case *events.Anchored:
		return fmt.Sprintf("Anchored, entry at %d", e.Control)
	}
	panic(fmt.Sprintf("no sentence for %T", e))
}

package queue_test

import (
	"github.com/leaselog/leaselog/events"
	"github.com/leaselog/leaselog/internal/queue"
	"pgregory.net/rapid"
)

// rollback applies commands that never reach the log, under marks inside marks, and takes them back.
func (m *machine) rollback(t *rapid.T) {
	m.rollbackLedger(t, rapid.IntRange(0, 2).Draw(t, "depth"))
	before := m.sender.Snapshot()
	mark := m.sender.Mark()
	for range rapid.IntRange(1, 2).Draw(t, "blocks") {
		m.speculate(t)
	}
	m.sender.Rollback(mark)
	same(t, "sender rolled back", before, m.sender.Snapshot())
}

func (m *machine) rollbackLedger(t *rapid.T, depth int) {
	before, mark := m.ledger.Snapshot(), m.ledger.Mark()
	for range rapid.IntRange(1, 3).Draw(t, "commands") {
		m.evolveOnly(t, m.anyCommand(t))
		if depth > 0 {
			m.rollbackLedger(t, depth-1)
		}
	}
	m.ledger.Check()
	m.ledger.Rollback(mark)
	m.ledger.Check()
	same(t, "ledger rolled back", before, m.ledger.Snapshot())
}

func (m *machine) evolveOnly(t *rapid.T, c queue.Command) {
	d, _ := queue.Decide(m.ledger, c)
	for _, e := range d.Events {
		m.ledger.Evolve(e)
	}
}

func (m *machine) anyCommand(t *rapid.T) queue.Command {
	at := m.at() + events.Instant(rapid.IntRange(0, 40_000).Draw(t, "later"))
	switch rapid.IntRange(0, 6).Draw(t, "command") {
	case 0:
		return &queue.Ack{At: at, Items: m.held(t), Lapsed: true}
	case 1:
		var items []queue.Extension
		for _, h := range m.held(t) {
			items = append(items, queue.Extension{Held: h, Seconds: rapid.Uint32Range(0, 2).Draw(t, "seconds")})
		}
		return &queue.Extend{At: at, Items: items, Lapsed: true}
	case 2:
		s := drawSettings(t, m.settings.Fifo, m.settings.Delivery)
		return &queue.Configure{At: at, Version: m.ledger.Version + 1, Settings: s, Control: m.sender.Tail}
	case 3:
		return &queue.Purge{At: at, To: m.sender.Tail, Sent: m.sender.Totals.Messages, Control: m.sender.Tail}
	case 4:
		return &queue.Expire{At: at, Max: 5}
	default:
		return &queue.Lease{At: at, ID: m.world.lease(), Until: at.Add(1), Max: rapid.IntRange(1, 10).Draw(t, "max"), Window: m.window(100)}
	}
}

// speculate forms a block of which a part is taken back on the way, and that must not be seen in what remains.
func (m *machine) speculate(t *rapid.T) {
	m.sender.Open(m.block(), m.at()+events.Instant(rapid.IntRange(0, 400_000).Draw(t, "later")))
	kept := m.add(t)
	mark := m.sender.Mark()
	m.add(t)
	m.sender.Rollback(mark)
	kept += m.add(t)
	if h := m.sender.Close(); kept > 0 && (h == nil || int(h.Count) != kept) {
		t.Fatalf("%d messages were added, the header is %+v", kept, h)
	}
}

func (m *machine) add(t *rapid.T) (n int) {
	for range rapid.IntRange(0, 3).Draw(t, "messages") {
		o := queue.Outgoing{DelaySeconds: new(rapid.Uint32Range(0, 3).Draw(t, "delay"))}
		if m.settings.Fifo {
			o.Group = hash("group", rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "group"))
			o.Dedup = hash("id", rapid.SampledFrom([]string{"1", "2", "3", "4"}).Draw(t, "id"))
		}
		if a, err := m.sender.Decide(o); err == nil && !a.Duplicate {
			m.sender.Add(a)
			n++
		}
	}
	return n
}

package queue_test

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/leaselog/leaselog/events"
	"github.com/leaselog/leaselog/internal/fault"
	"github.com/leaselog/leaselog/internal/queue"
	"pgregory.net/rapid"
)

// TestTwin drives the rules and their naive twin with the same random commands and demands the same outcomes. After
// every step the state checks itself, and equals what a replay from nothing and from a snapshot gives.
func TestTwin(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := newMachine(t)
		t.Repeat(map[string]func(*rapid.T){
			"":          m.check,
			"send":      m.send,
			"send2":     m.send,
			"lease":     m.lease,
			"lease2":    m.lease,
			"ack":       m.ack,
			"extend":    m.extend,
			"tick":      m.tick,
			"configure": m.configure,
			"purge":     m.purge,
			"expire":    m.expire,
			"move":      m.move,
			"arrive":    m.arrive,
			"redrive":   m.redrive,
			"snapshot":  m.snapshot,
			"rollback":  m.rollback,
		})
	})
}

// machine is a world beside its twin.
type machine struct {
	*world
	twin     *twin
	leases   []queue.Held // every receipt ever given
	steps    []queue.BlockAt
	saved    savedState
	settings events.Settings
}

// savedState is a snapshot of both folds, and how much of the logs was in them.
type savedState struct {
	ledger, sender []byte
	events, steps  int
}

func newMachine(t *rapid.T) *machine {
	small := rapid.OneOf(rapid.IntRange(1, 3), rapid.IntRange(1, 50))
	l := queue.Limits{InFlight: small.Draw(t, "inFlight"), LookAhead: small.Draw(t, "lookAhead"),
		Passed: small.Draw(t, "passed"), Delayed: small.Draw(t, "delayed")}
	m := &machine{world: newWorld(l, 1_700_000_000_000), twin: &twin{limits: l}}
	m.settings = drawSettings(t, rapid.Bool().Draw(t, "fifo"), events.Delivery(rapid.IntRange(0, 1).Draw(t, "delivery")))
	m.snapshot(t)
	m.change(t, 1)
	return m
}

func drawSettings(t *rapid.T, fifo bool, d events.Delivery) events.Settings {
	s := events.Settings{Fifo: fifo, Delivery: d, MaxBytes: 100,
		RetentionSeconds: rapid.SampledFrom([]uint32{30, 60, 1000}).Draw(t, "retention"),
		DelaySeconds:     rapid.SampledFrom([]uint32{0, 0, 3, 40}).Draw(t, "delay"),
		Status:           events.Status(rapid.SampledFrom([]int{0, 0, 0, 0, 0, 0, 0, 1, 1, 2}).Draw(t, "status"))}
	if fifo {
		s.DedupSeconds = rapid.SampledFrom([]uint32{0, 10, 300}).Draw(t, "window")
		s.DedupScope = events.DedupScope(rapid.IntRange(0, 1).Draw(t, "scope"))
		s.ContentDedup = rapid.Bool().Draw(t, "content")
	}
	if rapid.Bool().Draw(t, "policy") {
		s.DeadLetter = &events.DeadLetter{Queue: events.QueueID{7}, Receives: rapid.Uint32Range(1, 3).Draw(t, "receives"),
			Gone: rapid.IntRange(0, 5).Draw(t, "gone") == 0}
	}
	return s
}

// text is what a message's hashes are of.
type text struct{ group, id, body string }

func (m *machine) send(t *rapid.T) {
	var out []queue.Outgoing
	var texts []text
	for range rapid.IntRange(1, 4).Draw(t, "messages") {
		o := queue.Outgoing{Size: rapid.SampledFrom([]int{0, 10, 100, 101}).Draw(t, "size")}
		var x text
		if m.settings.Fifo {
			x.group = rapid.SampledFrom([]string{"a", "a", "b", "b", "c", ""}).Draw(t, "group")
			x.id = rapid.SampledFrom([]string{"", "1", "2", "3"}).Draw(t, "id")
			x.body = rapid.SampledFrom([]string{"1", "4"}).Draw(t, "body")
		}
		o.Group, o.Dedup, o.Content = hash("group", x.group), hash("id", x.id), hash("id", x.body)
		if d := rapid.SampledFrom([]int{-1, -1, 0, 1, 20, 901}).Draw(t, "delay"); d >= 0 {
			o.DelaySeconds = new(uint32(d))
		}
		out, texts = append(out, o), append(texts, x)
	}
	n := len(m.blocks)
	at := m.at()
	for i, got := range m.world.send(out...) {
		p, dup, code := m.twin.send(at, texts[i], out[i].DelaySeconds, out[i].Size)
		want := fmt.Sprintf("%d %t %s", p, dup, code)
		if have := fmt.Sprintf("%d %t %s", got.Position, got.Duplicate, codeOf(got.err)); have != want {
			t.Fatalf("message %d: %s, the twin says %s", i, have, want)
		}
	}
	m.wrote(n)
}

func codeOf(err error) string {
	if err == nil {
		return ""
	}
	return string(fault.Of(err).Code)
}

// wrote notes the blocks since n for the replay.
func (m *machine) wrote(n int) {
	for i := range m.blocks[n:] {
		b := m.blocks[n+i]
		h, err := events.DecodeHeader(events.EncodeHeader(b.Header))
		if err != nil {
			panic(err)
		}
		m.steps = append(m.steps, queue.BlockAt{Seq: b.Seq, Header: h})
	}
}

func (m *machine) lease(t *rapid.T) {
	at := m.at()
	c := &queue.Lease{At: at, ID: m.world.lease(), Until: at.Add(rapid.SampledFrom([]uint32{0, 1, 5, 30, 300}).Draw(t, "seconds")),
		Max: rapid.IntRange(1, 10).Draw(t, "max")}
	before := len(m.leases)
	for n := rapid.IntRange(0, 3).Draw(t, "blocks"); ; {
		c.Window = m.window(n)
		d, err := m.world.decide(c)
		if m.refused(t, err) {
			return
		}
		known := m.ledger.Cursor
		if k := len(c.Window.Blocks); k > 0 {
			known = c.Window.Blocks[k-1].Next()
		}
		got, need, again := m.twin.lease(at, c.Until, c.ID, c.Max, known, c.Window.End)
		if have := leasesOf(d.Events); !slices.Equal(have, got) || need != (d.Need != nil) || again != d.Again {
			t.Fatalf("leased %d, need %t, again %t; the twin says %d, %t, %t", have, d.Need != nil, d.Again, got, need, again)
		}
		for _, p := range got {
			m.leases = append(m.leases, queue.Held{Position: p, Lease: c.ID})
		}
		m.check(t)
		if !need && !again {
			if len(m.leases) == before {
				m.compareNext(t, at)
			}
			return
		}
		if need {
			n++
		}
	}
}

// compareNext demands that a receive which got nothing is not told to wait longer than until there is something. That
// retention ends before a message, and lets another one go, is left out: a poll does not last that long.
func (m *machine) compareNext(t *rapid.T, at events.Instant) {
	next := min(m.ledger.NextVisible(at), m.sender.NextDue(at))
	if next <= at {
		t.Fatalf("next visible at %d, and it is %d", next, at)
	}
	for _, x := range m.twin.all {
		if when := max(x.visible, x.due); when > at && when < next {
			later := m.twin.clone()
			later.skipExpired(at)
			later.settings.RetentionSeconds = 1 << 20
			if got, _, _ := later.lease(when, when, events.LeaseID{1}, 1, m.twin.tail, true); len(got) > 0 {
				t.Fatalf("message %d can go at %d, and the next is said to be at %d", got, when, next)
			}
		}
	}
}

// refused says whether the command was refused because the queue is deleted, as it should be.
func (m *machine) refused(t *rapid.T, err error) bool {
	deleted := m.twin.settings.Status >= events.Deleted
	if deleted != fault.Is(err, fault.NotFound) {
		t.Fatalf("the queue's status is %d, and the refusal %v", m.twin.settings.Status, err)
	}
	return deleted
}

// held draws receipts: given ones, mostly late ones, and some that nobody has.
func (m *machine) held(t *rapid.T) (all []queue.Held) {
	for range rapid.IntRange(1, 4).Draw(t, "items") {
		i := rapid.IntRange(-1, len(m.leases)-1).Draw(t, "receipt")
		if i < 0 {
			all = append(all, queue.Held{Position: events.Position(rapid.Uint64Range(0, 40).Draw(t, "place")), Lease: events.LeaseID{9}})
			continue
		}
		all = append(all, m.leases[len(m.leases)-1-i])
	}
	return all
}

func (m *machine) ack(t *rapid.T) {
	c := &queue.Ack{At: m.at(), Items: m.held(t), Lapsed: rapid.Bool().Draw(t, "lapsed")}
	d, err := m.world.decide(c)
	if m.refused(t, err) {
		return
	}
	if want := m.twin.ack(c); !slices.Equal(d.Items, want) {
		t.Fatalf("acked %d, the twin says %d", d.Items, want)
	}
}

func (m *machine) extend(t *rapid.T) {
	c := &queue.Extend{At: m.at(), Lapsed: rapid.Bool().Draw(t, "lapsed")}
	for _, h := range m.held(t) {
		c.Items = append(c.Items, queue.Extension{Held: h, Seconds: rapid.SampledFrom([]uint32{0, 0, 10, 60}).Draw(t, "seconds")})
	}
	d, err := m.world.decide(c)
	if m.refused(t, err) {
		return
	}
	if want := m.twin.extend(c); !slices.Equal(d.Items, want) {
		t.Fatalf("extended %d, the twin says %d", d.Items, want)
	}
}

// tick moves the clock: mostly on, sometimes back, by less and by more than is followed.
func (m *machine) tick(t *rapid.T) {
	m.now += rapid.SampledFrom([]events.Instant{1, 999, 1000, 5000, 10_000, 29_999, 60_000, 299_000, -1, -1000, -5000, -9000}).Draw(t, "by")
}

func (m *machine) configure(t *rapid.T) {
	version := m.twin.version + rapid.SampledFrom([]uint64{0, 1, 1, 1, 2}).Draw(t, "newer")
	m.settings = drawSettings(t, m.settings.Fifo, m.settings.Delivery)
	m.change(t, version)
	m.settings = m.twin.settings
}

func (m *machine) change(t *rapid.T, version uint64) {
	n, at := len(m.blocks), m.at()
	d := m.world.configure(version, m.settings)
	if changed := version > m.twin.version; changed != (len(d.Events) > 0) {
		t.Fatalf("version %d after %d gives %d events", version, m.twin.version, len(d.Events))
	}
	m.wrote(n)
	m.twin.configure(at, version, m.settings)
}

func (m *machine) purge(t *rapid.T) {
	at, to, sent := m.at(), m.sender.Tail, m.sender.Totals.Messages
	if i := rapid.IntRange(0, len(m.blocks)).Draw(t, "to"); i < len(m.blocks) {
		to, sent = m.blocks[i].Next(), m.blocks[i].Header.Totals.Messages
	}
	c := &queue.Purge{At: at, To: to, Sent: sent, Control: m.sender.Tail}
	_, err := m.world.decide(c)
	if m.refused(t, err) {
		return
	}
	n, forgets := len(m.blocks), rapid.Bool().Draw(t, "forgets")
	m.control(m.twin.version, nil, forgets, to)
	m.wrote(n)
	if want := m.twin.purge(to, forgets); c.Messages != want {
		t.Fatalf("purged %d, the twin says %d", c.Messages, want)
	}
}

func (m *machine) expire(t *rapid.T) {
	c := &queue.Expire{At: m.at(), Max: rapid.IntRange(0, 5).Draw(t, "max")}
	if rapid.Bool().Draw(t, "ahead") {
		c.To, c.Sent = m.expirable(c.At)
	}
	_, err := m.world.decide(c)
	if !m.refused(t, err) {
		m.twin.expire(c.At, c.Max, c.To)
	}
}

func (m *machine) move(t *rapid.T) {
	at, n := m.at(), rapid.IntRange(1, 4).Draw(t, "max")
	var items []events.Position
	for _, x := range m.ledger.Exhausted(at, n) {
		items = append(items, x.Position)
	}
	if want := m.twin.waitingForMove(at, n); !slices.Equal(items, want) {
		t.Fatalf("exhausted are %d, the twin says %d", items, want)
	}
	if len(items) == 0 {
		return
	}
	_, err := m.world.decide(&queue.Move{At: at, Items: items, Queue: events.QueueID{7}})
	if m.refused(t, err) {
		return
	}
	if err != nil {
		t.Fatalf("move of %d: %v", items, err)
	}
	for _, p := range items {
		m.twin.find(p).gone = true
	}
}

// arrive brings a block that a move wrote: no delay, no deduplication, maybe an older start of its retention.
func (m *machine) arrive(t *rapid.T) {
	if m.twin.settings.Status != events.Active {
		return
	}
	n, at := len(m.blocks), m.at()
	var out []queue.Outgoing
	for range rapid.IntRange(1, 2).Draw(t, "messages") {
		o := events.Origin{Enqueued: at - events.Instant(rapid.IntRange(0, 90_000).Draw(t, "age")), FromEnqueued: rapid.Bool().Draw(t, "flag")}
		x := &twinMessage{position: m.twin.tail, sent: at, due: at, retained: at}
		if o.FromEnqueued {
			x.retained = o.Enqueued
		}
		if m.settings.Fifo {
			x.group = rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "group")
		}
		m.twin.add(x)
		out = append(out, queue.Outgoing{Size: 1000, Group: hash("group", x.group), Dedup: hash("id", "1"), Origin: &o})
	}
	for _, s := range m.world.send(out...) {
		if s.err != nil || s.Duplicate {
			t.Fatalf("a moved message was refused: %+v", s)
		}
	}
	m.wrote(n)
}

// check compares everything there is.
func (m *machine) check(t *rapid.T) {
	m.ledger.Check()
	at := m.at()
	got, want := m.depth(at), m.twin.depth(at)
	got.Oldest = queue.Waiting{Since: got.Oldest.Since} // of several any may be named
	if got != want {
		t.Fatalf("depth %+v, the twin says %+v", got, want)
	}
	m.comparePending(t)
	m.replay(t)
}

type row struct {
	Position  events.Position
	Receives  uint32
	Leased    bool
	Visible   events.Instant
	HeldBack  bool
	LeaseOfIt events.LeaseID
}

func (m *machine) comparePending(t *rapid.T) {
	var got, want []row
	m.ledger.Pending(0, func(x *queue.Message) bool {
		got = append(got, row{x.Position, x.Receives, x.Leased, x.Visible, x.Held, x.Lease})
		return true
	})
	for _, x := range m.twin.all {
		if m.twin.pending(x) {
			want = append(want, row{x.position, x.receives, x.leased, x.visible, x.held, x.lease})
		}
	}
	slices.SortFunc(want, func(a, b row) int { return cmp.Compare(a.Position, b.Position) })
	if diff := gocmp.Diff(want, got); diff != "" {
		t.Fatalf("pending (-twin +rules):\n%s", diff)
	}
}

// replay folds everything from nothing, and the tail from the last snapshot.
func (m *machine) replay(t *rapid.T) {
	log, err := events.Decode(events.Encode(m.log))
	if err != nil {
		t.Fatal(err)
	}
	fresh, loaded := foldLedger(queue.NewLedger(m.limits), log), loadLedger(t, m.limits, m.saved.ledger)
	foldLedger(loaded, log[m.saved.events:])
	same(t, "ledger replayed", m.ledger.Snapshot(), fresh.Snapshot())
	same(t, "ledger from a snapshot", m.ledger.Snapshot(), loaded.Snapshot())
	loaded.Check()
	sender, err := queue.LoadSender(m.limits, m.saved.sender)
	if err != nil {
		t.Fatal(err)
	}
	same(t, "sender replayed", m.sender.Snapshot(), foldSender(queue.NewSender(m.limits), m.steps).Snapshot())
	same(t, "sender from a snapshot", m.sender.Snapshot(), foldSender(sender, m.steps[m.saved.steps:]).Snapshot())
}

func foldLedger(l *queue.Ledger, log []events.Event) *queue.Ledger {
	for _, e := range log {
		l.Evolve(e)
	}
	l.Settle()
	return l
}

func foldSender(s *queue.Sender, steps []queue.BlockAt) *queue.Sender {
	for _, x := range steps {
		s.Evolve(x.Seq, x.Header)
	}
	s.Settle()
	return s
}

func loadLedger(t *rapid.T, l queue.Limits, data []byte) *queue.Ledger {
	s, err := queue.LoadLedger(l, data)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func same(t *rapid.T, what string, want, got []byte) {
	if !bytes.Equal(want, got) {
		t.Fatalf("%s differs from what was kept:\n%x\n%x", what, got, want)
	}
}

func (m *machine) snapshot(*rapid.T) {
	m.saved = savedState{m.ledger.Snapshot(), m.sender.Snapshot(), len(m.log), len(m.steps)}
}

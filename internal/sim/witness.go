package sim

import (
	"bytes"
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/leaselog/leaselog/events"
	"github.com/leaselog/leaselog/internal/envelope"
	"github.com/leaselog/leaselog/internal/eventlog"
	"github.com/leaselog/leaselog/internal/queue"
)

// witness reads what is committed, commit by commit, and knows of each message where it is and what has happened to
// it. It decides nothing: it says of every event whether it may follow from what was there.
type witness struct {
	*simulation
	queues  map[events.QueueID]*wQueue
	letters map[events.MessageID]*letter
	commits int
}

type wQueue struct {
	id     events.QueueID
	keys   *envelope.Keyring
	shards map[int]*wShard
}

// wShard is one shard as its two streams tell it.
type wShard struct {
	queue   *wQueue
	index   int
	tails   map[eventlog.Stream]eventlog.Seq
	sending events.Settings // named by the message stream
	sentVer uint64
	ruling  events.Settings // named by the ledger
	ruleVer uint64
	sent    uint64 // messages
	cursor  events.Position
	alive   []*letter // by position
	totals  events.LedgerTotals
	changes int                  // entries of either stream
	replay  *queue.Ledger        // the fold that ships, for its own check of itself
	high    events.Instant       // of both streams
	dedups  map[string][]*letter // by what a client would call the same
}

// letter is a message.
type letter struct {
	id       events.MessageID
	attempt  *attempt
	shard    *wShard
	position events.Position
	group    string // empty in a standard queue
	epoch    uint64
	sent     events.Instant // into this queue
	retained events.Instant
	due      events.Instant // 0: at once, also where the sender's clock was ahead
	before   *letter        // in the queue that it was moved from

	receives uint32
	leases   []events.LeaseID // one a receive, in this queue
	leased   bool
	visible  events.Instant
	touched  uint32 // receives when it was last extended or released
	changed  int    // the number of the commit that changed it last
	fate     string // empty while it lives
	ended    events.Instant
	endedBy  events.LeaseID
}

func (l *letter) live(at events.Instant) bool { return l.leased && l.visible > at }

func newWitness(s *simulation) *witness {
	return &witness{simulation: s, queues: map[events.QueueID]*wQueue{}, letters: map[events.MessageID]*letter{}}
}

// see reads what a commit has added. It may have added nothing.
func (w *witness) see(c *eventlog.Commit) {
	var fresh []eventlog.Entry
	for _, a := range c.Appends {
		fresh = append(fresh, w.unread(a.Stream)...)
	}
	if len(fresh) == 0 {
		return
	}
	w.commits++
	arrivals := map[events.MessageID]*letter{} // brought by moves in this commit
	for _, e := range fresh {
		w.must(e.Writer == fresh[0].Writer, "two commits at once: %x and %x", e.Writer, fresh[0].Writer)
		w.secret(e)
		if sh := w.shard(e.Stream); !isLedger(e.Stream) {
			w.block(sh, e, arrivals)
		}
	}
	moved := 0
	for _, e := range fresh {
		if isLedger(e.Stream) {
			moved += w.ledger(w.shard(e.Stream), e, arrivals)
		}
	}
	w.must(moved == len(arrivals), "%d messages have left their queues and %d have come, in one commit", moved, len(arrivals))
}

// unread gives the entries of a stream that were not seen yet.
func (w *witness) unread(name eventlog.Stream) []eventlog.Entry {
	sh := w.shard(name)
	entries, err := w.memory.Read(context.Background(), name, sh.tails[name], eventlog.Limits{})
	w.must(err == nil, "reading %s: %v", name, err)
	for _, e := range entries {
		w.must(e.Seq == sh.tails[name], "%s has an entry at %d where %d must follow", name, e.Seq, sh.tails[name])
		sh.tails[name] = e.Next()
		sh.changes++
	}
	return entries
}

func isLedger(s eventlog.Stream) bool { return strings.HasSuffix(string(s), "/ledger") }

// shard gives the shard that a stream belongs to.
func (w *witness) shard(name eventlog.Stream) *wShard {
	id, err := events.StreamQueue(string(name))
	w.must(err == nil, "stream %q: %v", name, err)
	n, err := strconv.ParseUint(string(name[33:37]), 16, 16)
	w.must(err == nil, "stream %q: %v", name, err)
	q := w.queues[id]
	if q == nil {
		q = &wQueue{id: id, keys: w.ring(id), shards: map[int]*wShard{}}
		w.queues[id] = q
	}
	sh := q.shards[int(n)]
	if sh == nil {
		sh = &wShard{queue: q, index: int(n), tails: map[eventlog.Stream]eventlog.Seq{}, replay: queue.NewLedger(w.Limits),
			dedups: map[string][]*letter{}}
		q.shards[int(n)] = sh
	}
	return sh
}

// rotationsMax is more than a simulated life has days.
const rotationsMax = 40

// ring makes a queue's keys, which follow from its id, with those of all rotations that may come.
func (w *witness) ring(id events.QueueID) *envelope.Keyring {
	ring, err := envelope.NewRing(context.Background(), &keys{}, deployment, id, "", 0)
	for range rotationsMax {
		if err == nil {
			ring, err = envelope.Rotate(context.Background(), &keys{}, deployment, id, ring, "", 0)
		}
	}
	w.must(err == nil, "keys: %v", err)
	k, err := envelope.Open(&keys{}, newSource(w.Seed, -1), deployment, id, ring)
	w.must(err == nil, "keys: %v", err)
	return k
}

// plain is in every body, group and deduplication id, and must be in nothing that is stored.
const plain = "plain-"

func (w *witness) secret(e eventlog.Entry) {
	w.must(!bytes.Contains(e.Header, []byte(plain)) && !bytes.Contains(e.Data, []byte(plain)),
		"entry %d of %s holds a body or a name in the clear", e.Seq, e.Stream)
}

// sorted gives the shards of a queue in order.
func (q *wQueue) sorted() []*wShard {
	var all []*wShard
	for _, n := range slices.Sorted(maps.Keys(q.shards)) {
		all = append(all, q.shards[n])
	}
	return all
}

// opened opens an entry's seal. A control entry has none where the keys were out of reach.
func (w *witness) opened(sh *wShard, e eventlog.Entry, h *events.Header) []byte {
	if h.Kind != events.Block && h.Key == 0 && len(e.Data) == 0 {
		return nil
	}
	place := envelope.Place{Stream: string(e.Stream), Seq: uint64(e.Seq)}
	data, err := sh.queue.keys.Open(context.Background(), events.Instant(0), 1<<31, place, h.Key, e.Header, e.Data)
	w.must(err == nil, "entry %d of %s: %v", e.Seq, e.Stream, err)
	return data
}

// block reads an entry of a message stream.
func (w *witness) block(sh *wShard, e eventlog.Entry, arrivals map[events.MessageID]*letter) {
	h, err := events.DecodeHeader(e.Header)
	w.must(err == nil, "entry %d of %s: %v", e.Seq, e.Stream, err)
	data := w.opened(sh, e, h)
	w.must(e.Width == h.Width(), "entry %d of %s is %d wide and holds %d messages", e.Seq, e.Stream, e.Width, h.Count)
	sh.high = max(sh.high, h.At)
	if h.Kind == events.Control {
		w.control(sh, h)
		return
	}
	if h.Kind == events.Anchor {
		w.must(h.Version == sh.sentVer && h.Totals.Messages == sh.sent, "the anchor at %d of %s says %+v", e.Seq, e.Stream, h)
		return
	}
	w.must(sh.sending.Status != events.Deleted, "a message was added to %s after the queue was deleted", e.Stream)
	w.must(h.Version == sh.sentVer, "entry %d of %s was decided under settings %d, in force are %d", e.Seq, e.Stream, h.Version, sh.sentVer)
	messages, err := events.DecodeMessages(data)
	w.must(err == nil && len(messages) == int(h.Count), "entry %d of %s: %d messages, %v", e.Seq, e.Stream, len(messages), err)
	for i := range messages {
		w.letter(sh, e, h, i, &messages[i], arrivals)
	}
	sh.sent += uint64(h.Count)
	w.must(h.Totals.Messages == sh.sent, "entry %d of %s counts %d messages, there are %d", e.Seq, e.Stream, h.Totals.Messages, sh.sent)
}

func (w *witness) control(sh *wShard, h *events.Header) {
	w.must(h.Count == 0, "a control entry with messages")
	w.must(h.Version >= sh.sentVer, "settings version %d after %d", h.Version, sh.sentVer)
	if h.Settings != nil {
		w.must(h.Version > sh.sentVer, "settings version %d twice", h.Version)
		sh.sending = *h.Settings
	}
	sh.sentVer = h.Version
}

// letter reads a message: it must be new, or be moved in this very commit.
func (w *witness) letter(sh *wShard, e eventlog.Entry, h *events.Header, i int, m *events.Message, arrivals map[events.MessageID]*letter) {
	id := h.MessageID(i)
	l := &letter{id: id, shard: sh, position: events.Position(e.Seq) + events.Position(i), epoch: h.Epoch, sent: h.At, retained: h.RetainedFrom(i)}
	if due := h.DueAt(i); due > h.At {
		l.due, l.visible = due, due
	}
	l.attempt = w.attemptOf(m)
	if sh.sending.Fifo {
		l.group = l.attempt.group
	}
	if h.Origin(i) == nil {
		w.must(w.letters[id] == nil, "message %s is there twice", id)
		w.sentOnce(l)
		w.must(l.due == l.attempt.due(sh, h.At), "message %d is due at %d, not at %d", l.attempt.n, l.due-epoch, l.attempt.due(sh, h.At)-epoch)
		w.unrepeated(sh, l)
	} else {
		old := w.letters[id]
		w.must(old != nil && old.fate == "", "message %s comes from a move, and was not there before", id)
		w.must(arrivals[id] == nil, "message %s is moved twice in one commit", id)
		w.must(l.due == 0 && h.Dedup(i) == events.Hash{}, "moved message %s has a delay or a deduplication id", id)
		l.before = old
		arrivals[id] = l
	}
	sh.alive = append(sh.alive, l)
	if h.Origin(i) == nil {
		w.letters[id] = l
	}
}

// attemptOf finds what a client has asked for by the number that the message carries.
func (w *witness) attemptOf(m *events.Message) *attempt {
	for _, a := range m.Attributes {
		if n, err := strconv.Atoi(string(a.Value)); a.Name == "n" && err == nil && n < len(w.attempts) {
			at := w.attempts[n]
			w.must(at.body == string(m.Body) && at.group == m.Group && at.dedup == m.Dedup, "message %d was changed on its way", n)
			return at
		}
	}
	w.failf("a message that nobody has sent")
	return nil
}

// due is when a message that is sent at an instant may first be delivered, 0 for at once.
func (a *attempt) due(sh *wShard, at events.Instant) events.Instant {
	delay := sh.sending.DelaySeconds
	if a.delay != nil {
		delay = *a.delay
	}
	if delay == 0 {
		return 0
	}
	return at.Add(delay)
}

// sentOnce holds that one send adds its message once, and not where the client was told that nothing was done.
func (w *witness) sentOnce(l *letter) {
	a := l.attempt
	w.must(a.letter == nil, "message %d was sent once and is there twice", a.n)
	w.must(a.answer != refusedAnswer && a.answer != duplicateAnswer, "message %d was answered as %s, and now it is there", a.n, a.answer)
	w.must(a.queue == l.shard.queue.id, "message %d is in another queue", a.n)
	a.letter = l
}

// unrepeated holds that no id is added twice inside the window.
func (w *witness) unrepeated(sh *wShard, l *letter) {
	id := l.attempt.dedup
	if id == "" && sh.sending.ContentDedup {
		id = "sum of " + l.attempt.body
	}
	if id == "" || !sh.sending.Fifo || sh.sending.DedupSeconds == 0 {
		return
	}
	for _, old := range sh.dedups[id] {
		same := old.epoch == l.epoch && (sh.sending.DedupScope == events.DedupQueue || old.group == l.group)
		w.must(!same || old.sent.Add(sh.sending.DedupSeconds) <= l.sent,
			"message %d repeats the deduplication id of message %d after %d ms", l.attempt.n, old.attempt.n, l.sent-old.sent)
	}
	sh.dedups[id] = append(sh.dedups[id], l)
}

package queue

import (
	"cmp"

	"github.com/tidwall/btree"

	"github.com/leaselog/leaselog/events"
	"github.com/leaselog/leaselog/internal/fault"
)

// Sender is the fold of the headers of a shard's message stream: the tail, the settings that it names, the
// deduplication window, and the messages that are not due yet.
type Sender struct {
	senderValues
	window window
	due    *btree.BTreeG[dueAt]
	limits Limits
	undo   []undo
	draft  *events.Header // the block being formed, nil between blocks
	reader bool           // see Reading
}

type senderValues struct {
	Settings events.Settings `cbor:"1,keyasint"`
	Version  uint64          `cbor:"2,keyasint"`
	Epoch    uint64          `cbor:"3,keyasint,omitempty"`
	Tail     events.Position `cbor:"4,keyasint"`
	High     events.Instant  `cbor:"5,keyasint"`
	Totals   events.Totals   `cbor:"6,keyasint"`
	Last     events.Instant  `cbor:"7,keyasint"` // when the last entry was decided
	Sure     events.Instant  `cbor:"8,keyasint"` // the highest instant that two entries in a row have reached
}

// dueAt is a message that is not due yet.
type dueAt struct {
	Due      events.Instant  `cbor:"1,keyasint"`
	Position events.Position `cbor:"2,keyasint"`
	Sent     events.Instant  `cbor:"3,keyasint"` // retention counts from here: a long delay may outlast it
}

// undo is an entry of the sender's journal: a hash that was remembered, what stood there before, and a due message.
type undo struct {
	hash events.Hash
	old  remembered
	due  dueAt
}

// NewSender gives the state before the first entry.
func NewSender(l Limits) *Sender {
	s := &Sender{limits: l}
	s.due = btree.NewBTreeGOptions(func(a, b dueAt) bool {
		return cmp.Or(cmp.Compare(a.Due, b.Due), cmp.Compare(a.Position, b.Position)) < 0
	}, btree.Options{NoLocks: true})
	return s
}

// Reading makes the state that of somebody who sends nothing: it remembers no deduplication ids, most of its memory, and
// so can neither decide nor give a snapshot.
func (s *Sender) Reading() { s.window, s.reader = window{}, true }

// Outgoing is what the rules must know of a message that is to be sent.
type Outgoing struct {
	Size         int         // bytes that count against the queue's limit
	Group        events.Hash // zero: none
	Dedup        events.Hash // zero: none was given
	Content      events.Hash // stands in for Dedup where the queue allows it
	DelaySeconds *uint32     // nil: the queue's
	Origin       *events.Origin
}

// Addition is a message that may be added, or the place of the one that it repeats.
type Addition struct {
	Duplicate bool
	Position  events.Position
	out       Outgoing
	due       events.Instant // 0: at once
}

// Open begins a block that is decided at an instant.
func (s *Sender) Open(id events.BlockID, at events.Instant) {
	must(s.draft == nil, "a block is open")
	s.draft = &events.Header{ID: id, At: at}
}

// Decide says what becomes of a message in the open block, without changing anything.
// Faults: NotFound, TooLarge, Invalid, Limit.
func (s *Sender) Decide(m Outgoing) (Addition, error) {
	if err := s.refuse(m); err != nil {
		return Addition{}, err
	}
	switch {
	case m.Origin != nil:
		m.Dedup = events.Hash{} // a move is no send: it neither repeats one nor is repeated
	case m.Dedup == (events.Hash{}) && s.Settings.ContentDedup:
		m.Dedup = m.Content
	}
	at := s.draft.At
	if m.Dedup != (events.Hash{}) {
		if p, ok := s.window.find(s.dedupKey(m.Group, m.Dedup), at, s.Settings.DedupSeconds); ok {
			return Addition{Duplicate: true, Position: p}, nil
		}
	}
	a := Addition{Position: s.Tail, out: m}
	if d := s.delay(m); d > 0 {
		if s.Delayed(at) >= s.limits.Delayed {
			return Addition{}, fault.New(fault.Limit, "%d messages of this shard are not due yet, and it holds no more than %d; send without a delay, or when some are due",
				s.Delayed(at), s.limits.Delayed)
		}
		a.due = at.Add(d)
	}
	return a, nil
}

func (s *Sender) refuse(m Outgoing) error {
	switch {
	case s.Settings.Status == events.Deleted || s.Settings.Status == events.Shredded || s.Version == 0:
		return ErrDeleted()
	case s.Settings.Status == events.Draining:
		return fault.New(fault.Invalid, "the queue is being drained and takes no messages")
	case m.Origin != nil:
		return nil // a move checks neither size nor delay nor repeats
	case s.Settings.Fifo && m.Group == events.Hash{}:
		return fault.New(fault.Invalid, "a message for a FIFO queue needs a message group id")
	case s.Settings.Fifo && m.Dedup == events.Hash{} && !s.Settings.ContentDedup:
		return fault.New(fault.Invalid, "a message for this FIFO queue needs a deduplication id, since the queue does not derive it from the body")
	case m.Size > int(s.Settings.MaxBytes):
		return fault.New(fault.TooLarge, "the message has %d bytes with its attributes, and the queue allows %d", m.Size, s.Settings.MaxBytes)
	case m.DelaySeconds != nil && *m.DelaySeconds > DelaySecondsMax:
		return fault.New(fault.Invalid, "the delay must be 0 to %d seconds, not %d", DelaySecondsMax, *m.DelaySeconds)
	}
	return nil
}

func (s *Sender) delay(m Outgoing) uint32 {
	switch {
	case m.Origin != nil:
		return 0
	case m.DelaySeconds != nil:
		return *m.DelaySeconds
	}
	return s.Settings.DelaySeconds
}

// dedupKey is what must be unique: the id, or the id in its group. Both are outputs of a keyed hash, so that their
// sum is as good as one of the pair.
func (s *Sender) dedupKey(group, dedup events.Hash) events.Hash {
	if s.Settings.DedupScope == events.DedupGroup {
		for i := range dedup {
			dedup[i] ^= group[i]
		}
	}
	return dedup
}

// Add puts a decided message at the end of the open block.
func (s *Sender) Add(a Addition) {
	if a.Duplicate || a.Position != s.Tail {
		broken("message for %d at the tail %d", a.Position, s.Tail)
	}
	h, i := s.draft, int(s.draft.Count)
	h.Count++
	h.Bytes += uint64(a.out.Size)
	h.Groups = grow(h.Groups, i, a.out.Group)
	h.Dedups = grow(h.Dedups, i, a.out.Dedup)
	if a.due != 0 || h.Due != nil {
		h.Due = append(append(h.Due, make([]events.Instant, i-len(h.Due))...), a.due)
	}
	if a.out.Origin != nil {
		must(len(h.Origins) == i, "a block holds moved messages or sent ones, not both")
		h.Origins = append(h.Origins, *a.out.Origin)
	}
	must(a.out.Origin != nil || len(h.Origins) == 0, "a block holds moved messages or sent ones, not both")
	s.remember(h, i, s.Tail)
	s.Tail++
}

// grow appends a hash to a column, which begins with the first hash that is not zero.
func grow(c []byte, i int, h events.Hash) []byte {
	if h == (events.Hash{}) && len(c) == 0 {
		return c
	}
	return append(append(c, make([]byte, 16*i-len(c))...), h[:]...)
}

// Close ends the open block, gives its header, and nil when nothing was added.
func (s *Sender) Close() *events.Header {
	h := s.draft
	s.draft = nil
	if h.Count == 0 {
		return nil
	}
	s.finish(h)
	return h
}

// Control is what a control entry says to senders. An anchor says nothing, so that the other fields are empty.
type Control struct {
	Anchor   bool
	Version  uint64           // of Settings
	Settings *events.Settings // nil: they stay as they are
	Forgets  bool             // deduplication starts anew
	Finished events.Position  // a purge has finished every message before it
}

// Control gives the header of a control entry at the tail, and applies it.
func (s *Sender) Control(id events.BlockID, at events.Instant, c Control) *events.Header {
	kind := events.Control
	if c.Anchor {
		kind = events.Anchor
	}
	h := &events.Header{Kind: kind, ID: id, At: at, Version: max(c.Version, s.Version), Settings: c.Settings,
		Forgets: c.Forgets, Finished: c.Finished}
	s.control(h)
	s.Tail++
	s.finish(h)
	return h
}

// finish fills in the running values, which are true after the entry.
func (s *Sender) finish(h *events.Header) {
	s.High = max(s.High, h.At)
	s.Sure, s.Last = max(s.Sure, min(s.Last, h.At)), h.At
	s.Totals.Messages += uint64(h.Count)
	s.Totals.Bytes += h.Bytes
	h.High, h.Totals, h.Version, h.Epoch = s.High, s.Totals, s.Version, s.Epoch
}

// Evolve applies a header that stands in the log at seq.
func (s *Sender) Evolve(seq events.Position, h *events.Header) {
	must(seq == s.Tail, "entry at %d after the tail %d", seq, s.Tail)
	if h.Kind == events.Control {
		s.control(h)
	}
	must(h.Version == s.Version && h.Epoch == s.Epoch, "entry %d names version %d and epoch %d, the fold has %d and %d",
		seq, h.Version, h.Epoch, s.Version, s.Epoch)
	for i := range int(h.Count) {
		s.remember(h, i, seq+events.Position(i))
	}
	s.Tail = seq + events.Position(h.Width())
	s.High, s.Totals = h.High, h.Totals
	s.Sure, s.Last = max(s.Sure, min(s.Last, h.At)), h.At
}

func (s *Sender) control(h *events.Header) {
	if h.Settings != nil {
		forget := h.Settings.DedupSeconds != s.Settings.DedupSeconds || h.Settings.DedupScope != s.Settings.DedupScope
		if forget && s.Version > 0 {
			h.Forgets = true
		}
		s.Settings, s.Version = *h.Settings, h.Version
	}
	if h.Forgets {
		s.Epoch++
		s.window = window{}
	}
	if h.Finished > 0 {
		s.finished(h.Finished)
	}
}

// remember keeps what later decisions must know of the i-th message of a block.
func (s *Sender) remember(h *events.Header, i int, p events.Position) {
	var u undo
	if d := h.Dedup(i); d != (events.Hash{}) && s.Settings.DedupSeconds > 0 && !s.reader {
		u.hash = s.dedupKey(h.Group(i), d)
		u.old = s.window.put(u.hash, h.At, p)
	}
	if due := h.DueAt(i); due > h.At {
		u.due = dueAt{due, p, h.At}
		s.due.Set(u.due)
	}
	if u != (undo{}) {
		s.undo = append(s.undo, u)
	}
}

// Delayed is how many messages are not due yet, by bisection in their order.
func (s *Sender) Delayed(at events.Instant) int {
	low, high := 0, s.due.Len()
	for low < high {
		mid := (low + high) / 2
		if d, _ := s.due.GetAt(mid); d.Due <= at {
			low = mid + 1
		} else {
			high = mid
		}
	}
	return s.due.Len() - low
}

// NextDue is the first instant after at when a message becomes due, Never if none will. A long poll that waits for
// NextVisible waits for it too: at the look-ahead limit the ledger has not looked at the message.
func (s *Sender) NextDue(at events.Instant) events.Instant {
	next := events.Never
	s.due.Ascend(dueAt{Due: at + 1}, func(d dueAt) bool {
		next = d.Due
		return false
	})
	return next
}

// delayedAhead is how many messages ahead of the ledger's cursor are not due yet, nor past their retention.
func (s *Sender) delayedAhead(l *Ledger, at events.Instant) (n uint64) {
	s.due.Ascend(dueAt{Due: at + 1}, func(d dueAt) bool {
		if d.Position >= l.Cursor && !l.past(d.Sent, 0, at) {
			n++
		}
		return true
	})
	return n
}

// finished drops the messages before a position from those that are not due.
func (s *Sender) finished(before events.Position) {
	for _, d := range s.due.Items() {
		if d.Position < before {
			s.due.Delete(d)
		}
	}
}

// SenderMark is a point to which the state can be rolled back.
type SenderMark struct {
	values senderValues
	undo   int
	draft  *events.Header
}

// Mark gives the present point. Marks nest inside one block. A control entry cannot be rolled back: the state is
// then to be read again.
func (s *Sender) Mark() SenderMark {
	m := SenderMark{values: s.senderValues, undo: len(s.undo)}
	if s.draft != nil {
		d := *s.draft
		m.draft = &d
	}
	return m
}

// Rollback undoes everything since m.
func (s *Sender) Rollback(m SenderMark) {
	for len(s.undo) > m.undo {
		u := s.undo[len(s.undo)-1]
		s.undo = s.undo[:len(s.undo)-1]
		if u.hash != (events.Hash{}) {
			s.window.restore(u.hash, u.old)
		}
		s.due.Delete(u.due)
	}
	s.senderValues, s.draft = m.values, m.draft
}

// Settle forgets the way back: what was applied stands in the log. Only here is dropped what is too old to be asked
// for, since a rollback could not bring it back.
func (s *Sender) Settle() {
	s.undo = s.undo[:0]
	s.window.drop(s.Settings.DedupSeconds)
	for first, ok := s.due.Min(); ok && s.pastDue(first); first, ok = s.due.Min() {
		s.due.PopMin()
	}
}

// pastDue says whether no instant will ask any more whether a message is due. A single entry is not believed, since
// its clock may have been far ahead.
func (s *Sender) pastDue(d dueAt) bool { return d.Due+stepBackMax <= s.Sure }

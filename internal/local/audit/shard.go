package audit

import (
	"bytes"
	"errors"
	"fmt"
	"math"

	"github.com/leaselog/leaselog/events"
	"github.com/leaselog/leaselog/internal/envelope"
	"github.com/leaselog/leaselog/internal/eventlog"
	"github.com/leaselog/leaselog/internal/fault"
	"github.com/leaselog/leaselog/internal/local/store"
	"github.com/leaselog/leaselog/internal/queue"
)

// seals opens the blocks of one queue.
type seals struct {
	keys   *envelope.Keyring
	oldest uint32          // version of the ring; what an older one sealed is finished, and opened no more
	lost   map[uint32]bool // versions that cannot be unwrapped: said once
}

// shard is both streams of one shard.
type shard struct {
	*audit
	name             string
	seals            *seals // nil: not tried
	fold             bool   // false: the queue was deleted, and of its streams only the ends may be left
	messages, ledger eventlog.Stream
}

func (s *shard) verify() {
	l, m := &ledgerFold{shard: s}, &messageFold{shard: s}
	lw, mw := s.walk(s.name, s.ledger, l), s.walk(s.name, s.messages, m)
	for _, w := range []*walk{lw, mw} {
		s.end(w)
	}
	if lw.folded && s.fold {
		l.whole(lw)
		s.dropped(l.state, mw.drops)
		if mw.folded {
			s.together(l.state, m.state)
		}
	}
}

// end verifies that a server could open the stream: its end can be folded.
func (s *shard) end(w *walk) {
	switch {
	case w.count == 0:
		w.finding(0, "the stream has no entry, and every shard has a beginning that is never dropped whole")
	case !w.folded && s.fold && !w.broken:
		w.finding(w.next, "its end cannot be folded: what stands before was dropped, and no snapshot stands in for it")
	}
}

// together verifies what one stream says of the other.
func (s *shard) together(l *queue.Ledger, m *queue.Sender) {
	at := Finding{Queue: s.name, Stream: string(s.ledger)}
	if l.Cursor > m.Tail {
		s.damage(at, "the ledger has looked at messages up to %d, and the message stream ends at %d", l.Cursor, m.Tail)
	}
	if l.Version != m.Version {
		s.damage(at, "the ledger has version %d of the settings, the message stream %d", l.Version, m.Version)
	}
}

// dropped verifies that only finished messages were dropped.
func (s *shard) dropped(l *queue.Ledger, drops []store.Range) {
	at := Finding{Queue: s.name, Stream: string(s.messages)}
	for _, d := range drops {
		if d.To > eventlog.Seq(l.Cursor) {
			s.damage(at, "messages up to %d were dropped, and the ledger has looked at none from %d on", d.To, l.Cursor)
		}
		l.Pending(events.Position(d.From), func(p *queue.Message) bool {
			if eventlog.Seq(p.Position) < d.To {
				s.damage(at, "message %d is not finished, and its entry was dropped", p.Position)
			}
			return eventlog.Seq(p.Position) < d.To
		})
	}
}

// ledgerFold folds a ledger.
type ledgerFold struct {
	*shard
	state     *queue.Ledger
	unchecked int // entries applied since the state was last checked as a whole
}

func (f *ledgerFold) begin() { f.state = queue.NewLedger(queue.DefaultLimits) }

func (f *ledgerFold) load(data []byte) (err error) {
	f.state, err = queue.LoadLedger(queue.DefaultLimits, data)
	return err
}

func (f *ledgerFold) apply(e eventlog.Entry, folded bool) error {
	h, err := events.DecodeLedgerHeader(e.Header)
	if err != nil {
		return err
	}
	happened, err := events.Decode(e.Data)
	if err != nil {
		return err
	}
	f.report.Events += len(happened)
	if !folded || !f.fold {
		return nil
	}
	for _, ev := range happened {
		f.state.Evolve(ev)
	}
	f.state.Settle()
	f.check()
	if h.Version != f.state.Version || h.High != f.state.High || h.Totals != f.state.Totals {
		return fmt.Errorf("its header says version %d, high %d and totals %+v, its events give %d, %d and %+v",
			h.Version, h.High, h.Totals, f.state.Version, f.state.High, f.state.Totals)
	}
	return nil
}

// check has the rules check all of their state now and then: it takes as long as there are pending messages, and must
// not be paid again by each of them.
func (f *ledgerFold) check() {
	if f.unchecked++; f.unchecked*checkedShare >= f.state.Len() {
		f.unchecked = 0
		f.state.Check()
	}
}

// checkedShare is how many pending messages are looked at for each entry, on average.
const checkedShare = 32

// whole checks the state at the end of the stream.
func (f *ledgerFold) whole(w *walk) {
	if err := w.guard(func() error { f.state.Check(); return nil }); err != nil {
		w.finding(w.next, "its end: %v", err)
	}
}

func (f *ledgerFold) differs(data []byte) string {
	if bytes.Equal(f.state.Snapshot(), data) {
		return ""
	}
	kept, err := queue.LoadLedger(queue.DefaultLimits, data)
	if err != nil {
		return "it does not load: " + err.Error()
	}
	return fmt.Sprintf("it has %d pending messages and the cursor at %d, they give %d and %d", kept.Len(), kept.Cursor, f.state.Len(), f.state.Cursor)
}

// messageFold folds the headers of a message stream and opens its blocks.
type messageFold struct {
	*shard
	state *queue.Sender
}

func (f *messageFold) begin() { f.state = queue.NewSender(queue.DefaultLimits) }

func (f *messageFold) load(data []byte) (err error) {
	f.state, err = queue.LoadSender(queue.DefaultLimits, data)
	return err
}

func (f *messageFold) apply(e eventlog.Entry, folded bool) error {
	h, err := events.DecodeHeader(e.Header)
	if err != nil {
		return err
	}
	if h.Width() != e.Width {
		return fmt.Errorf("it takes %d positions, and its header speaks of %d messages", e.Width, h.Count)
	}
	f.report.Messages += uint64(h.Count)
	if folded && f.fold {
		if err := f.evolve(e, h); err != nil {
			return err
		}
	}
	return f.open(e, h)
}

func (f *messageFold) evolve(e eventlog.Entry, h *events.Header) error {
	want := f.state.Totals
	want.Messages += uint64(h.Count)
	want.Bytes += h.Bytes
	high := max(f.state.High, h.At)
	f.state.Evolve(events.Position(e.Seq), h)
	f.state.Settle()
	if h.Totals != want || h.High != high {
		return fmt.Errorf("its header says totals %+v and high %d, the headers before it give %+v and %d", h.Totals, h.High, want, high)
	}
	return nil
}

// open opens the seal. A key that is lost is said once, not for every block.
func (f *messageFold) open(e eventlog.Entry, h *events.Header) error {
	unsealed := h.Key == 0 && h.Kind != events.Block && len(e.Data) == 0 // written while the key was lost
	retired := h.Key > 0 && f.seals != nil && h.Key < f.seals.oldest
	if f.seals == nil || unsealed || retired || f.seals.lost[h.Key] {
		return nil
	}
	place := envelope.Place{Stream: string(e.Stream), Seq: uint64(e.Seq)}
	plain, err := f.seals.keys.Open(f.ctx, 0, math.MaxUint32, place, h.Key, e.Header, e.Data)
	if fault.Is(err, fault.KeyLost) {
		f.seals.lost[h.Key] = true
	}
	if err != nil {
		return fmt.Errorf("the seal does not open: %w", err)
	}
	f.report.Seals++
	if h.Kind != events.Block {
		return nil
	}
	messages, err := events.DecodeMessages(plain)
	if err == nil && len(messages) != int(h.Count) {
		err = errors.New("the block does not hold as many messages as its header says")
	}
	return err
}

func (f *messageFold) differs(data []byte) string {
	if bytes.Equal(f.state.Snapshot(), data) {
		return ""
	}
	kept, err := queue.LoadSender(queue.DefaultLimits, data)
	if err != nil {
		return "it does not load: " + err.Error()
	}
	return fmt.Sprintf("it ends at %d with %d deduplication ids, they end at %d with %d",
		kept.Tail, kept.Remembered(), f.state.Tail, f.state.Remembered())
}

package broker

import (
	"context"
	"errors"

	"github.com/leaselog/leaselog/events"
	"github.com/leaselog/leaselog/internal/eventlog"
	"github.com/leaselog/leaselog/internal/fault"
	"github.com/leaselog/leaselog/internal/queue"
	"github.com/leaselog/leaselog/projections"
)

// Counts of messages, exact.
type Counts struct {
	Available uint64 // deliverable, or withheld only behind their FIFO group
	InFlight  uint64 // leased
	Delayed   uint64 // sent or released with a delay that has not passed
}

// Depth counts a queue's messages and says of which state of the log that is true. A repeated answer has the counts only.
type Depth struct {
	Counts
	projections.Ages `cbor:"-"`
	At               events.Instant `cbor:"-"` // the latest of the shards' instants
	Shards           []Place        `cbor:"-"` // by their numbers
	Kept             bool           `cbor:"-"` // read from the views; otherwise from the state
}

// Place says of which instant and of which ends of a shard's streams a count is true: a fold of all entries before them
// gives it again.
type Place struct {
	At       events.Instant
	High     events.Instant // the highest instant of the log up to there
	Ledger   uint64
	Messages events.Position
}

// add merges a shard's depth.
func (d *Depth) add(o Depth) {
	d.Available += o.Available
	d.InFlight += o.InFlight
	d.Delayed += o.Delayed
	d.WaitingMillis = max(d.WaitingMillis, o.WaitingMillis)
	d.TotalMillis = max(d.TotalMillis, o.TotalMillis)
	d.At = max(d.At, o.At)
	d.Shards = append(d.Shards, o.Shards...)
}

// firstBlocksMax bounds how many blocks are looked at for the first message ahead of the cursor that has no delay, as in the
// view.
const firstBlocksMax = 16

// view looks at a shard's state in the runner's turn.
type view struct {
	reply
	look func(g *group) error
}

func (v *view) decide(g *group) error {
	g.restsOnLedger, g.restsOnMessages = true, true
	if g.ledger.Settings.Status == events.Deleted || g.ledger.Settings.Status == events.Shredded {
		return queue.ErrDeleted()
	}
	return v.look(g)
}

// measure is a view that counts when all that was decided with it stands, so that its numbers are those of whole entries.
type measure struct {
	view
	depth Depth
	err   error
}

func newMeasure() *measure {
	m := &measure{view: view{reply: newReply()}}
	m.look = func(g *group) error {
		g.measures = append(g.measures, m)
		return nil
	}
	return m
}

func (m *measure) answer(err error) {
	if err == nil {
		err = m.err
	}
	m.reply.answer(err)
}

// view runs look in the turn of a shard's runner, on a state that stands in the log when view returns. While the store
// does not confirm a write to the shard, it looks at what the log holds instead: reads go on while writes cannot.
func (h *handle) view(ctx context.Context, shard int, look func(g *group) error) error {
	v := &view{reply: newReply(), look: look}
	h.runner(shard).do(v)
	return h.orCold(ctx, shard, v.await(ctx), look)
}

// orCold has another look at a shard whose runner has refused one, as it stands in the log.
func (h *handle) orCold(ctx context.Context, shard int, err error, look func(g *group) error) error {
	if ctx.Err() != nil || !errors.Is(err, errStalled) && !fault.Is(err, fault.Unconfirmed) {
		return err
	}
	cold := &runner{shard: newShard(h, shard)}
	if err := cold.load(ctx); err != nil {
		return err
	}
	return (&view{look: look}).decide(newGroup(ctx, cold, nil))
}

// measure counts the messages of a shard. It fails while a write to the shard is not confirmed.
func (h *handle) measure(ctx context.Context, shard int) (Depth, error) {
	m := newMeasure()
	h.runner(shard).do(m)
	if err := m.await(ctx); err != nil {
		return Depth{}, err // the runner may still write to m
	}
	return m.depth, nil
}

// measureOrCold is measure that counts what the log holds while writes to the shard are not confirmed.
func (h *handle) measureOrCold(ctx context.Context, shard int) (d Depth, err error) {
	d, err = h.measure(ctx, shard)
	err = h.orCold(ctx, shard, err, func(g *group) (err error) {
		d, err = g.depth(g.start)
		return err
	})
	return d, err
}

// depth adds up the shards.
func (h *handle) depth(ctx context.Context, measure func(context.Context, int) (Depth, error)) (*Depth, error) {
	total := new(Depth)
	for i := range h.shards() {
		d, err := measure(ctx, i)
		if err != nil {
			return nil, err
		}
		total.add(d)
	}
	return total, nil
}

// depth counts the messages of the shard at the group's instant; the log has its message stream up to tail.
func (g *group) depth(tail events.Position) (d Depth, err error) {
	h, from, gone, err := g.first(tail)
	if err != nil {
		return d, err
	}
	counts := queue.CountDepth(g.ledger, g.sender, g.sender.Totals.Messages-max(gone, g.ledger.Seen), g.at)
	d = Depth{Counts: Counts{counts.Available, counts.InFlight, counts.Delayed}, At: g.at,
		Shards: []Place{{g.at, max(g.ledger.High, g.sender.High), uint64(g.ledgerTail), tail}}}
	if d.Available == 0 {
		return d, nil
	}
	oldest, err := g.oldest(counts.Oldest, h, from, tail)
	if err == nil && oldest.Since != 0 {
		d.Ages = projections.Ages{WaitingMillis: int64(g.at - oldest.Since), TotalMillis: max(0, int64(g.at-oldest.Enqueued))}
	}
	return d, err
}

// first finds the first entry ahead of the cursor that is not past its retention as a whole, nil for none, and how many
// messages the stream holds before it; 0 where the cursor is in it. Nearly always it is, which is one look at the log; the
// rest is bisection.
func (g *group) first(tail events.Position) (h *events.Header, at events.Position, gone uint64, err error) {
	before := g.ledger.ExpiredBefore(g.at)
	if at, h, err = g.headerAt(g.ledger.Cursor, tail); err != nil || h == nil || h.High > before {
		return h, at, 0, err
	}
	if at, gone, err = g.b.bisect(g.ctx, g.messageStream, g.ledger.Cursor, tail, before); err == nil {
		at, h, err = g.headerAt(at, tail)
	}
	return h, at, gone, err
}

// headerAt gives the header of the entry that covers a position, and where it begins: of the next one that is there
// where that was dropped, and nil at the tail.
func (g *group) headerAt(p, tail events.Position) (events.Position, *events.Header, error) {
	for p < tail {
		if b := g.blocks.find(p); b != nil {
			return b.Seq, b.Header, nil
		}
		entries, err := g.b.Log.Read(g.ctx, g.messageStream, eventlog.Seq(p), eventlog.Limits{Entries: 1, HeadersOnly: true})
		if t, gone := truncated(err); gone && events.Position(t.To) > p {
			p = events.Position(t.To)
			continue
		}
		if err != nil {
			return p, nil, storeFault(err)
		}
		if len(entries) == 0 {
			return p, nil, corrupt(eventlog.Entry{Stream: g.messageStream, Seq: eventlog.Seq(p)}, errors.New("it is missing before the end"))
		}
		b, err := decodeBlock(entries[0])
		if err != nil {
			return p, nil, err
		}
		return b.Seq, b.Header, nil
	}
	return tail, nil, nil
}

// oldest finds which of the available messages has waited longest: one of those that were looked at, one whose delay has
// passed, or one of the first block ahead that holds one without a delay; the look begins with h, which stands at from.
func (g *group) oldest(found queue.Waiting, h *events.Header, from, tail events.Position) (queue.Waiting, error) {
	if found.Since != 0 && g.ledger.Totals.Arrived > 0 { // one that was moved here was sent before
		at, h, err := g.headerAt(found.Position, tail)
		if err != nil {
			return found, err
		}
		if h != nil && at <= found.Position {
			found.Enqueued = h.Enqueued(int(found.Position - at))
		}
	}
	found = longer(found, g.sender.FirstDue(g.ledger, g.at))
	for n := 0; n < firstBlocksMax && h != nil; n++ {
		prompt := false
		for i := int(max(from, g.ledger.Cursor) - from); i < int(h.Count); i++ {
			if due := h.DueAt(i); due <= g.at && !g.ledger.Past(h, i, g.at) {
				found = longer(found, queue.Waiting{Position: from + events.Position(i), Since: due, Enqueued: h.Enqueued(i)})
				prompt = prompt || due == h.At
			}
		}
		if prompt {
			break
		}
		var err error
		if from, h, err = g.headerAt(from+events.Position(h.Width()), tail); err != nil {
			return found, err
		}
	}
	return found, nil
}

// longer gives the one that has waited longer; of two that became deliverable at once, the one that was sent first.
func longer(a, b queue.Waiting) queue.Waiting {
	if a.Since == 0 || b.Since != 0 && (b.Since < a.Since || b.Since == a.Since && b.Enqueued < a.Enqueued) {
		return b
	}
	return a
}

// copied gives a copy of a shard's state, on which a move task can be tried out, and how many messages it has.
func (h *handle) copied(ctx context.Context, index int) (s *shard, messages uint64, err error) {
	s = newShard(h, index)
	s.blocks.reset(h.broker.cacheShare)
	s.sender = queue.NewSender(h.broker.Limits)
	err = h.view(ctx, index, func(g *group) error {
		d, err := g.depth(g.start)
		if err != nil {
			return err
		}
		messages = d.Available + d.InFlight + d.Delayed
		s.sender.Tail, s.sender.High = g.start, g.sender.High
		s.ledger, err = queue.LoadLedger(h.broker.Limits, g.ledger.Snapshot())
		return err
	})
	return s, messages, err
}

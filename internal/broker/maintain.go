package broker

import (
	"context"
	"errors"

	"github.com/leaselog/leaselog/events"
	"github.com/leaselog/leaselog/internal/envelope"
	"github.com/leaselog/leaselog/internal/eventlog"
	"github.com/leaselog/leaselog/internal/fault"
	"github.com/leaselog/leaselog/internal/queue"
)

// History bounds what is kept of what is finished.
type History struct {
	// Before is the instant before which entries may be dropped.
	Before events.Instant
}

// historyYoungest is the age, in milliseconds, below which nothing is dropped: what dedup windows, repeated acks and
// slow readers look back upon is younger.
const historyYoungest = 10 * 60 * 1000

// dropsMax bounds the ranges that one pass drops from a stream: between live messages there may be many.
const dropsMax = 1_000

// Maintain looks at every queue once: it replaces worn data keys, discards what is past its retention, writes snapshots, and drops the history
// of what is finished. It opens queues that were not used since the start. The host calls it every few minutes.
func (b *Broker) Maintain(ctx context.Context, keep History) error {
	keep.Before = min(keep.Before, b.Now()-historyYoungest)
	var errs []error
	after := ""
	for {
		claims, err := b.Log.Claims(ctx, "queue/", after, 100)
		if err != nil {
			return storeFault(err)
		}
		for _, c := range claims {
			after = c.Key
			r := &record{claim: c.Version}
			if err := events.DecodeRecord(c.Value, r); err != nil {
				return err
			}
			if err := b.maintain(ctx, r, keep); err != nil && !fault.Is(err, fault.NotFound) {
				errs = append(errs, err)
			}
		}
		if len(claims) < 100 {
			return errors.Join(errs...)
		}
	}
}

func (b *Broker) maintain(ctx context.Context, r *record, keep History) error {
	if r.gone() {
		return b.bury(ctx, r, keep)
	}
	h, err := b.open(ctx, r.ID)
	if err != nil {
		return err
	}
	h.refresh(r)
	worn := b.rotate(ctx, h) // where a key that is out of reach keeps it, the rest is done all the same
	for i := range h.shards() {
		run := h.runner(i)
		for _, c := range []interface {
			command
			await(context.Context) error
		}{&expire{reply: newReply()}, &trim{reply: newReply(), keep: keep}} {
			run.do(c)
			if err := c.await(ctx); err != nil {
				return b.noQueue(h.id, err)
			}
		}
	}
	return worn
}

// bury drops the streams of a queue that was deleted before the history begins, and destroys its keys. The last
// entries stay: they say that the queue is closed.
func (b *Broker) bury(ctx context.Context, r *record, keep History) error {
	if r.has(events.Shredded) || r.Rolled != r.Version || r.Deleted > keep.Before {
		return nil
	}
	for i := range int(r.Shards) {
		for _, s := range []string{events.MessageStream(r.ID, i, 0), events.LedgerStream(r.ID, i)} {
			if err := b.Log.Drop(ctx, eventlog.Stream(s), 0, eventlog.Seq(1<<62)); err != nil {
				return storeFault(err)
			}
		}
	}
	if err := b.Buried(ctx, r.ID, int(r.Shards)); err != nil {
		return storeFault(err)
	}
	_, err := b.change(ctx, r.ID, func(r *record) ([]eventlog.Claim, error) {
		r.Settings.Status = events.Shredded
		r.Ring = envelope.Ring{}
		return nil, nil
	})
	return err
}

// expire discards what is past its retention.
type expire struct{ reply }

func (c *expire) decide(g *group) error {
	if g.full() {
		return errLater
	}
	if err := g.skipExpired(); err != nil {
		return err
	}
	d, err := queue.Decide(g.ledger, &queue.Expire{At: g.at, Max: groupItemsMax})
	if err == nil {
		g.apply(d)
	}
	return err
}

// trim drops the history of one shard.
type trim struct {
	reply
	keep History
}

func (c *trim) decide(*group) error { panic("trim runs alone") }

func (c *trim) run(ctx context.Context, r *runner) error {
	r.blocks.shrink() // others may need the room by now
	end, _, err := r.b.bisect(ctx, r.messageStream, 0, min(r.ledger.Cursor, r.sender.Tail), c.keep.Before)
	if err != nil {
		return err
	}
	end = min(end, r.ledger.Cursor) // it may stand inside a block
	ledgerEnd, err := r.b.bisectLedger(ctx, r.ledgerStream, r.ledgerTail, c.keep.Before)
	if err != nil {
		return err
	}
	if end <= r.trimmed && ledgerEnd <= r.ledgerTrimmed {
		return nil
	}
	if err := r.snapshotNow(ctx); err != nil {
		return storeFault(err)
	}
	if err := r.b.Log.Drop(ctx, r.ledgerStream, r.ledgerTrimmed, ledgerEnd); err != nil {
		return storeFault(err)
	}
	r.ledgerTrimmed = ledgerEnd
	return r.dropFinished(ctx, end)
}

// dropFinished drops what lies before end and holds no live message. One old message does not pin what lies around it.
func (s *shard) dropFinished(ctx context.Context, end events.Position) (err error) {
	var live []events.Position
	s.ledger.Pending(0, func(m *queue.Message) bool {
		if m.Position < end {
			live = append(live, m.Position)
		}
		return m.Position < end && len(live) < dropsMax
	})
	if len(live) == dropsMax {
		end = live[dropsMax-1]
	}
	from := events.Position(0)
	for _, p := range append(live, end) {
		if p > from {
			if err := s.b.Log.Drop(ctx, s.messageStream, eventlog.Seq(from), eventlog.Seq(p)); err != nil {
				return storeFault(err)
			}
		}
		from = p + 1
	}
	s.trimmed = end
	return nil
}

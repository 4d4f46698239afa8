package broker

import (
	"context"
	"slices"

	"github.com/leaselog/leaselog/events"
	"github.com/leaselog/leaselog/internal/eventlog"
	"github.com/leaselog/leaselog/internal/queue"
)

// Purge removes every message that is in the queue now, leased or not, and says how many. Where it takes several
// commits, the ends are fixed in the record first, and a purge that was broken off is finished from there.
func (b *Broker) Purge(ctx context.Context, id events.QueueID) (uint64, error) {
	return counted(ctx, b, false, keepCount, countAgain, func(o *once) (uint64, error) { return b.purge(ctx, o, id) })
}

func (b *Broker) purge(ctx context.Context, o *once, id events.QueueID) (uint64, error) {
	h, err := b.open(ctx, id)
	if err != nil {
		return 0, err
	}
	if h.shards() == 1 {
		c := &purge{reply: newReply()}
		c.counts = counts{o, func() *answer { return &answer{Result: keepCount(c.messages)} }}
		h.runner(0).do(c)
		if err := c.await(ctx); err != nil {
			return 0, b.noQueue(id, err)
		}
		return c.messages, nil
	}
	ends, err := h.ends(ctx)
	if err != nil {
		return 0, b.noQueue(id, err)
	}
	var counted uint64
	if o != nil { // what is remembered is told from the first on: the claims are in the commit that makes the purge certain
		depth, err := h.depth(ctx, h.measureOrCold)
		if err != nil {
			return 0, b.noQueue(id, err)
		}
		counted = depth.Available + depth.InFlight + depth.Delayed
	}
	r, err := b.changeOnce(ctx, o, id, func(r *record) ([]eventlog.Claim, []byte, error) {
		if r.gone() {
			return nil, nil, errNoQueue(id.String())
		}
		r.Purge = ends
		return nil, keepCount(counted), nil
	})
	if err != nil {
		return 0, b.noQueue(id, err)
	}
	n, err := b.finishPurge(ctx, h, r)
	if o != nil {
		n = counted
	}
	return n, b.halfway(err)
}

// ends gives the present end of each shard.
func (h *handle) ends(ctx context.Context) ([]events.Position, error) {
	ends := make([]events.Position, h.shards())
	for i := range ends {
		err := h.view(ctx, i, func(g *group) error {
			ends[i] = g.start
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return ends, nil
}

// finishPurge empties the shards up to the ends that the record names.
func (b *Broker) finishPurge(ctx context.Context, h *handle, r *record) (messages uint64, err error) {
	for i, end := range r.Purge {
		c := &purge{reply: newReply(), to: &end}
		h.runner(i).do(c)
		if err := c.await(ctx); err != nil {
			return messages, b.noQueue(h.id, err)
		}
		messages += c.messages
	}
	done, err := b.change(ctx, h.id, func(now *record) ([]eventlog.Claim, error) {
		if !slices.Equal(now.Purge, r.Purge) {
			return nil, errKeep // a later purge is under way, or this one was finished by another
		}
		now.Purge = nil
		return nil, nil
	})
	if err == nil {
		h.refresh(done)
	}
	return messages, err
}

// purge empties one shard.
type purge struct {
	reply
	counts
	to       *events.Position // nil: its present end
	messages uint64
}

func (c *purge) decide(*group) error { panic("purge runs alone") }

func (c *purge) run(ctx context.Context, r *runner) error {
	err := r.writeControl(ctx, c, func(at events.Instant) ([]eventlog.Append, error) {
		p := &queue.Purge{At: at, To: r.sender.Tail, Sent: r.sender.Totals.Messages}
		if c.to != nil && *c.to < p.To {
			p.To, p.Sent = *c.to, 0
			if p.To > r.ledger.Cursor { // what lies before the cursor was counted, and may be dropped already
				var err error
				if p.Sent, err = r.sentBefore(ctx, p.To); err != nil {
					return nil, err
				}
			}
		}
		appends, err := r.control(ctx, r.b, at, queue.Control{Finished: p.To}, func(control events.Position) queue.Command {
			p.Control = control
			return p
		})
		c.messages = p.Messages
		if err == nil {
			r.blocks.forgetNear()
		}
		return appends, err
	})
	if err == nil {
		r.b.did(r.traffic, &Tally{Wrote: true, Purged: c.messages})
	}
	return err
}

// sentBefore is how many messages the stream holds before the beginning of an entry.
func (s *shard) sentBefore(ctx context.Context, p events.Position) (uint64, error) {
	bl, err := s.blockAt(ctx, p)
	if err != nil {
		return 0, err
	}
	return bl.Header.Totals.Messages - uint64(bl.Header.Count), nil
}

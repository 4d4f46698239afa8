package broker

import (
	"context"

	"github.com/leaselog/leaselog/events"
	"github.com/leaselog/leaselog/internal/queue"
)

// Depth counts a queue's messages, exactly, at one moment of each shard.
type Depth struct {
	Available uint64 // deliverable, or withheld only behind their FIFO group
	InFlight  uint64 // leased
	Delayed   uint64 // sent or released with a delay that has not passed
}

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

// view runs look in the turn of a shard's runner, on a state that stands in the log when view returns.
func (h *handle) view(ctx context.Context, shard int, look func(g *group) error) error {
	v := &view{reply: newReply(), look: look}
	h.runner(shard).do(v)
	return v.await(ctx)
}

// depth adds up the shards. What is ahead of a cursor and past its retention is found by bisection.
func (h *handle) depth(ctx context.Context) (*Depth, error) {
	total := new(Depth)
	for i := range h.shards() {
		err := h.view(ctx, i, func(g *group) error {
			_, gone, err := g.b.bisect(g.ctx, g.messageStream, g.ledger.Cursor, g.start, g.ledger.ExpiredBefore(g.at))
			if err != nil {
				return err
			}
			d := queue.CountDepth(g.ledger, g.sender, g.sender.Totals.Messages-max(gone, g.ledger.Seen), g.at)
			total.Available += d.Available
			total.InFlight += d.InFlight
			total.Delayed += d.Delayed
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return total, nil
}

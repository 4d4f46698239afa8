package broker

import (
	"context"
	"errors"

	"github.com/leaselog/leaselog/events"
	"github.com/leaselog/leaselog/internal/fault"
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

// view runs look in the turn of a shard's runner, on a state that stands in the log when view returns. While the store
// does not confirm a write to the shard, it looks at what the log holds instead: reads go on while writes cannot.
func (h *handle) view(ctx context.Context, shard int, look func(g *group) error) error {
	err := h.look(ctx, shard, look)
	if ctx.Err() != nil || !errors.Is(err, errStalled) && !fault.Is(err, fault.Unconfirmed) {
		return err
	}
	cold := &runner{shard: newShard(h, shard)}
	if err := cold.load(ctx); err != nil {
		return err
	}
	v := &view{look: look}
	return v.decide(newGroup(ctx, cold, nil))
}

// look is view without the second way: it fails while a write to the shard is not confirmed.
func (h *handle) look(ctx context.Context, shard int, look func(g *group) error) error {
	v := &view{reply: newReply(), look: look}
	h.runner(shard).do(v)
	return v.await(ctx)
}

// depth adds up the shards, each looked at by view or look. What is ahead of a cursor and past its retention is found by bisection.
func (h *handle) depth(ctx context.Context, by func(context.Context, int, func(*group) error) error) (*Depth, error) {
	total := new(Depth)
	for i := range h.shards() {
		var d queue.Depth // the look may be taken more than once
		err := by(ctx, i, func(g *group) (err error) {
			d, err = g.depth()
			return err
		})
		if err != nil {
			return nil, err
		}
		total.Available += d.Available
		total.InFlight += d.InFlight
		total.Delayed += d.Delayed
	}
	return total, nil
}

// depth counts the messages of the shard.
func (g *group) depth() (queue.Depth, error) {
	_, gone, err := g.b.bisect(g.ctx, g.messageStream, g.ledger.Cursor, g.start, g.ledger.ExpiredBefore(g.at))
	if err != nil {
		return queue.Depth{}, err
	}
	return queue.CountDepth(g.ledger, g.sender, g.sender.Totals.Messages-max(gone, g.ledger.Seen), g.at), nil
}

// copied gives a copy of a shard's state, on which a move task can be tried out, and how many messages it has.
func (h *handle) copied(ctx context.Context, index int) (s *shard, messages uint64, err error) {
	s = newShard(h, index)
	s.blocks.reset(h.broker.cacheShare)
	s.sender = queue.NewSender(h.broker.Limits)
	err = h.view(ctx, index, func(g *group) error {
		d, err := g.depth()
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

package broker

import (
	"context"

	"github.com/leaselog/leaselog/events"
	"github.com/leaselog/leaselog/internal/queue"
)

// Extend asks to let a lease end at now + Seconds; 0 releases the message at once.
type Extend struct {
	Receipt string
	Seconds uint32
}

// extend changes the ends of leases of one shard.
type extend struct {
	reply
	counts
	items   []queue.Extension
	results []queue.Outcome
}

func (c *extend) decide(g *group) error {
	if g.full() {
		return errLater
	}
	d, err := queue.Decide(g.ledger, &queue.Extend{At: g.at, Items: c.items})
	if err != nil {
		g.restsOnLedger = true
		return err
	}
	g.apply(d)
	c.results = d.Items
	for _, o := range d.Items {
		g.restsOnLedger = g.restsOnLedger || o != queue.Done
		if o != queue.Done {
			g.tally.LateLeases++
		}
	}
	return nil
}

func (c *extend) outcomes() []queue.Outcome { return c.results }

// Extend changes the ends of leases. The outcome of each stands in its place. Faults of one: ForeignLease, LeaseEnded.
func (b *Broker) Extend(ctx context.Context, id events.QueueID, items []Extend) ([]error, error) {
	return counted(ctx, b, true, keepFaults, faultsAgain, func(o *once) ([]error, error) { return b.extend(ctx, o, id, items) })
}

func (b *Broker) extend(ctx context.Context, o *once, id events.QueueID, items []Extend) ([]error, error) {
	h, err := b.open(ctx, id)
	if err != nil {
		return nil, err
	}
	results := make([]error, len(items))
	texts := make([]string, len(items))
	for i := range items {
		texts[i] = items[i].Receipt
	}
	parts := h.sort(texts, results)
	if len(parts) != 1 { // no one commit holds the claims
		if err := b.first(ctx, o); err != nil {
			return nil, err
		}
	}
	for _, p := range parts {
		c := &extend{reply: newReply(), items: make([]queue.Extension, 0, len(p.places))}
		for k, i := range p.places {
			c.items = append(c.items, queue.Extension{Held: p.receipts[k].held(), Seconds: items[i].Seconds})
		}
		p.command, c.counts = c, h.counts(o, parts, c, results)
	}
	return results, b.noQueue(id, h.act(ctx, parts, results, false))
}

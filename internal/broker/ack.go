package broker

import (
	"context"
	"slices"

	"github.com/leaselog/leaselog/events"
	"github.com/leaselog/leaselog/internal/fault"
	"github.com/leaselog/leaselog/internal/queue"
)

// ack finishes messages of one shard.
type ack struct {
	reply
	counts
	items   []queue.Held
	results []queue.Outcome
}

func (c *ack) decide(g *group) error {
	if g.full() {
		return errLater
	}
	d, err := queue.Decide(g.ledger, &queue.Ack{At: g.at, Items: c.items})
	if err != nil {
		g.restsOnLedger = true
		return err
	}
	g.apply(d)
	c.results = d.Items
	for i, o := range d.Items {
		if o == queue.Finished && g.settled.has(c.items[i]) {
			c.results[i] = queue.Done
		}
		if c.results[i] != queue.Done {
			g.tally.LateLeases++
		}
		g.restsOnLedger = g.restsOnLedger || o != queue.Done
	}
	return nil
}

func (c *ack) outcomes() []queue.Outcome { return c.results }

// Ack finishes messages. The outcome of each receipt stands in its place.
// Faults of one: ForeignLease, LeaseEnded; a receipt that acked the message within the last minutes is no fault.
func (b *Broker) Ack(ctx context.Context, id events.QueueID, receipts []string) ([]error, error) {
	return counted(ctx, b, true, keepFaults, faultsAgain, func(o *once) ([]error, error) { return b.ack(ctx, o, id, receipts) })
}

func (b *Broker) ack(ctx context.Context, o *once, id events.QueueID, receipts []string) ([]error, error) {
	h, err := b.open(ctx, id)
	if err != nil {
		return nil, err
	}
	results := make([]error, len(receipts))
	parts := h.sort(receipts, results)
	if len(parts) != 1 { // no one commit holds the claims
		if err := b.first(ctx, o); err != nil {
			return nil, err
		}
	}
	for _, p := range parts {
		c := &ack{reply: newReply(), items: make([]queue.Held, len(p.receipts))}
		for k, r := range p.receipts {
			c.items[k] = r.held()
		}
		p.command, c.counts = c, h.counts(o, parts, c, results)
	}
	return results, b.noQueue(id, h.act(ctx, parts, results, true))
}

// part is the receipts that belong to one shard.
type part struct {
	shard    int
	receipts []receipt
	places   []int // of each receipt in the request
	command  leaseCommand
}

// leaseCommand is about leases of one shard.
type leaseCommand interface {
	command
	await(context.Context) error
	outcomes() []queue.Outcome // one for each receipt, once it is answered without an error
}

// sort reads receipts and groups them by shard. Those that are not valid have their fault in results.
func (h *handle) sort(texts []string, results []error) (parts []*part) {
	for i, text := range texts {
		r, err := h.broker.parseReceipt(text, h.id)
		if err == nil && int(r.shard) >= h.shards() {
			err = errReceipt("it names a shard that the queue does not have")
		}
		if err != nil {
			results[i] = err
			continue
		}
		n := slices.IndexFunc(parts, func(p *part) bool { return p.shard == int(r.shard) })
		if n < 0 { // most are the only one
			n, parts = len(parts), append(parts, &part{shard: int(r.shard), receipts: make([]receipt, 0, len(texts)), places: make([]int, 0, len(texts))})
		}
		p := parts[n]
		p.receipts, p.places = append(p.receipts, r), append(p.places, i)
	}
	return parts
}

// act runs the commands of all parts at once and puts the outcomes into their places. For an ack, a message that is
// finished already may have been finished by this very receipt.
func (h *handle) act(ctx context.Context, parts []*part, results []error, acked bool) error {
	for _, p := range parts {
		h.runner(p.shard).do(p.command)
	}
	for _, p := range parts {
		if err := p.command.await(ctx); err != nil {
			if len(parts) == 1 {
				return err
			}
			for _, i := range p.places {
				results[i] = err
			}
			continue
		}
		for k, o := range p.command.outcomes() {
			i := p.places[k]
			results[i] = h.outcome(ctx, p.receipts[k], o, acked)
		}
	}
	return nil
}

func (h *handle) outcome(ctx context.Context, r receipt, o queue.Outcome, acked bool) error {
	if o == queue.Done {
		return nil
	}
	if o == queue.Finished && acked {
		if done, err := h.broker.wasAcked(ctx, r); done || err != nil {
			return err
		}
	}
	return errLeaseEnded
}

var errLeaseEnded = fault.New(fault.LeaseEnded, "the lease of this receipt handle has ended; receive the message again for a new one")

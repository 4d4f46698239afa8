package broker

import (
	"context"
	"slices"

	"github.com/leaselog/leaselog/events"
	"github.com/leaselog/leaselog/internal/fault"
	"github.com/leaselog/leaselog/internal/queue"
)

// What is remembered of each use case that can count once, and how its result is made again.

// keptFault is the outcome of one item: nothing, or a fault.
type keptFault struct {
	Code    fault.Code `cbor:"1,keyasint,omitempty"`
	Message string     `cbor:"2,keyasint,omitempty"`
}

func keepFault(err error) keptFault {
	if err == nil {
		return keptFault{}
	}
	f := fault.Of(err)
	return keptFault{f.Code, f.Message}
}

func (k keptFault) error() error {
	if k.Code == "" {
		return nil
	}
	return fault.New(k.Code, "%s", k.Message)
}

type keptSent struct {
	ID        events.MessageID `cbor:"1,keyasint"`
	Duplicate bool             `cbor:"2,keyasint,omitempty"`
	Fault     keptFault        `cbor:"3,keyasint"`
}

func keepSent(sent []Sent) []byte {
	kept := make([]keptSent, len(sent))
	for i, s := range sent {
		kept[i] = keptSent{s.ID, s.Duplicate, keepFault(s.Err)}
	}
	return events.EncodeRecord(kept)
}

func sentAgain(data []byte) (sent []Sent, holds bool, err error) {
	var kept []keptSent
	err = events.DecodeRecord(data, &kept)
	for _, k := range kept {
		sent = append(sent, Sent{k.ID, k.Duplicate, k.Fault.error()})
	}
	return sent, true, err
}

func keepFaults(errs []error) []byte {
	kept := make([]keptFault, len(errs))
	for i, err := range errs {
		kept[i] = keepFault(err)
	}
	return events.EncodeRecord(kept)
}

func faultsAgain(data []byte) (errs []error, holds bool, err error) {
	var kept []keptFault
	err = events.DecodeRecord(data, &kept)
	for _, k := range kept {
		errs = append(errs, k.error())
	}
	return errs, true, err
}

func keepCount(n uint64) []byte { return events.EncodeRecord(n) }

func countAgain(data []byte) (n uint64, holds bool, err error) {
	return n, true, events.DecodeRecord(data, &n)
}

func keepQueue(q *Queue) []byte { return events.EncodeRecord(q) }

func queueAgain(data []byte) (*Queue, bool, error) {
	q := new(Queue)
	return q, true, events.DecodeRecord(data, q)
}

// keptReceive names what a receive leased. The bodies are read again.
type keptReceive struct {
	Shard int               `cbor:"1,keyasint"`
	Lease events.LeaseID    `cbor:"2,keyasint"`
	Until events.Instant    `cbor:"3,keyasint"`
	Items []events.Position `cbor:"4,keyasint"`
}

// keptReceiveMost is how long a receive is answered again, in milliseconds (Basaltic 8).
const keptReceiveMost = 5 * 60 * 1000

// answerKept gives what is remembered of a receive, nil where it found nothing.
func (c *receive) answerKept() *answer {
	if len(c.taken) == 0 {
		return nil
	}
	k := keptReceive{Shard: c.shard.index, Lease: c.lease, Until: c.until}
	for _, t := range c.taken {
		k.Items = append(k.Items, t.position)
	}
	return &answer{Result: events.EncodeRecord(k)}
}

// again gives the deliveries of a receive once more, with the same receipts, for as long as none of its leases has
// ended.
func (h *handle) again(ctx context.Context, data []byte) (found []Delivery, holds bool, err error) {
	var k keptReceive
	if err := events.DecodeRecord(data, &k); err != nil || k.Shard >= h.shards() {
		return nil, false, err
	}
	c := &receive{lease: k.Lease, until: k.Until}
	err = h.view(ctx, k.Shard, func(g *group) error {
		c.shard, c.taken, holds = g.runner, nil, true
		for _, p := range k.Items {
			m := g.ledger.Get(p)
			if holds = m != nil && m.Lease == k.Lease && m.Visible == k.Until && m.Visible > g.at; !holds {
				return nil
			}
			bl, message, err := g.message(g.ctx, p)
			if err != nil {
				return err
			}
			c.taken = append(c.taken, taken{bl, p, message, m.Receives})
		}
		return nil
	})
	if err != nil || !holds {
		return nil, false, err
	}
	return h.deliver(c), true, nil
}

// counts makes an ack or extension of one shard count once, with what is remembered of it. One that goes over several
// shards has no one commit: its claims are written alone, after them.
func (h *handle) counts(o *once, parts []*part, c leaseCommand, results []error) counts {
	if o == nil || len(parts) != 1 {
		return counts{}
	}
	return counts{o, func() *answer {
		errs := slices.Clone(results)
		for k, out := range c.outcomes() {
			if out != queue.Done {
				errs[parts[0].places[k]] = errLeaseEnded
			}
		}
		return &answer{Result: keepFaults(errs)}
	}}
}

package broker

import (
	"cmp"
	"context"
	"slices"

	"github.com/leaselog/leaselog/events"
)

// Stats says what a broker holds open.
type Stats struct {
	Queues int
	Shards int   // that have a runner
	Polls  int64 // receives that wait, or are about to
}

// Stats looks at the broker, which costs nothing to speak of.
func (b *Broker) Stats() Stats {
	open := b.opened()
	s := Stats{Queues: len(open), Polls: b.polls.Load()}
	for _, h := range open {
		s.Shards += len(h.started())
	}
	return s
}

// opened are the handles, by account and name.
func (b *Broker) opened() []*handle {
	b.mu.Lock()
	all := make([]*handle, 0, len(b.queues))
	for _, h := range b.queues {
		all = append(all, h)
	}
	b.mu.Unlock()
	slices.SortFunc(all, func(x, y *handle) int {
		a, b := x.record.Load(), y.record.Load()
		return cmp.Or(cmp.Compare(a.Account, b.Account), cmp.Compare(a.Name, b.Name))
	})
	return all
}

// QueueDepth is the depth of one queue, and of an open one its traffic.
type QueueDepth struct {
	ID            events.QueueID
	Account, Name string
	Depth
	Traffic Traffic
}

// QueueTraffic is the traffic of one open queue.
type QueueTraffic struct {
	ID            events.QueueID
	Account, Name string
	Traffic
}

// Traffics gives the traffic of all open queues, by account and name.
func (b *Broker) Traffics() (all []QueueTraffic) {
	for _, h := range b.opened() {
		r := h.record.Load()
		all = append(all, QueueTraffic{h.id, r.Account, r.Name, h.traffic.read()})
	}
	return all
}

// Depths counts the messages of the queues that are open here, of at most so many, by account and name, and says how
// many it left out: those beyond most, and those that do not answer now. It opens no queue, starts no shard and reads no log but
// the headers that tell what is past its retention. A shard whose writes are not confirmed does not answer.
func (b *Broker) Depths(ctx context.Context, most int) (all []QueueDepth, left int) {
	for _, h := range b.opened() {
		if len(all) == most || len(h.started()) < h.shards() {
			left++
			continue
		}
		d, err := h.depth(ctx, h.measure)
		if err != nil {
			left++
			continue
		}
		r := h.record.Load()
		all = append(all, QueueDepth{ID: h.id, Account: r.Account, Name: r.Name, Depth: *d, Traffic: h.traffic.read()})
	}
	return all, left
}

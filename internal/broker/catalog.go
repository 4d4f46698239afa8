package broker

import (
	"context"
	"encoding/binary"
	"sync"
	"sync/atomic"

	"github.com/leaselog/leaselog/events"
	"github.com/leaselog/leaselog/internal/envelope"
)

// handle is an open queue: its record as last read, its keys, and the runners of its shards.
type handle struct {
	broker  *Broker
	id      events.QueueID
	account string
	fifo    bool
	keys    *envelope.Keyring
	record  atomic.Pointer[record]
	shown   atomic.Pointer[shown] // nil where nobody has asked yet
	next    atomic.Uint32         // where the next standard send or receive begins
	traffic traffic

	mu      sync.Mutex
	runners []*runner // one a shard, nil until it is used
	stopped error     // why no runner is started any more
}

// open gives the queue's handle, reading its record where this process has not done so yet. Faults: NotFound.
func (b *Broker) open(ctx context.Context, id events.QueueID) (*handle, error) {
	b.mu.Lock()
	h, closing := b.queues[id], b.closing
	b.mu.Unlock()
	switch {
	case closing:
		return nil, errStopping()
	case h != nil:
		return h, nil
	}
	r, err := b.readRecord(ctx, id)
	if err != nil {
		return nil, err
	}
	return b.adopt(r)
}

// adopt makes a handle for a record and keeps it, unless another goroutine was first.
func (b *Broker) adopt(r *record) (*handle, error) {
	if r.gone() {
		return nil, errNoQueue(r.ID.String())
	}
	h, err := b.newHandle(r)
	if err != nil {
		return nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if old := b.queues[r.ID]; old != nil {
		old.refresh(r)
		return old, nil
	}
	b.queues[r.ID] = h
	b.names[nameKey{r.Account, r.Name}] = r.ID
	return h, nil
}

func (b *Broker) newHandle(r *record) (*handle, error) {
	keys, err := envelope.Open(b.Keys, b.Rand, b.Deployment, r.ID, r.Ring)
	if err != nil {
		return nil, err
	}
	h := &handle{broker: b, id: r.ID, account: r.Account, fifo: r.Settings.Fifo, keys: keys, runners: make([]*runner, r.Shards)}
	h.record.Store(r)
	if r.Shards > 1 && !b.Exclusive { // processes that began at the same one would go round in step
		var first [2]byte
		mustRead(b.Rand, first[:])
		h.next.Store(uint32(binary.BigEndian.Uint16(first[:])))
	}
	return h, nil
}

// refresh keeps a newer record, and goes on with its keys.
func (h *handle) refresh(r *record) {
	if !r.gone() {
		if err := h.keys.Renew(r.Ring); err != nil {
			h.broker.Logger.Error("the record of a queue has a damaged key ring; the one before is used", "queue", h.id.String(), "error", err)
		}
	}
	for {
		old := h.record.Load()
		if old.claim >= r.claim || h.record.CompareAndSwap(old, r) {
			return
		}
	}
}

// forget closes a queue that is gone.
func (b *Broker) forget(id events.QueueID) {
	b.mu.Lock()
	h := b.queues[id]
	delete(b.queues, id)
	if h != nil {
		r := h.record.Load()
		if k := (nameKey{r.Account, r.Name}); b.names[k] == id {
			delete(b.names, k)
		}
	}
	b.mu.Unlock()
	if h != nil {
		h.stop(errNoQueue(id.String()))
	}
}

// stop ends the runners. What comes later is refused with reason.
func (h *handle) stop(reason error) {
	h.mu.Lock()
	if h.stopped == nil {
		h.stopped = reason
	}
	h.mu.Unlock()
	for _, r := range h.started() {
		r.stop(reason)
	}
}

// runner gives the runner of a shard, and starts it when it is needed first.
func (h *handle) runner(shard int) *runner {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.runners[shard] == nil {
		h.runners[shard] = newRunner(h, shard)
	}
	return h.runners[shard]
}

func (h *handle) started() (all []*runner) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, r := range h.runners {
		if r != nil {
			all = append(all, r)
		}
	}
	return all
}

// shards is how many shards the queue has.
func (h *handle) shards() int { return len(h.runners) }

// turn gives the shard where the next command of a standard queue begins.
func (h *handle) turn() int {
	if len(h.runners) == 1 {
		return 0
	}
	return int(h.next.Add(1)) % len(h.runners)
}

package broker

import (
	"context"

	"github.com/leaselog/leaselog/events"
	"github.com/leaselog/leaselog/internal/eventlog"
	"github.com/leaselog/leaselog/internal/fault"
)

// Queue is what the broker knows of a queue: its record and, where it was asked for, its depth.
type Queue struct {
	ID       events.QueueID
	Account  string
	Name     string
	Settings events.Settings
	Tags     map[string]string
	Created  events.Instant
	Updated  events.Instant
	// DeadLetterName is the name of the queue that Settings.DeadLetter points to, empty when that queue is gone.
	DeadLetterName string
	// Sources are the queues whose dead-letter queue this one is.
	Sources []events.QueueID
	Depth   *Depth
	Key     Key // the customer's key, none for the platform's
}

// Ref names a queue of an account, by id or, where ID is zero, by name.
type Ref struct {
	Account string
	ID      events.QueueID
	Name    string
}

func (r Ref) String() string {
	if r.ID != (events.QueueID{}) {
		return r.ID.String()
	}
	return `"` + r.Name + `"`
}

// find opens the queue that a reference names. Faults: NotFound, also for a queue of another account.
func (b *Broker) find(ctx context.Context, r Ref) (*handle, error) {
	id := r.ID
	if id == (events.QueueID{}) {
		b.mu.Lock()
		cached, ok := b.names[nameKey{r.Account, r.Name}]
		b.mu.Unlock()
		if id = cached; !ok {
			found, ok, err := b.readName(ctx, r.Account, r.Name)
			if err != nil {
				return nil, err
			}
			if id = found; !ok {
				return nil, errNoQueue(r.String())
			}
		}
	}
	h, err := b.open(ctx, id)
	if err != nil {
		return nil, err
	}
	if h.account != r.Account {
		return nil, errNoQueue(r.String())
	}
	return h, nil
}

// Find gives a queue's record as this process knows it, without its depth. Faults: NotFound.
func (b *Broker) Find(ctx context.Context, r Ref) (*Queue, error) {
	h, err := b.find(ctx, r)
	if err != nil {
		return nil, err
	}
	return b.shown(ctx, h)
}

// shown is what Find gives of a record. It is kept, since every request asks for it.
type shown struct {
	record *record
	queue  *Queue
}

func (b *Broker) shown(ctx context.Context, h *handle) (*Queue, error) {
	r := h.record.Load()
	if s := h.shown.Load(); s != nil && s.record == r {
		return s.queue, nil
	}
	q, err := b.describe(ctx, r)
	if err == nil && r.Settings.DeadLetter == nil { // the name of a dead-letter queue goes with that queue
		h.shown.Store(&shown{r, q})
	}
	return q, err
}

// Describe gives a queue with its depth. Faults: NotFound.
func (b *Broker) Describe(ctx context.Context, id events.QueueID) (*Queue, error) {
	h, err := b.open(ctx, id)
	if err != nil {
		return nil, err
	}
	r, err := b.readRecord(ctx, id)
	if err != nil {
		return nil, err
	}
	if r.gone() {
		return nil, b.noQueue(id, errNoQueue(id.String()))
	}
	h.refresh(r)
	return b.whole(ctx, h, r)
}

// whole describes a record with its queue's depth.
func (b *Broker) whole(ctx context.Context, h *handle, r *record) (*Queue, error) {
	q, err := b.describe(ctx, r)
	if err != nil {
		return nil, err
	}
	q.Depth, err = h.depth(ctx, h.measureOrCold)
	return q, b.noQueue(h.id, err)
}

func (b *Broker) describe(ctx context.Context, r *record) (*Queue, error) {
	q := &Queue{ID: r.ID, Account: r.Account, Name: r.Name, Settings: r.Settings, Tags: r.Tags, Created: r.Created,
		Updated: r.Updated, Sources: r.Sources, Key: r.Key}
	if d := r.Settings.DeadLetter; d != nil && !d.Gone {
		target, err := b.open(ctx, d.Queue)
		switch {
		case err == nil:
			q.DeadLetterName = target.record.Load().Name
		case !fault.Is(err, fault.NotFound):
			return nil, err
		}
	}
	return q, nil
}

// ListQueues asks for a page of an account's queues, in the order of their names.
type ListQueues struct {
	Account string
	After   string // the name after which the page begins
	Limit   int
}

// List gives a page of queues without their depths, and whether more follow.
func (b *Broker) List(ctx context.Context, l ListQueues) (queues []*Queue, more bool, err error) {
	prefix := namePrefix(l.Account)
	after := ""
	if l.After != "" {
		after = prefix + l.After
	}
	for {
		claims, err := b.Log.Claims(ctx, prefix, after, l.Limit+1)
		if err != nil {
			return nil, false, storeFault(err)
		}
		for _, c := range claims {
			after = c.Key
			if c.Until != eventlog.Forever {
				continue // the name was given up
			}
			if len(queues) == l.Limit {
				return queues, true, nil
			}
			q, err := b.Find(ctx, Ref{Account: l.Account, ID: events.QueueID(c.Value)})
			if err != nil && !fault.Is(err, fault.NotFound) {
				return nil, false, err
			}
			if q != nil {
				queues = append(queues, q)
			}
		}
		if len(claims) <= l.Limit {
			return queues, false, nil
		}
	}
}

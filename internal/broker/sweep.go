package broker

import (
	"context"
	"fmt"

	"github.com/leaselog/leaselog/events"
	"github.com/leaselog/leaselog/internal/envelope"
	"github.com/leaselog/leaselog/internal/eventlog"
	"github.com/leaselog/leaselog/internal/fault"
	"github.com/leaselog/leaselog/internal/queue"
)

// What time must do with a queue is done a queue at a time, by whoever goes through them: see package sweep. Each of
// these may be done twice, at once by several processes, and be broken off anywhere: what is left is found again.

// Work is one kind of what sweeps do.
type Work string

// What sweeps do, each with what is counted.
const (
	WorkMoved      Work = "moved"      // messages, to another queue
	WorkExpired    Work = "expired"    // messages, discarded past their retention
	WorkConfigured Work = "configured" // queues whose settings were brought to every shard
	WorkPurged     Work = "purged"     // queues whose purge was finished
	WorkDeleted    Work = "deleted"    // queues whose deletion was finished
	WorkRotated    Work = "rotated"    // queues that got a new data key
	WorkShredded   Work = "shredded"   // deleted queues whose keys were destroyed, with what else was left of them
	WorkSnapshots  Work = "snapshots"  // written
	WorkShortened  Work = "shortened"  // streams whose finished history was dropped
	WorkAnchored   Work = "anchored"   // shards
)

// Sweep is one run over queues.
type Sweep struct {
	Dry  bool // nothing is changed; Done says what would be
	Done map[Work]uint64
}

// Did counts what was done, or would be.
func (s *Sweep) Did(w Work, n uint64) {
	if n == 0 {
		return
	}
	if s.Done == nil {
		s.Done = map[Work]uint64{}
	}
	s.Done[w] += n
}

// Found is a queue as a sweep finds it: what its record said when it was read.
type Found struct {
	Registered
	record *record
}

// ReadFound reads a claim under QueuePrefix. Its error is ErrCorrupt.
func ReadFound(c eventlog.Claim) (*Found, error) {
	r := &record{claim: c.Version}
	if err := events.DecodeRecord(c.Value, r); err != nil {
		return nil, fmt.Errorf("%w: record %s: %w", eventlog.ErrCorrupt, c.Key, err)
	}
	return &Found{r.registered(), r}, nil
}

// borrow gives the handle of a queue to a sweep, which passes by all queues that there are. What it opens stays open,
// and is cheap to look at again, while those are not too many; what it opens beyond is closed when it is given back.
// A log that this process has for itself is known by one handle only, which stays.
func (b *Broker) borrow(f *Found) (h *handle, giveBack func(), err error) {
	b.mu.Lock()
	_, open := b.queues[f.ID]
	b.mu.Unlock()
	if open || b.Exclusive || b.shards.Load() < sweptShardsMax {
		h, err = b.adopt(f.record)
		return h, func() {}, err
	}
	if h, err = b.newHandle(f.record); err != nil {
		return nil, nil, err
	}
	return h, func() { h.stop(errStopping()) }, nil
}

// each has a sweep look at the shards of a queue that is not gone.
func (b *Broker) each(f *Found, look func(h *handle, shard int) error) error {
	if f.Gone() {
		return nil
	}
	h, giveBack, err := b.borrow(f)
	if err != nil {
		return err
	}
	defer giveBack()
	for i := range h.shards() {
		if err := look(h, i); err != nil {
			return b.noQueue(h.id, err)
		}
	}
	return nil
}

// SweepExhausted moves what was received too often to the dead-letter queue.
func (b *Broker) SweepExhausted(ctx context.Context, f *Found, s *Sweep) error {
	if d := f.record.Settings.DeadLetter; d == nil || d.Gone {
		return nil
	}
	return b.each(f, func(h *handle, shard int) error {
		if !s.Dry {
			moved, err := b.moveExhausted(ctx, h.runner(shard), h)
			s.Did(WorkMoved, uint64(moved))
			return err
		}
		var waiting int
		err := h.view(ctx, shard, func(g *group) error {
			waiting = len(g.ledger.Exhausted(g.at, g.ledger.Len()))
			return nil
		})
		s.Did(WorkMoved, uint64(waiting))
		return err
	})
}

// SweepUnfinished finishes what its record says is half done: changes of settings, purges, deletions.
func (b *Broker) SweepUnfinished(ctx context.Context, f *Found, s *Sweep) error {
	half := f.record.halfDone()
	if len(half) == 0 {
		return nil
	}
	if !s.Dry {
		if err := b.finish(ctx, f.record); err != nil {
			return err
		}
	}
	for _, w := range half {
		s.Did(w, 1)
	}
	return nil
}

// halfDone says what of a queue is still to be done.
func (r *record) halfDone() (half []Work) {
	switch {
	case r.Rolled == r.Version:
	case r.gone():
		half = append(half, WorkDeleted)
	default:
		half = append(half, WorkConfigured)
	}
	if len(r.Purge) > 0 && !r.gone() {
		half = append(half, WorkPurged)
	}
	return half
}

// SweepExpired discards what is past its retention.
func (b *Broker) SweepExpired(ctx context.Context, f *Found, s *Sweep) error {
	return b.each(f, func(h *handle, shard int) error {
		if s.Dry {
			var c expire
			err := h.view(ctx, shard, func(g *group) error {
				_, err := c.find(g, g.ledger.Len())
				return err
			})
			s.Did(WorkExpired, c.messages)
			return err
		}
		for more := true; more; {
			c := &expire{reply: newReply()}
			h.runner(shard).do(c)
			if err := c.await(ctx); err != nil {
				return err
			}
			s.Did(WorkExpired, c.messages)
			more = c.more
		}
		return nil
	})
}

// expire discards what is past its retention: what is ahead of the cursor at once, as it is found by bisection, and of
// what was looked at as much as an entry holds.
type expire struct {
	reply
	messages uint64
	more     bool
}

func (c *expire) decide(g *group) error {
	if g.full() {
		return errLater
	}
	d, err := c.find(g, groupItemsMax)
	if err == nil {
		g.apply(d)
	}
	return err
}

// find asks the rules, and counts what they say.
func (c *expire) find(g *group, most int) (queue.Decision, error) {
	c.messages, c.more = 0, false
	if s := g.ledger.Settings.Status; s == events.Deleted || s == events.Shredded {
		return queue.Decision{}, queue.ErrDeleted() // what it would read may be dropped already
	}
	to, sent, err := g.b.bisect(g.ctx, g.messageStream, g.ledger.Cursor, g.start, g.ledger.ExpiredBefore(g.at))
	if err != nil {
		return queue.Decision{}, err
	}
	d, err := queue.Decide(g.ledger, &queue.Expire{At: g.at, Max: most, To: to, Sent: sent})
	for _, e := range d.Events {
		if e, ok := e.(*events.Expired); ok {
			c.messages += uint64(len(e.Items)) + e.Skipped
			c.more = len(e.Items) == most
		}
	}
	return d, err
}

// SweepKeys replaces the data key of a queue where it is worn. Of a queue that was deleted before the history begins it
// drops the streams, has what is kept elsewhere forgotten, and destroys the keys.
func (b *Broker) SweepKeys(ctx context.Context, f *Found, s *Sweep, keep History) error {
	if f.Gone() {
		return b.shred(ctx, f.record, s, b.bounded(keep))
	}
	h, giveBack, err := b.borrow(f)
	if err != nil {
		return err
	}
	defer giveBack()
	if !h.keys.Worn(b.Now()) {
		return nil
	}
	if !s.Dry {
		if err := b.rotate(ctx, h); err != nil {
			return err
		}
	}
	s.Did(WorkRotated, 1)
	return nil
}

// shred leaves nothing of a deleted queue but the last entries of its streams, which say that it is closed, and its
// record. The keys go last, since it is they by whose absence nothing is looked for any more.
func (b *Broker) shred(ctx context.Context, r *record, s *Sweep, keep History) error {
	if r.has(events.Shredded) || r.Rolled != r.Version || r.Deleted > keep.Before {
		return nil
	}
	if s.Dry {
		s.Did(WorkShredded, 1)
		return nil
	}
	for i := range int(r.Shards) {
		for _, name := range []string{events.MessageStream(r.ID, i, 0), events.LedgerStream(r.ID, i)} {
			if err := b.Log.Drop(ctx, eventlog.Stream(name), 0, eventlog.Seq(1<<62)); err != nil {
				return storeFault(err)
			}
		}
	}
	if err := b.Buried(ctx, r.ID, int(r.Shards)); err != nil {
		return storeFault(err)
	}
	_, err := b.change(ctx, r.ID, func(r *record) ([]eventlog.Claim, error) {
		if r.has(events.Shredded) {
			return nil, errKeep
		}
		r.Settings.Status, r.Ring = events.Shredded, envelope.Ring{}
		return nil, nil
	})
	if err == nil {
		s.Did(WorkShredded, 1)
	}
	return err
}

// SweepSnapshots writes snapshots of the shards that need one: where the last is a day old and something was written
// since, or as much as outgrows the state. Then it drops the history of what is finished.
func (b *Broker) SweepSnapshots(ctx context.Context, f *Found, s *Sweep, keep History) error {
	return b.each(f, func(h *handle, shard int) error {
		c := &shorten{reply: newReply(), keep: b.bounded(keep), sweep: &Sweep{Dry: s.Dry}}
		h.runner(shard).do(c)
		err := c.await(ctx)
		if err == nil { // otherwise the runner may be at it still
			for w, n := range c.sweep.Done {
				s.Did(w, n)
			}
		}
		return err
	})
}

// SweepAnchors gives every shard of a queue, one of whose streams was idle for a day, an entry in both streams that does
// not expire: a store whose entries do would otherwise lose where the streams end. A stream that has lost its end is an
// error, ErrCorrupt, and nothing is written there: nobody can say where it goes on.
func (b *Broker) SweepAnchors(ctx context.Context, f *Found, s *Sweep) error {
	if f.Gone() {
		return nil // closed for good
	}
	for i := range f.Shards {
		idle, err := newShard(&handle{broker: b, id: f.ID}, i).unanchored(ctx)
		if err != nil {
			return err
		}
		if !idle {
			continue
		}
		n := uint64(1)
		if !s.Dry {
			if n, err = b.anchor(ctx, f, i); err != nil {
				return err
			}
		}
		s.Did(WorkAnchored, n)
	}
	return nil
}

// anchor says how many anchors it has written: none where another process was first.
func (b *Broker) anchor(ctx context.Context, f *Found, shard int) (n uint64, err error) {
	h, giveBack, err := b.borrow(f)
	if err != nil {
		return 0, err
	}
	defer giveBack()
	c := &anchor{reply: newReply()}
	h.runner(shard).do(c)
	if err := c.await(ctx); err != nil || !c.wrote {
		return 0, b.noQueue(h.id, err)
	}
	return 1, nil
}

// Ignorable says whether a sweep goes on as if nothing were: the queue was deleted under its hands.
func Ignorable(err error) bool { return fault.Is(err, fault.NotFound) }

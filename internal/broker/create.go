package broker

import (
	"context"

	"github.com/leaselog/leaselog/events"
	"github.com/leaselog/leaselog/internal/envelope"
	"github.com/leaselog/leaselog/internal/eventlog"
	"github.com/leaselog/leaselog/internal/fault"
	"github.com/leaselog/leaselog/internal/queue"
	"github.com/leaselog/leaselog/projections"
)

// CreateQueue asks for a queue. Settings are whole: the dialect has filled in its defaults and checked its ranges.
type CreateQueue struct {
	Account  string
	Name     string
	Settings events.Settings
	Tags     map[string]string
	// DeadLetter names the dead-letter queue; Settings.DeadLetter is filled in from it.
	DeadLetter *DeadLetter
	// Key is a reference to the customer's key, empty for the platform's.
	Key string
}

// DeadLetter is a dead-letter policy whose queue is named by reference.
type DeadLetter struct {
	Queue    Ref
	Receives uint32
}

// Create makes a queue, in one commit: its name, its record, and the beginning of every shard.
// Faults: Exists; Invalid for a dead-letter queue that does not exist, is of the other kind or of another account, and for an
// unknown key; KeyLost.
func (b *Broker) Create(ctx context.Context, c CreateQueue) (*Queue, error) {
	return counted(ctx, b, false, keepQueue, queueAgain, func(o *once) (*Queue, error) { return b.create(ctx, o, c) })
}

func (b *Broker) create(ctx context.Context, o *once, c CreateQueue) (*Queue, error) {
	for attempt := 0; ; attempt++ {
		if _, ok, err := b.readName(ctx, c.Account, c.Name); err != nil {
			return nil, err
		} else if ok {
			return nil, errExists(c.Name)
		}
		r, commit, err := b.creation(ctx, c)
		if err != nil {
			return nil, err
		}
		q, err := b.describe(ctx, r)
		if err != nil {
			return nil, err
		}
		q.Depth = new(Depth)
		err = b.settleOnce(ctx, o, commit, func() []byte { return keepQueue(q) })
		if err == nil {
			r.claim = 1
			for i := range int(r.Shards) {
				b.Reached(projections.Shard{Queue: r.ID, Index: i}, projections.Ends{Ledger: 1, Messages: 1})
			}
			_, err := b.adopt(r)
			return q, b.halfway(err)
		}
		if !isConflict(err) {
			return nil, storeFault(err)
		}
		if err := b.pause(ctx, attempt); err != nil {
			return nil, storeFault(err)
		}
	}
}

func errExists(name string) error {
	return fault.New(fault.Exists, "a queue named %q exists already", name)
}

// creation builds the record and the commit that makes the queue.
func (b *Broker) creation(ctx context.Context, c CreateQueue) (*record, eventlog.Commit, error) {
	now := b.Now()
	w, holder := b.newWriter()
	var seed events.BlockID
	mustRead(b.Rand, seed[:])
	r := &record{ID: events.QueueID(seed.Message(now, 0)), Account: c.Account, Name: c.Name, Shards: 1, Version: 1, Rolled: 1,
		Settings: c.Settings, Tags: c.Tags, Created: now, Updated: now}
	if !c.Settings.Fifo {
		r.Shards = uint32(b.Shards)
	}
	var err error
	if r.Key, err = b.ResolveKey(ctx, c.Key); err != nil {
		return nil, eventlog.Commit{}, err
	}
	if r.Ring, err = envelope.NewRing(ctx, b.Keys, b.Deployment, r.ID, r.Key.ID, now); err != nil {
		return nil, eventlog.Commit{}, err
	}
	claims, err := b.point(ctx, r, c.DeadLetter, holder)
	if err != nil {
		return nil, eventlog.Commit{}, err
	}
	commit := eventlog.Commit{Writer: w, At: int64(now), Claims: append(claims, r.set(holder),
		eventlog.Claim{Key: nameClaim(c.Account, c.Name), Holder: holder, Until: eventlog.Forever, Value: r.ID[:]})}
	for i := range r.Shards {
		appends, err := b.beginning(ctx, r, int(i), now)
		if err != nil {
			return nil, commit, err
		}
		commit.Appends = append(commit.Appends, appends...)
	}
	return r, commit, nil
}

// beginning gives the first entries of a shard's streams.
func (b *Broker) beginning(ctx context.Context, r *record, shard int, now events.Instant) ([]eventlog.Append, error) {
	keys, err := envelope.Open(b.Keys, b.Rand, b.Deployment, r.ID, r.Ring)
	if err != nil {
		return nil, err
	}
	s := newShard(&handle{broker: b, id: r.ID, keys: keys}, shard)
	s.sender, s.ledger = queue.NewSender(b.Limits), queue.NewLedger(b.Limits)
	return s.control(ctx, b, now, queue.Control{Version: r.Version, Settings: &r.Settings}, func(control events.Position) queue.Command {
		return &queue.Configure{At: now, Version: r.Version, Settings: r.Settings, Control: control}
	})
}

// control gives the appends of a control entry and of the events beside it, and applies both to the working state.
// No events mean that there is nothing to do: then there are no appends either.
func (s *shard) control(ctx context.Context, b *Broker, at events.Instant, says queue.Control,
	command func(control events.Position) queue.Command) ([]eventlog.Append, error) {
	place := s.sender.Tail
	d, err := queue.Decide(s.ledger, command(place))
	if err != nil || len(d.Events) == 0 {
		return nil, err
	}
	var id events.BlockID
	mustRead(b.Rand, id[:])
	h := s.sender.Control(id, at, says)
	h.Key = s.keys.Current()
	message, err := s.sealed(ctx, place, h, events.EncodeHeader(h), nil)
	if fault.Is(err, fault.KeyLost) {
		// It holds nothing to hide, and a queue whose key is gone must still be changed, purged and deleted: the seal,
		// which here only lets an audit find damage, is left out.
		h.Key = 0
		message, err = s.entry(place, h, events.EncodeHeader(h), nil), nil
	}
	if err != nil {
		return nil, err
	}
	for _, e := range d.Events {
		s.ledger.Evolve(e)
		s.observe(e)
	}
	return []eventlog.Append{message, s.ledgerEntry(at, d.Events)}, nil
}

// point sets a record's dead-letter policy, nil for none, and gives the claims that keep the lists of sources right:
// they belong to the commit that sets the record. Faults: Invalid.
func (b *Broker) point(ctx context.Context, r *record, d *DeadLetter, holder string) (claims []eventlog.Claim, err error) {
	var target *record
	if d != nil {
		if target, err = b.target(ctx, r, d.Queue); err != nil {
			return nil, err
		}
	}
	if old := r.Settings.DeadLetter; old != nil && (target == nil || old.Queue != target.ID) {
		former, err := b.readRecord(ctx, old.Queue)
		if err != nil && !fault.Is(err, fault.NotFound) {
			return nil, err
		}
		if err == nil && !former.gone() {
			former.without(r.ID)
			claims = append(claims, former.set(holder))
		}
	}
	r.Settings.DeadLetter = nil
	if target == nil {
		return claims, nil
	}
	r.Settings.DeadLetter = &events.DeadLetter{Queue: target.ID, Receives: d.Receives}
	target.with(r.ID)
	return append(claims, target.set(holder)), nil
}

// target reads the record of a queue that is to be a dead-letter queue.
func (b *Broker) target(ctx context.Context, r *record, ref Ref) (*record, error) {
	h, err := b.find(ctx, ref)
	if fault.Is(err, fault.NotFound) {
		return nil, fault.New(fault.Invalid, "the dead letter queue %s does not exist", ref)
	}
	if err != nil {
		return nil, err
	}
	target, err := b.readRecord(ctx, h.id)
	switch {
	case err != nil:
		return nil, err
	case target.gone():
		return nil, fault.New(fault.Invalid, "the dead letter queue %s does not exist", ref)
	case target.ID == r.ID:
		return nil, fault.New(fault.Invalid, "a queue cannot be its own dead letter queue")
	case target.Settings.Fifo != r.Settings.Fifo:
		return nil, fault.New(fault.Invalid, "a FIFO queue needs a FIFO dead letter queue, a standard queue a standard one")
	}
	return target, nil
}

package broker

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/leaselog/leaselog/events"
	"github.com/leaselog/leaselog/internal/envelope"
	"github.com/leaselog/leaselog/internal/eventlog"
	"github.com/leaselog/leaselog/internal/fault"
)

// record is what is kept of a queue outside its streams: the value of the claim queue/<id>. The claim
// name/<account>/<name> leads to it, and is given up when the queue is deleted.
type record struct {
	ID       events.QueueID    `cbor:"1,keyasint"`
	Account  string            `cbor:"2,keyasint"`
	Name     string            `cbor:"3,keyasint"`
	Shards   uint32            `cbor:"4,keyasint"`
	Version  uint64            `cbor:"5,keyasint"` // of the settings, wanted
	Rolled   uint64            `cbor:"6,keyasint"` // the version that every shard is known to have
	Settings events.Settings   `cbor:"7,keyasint"`
	Tags     map[string]string `cbor:"8,keyasint,omitempty"`
	Created  events.Instant    `cbor:"9,keyasint"`
	Updated  events.Instant    `cbor:"10,keyasint"`
	Deleted  events.Instant    `cbor:"11,keyasint,omitempty"`
	Ring     envelope.Ring     `cbor:"12,keyasint"`
	Sources  []events.QueueID  `cbor:"13,keyasint,omitempty"` // queues whose dead-letter queue this is
	// Purge holds, while a purge is under way, the position before which each shard is to be emptied.
	Purge []events.Position `cbor:"14,keyasint,omitempty"`

	// Key is the customer's key that wraps the newest data key, none for the platform's.
	Key Key `cbor:"15,keyasint,omitzero"`

	claim uint64 // version of the claim that held this record
}

func recordKey(id events.QueueID) string    { return fmt.Sprintf("queue/%x", id[:]) }
func namePrefix(account string) string      { return "name/" + account + "/" }
func nameClaim(account, name string) string { return namePrefix(account) + name }
func (r *record) has(s events.Status) bool  { return r.Settings.Status == s }
func (r *record) gone() bool                { return r.has(events.Deleted) || r.has(events.Shredded) }
func errNoQueue(what string) error          { return fault.New(fault.NotFound, "there is no queue %s", what) }
func (r *record) without(id events.QueueID) {
	r.Sources = slices.DeleteFunc(slices.Clone(r.Sources), func(s events.QueueID) bool { return s == id })
}

func (r *record) with(id events.QueueID) {
	if !slices.Contains(r.Sources, id) {
		r.Sources = append(slices.Clone(r.Sources), id)
	}
}

// set gives the claim that puts the record in place of the one that was read.
func (r *record) set(holder string) eventlog.Claim {
	return eventlog.Claim{Key: recordKey(r.ID), Holder: holder, Until: eventlog.Forever, Value: events.EncodeRecord(r), If: r.claim}
}

// HasQueues says whether an account has queues in a log.
func HasQueues(ctx context.Context, log eventlog.Log, account string) (bool, error) {
	const page = 256
	for after := ""; ; {
		names, err := log.Claims(ctx, namePrefix(account), after, page)
		if err != nil {
			return false, storeFault(err)
		}
		for _, c := range names {
			after = c.Key
			if c.Until == eventlog.Forever { // otherwise it was given up
				return true, nil
			}
		}
		if len(names) < page {
			return false, nil
		}
	}
}

// readRecord gives the record of a queue, deleted or not. Faults: NotFound.
func (b *Broker) readRecord(ctx context.Context, id events.QueueID) (*record, error) {
	c, ok, err := b.Log.Claim(ctx, recordKey(id))
	if err != nil {
		return nil, storeFault(err)
	}
	if !ok {
		return nil, errNoQueue(id.String())
	}
	r := &record{claim: c.Version}
	if err := events.DecodeRecord(c.Value, r); err != nil {
		return nil, fmt.Errorf("%w: record of queue %v: %w", eventlog.ErrCorrupt, id, err)
	}
	return r, nil
}

// readName gives the id that a name leads to, and false where it leads nowhere.
func (b *Broker) readName(ctx context.Context, account, name string) (id events.QueueID, ok bool, err error) {
	c, ok, err := b.Log.Claim(ctx, nameClaim(account, name))
	if err != nil || !ok || c.Until != eventlog.Forever {
		return id, false, storeFault(err)
	}
	copy(id[:], c.Value)
	return id, true, nil
}

// change reads a queue's record, lets f change it and whatever else belongs to the same commit, and commits, again
// and again until no other change comes between. f gives the further claims; errKeep makes it end without a commit.
func (b *Broker) change(ctx context.Context, id events.QueueID, f func(*record) ([]eventlog.Claim, error)) (*record, error) {
	return b.changeOnce(ctx, nil, id, func(r *record) ([]eventlog.Claim, []byte, error) {
		claims, err := f(r)
		return claims, nil, err
	})
}

// changeOnce is change for a command that may count once: f also gives what is remembered of its result.
func (b *Broker) changeOnce(ctx context.Context, o *once, id events.QueueID, f func(*record) ([]eventlog.Claim, []byte, error)) (*record, error) {
	for attempt := 0; ; attempt++ {
		r, err := b.readRecord(ctx, id)
		if err != nil {
			return nil, err
		}
		more, result, err := f(r)
		if errors.Is(err, errKeep) {
			return r, nil
		}
		if err != nil {
			return nil, err
		}
		w, holder := b.newWriter()
		c := eventlog.Commit{Writer: w, At: int64(b.Now()), Claims: append(more, r.set(holder))}
		err = b.settleOnce(ctx, o, c, func() []byte { return result })
		if !isConflict(err) {
			r.claim++
			return r, storeFault(err)
		}
		if err := b.pause(ctx, attempt); err != nil {
			return nil, storeFault(err)
		}
	}
}

// errKeep says that a record is already as it should be.
var errKeep = errors.New("nothing to change")

package broker

import (
	"context"

	"github.com/leaselog/leaselog/events"
	"github.com/leaselog/leaselog/internal/envelope"
	"github.com/leaselog/leaselog/internal/eventlog"
)

// retireAfter is how long a data key outlives its successor's making, in seconds: the longest retention that an API
// gives, 14 days, which count from a message's arrival here, and a day for processes that went on sealing with it
// before they heard of the successor. What is not finished by then is past its retention and opened never again.
const retireAfter = 15 * 24 * 60 * 60

// retention14Days is the retention that retireAfter is made for.
const retention14Days = 14 * 24 * 60 * 60

// Key is a customer's key as it is kept and shown.
type Key = envelope.KeyName

// ResolveKey gives the customer's key that a reference leads to; "" is the platform's key. Faults: Invalid.
func (b *Broker) ResolveKey(ctx context.Context, ref string) (Key, error) {
	known, ok := b.Keys.(envelope.Resolver)
	if ref == "" || !ok { // then the making of a data key judges it
		return Key{ID: ref}, nil
	}
	return known.Resolve(ctx, ref)
}

// rekey gives a record a data key under another key, and the settings that make every process seal with it: one that
// does not know them meets a conflict. The key that the queue has already is no change.
func (b *Broker) rekey(ctx context.Context, r *record, ref string) error {
	key, err := b.ResolveKey(ctx, ref)
	if err != nil || key.ID == r.Key.ID {
		return err
	}
	ring, err := b.successor(ctx, r, key.ID)
	if err != nil {
		return err
	}
	r.Key, r.Ring, r.Settings.KeyVersion = key, ring, ring.Current()
	return nil
}

// rotate gives a queue a new data key where the one that seals is worn. Other processes hear of it when they meet what
// it sealed, or by their own maintenance; until then they go on with the old one.
func (b *Broker) rotate(ctx context.Context, h *handle) error {
	if !h.keys.Worn(b.Now()) {
		return nil
	}
	worn := h.keys.Current()
	r, err := b.change(ctx, h.id, func(r *record) (_ []eventlog.Claim, err error) {
		if r.gone() || r.Ring.Current() > worn {
			return nil, errKeep
		}
		r.Ring, err = b.successor(ctx, r, r.Key.ID)
		return nil, err
	})
	if err != nil {
		return err
	}
	h.refresh(r)
	return nil
}

// successor gives the record's ring with a new data key, and without those whose messages are finished for certain.
func (b *Broker) successor(ctx context.Context, r *record, ref string) (envelope.Ring, error) {
	now := b.Now()
	ring, err := envelope.Rotate(ctx, b.Keys, b.Deployment, r.ID, r.Ring, ref, now)
	if err == nil && r.Settings.RetentionSeconds <= retention14Days {
		ring = ring.Retire(now - events.Instant(0).Add(retireAfter))
	}
	return ring, err
}

// renew reads the record of a keyring's queue for versions that another process has added. Without any it changes
// nothing.
func (b *Broker) renew(ctx context.Context, keys *envelope.Keyring) error {
	r, err := b.readRecord(ctx, keys.Queue())
	if err != nil || r.gone() {
		return err
	}
	return keys.Renew(r.Ring)
}

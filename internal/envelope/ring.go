package envelope

import (
	"context"
	"fmt"
	"slices"

	"github.com/leaselog/leaselog/events"
	"github.com/leaselog/leaselog/internal/eventlog"
)

// nameVersion stands in the [Context] of the name key. Data keys count from 1, so neither is ever taken for the other.
const nameVersion = 0

// Ring is what a queue's record keeps of its keys; each is wrapped, so nothing in it is secret. It is written with
// [events.EncodeRecord].
type Ring struct {
	// Name is the key of the keyed hashes. It has no successor: what was hashed once must be found again as long as
	// the queue lives. So it is always under the platform's key: after a re-key the queue does not depend on the key
	// that it had before.
	Name Version `cbor:"1,keyasint"`
	// Versions are the data keys in rising order; the last one seals, the others still open what they sealed.
	Versions []Version `cbor:"2,keyasint"`
}

// Version is one wrapped key of a ring.
type Version struct {
	Version uint32         `cbor:"1,keyasint,omitempty"` // 0: the name key
	Ref     string         `cbor:"2,keyasint,omitempty"` // the key that wraps it; empty: the platform's
	Wrapped []byte         `cbor:"3,keyasint"`
	Created events.Instant `cbor:"4,keyasint"`
}

// Current is the version that seals; 0 of an empty ring.
func (r Ring) Current() uint32 {
	if n := len(r.Versions); n > 0 {
		return r.Versions[n-1].Version
	}
	return 0
}

// NewRing makes the keys of a new queue, the data key wrapped under the key that ref names. Its errors are those of
// [Keys.Generate].
func NewRing(ctx context.Context, keys Keys, deployment string, queue events.QueueID, ref string, now events.Instant) (Ring, error) {
	name, err := generate(ctx, keys, "", Context{deployment, queue, nameVersion}, now)
	if err != nil {
		return Ring{}, err
	}
	return Rotate(ctx, keys, deployment, queue, Ring{Name: name}, ref, now)
}

// Rotate gives the ring with one more data key, which seals from then on. The ring it is given stays as it is, since
// other goroutines may read it.
func Rotate(ctx context.Context, keys Keys, deployment string, queue events.QueueID, r Ring, ref string, now events.Instant) (Ring, error) {
	next := r.Current() + 1
	v, err := generate(ctx, keys, ref, Context{deployment, queue, next}, now)
	if err != nil {
		return Ring{}, err
	}
	return Ring{Name: r.Name, Versions: append(slices.Clip(r.Versions), v)}, nil
}

// Retire gives the ring without the versions whose successor was made before an instant. The caller knows that what was
// sealed so long ago is finished.
func (r Ring) Retire(before events.Instant) Ring {
	n := 0
	for n+1 < len(r.Versions) && r.Versions[n+1].Created < before {
		n++
	}
	return Ring{Name: r.Name, Versions: slices.Clip(r.Versions[n:])}
}

// generate drops the plain key at once: it is unwrapped when it is first used, and so the reuse period holds for it
// as well.
func generate(ctx context.Context, keys Keys, ref string, c Context, now events.Instant) (Version, error) {
	key, wrapped, err := keys.Generate(ctx, ref, c)
	clear(key)
	if err != nil {
		return Version{}, fmt.Errorf("making key version %d of queue %s: %w", c.Version, c.Queue, err)
	}
	return Version{Version: c.Version, Ref: ref, Wrapped: wrapped, Created: now}, nil
}

// check finds what no ring of ours has, so that a damaged record is told apart from a key that is lost.
func (r Ring) check(queue events.QueueID) error {
	last := uint32(nameVersion)
	for _, v := range r.Versions {
		if v.Version <= last || len(v.Wrapped) == 0 {
			return fmt.Errorf("key ring of queue %s at version %d: %w", queue, v.Version, eventlog.ErrCorrupt)
		}
		last = v.Version
	}
	if last == nameVersion || r.Name.Version != nameVersion || len(r.Name.Wrapped) == 0 {
		return fmt.Errorf("key ring of queue %s lacks a key: %w", queue, eventlog.ErrCorrupt)
	}
	return nil
}

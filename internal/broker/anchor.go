package broker

import (
	"context"
	"fmt"

	"github.com/leaselog/leaselog/events"
	"github.com/leaselog/leaselog/internal/eventlog"
	"github.com/leaselog/leaselog/internal/queue"
)

// anchor writes an entry that lasts to both streams of a shard in one commit, if one of them still needs it.
type anchor struct {
	reply
	wrote bool
}

func (c *anchor) decide(*group) error { panic("anchor runs alone") }

func (c *anchor) run(ctx context.Context, r *runner) error {
	return r.writeControl(ctx, c, func(at events.Instant) ([]eventlog.Append, error) {
		c.wrote = false
		idle, err := r.unanchored(ctx)
		if err != nil || !idle {
			return nil, err
		}
		appends, err := r.control(ctx, r.b, at, queue.Control{Anchor: true}, func(control events.Position) queue.Command {
			return &queue.Anchor{At: at, Control: control}
		})
		if err != nil {
			return nil, err
		}
		appends[1].Header = events.EncodeLedgerHeader(r.ledger.Header(events.Anchor, at))
		for i := range appends {
			appends[i].Lasting = true
		}
		c.wrote = true
		return appends, nil
	})
}

// unanchored says whether one of the streams has had nothing for a day and does not end with an anchor.
func (s *shard) unanchored(ctx context.Context) (bool, error) {
	message, err := s.last(ctx, s.messageStream)
	if err != nil {
		return false, err
	}
	ledger, err := s.last(ctx, s.ledgerStream)
	if err != nil {
		return false, err
	}
	h, err := events.DecodeHeader(message.Header)
	if err != nil {
		return false, corrupt(message, err)
	}
	l, err := events.DecodeLedgerHeader(ledger.Header)
	if err != nil {
		return false, corrupt(ledger, err)
	}
	before := s.b.Now() - idleAge
	return h.Kind != events.Anchor && h.At <= before || l.Kind != events.Anchor && l.At <= before, nil
}

// last gives the last entry of a stream that must have one.
func (s *shard) last(ctx context.Context, name eventlog.Stream) (eventlog.Entry, error) {
	e, ok, err := s.b.Log.Last(ctx, name)
	if err == nil && !ok {
		err = fmt.Errorf("%w: stream %s has lost its last entry, so that nothing may be written to it", eventlog.ErrCorrupt, name)
	}
	return e, storeFault(err)
}

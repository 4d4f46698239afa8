package broker

import (
	"context"

	"github.com/leaselog/leaselog/events"
	"github.com/leaselog/leaselog/internal/eventlog"
)

// bisect finds the first entry of a message stream, from a position on and before tail, that was written after an
// instant: headers repeat the highest instant so far, so it never falls. It gives the entry's position, from where
// the first one is such an entry, and how many messages the stream holds before it; sent is 0 when that is from.
func (b *Broker) bisect(ctx context.Context, stream eventlog.Stream, from, tail events.Position, instant events.Instant) (at events.Position, sent uint64, err error) {
	low, high := from, tail
	for low < high {
		mid := low + (high-low)/2
		entries, err := b.Log.Read(ctx, stream, eventlog.Seq(mid), eventlog.Limits{Entries: 1, HeadersOnly: true})
		if t, gone := truncated(err); gone {
			low = events.Position(t.To) // what was dropped is old
			continue
		}
		if err != nil {
			return 0, 0, storeFault(err)
		}
		if len(entries) == 0 {
			high = mid
			continue
		}
		e := entries[0]
		h, err := events.DecodeHeader(e.Header)
		if err != nil {
			return 0, 0, corrupt(e, err)
		}
		if h.High <= instant {
			low, sent = events.Position(e.Next()), h.Totals.Messages
		} else {
			high = max(low, events.Position(e.Seq))
		}
	}
	return low, sent, nil
}

// bisectLedger finds the first entry of a ledger that was written after an instant.
func (b *Broker) bisectLedger(ctx context.Context, stream eventlog.Stream, end eventlog.Seq, instant events.Instant) (eventlog.Seq, error) {
	low, high := eventlog.Seq(0), end
	for low < high {
		mid := low + (high-low)/2
		entries, err := b.Log.Read(ctx, stream, mid, eventlog.Limits{Entries: 1, HeadersOnly: true})
		if t, gone := truncated(err); gone {
			low = t.To
		} else if err == nil && len(entries) > 0 && older(entries[0], instant) {
			low = mid + 1
		} else if err != nil {
			return 0, storeFault(err)
		} else {
			high = mid
		}
	}
	return low, nil
}

func older(e eventlog.Entry, instant events.Instant) bool {
	h, err := events.DecodeLedgerHeader(e.Header)
	return err == nil && h.High <= instant
}

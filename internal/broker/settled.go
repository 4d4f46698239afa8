package broker

import (
	"context"
	"errors"

	"github.com/leaselog/leaselog/events"
	"github.com/leaselog/leaselog/internal/eventlog"
	"github.com/leaselog/leaselog/internal/queue"
)

// settled remembers the last acks of a shard, so that a client's repeated ack is recognized without a look into the
// ledger.
type settled struct {
	leases map[events.Position]events.LeaseID
	order  []events.Position // a ring
	next   int
}

func (s *settled) add(e *events.Acked) {
	if s.leases == nil {
		s.leases = make(map[events.Position]events.LeaseID)
	}
	for _, p := range e.Items {
		if len(s.order) < settledMax {
			s.order = append(s.order, p)
		} else {
			delete(s.leases, s.order[s.next])
			s.order[s.next] = p
			s.next = (s.next + 1) % settledMax
		}
		s.leases[p] = e.Lease
	}
}

func (s *settled) has(h queue.Held) bool {
	lease, ok := s.leases[h.Position]
	return ok && lease == h.Lease
}

// wasAcked looks through the last minutes of the ledger for an ack of a message under a receipt's lease.
func (b *Broker) wasAcked(ctx context.Context, r receipt) (bool, error) {
	stream := eventlog.Stream(events.LedgerStream(r.queue, int(r.shard)))
	last, ok, err := b.Log.Last(ctx, stream)
	if err != nil || !ok {
		return false, storeFault(err)
	}
	seq, err := b.bisectLedger(ctx, stream, last.Next(), b.Now()-rememberSettled)
	for err == nil && seq < last.Next() {
		var entries []eventlog.Entry
		entries, err = b.Log.Read(ctx, stream, seq, eventlog.Limits{Bytes: 1 << 20})
		if t, gone := truncated(err); gone {
			seq, err = t.To, nil // dropped just now
			continue
		}
		if err != nil || len(entries) == 0 {
			break
		}
		for _, e := range entries {
			if found, err := acks(e, r); found || err != nil {
				return found, err
			}
			seq = e.Next()
		}
	}
	return false, storeFault(err)
}

// acks says whether a ledger entry acks the receipt's message under its lease.
func acks(e eventlog.Entry, r receipt) (bool, error) {
	happened, err := events.Decode(e.Data)
	if err != nil {
		return false, corrupt(e, err)
	}
	for _, ev := range happened {
		if a, ok := ev.(*events.Acked); ok && a.Lease == r.lease {
			for _, p := range a.Items {
				if p == r.position {
					return true, nil
				}
			}
		}
	}
	return false, nil
}

// truncated gives the part of a stream that an error says was dropped.
func truncated(err error) (t *eventlog.Truncated, ok bool) {
	if err == nil {
		return nil, false
	}
	var dropped *eventlog.Truncated
	ok = errors.As(err, &dropped)
	return dropped, ok
}

package broker

import (
	"context"

	"github.com/leaselog/leaselog/events"
	"github.com/leaselog/leaselog/internal/eventlog"
	"github.com/leaselog/leaselog/internal/queue"
)

// History bounds what is kept of what is finished.
type History struct {
	// Before is the instant before which entries may be dropped.
	Before events.Instant
}

// historyYoungest is the age, in milliseconds, below which nothing is dropped: what dedup windows, repeated acks and
// slow readers look back upon is younger.
const historyYoungest = 10 * 60 * 1000

// dropsMax bounds the ranges that one pass drops from a stream: between live messages there may be many.
const dropsMax = 1_000

// bounded is a history that keeps the youngest, whatever is asked for.
func (b *Broker) bounded(keep History) History {
	return History{Before: min(keep.Before, b.Now()-historyYoungest)}
}

// shorten writes the snapshots of one shard that are due, and drops its history.
type shorten struct {
	reply
	keep  History
	sweep *Sweep
}

func (c *shorten) decide(*group) error { panic("shorten runs alone") }

func (c *shorten) run(ctx context.Context, r *runner) error {
	c.sweep.Done = nil
	r.blocks.shrink() // others may need the room by now
	end, ledgerEnd, err := c.ends(ctx, r)
	if err != nil {
		return err
	}
	messages, err := r.left(ctx, r.messageStream, r.finishedBefore(end), eventlog.Seq(r.sender.Tail))
	if err != nil {
		return err
	}
	ledger, err := r.left(ctx, r.ledgerStream, []span{{r.ledgerTrimmed, ledgerEnd}}, r.ledgerTail)
	if err != nil {
		return err
	}
	if err := c.snapshots(ctx, r, len(messages)+len(ledger) > 0); err != nil {
		return err
	}
	if err := c.drop(ctx, r, r.ledgerStream, ledger); err != nil {
		return err
	}
	if err := c.drop(ctx, r, r.messageStream, messages); err != nil || c.sweep.Dry {
		return err
	}
	r.trimmed, r.ledgerTrimmed = end, max(r.ledgerTrimmed, ledgerEnd)
	return nil
}

// ends gives up to where both streams may be dropped; for the message stream nothing where that is not further than
// the last time.
func (c *shorten) ends(ctx context.Context, r *runner) (end events.Position, ledgerEnd eventlog.Seq, err error) {
	end, _, err = r.b.bisect(ctx, r.messageStream, 0, min(r.ledger.Cursor, r.sender.Tail), c.keep.Before)
	if err != nil {
		return 0, 0, err
	}
	end = max(r.trimmed, min(end, r.ledger.Cursor)) // it may stand inside a block
	ledgerEnd, err = r.b.bisectLedger(ctx, r.ledgerStream, r.ledgerTail, c.keep.Before)
	return end, ledgerEnd, err
}

// snapshots writes those that are due: before anything is dropped, all that has something new.
func (c *shorten) snapshots(ctx context.Context, r *runner, dropping bool) error {
	for _, k := range []struct {
		due   func(context.Context) (bool, error)
		write func(context.Context) error
		bytes int
	}{{r.ledgerDue, r.snapshotLedger, r.ledgerBytes}, {r.senderDue, r.snapshotSender, r.senderBytes}} {
		due, err := dropping, error(nil)
		if !dropping {
			due, err = k.due(ctx)
		}
		if err != nil {
			return err
		}
		if k.bytes == 0 || !due {
			continue
		}
		if !c.sweep.Dry {
			if err := k.write(ctx); err != nil {
				return storeFault(err)
			}
		}
		c.sweep.Did(WorkSnapshots, 1)
	}
	return nil
}

func (c *shorten) drop(ctx context.Context, r *runner, name eventlog.Stream, spans []span) error {
	for _, sp := range spans {
		if c.sweep.Dry {
			break
		}
		if err := r.b.Log.Drop(ctx, name, sp.from, sp.to); err != nil {
			return storeFault(err)
		}
	}
	if len(spans) > 0 {
		c.sweep.Did(WorkShortened, 1)
	}
	return nil
}

// span is a range of a stream.
type span struct{ from, to eventlog.Seq }

// finishedBefore gives what lies before end and holds no live message, unless it was dropped already. One old message
// does not pin what lies around it.
func (s *shard) finishedBefore(end events.Position) (all []span) {
	if end <= s.trimmed {
		return nil
	}
	from := events.Position(0)
	add := func(to events.Position) {
		if to > from {
			all = append(all, span{eventlog.Seq(from), eventlog.Seq(to)})
		}
		from = to + 1
	}
	s.ledger.Pending(0, func(m *queue.Message) bool {
		if m.Position < end {
			add(m.Position)
		}
		return m.Position < end && len(all) < dropsMax
	})
	if len(all) < dropsMax {
		add(end)
	}
	return all
}

// left gives of each range what is still there to be dropped: whole entries, and never the last one of the stream.
func (s *shard) left(ctx context.Context, name eventlog.Stream, spans []span, tail eventlog.Seq) (all []span, err error) {
	for _, sp := range spans {
		found := false
		for sp.from < sp.to && !found {
			entries, err := s.b.Log.Read(ctx, name, sp.from, eventlog.Limits{Entries: 1, HeadersOnly: true})
			if t, gone := truncated(err); gone {
				sp.from = t.To
				continue
			}
			if err != nil {
				return nil, storeFault(err)
			}
			if len(entries) == 0 {
				break
			}
			if e := entries[0]; e.Seq < sp.from { // it begins before the range, with what lives
				sp.from = e.Next()
			} else if found = true; e.Next() <= sp.to && e.Next() < tail {
				all = append(all, sp)
			}
		}
	}
	return all, nil
}

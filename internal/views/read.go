package views

import (
	"context"
	"errors"
	"fmt"

	"github.com/leaselog/leaselog/events"
	"github.com/leaselog/leaselog/internal/eventlog"
	"github.com/leaselog/leaselog/projections"
)

// start makes a fold that has read nothing: from a kept view, or, where that is nil, from the log alone.
func (f *Follower) start(ctx context.Context, name projections.Shard, view []byte, ends projections.Ends) (projections.Fold, error) {
	from := projections.Start{Kept: view, Ends: ends}
	ledger, messages := streams(name)
	var err error
	switch {
	case f.Projection.History == 0:
		if from.Ledger, err = f.snapshot(ctx, ledger); err != nil {
			return nil, err
		}
		if from.Messages, err = f.snapshot(ctx, messages); err != nil {
			return nil, err
		}
	case view == nil:
		if from.Ends, err = f.history(ctx, ledger, messages); err != nil {
			return nil, err
		}
	}
	fold := f.Projection.New()
	at, err := fold.Start(from)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", eventlog.ErrCorrupt, err)
	}
	return &placed{Fold: fold, ledger: at}, nil
}

// placed is a fold and where its ledger is read on.
type placed struct {
	projections.Fold
	ledger uint64
}

func (f *Follower) snapshot(ctx context.Context, name eventlog.Stream) (*projections.Snapshot, error) {
	snap, ok, err := f.Log.Snapshot(ctx, name, eventlog.Seq(1<<63))
	if err != nil || !ok {
		return nil, err
	}
	return &projections.Snapshot{Seq: uint64(snap.Seq), Data: snap.Data}, nil
}

// read folds what the log has beyond the fold, the ledger first: a message that it names is then in the message stream.
// tell hears how many entries were folded. What the fold's rules do not allow is an error.
func (f *Follower) read(ctx context.Context, s *shard, tell func(int)) (err error) {
	defer broken(&err)
	p := s.fold.(*placed)
	if err := f.readLedger(ctx, s, p, tell); err != nil {
		return err
	}
	return f.readMessages(ctx, s, p, tell)
}

// broken makes an error of a panic about a broken invariant.
func broken(err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("%w: %v", eventlog.ErrCorrupt, p)
	}
}

func (f *Follower) readLedger(ctx context.Context, s *shard, p *placed, tell func(int)) error {
	ledger, _ := streams(s.Shard)
	for {
		entries, err := f.Log.Read(ctx, ledger, eventlog.Seq(p.ledger), eventlog.Limits{Bytes: readBytes})
		if to, ok := f.gap(err, 0); ok {
			p.ledger = uint64(to)
			continue
		}
		if err != nil {
			return err
		}
		for _, e := range entries {
			h, err := events.DecodeLedgerHeader(e.Header)
			var happened []events.Event
			if err == nil {
				happened, err = events.Decode(e.Data)
			}
			if err == nil && uint64(e.Seq) != p.ledger {
				err = errors.New("it covers the end that was read before")
			}
			if err != nil {
				return corrupt(e, err)
			}
			p.Ledger(place(e), h, happened)
			p.ledger = uint64(e.Next())
		}
		if told(tell, len(entries)) == 0 {
			return nil
		}
	}
}

func (f *Follower) readMessages(ctx context.Context, s *shard, p *placed, tell func(int)) error {
	_, messages := streams(s.Shard)
	at := p.Messages()
	for {
		entries, err := f.Log.Read(ctx, messages, eventlog.Seq(at), eventlog.Limits{Bytes: readBytes, HeadersOnly: true})
		if to, ok := f.gap(err, eventlog.Seq(p.Ends().Messages)); ok {
			at = events.Position(to)
			continue
		}
		if err != nil {
			return err
		}
		for _, e := range entries {
			h, err := events.DecodeHeader(e.Header)
			if err != nil {
				return corrupt(e, err)
			}
			p.Message(place(e), h)
			s.headers.keep(events.Position(e.Seq), h)
			at = events.Position(e.Next())
		}
		if told(tell, len(entries)) == 0 {
			return nil
		}
	}
}

// gap says how far entries were dropped, where that does not matter: a history is as long as what is left of it, and a state
// has what lies before known already.
func (f *Follower) gap(err error, known eventlog.Seq) (eventlog.Seq, bool) {
	var gone *eventlog.Truncated
	if errors.As(err, &gone) && (f.Projection.History > 0 || gone.To <= known) {
		return gone.To, true
	}
	return 0, false
}

func told(tell func(int), n int) int {
	if tell != nil && n > 0 {
		tell(n)
	}
	return n
}

func place(e eventlog.Entry) projections.Entry {
	return projections.Entry{Seq: uint64(e.Seq), Next: uint64(e.Next()), Bytes: len(e.Header) + len(e.Data)}
}

func corrupt(e eventlog.Entry, err error) error {
	return fmt.Errorf("%w: entry %d of stream %s: %w", eventlog.ErrCorrupt, e.Seq, e.Stream, err)
}

// recent remembers headers: to read one from DynamoDB is paid for with the bodies beside it.
type recent struct {
	places  [64]events.Position
	headers [64]*events.Header
	next    int
}

func (r *recent) keep(at events.Position, h *events.Header) {
	r.places[r.next], r.headers[r.next] = at, h
	r.next = (r.next + 1) % len(r.places)
}

func (r *recent) find(p events.Position) (events.Position, *events.Header) {
	for i, h := range r.headers {
		if at := r.places[i]; h != nil && at <= p && p < at+events.Position(h.Width()) {
			return at, h
		}
	}
	return 0, nil
}

// look shows headers to a fold.
func (f *Follower) look(ctx context.Context, s *shard) projections.Look {
	_, messages := streams(s.Shard)
	return func(p events.Position) (events.Position, *events.Header, error) {
		if at, h := s.headers.find(p); h != nil {
			return at, h, nil
		}
		entries, err := f.Log.Read(ctx, messages, eventlog.Seq(p), eventlog.Limits{Entries: 1, HeadersOnly: true})
		if err != nil {
			return 0, nil, err
		}
		if len(entries) == 0 {
			return 0, nil, fmt.Errorf("%w: message %d is in the ledger, and not in stream %s", eventlog.ErrCorrupt, p, messages)
		}
		h, err := events.DecodeHeader(entries[0].Header)
		if err != nil {
			return 0, nil, corrupt(entries[0], err)
		}
		s.headers.keep(events.Position(entries[0].Seq), h)
		return events.Position(entries[0].Seq), h, nil
	}
}

// history finds the first entries of both streams that belong to the projection's history.
func (f *Follower) history(ctx context.Context, ledger, messages eventlog.Stream) (projections.Ends, error) {
	var high events.Instant
	var ends [2]eventlog.Seq
	of := [2]eventlog.Stream{ledger, messages}
	highOf := [2]func(eventlog.Entry) (events.Instant, error){ledgerHigh, messagesHigh}
	for i, name := range of {
		last, ok, err := f.Log.Last(ctx, name)
		if err != nil {
			return projections.Ends{}, err
		}
		if ok {
			at, err := highOf[i](last)
			if err != nil {
				return projections.Ends{}, err
			}
			high, ends[i] = max(high, at), last.Next()
		}
	}
	for i, name := range of {
		var err error
		if ends[i], err = f.firstAfter(ctx, name, ends[i], high-f.Projection.History-1, highOf[i]); err != nil {
			return projections.Ends{}, err
		}
	}
	return projections.Ends{Ledger: uint64(ends[0]), Messages: events.Position(ends[1])}, nil
}

// firstAfter finds the first entry before end that was written after an instant, by bisection: the highest instant so
// far, which headers repeat, never falls.
func (f *Follower) firstAfter(ctx context.Context, name eventlog.Stream, end eventlog.Seq, instant events.Instant,
	highOf func(eventlog.Entry) (events.Instant, error)) (eventlog.Seq, error) {
	low := eventlog.Seq(0)
	for low < end {
		mid := low + (end-low)/2
		entries, err := f.Log.Read(ctx, name, mid, eventlog.Limits{Entries: 1, HeadersOnly: true})
		var gone *eventlog.Truncated
		switch {
		case errors.As(err, &gone):
			low = gone.To
			continue
		case err != nil:
			return 0, err
		case len(entries) == 0:
			end = mid
			continue
		}
		high, err := highOf(entries[0])
		if err != nil {
			return 0, err
		}
		if high <= instant {
			low = entries[0].Next()
		} else {
			end = max(low, entries[0].Seq)
		}
	}
	return low, nil
}

func ledgerHigh(e eventlog.Entry) (events.Instant, error) {
	h, err := events.DecodeLedgerHeader(e.Header)
	if err != nil {
		return 0, corrupt(e, err)
	}
	return h.High, nil
}

func messagesHigh(e eventlog.Entry) (events.Instant, error) {
	h, err := events.DecodeHeader(e.Header)
	if err != nil {
		return 0, corrupt(e, err)
	}
	return h.High, nil
}

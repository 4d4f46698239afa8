package views

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/leaselog/leaselog/events"
	"github.com/leaselog/leaselog/internal/eventlog"
	"github.com/leaselog/leaselog/projections"
)

// start makes a fold that has read nothing: from a kept view, or, where that is nil, from the log alone.
func (f *Follower) start(ctx context.Context, s *shard, v *view, kept []byte, ends projections.Ends) (*placed, error) {
	from := projections.Start{Kept: kept, Ends: ends}
	var err error
	switch {
	case v.History == 0:
		if from.State, err = f.standing(ctx, s); err != nil {
			return nil, err
		}
	case kept == nil:
		if from.Ends, err = f.history(ctx, s.Shard, v.History); err != nil {
			return nil, err
		}
	}
	fold := v.New()
	at, err := fold.Start(from)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", eventlog.ErrCorrupt, err)
	}
	return &placed{Fold: fold, ledger: at}, nil
}

// placed is a fold and where the streams are read on for it.
type placed struct {
	projections.Fold
	ledger   uint64
	messages events.Position
}

// standing gives the state that views of the shard stand on, from the newest snapshots if it was not needed so far.
func (f *Follower) standing(ctx context.Context, s *shard) (*projections.State, error) {
	if s.state != nil {
		return s.state, nil
	}
	ledger, messages := streams(s.Shard)
	ofLedger, err := f.snapshot(ctx, ledger)
	if err != nil {
		return nil, err
	}
	ofMessages, err := f.snapshot(ctx, messages)
	if err != nil {
		return nil, err
	}
	whole := slices.ContainsFunc(s.views, func(v *view) bool { return v.View == projections.Snapshots.View })
	if s.state, err = projections.NewState(ofLedger, ofMessages, whole); err != nil {
		return nil, fmt.Errorf("%w: %w", eventlog.ErrCorrupt, err)
	}
	return s.state, nil
}

func (f *Follower) snapshot(ctx context.Context, name eventlog.Stream) (*projections.Snapshot, error) {
	snap, ok, err := f.Log.Snapshot(ctx, name, eventlog.Seq(1<<63))
	if err != nil || !ok {
		return nil, err
	}
	return &projections.Snapshot{Seq: uint64(snap.Seq), Data: snap.Data}, nil
}

// read folds what the log has beyond the folds, the ledger first: a message that it names is then in the message stream.
// tell hears how many entries were read. Each view notes why it could not go on, if so.
func (f *Follower) read(ctx context.Context, s *shard, open []*view, tell func(int)) {
	r := reading{Follower: f, shard: s, views: slices.Clone(open), tell: tell}
	if slices.ContainsFunc(open, func(v *view) bool { return v.History == 0 }) { // all that stand on the state go with it
		for _, v := range s.views {
			if v.History == 0 && v.fold != nil && !slices.Contains(open, v) {
				r.views = append(r.views, v)
			}
		}
	}
	r.ledger(ctx)
	r.messages(ctx)
}

// reading is one reading of a shard for several views, which may begin at different places and end at the same.
type reading struct {
	*Follower
	*shard
	views []*view
	tell  func(int)
	at    events.Position // where the message stream is read on for the state
}

// going gives the views for which nothing has failed.
func (r *reading) going() (all []*view) {
	for _, v := range r.views {
		if v.err == nil {
			all = append(all, v)
		}
	}
	return all
}

// stop notes why views cannot go on. If one of them stands on the state then nobody can any more who does.
func (r *reading) stop(err error, all ...*view) {
	for _, v := range all {
		v.err = err
		if v.History > 0 {
			continue
		}
		r.lose()
		for _, w := range r.views {
			if w.History == 0 {
				w.err = err
			}
		}
	}
}

func (r *reading) ledger(ctx context.Context) {
	name, _ := streams(r.Shard)
	for all := r.going(); len(all) > 0; all = r.going() {
		from := all[0].fold.ledger
		for _, v := range all {
			from = min(from, v.fold.ledger)
		}
		entries, err := r.Log.Read(ctx, name, eventlog.Seq(from), eventlog.Limits{Bytes: readBytes})
		if err != nil {
			for _, v := range all {
				if v.err != nil {
					continue
				}
				if to, ok := gap(err, v, v.fold.ledger, 0); ok {
					v.fold.ledger = to
				} else {
					r.stop(err, v)
				}
			}
			continue
		}
		if r.told(len(entries)) == 0 {
			return
		}
		for _, e := range entries {
			r.happened(e)
		}
	}
}

// happened gives an entry of the ledger to those that it is the next one for.
func (r *reading) happened(e eventlog.Entry) {
	h, err := events.DecodeLedgerHeader(e.Header)
	var happened []events.Event
	if err == nil {
		happened, err = events.Decode(e.Data)
	}
	evolved := false
	for _, v := range r.views {
		if v.err != nil {
			continue
		}
		switch at := v.fold.ledger; {
		case at >= uint64(e.Next()):
			continue
		case err != nil:
			r.stop(corrupt(e, err), v)
			continue
		case at != uint64(e.Seq):
			r.stop(corrupt(e, errors.New("it covers the end that was read before")), v)
			continue
		}
		if v.History == 0 && !evolved {
			if err := guarded(func() { r.state.Happened(place(e), happened) }); err != nil {
				r.stop(err, v)
				continue
			}
			evolved = true
		}
		v.err = guarded(func() { v.fold.Ledger(place(e), h, happened) })
		v.fold.ledger = uint64(e.Next())
	}
}

func (r *reading) messages(ctx context.Context) {
	_, name := streams(r.Shard)
	for _, v := range r.going() {
		v.fold.messages = v.fold.Messages()
	}
	if r.state != nil {
		r.at = r.state.Messages()
	}
	for all := r.going(); len(all) > 0; all = r.going() {
		from := all[0].fold.messages
		for _, v := range all {
			from = min(from, v.fold.messages)
		}
		entries, err := r.Log.Read(ctx, name, eventlog.Seq(from), eventlog.Limits{Bytes: readBytes, HeadersOnly: true})
		if err != nil {
			for _, v := range all {
				if v.err != nil {
					continue
				}
				if to, ok := gap(err, v, uint64(v.fold.messages), v.fold.Ends().Messages); ok {
					v.fold.messages = events.Position(to)
				} else {
					r.stop(err, v)
				}
			}
			continue
		}
		if r.told(len(entries)) == 0 {
			return
		}
		for _, e := range entries {
			r.written(e)
		}
	}
}

// written gives an entry of the message stream to those that it is the next one for, or that begin inside it.
func (r *reading) written(e eventlog.Entry) {
	h, err := events.DecodeHeader(e.Header)
	if err == nil {
		r.headers.keep(events.Position(e.Seq), h)
	}
	end := events.Position(e.Next())
	for _, v := range r.views {
		if v.err != nil {
			continue
		}
		switch {
		case v.fold.messages >= end:
			continue
		case err != nil:
			r.stop(corrupt(e, err), v)
			continue
		}
		if v.History == 0 && r.at < end {
			if err := guarded(func() { r.state.Written(place(e), h) }); err != nil {
				r.stop(err, v)
				continue
			}
			r.at = end
		}
		v.err = guarded(func() { v.fold.Message(place(e), h) })
		v.fold.messages = end
	}
}

func (r *reading) told(n int) int {
	if r.tell != nil && n > 0 {
		r.tell(n)
	}
	return n
}

// guarded makes an error of a panic about a broken invariant: what the rules do not allow is in the log.
func guarded(f func()) (err error) {
	defer broken(&err)
	f()
	return nil
}

func broken(err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("%w: %v", eventlog.ErrCorrupt, p)
	}
}

// gap gives from where a view is read on that was at a place, where entries were dropped and that does not matter: a
// history is as long as what is left of it, and a state has what lies before known already.
func gap(err error, v *view, at uint64, known events.Position) (uint64, bool) {
	var gone *eventlog.Truncated
	if errors.As(err, &gone) && (v.History > 0 || gone.To <= eventlog.Seq(known) || uint64(gone.To) <= at) {
		return max(at, uint64(gone.To)), true
	}
	return 0, false
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

// history finds the first entries of both streams that belong to a history of some length.
func (f *Follower) history(ctx context.Context, name projections.Shard, length events.Instant) (projections.Ends, error) {
	ledger, messages := streams(name)
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
		if ends[i], err = f.firstAfter(ctx, name, ends[i], high-length-1, highOf[i]); err != nil {
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

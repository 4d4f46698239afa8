package broker

import (
	"context"
	"encoding/base64"
	"slices"

	"github.com/leaselog/leaselog/events"
	"github.com/leaselog/leaselog/internal/eventlog"
	"github.com/leaselog/leaselog/internal/fault"
)

// LifeOf asks what happened to a message in a queue.
type LifeOf struct {
	Queue events.QueueID
	ID    events.MessageID
	After string // the Next of an earlier page
	Limit int    // of happenings; those of one entry of the log stay together, beyond it too
}

// Life is a page of what happened to a message in one queue: all of it while it is in one shard, then what happened in the
// next one, should a move have brought it back there. Next is empty on the last page.
type Life struct {
	Happenings []Happening
	Next       string
	// Lost says that the log does not go back to the message's first instant any more: what is here may be its end only.
	Lost bool
}

// What happened to a message.
type What string

// The events of the log that name a message, and LeaseEnded, which is none: it follows from the clock.
const (
	WasSent     What = "sent"
	Arrived     What = "arrived" // by a move
	Passed      What = "passed"  // looked at and not handed out: not due, its group locked, or looked at by a move task
	Leased      What = "leased"
	WasExtended What = "extended"
	WasReleased What = "released"
	LeaseEnded  What = "lease_ended"
	Acked       What = "acked"
	Expired     What = "expired"
	Purged      What = "purged"
	WasMoved    What = "moved"
)

// Happening is one thing that happened to a message.
type Happening struct {
	What     What
	At       events.Instant
	Shard    int
	Position events.Position   // of the message
	Ledger   eventlog.Seq      // the place in the shard's ledger; 0 for what is not there: WasSent and LeaseEnded
	Lease    events.LeaseID    // of Leased, Acked and LeaseEnded
	Until    events.Instant    // of Leased and WasExtended: the end of the lease; of WasReleased: when it is visible again
	Receives uint32            // of Leased: how often it has been received here, this time included
	Reason   events.MoveReason // of WasMoved
	Queue    events.QueueID    // the other queue, of WasMoved and Arrived
}

// final says that nothing happens to the message after it.
func (w What) final() bool { return w == Acked || w == Expired || w == Purged }

// lifeScanMax bounds the ledger entries that one page looks at, so that a busy shard gives short pages instead of a
// long wait.
const lifeScanMax = 20_000

// sentScanMax bounds the blocks that are looked at for one that says another instant than the log had reached: it was
// written by a clock that went behind.
const sentScanMax = 64

// Life tells what happened to a message, from headers and ledgers: no body is opened. Faults: NotFound, also for a message
// that the queue's log knows nothing of; Invalid for a garbled After.
func (b *Broker) Life(ctx context.Context, q LifeOf) (*Life, error) {
	if q.ID[6]>>4 != 7 { // its time is none, and would have all that the log has be read
		return nil, unheardOf(q.ID)
	}
	h, err := b.open(ctx, q.Queue)
	if err != nil {
		return nil, err
	}
	s, err := h.biographer(ctx, &q)
	if err != nil {
		return nil, b.noQueue(h.id, err)
	}
	for s.At.Turn < h.shards() && len(s.life.Happenings) < q.Limit && s.scanned < lifeScanMax {
		if err := s.read(ctx); err != nil {
			return nil, b.noQueue(h.id, err)
		}
	}
	switch {
	case s.At.Turn < h.shards():
		s.life.Next = base64.RawURLEncoding.EncodeToString(events.EncodeRecord(s.At))
	case !s.At.Met:
		return nil, unheardOf(q.ID)
	}
	return &s.life, nil
}

func unheardOf(id events.MessageID) error {
	return fault.New(fault.NotFound, "the log of this queue knows no message %s: it was never here, or that is longer ago than the log goes back", id)
}

// biographer goes through the ledgers of a queue's shards, the one that the message was sent to first.
type biographer struct {
	h       *handle
	id      events.MessageID
	limit   int
	At      place
	life    Life
	scanned int
}

// place is how far it has come: what the next page begins with.
type place struct {
	Home int    `cbor:"1,keyasint"` // the shard that the message was sent to, -1 for none
	Turn int    `cbor:"2,keyasint"` // how many shards are done
	Next uint64 `cbor:"3,keyasint"` // in the ledger of the one that is not
	Met  bool   `cbor:"4,keyasint"` // something of the message was found
	Lost bool   `cbor:"5,keyasint"` // of this ledger's beginning
	Stay stay   `cbor:"6,keyasint"`
}

// stay is what is known of the message while it is at a position.
type stay struct {
	Here     bool            `cbor:"1,keyasint"`
	Position events.Position `cbor:"2,keyasint"`
	Seen     bool            `cbor:"3,keyasint"` // an event has named it
	Receives uint32          `cbor:"4,keyasint"`
	Lease    events.LeaseID  `cbor:"5,keyasint"` // of the lease that has not ended
	Until    events.Instant  `cbor:"6,keyasint"`
}

func (h *handle) biographer(ctx context.Context, q *LifeOf) (s *biographer, err error) {
	s = &biographer{h: h, id: q.ID, limit: q.Limit, At: place{Home: -1}}
	if q.After != "" {
		data, err := base64.RawURLEncoding.DecodeString(q.After)
		if err != nil || events.DecodeRecord(data, &s.At) != nil || s.At.Turn < 0 || s.At.Turn >= h.shards() || s.At.Home >= h.shards() {
			return nil, fault.New(fault.Invalid, "the marker is not one of this message's history")
		}
		s.life.Lost = s.At.Lost
		return s, nil
	}
	for i := range h.shards() {
		sent, err := s.sent(ctx, i)
		if err != nil || sent {
			return s, err
		}
	}
	return s, s.begin(ctx)
}

// shard gives the one whose turn it is.
func (s *biographer) shard() int {
	switch {
	case s.At.Home < 0 || s.At.Turn > s.At.Home:
		return s.At.Turn
	case s.At.Turn == 0:
		return s.At.Home
	}
	return s.At.Turn - 1
}

// sent looks whether the message was sent to a shard. Then that is read first.
func (s *biographer) sent(ctx context.Context, shard int) (bool, error) {
	b, at := s.h.broker, s.id.Instant()
	stream := eventlog.Stream(events.MessageStream(s.h.id, shard, 0))
	last, ok, err := b.Log.Last(ctx, stream)
	if err != nil || !ok {
		return false, storeFault(err)
	}
	from, _, err := b.bisect(ctx, stream, 0, events.Position(last.Next()), at-1)
	if err != nil {
		return false, err
	}
	entries, err := b.Log.Read(ctx, stream, eventlog.Seq(from), eventlog.Limits{Entries: sentScanMax, HeadersOnly: true})
	if _, gone := truncated(err); gone {
		return false, nil // dropped meanwhile
	}
	if err != nil {
		return false, storeFault(err)
	}
	for _, e := range entries {
		header, err := events.DecodeHeader(e.Header)
		if err != nil {
			return false, corrupt(e, err)
		}
		for i := range int(header.Count) {
			if header.Origin(i) == nil && header.MessageID(i) == s.id {
				s.At.Home = shard
				s.At.Stay = stay{Here: true, Position: events.Position(e.Seq) + events.Position(i)}
				s.tell(Happening{What: WasSent, At: header.At})
				return true, s.begin(ctx)
			}
		}
	}
	return false, nil
}

// begin finds where the ledger is read from: where it reached the message's instant.
func (s *biographer) begin(ctx context.Context) error {
	stream := eventlog.Stream(events.LedgerStream(s.h.id, s.shard()))
	last, ok, err := s.h.broker.Log.Last(ctx, stream)
	if err != nil || !ok {
		return storeFault(err)
	}
	from, err := s.h.broker.bisectLedger(ctx, stream, last.Next(), s.id.Instant()-1)
	s.At.Next = uint64(from)
	if err == nil && from > 0 { // whether what was before is older, or was dropped
		_, err = s.h.broker.Log.Read(ctx, stream, from-1, eventlog.Limits{Entries: 1, HeadersOnly: true})
		if _, gone := truncated(err); gone {
			s.lost()
			err = nil
		}
	}
	return storeFault(err)
}

// read takes some more of a ledger. At its end the next shard's turn comes, if the message may be there.
func (s *biographer) read(ctx context.Context) error {
	b, shard := s.h.broker, s.shard()
	stream := eventlog.Stream(events.LedgerStream(s.h.id, shard))
	entries, err := b.Log.Read(ctx, stream, eventlog.Seq(s.At.Next), eventlog.Limits{Entries: 1_000})
	if t, gone := truncated(err); gone {
		s.At.Next = uint64(t.To)
		s.lost()
		return nil
	}
	if err != nil {
		return storeFault(err)
	}
	s.scanned += len(entries)
	for _, e := range entries {
		happened, err := events.Decode(e.Data)
		if err != nil {
			return corrupt(e, err)
		}
		s.At.Next = uint64(e.Next())
		for _, event := range happened {
			s.take(e.Seq, event)
		}
		if n := len(s.life.Happenings); n > 0 && s.life.Happenings[n-1].What.final() {
			s.At.Turn = s.h.shards()
			return nil
		}
		if len(s.life.Happenings) >= s.limit {
			return nil
		}
	}
	if len(entries) > 0 {
		return nil
	}
	s.lapse(b.Now())
	s.At.Stay, s.At.Lost = stay{}, false
	if s.At.Turn++; s.At.Turn < s.h.shards() {
		return s.begin(ctx)
	}
	return nil
}

// lost notes that the beginning of the ledger is missing.
func (s *biographer) lost() { s.At.Lost, s.life.Lost = true, true }

// tell adds what happened to the message where it is.
func (s *biographer) tell(h Happening) {
	h.Shard, h.Position = s.shard(), s.At.Stay.Position
	s.life.Happenings = append(s.life.Happenings, h)
	s.At.Met = true
}

// lapse tells of a lease that has ended by itself before an instant.
func (s *biographer) lapse(before events.Instant) {
	if st := &s.At.Stay; st.Lease != (events.LeaseID{}) && st.Until <= before {
		s.tell(Happening{What: LeaseEnded, At: st.Until, Lease: st.Lease})
		st.Lease = events.LeaseID{}
	}
}

// take tells what an event says of the message.
func (s *biographer) take(seq eventlog.Seq, event events.Event) {
	if e, ok := event.(*events.Arrived); ok {
		if i := slices.Index(e.IDs, s.id); i >= 0 {
			s.At.Stay = stay{Here: true, Position: e.Position + events.Position(i)}
			s.tell(Happening{What: Arrived, At: e.At, Ledger: seq, Queue: e.Queue})
		}
		return
	}
	st := &s.At.Stay
	h, named := s.named(event)
	if !named {
		return
	}
	s.lapse(h.At)
	st.Seen = true
	switch h.What {
	case Leased:
		st.Receives++
		st.Lease, st.Until, h.Receives = h.Lease, h.Until, st.Receives
	case WasExtended:
		st.Until = h.Until
	case WasReleased, Acked, Expired, Purged, WasMoved:
		st.Lease = events.LeaseID{}
	}
	h.Ledger = seq
	s.tell(h)
	if h.What == WasMoved {
		*st = stay{}
	}
}

// named gives what an event says of the message where it is now.
func (s *biographer) named(event events.Event) (h Happening, named bool) {
	st := &s.At.Stay
	if !st.Here {
		return h, false
	}
	here := func(t events.Taken) bool { return t.Position == st.Position }
	switch e := event.(type) {
	case *events.Leased:
		return Happening{What: Leased, At: e.At, Lease: e.Lease, Until: e.Until}, slices.ContainsFunc(e.Items, here)
	case *events.Passed:
		return Happening{What: Passed, At: e.At}, slices.ContainsFunc(e.Items, here)
	case *events.Extended:
		return Happening{What: WasExtended, At: e.At, Until: e.Until}, slices.Contains(e.Items, st.Position)
	case *events.Released:
		return Happening{What: WasReleased, At: e.At, Until: e.Visible}, slices.Contains(e.Items, st.Position)
	case *events.Acked:
		return Happening{What: Acked, At: e.At, Lease: e.Lease}, slices.Contains(e.Items, st.Position)
	case *events.Expired: // by name, or with all that nobody had looked at
		jumped := !st.Seen && !s.At.Lost && st.Position < e.To
		return Happening{What: Expired, At: e.At}, jumped || slices.Contains(e.Items, st.Position)
	case *events.Moved:
		return Happening{What: WasMoved, At: e.At, Reason: e.Reason, Queue: e.Queue}, slices.Contains(e.Items, st.Position)
	case *events.Purged:
		return Happening{What: Purged, At: e.At}, st.Position < e.To
	}
	return h, false
}

package broker

import (
	"context"
	"errors"
	"fmt"

	"github.com/leaselog/leaselog/events"
	"github.com/leaselog/leaselog/internal/envelope"
	"github.com/leaselog/leaselog/internal/eventlog"
	"github.com/leaselog/leaselog/internal/queue"
)

// shard is the state of one shard in this process: the folds of its two streams up to their ends as last read, and
// the blocks near its cursor. Only its runner touches it.
type shard struct {
	b             *Broker
	keys          *envelope.Keyring
	id            events.QueueID
	index         int
	messageStream eventlog.Stream
	ledgerStream  eventlog.Stream

	loaded     bool
	sender     *queue.Sender
	ledger     *queue.Ledger
	ledgerTail eventlog.Seq
	confirmed  events.Instant // when both ends were known last
	blocks     blocks
	draft      *block // being committed
	settled    settled

	trimmed       events.Position // before it only what holds a live message is kept
	ledgerTrimmed eventlog.Seq
	// bytes written since the last snapshot of each stream
	ledgerBytes, senderBytes int
}

func newShard(h *handle, index int) *shard {
	return &shard{
		b: h.broker, keys: h.keys, id: h.id, index: index,
		messageStream: eventlog.Stream(events.MessageStream(h.id, index, 0)),
		ledgerStream:  eventlog.Stream(events.LedgerStream(h.id, index)),
	}
}

// at is the instant at which this shard decides now.
func (s *shard) at() events.Instant {
	return queue.InstantOf(s.b.Now(), max(s.sender.High, s.ledger.High))
}

// load folds both streams from their newest snapshots.
func (s *shard) load(ctx context.Context) (err error) {
	for range 3 { // others may drop what it is about to read
		if err = s.loadOnce(ctx); err == nil {
			return nil
		}
		if _, gone := truncated(err); !gone {
			return err
		}
	}
	if r, recordErr := s.b.readRecord(ctx, s.id); recordErr == nil && r.gone() {
		return queue.ErrDeleted() // its streams were dropped without a snapshot
	}
	return err
}

func (s *shard) loadOnce(ctx context.Context) error {
	s.loaded = false
	s.ledger, s.sender = queue.NewLedger(s.b.Limits), queue.NewSender(s.b.Limits)
	s.ledgerTail, s.ledgerBytes, s.senderBytes = 0, 0, 0
	s.blocks.reset(s.b.cacheShare)
	s.settled = settled{}
	if snap, ok, err := s.b.Log.Snapshot(ctx, s.ledgerStream, eventlog.Seq(1<<63)); err != nil {
		return storeFault(err)
	} else if ok {
		if s.ledger, err = queue.LoadLedger(s.b.Limits, snap.Data); err != nil {
			return fmt.Errorf("%w: %w", eventlog.ErrCorrupt, err)
		}
		s.ledgerTail = snap.Seq
	}
	if snap, ok, err := s.b.Log.Snapshot(ctx, s.messageStream, eventlog.Seq(1<<63)); err != nil {
		return storeFault(err)
	} else if ok {
		if s.sender, err = queue.LoadSender(s.b.Limits, snap.Data); err != nil {
			return fmt.Errorf("%w: %w", eventlog.ErrCorrupt, err)
		}
	}
	if err := s.follow(ctx); err != nil {
		return err
	}
	if s.ledger.Version == 0 || s.sender.Version == 0 {
		return fmt.Errorf("%w: shard %d of queue %v has no beginning", eventlog.ErrCorrupt, s.index, s.id)
	}
	s.loaded = true
	return nil
}

// catchUp folds what others, or an earlier life of this process, have written since. Where they have dropped what was
// not folded yet, a newer snapshot stands.
func (s *shard) catchUp(ctx context.Context) error {
	err := s.follow(ctx)
	if _, gone := truncated(err); gone {
		return s.load(ctx)
	}
	return err
}

// follow reads on from what was folded.
func (s *shard) follow(ctx context.Context) error {
	now := s.b.Now()
	// The ledger first: a message that it names is then in the message stream.
	for {
		entries, err := s.b.Log.Read(ctx, s.ledgerStream, s.ledgerTail, eventlog.Limits{Bytes: 4 << 20})
		if err != nil || len(entries) == 0 {
			if err != nil {
				return storeFault(err)
			}
			break
		}
		for _, e := range entries {
			if err := s.foldLedger(e); err != nil {
				return err
			}
		}
	}
	for {
		entries, err := s.b.Log.Read(ctx, s.messageStream, eventlog.Seq(s.sender.Tail), eventlog.Limits{Bytes: 4 << 20, HeadersOnly: true})
		if err != nil || len(entries) == 0 {
			if err != nil {
				return storeFault(err)
			}
			break
		}
		for _, e := range entries {
			if err := s.foldMessages(e); err != nil {
				return err
			}
		}
	}
	s.confirmed = now
	if s.sender.Settings.KeyVersion > s.keys.Current() {
		return s.b.renew(ctx, s.keys) // another process has re-keyed the queue
	}
	return nil
}

func (s *shard) foldLedger(e eventlog.Entry) error {
	happened, err := events.Decode(e.Data)
	if err != nil {
		return corrupt(e, err)
	}
	if e.Seq != s.ledgerTail {
		return corrupt(e, errors.New("it covers the end that was read before"))
	}
	for _, ev := range happened {
		s.ledger.Evolve(ev)
		s.observe(ev)
	}
	s.ledger.Settle()
	s.ledgerTail = e.Next()
	s.ledgerBytes += len(e.Data) + len(e.Header)
	return nil
}

func (s *shard) foldMessages(e eventlog.Entry) error {
	h, err := events.DecodeHeader(e.Header)
	if err != nil {
		return corrupt(e, err)
	}
	s.sender.Evolve(events.Position(e.Seq), h)
	s.sender.Settle()
	s.senderBytes += len(e.Header) + int(h.Bytes)
	return nil
}

func corrupt(e eventlog.Entry, err error) error {
	return fmt.Errorf("%w: entry %d of stream %s: %w", eventlog.ErrCorrupt, e.Seq, e.Stream, err)
}

// observe keeps what lies beside the rules' state but follows from the same events.
func (s *shard) observe(e events.Event) {
	if a, ok := e.(*events.Acked); ok {
		s.settled.add(a)
	}
}

// confirm says whether the ends of both streams are still where they were read last. An answer that wrote nothing
// rests on it, unless nobody else writes.
func (s *shard) confirm(ctx context.Context) (bool, error) { return s.endsAt(ctx, s.sender.Tail) }

// endsAt is confirm while a block is being formed, so that the fold is ahead of what was read: the message stream ended
// at tail.
func (s *shard) endsAt(ctx context.Context, tail events.Position) (bool, error) {
	if s.b.Exclusive {
		return true, nil
	}
	now := s.b.Now()
	for _, c := range []struct {
		stream eventlog.Stream
		end    eventlog.Seq
	}{{s.ledgerStream, s.ledgerTail}, {s.messageStream, eventlog.Seq(tail)}} {
		last, ok, err := s.b.Log.Last(ctx, c.stream)
		if err != nil {
			return false, storeFault(err)
		}
		if !ok || last.Next() != c.end {
			return false, nil
		}
	}
	s.confirmed = now
	return true, nil
}

// snapshots writes a snapshot of each stream whose tail since the last one has outgrown the state four times.
func (s *shard) snapshots(ctx context.Context) error {
	if s.ledgerBytes > max(snapshotFloor, 4*s.ledger.Size()) {
		if err := s.snapshotLedger(ctx); err != nil {
			return err
		}
	}
	if s.senderBytes > max(senderSnapshotFloor, 4*s.sender.Size()) {
		return s.snapshotSender(ctx)
	}
	return nil
}

// snapshotNow writes a snapshot of both streams, since what lies before is to be dropped.
func (s *shard) snapshotNow(ctx context.Context) error {
	if err := s.snapshotLedger(ctx); err != nil {
		return err
	}
	return s.snapshotSender(ctx)
}

func (s *shard) snapshotLedger(ctx context.Context) error {
	if s.ledgerBytes == 0 {
		return nil
	}
	err := s.b.Log.PutSnapshot(ctx, s.ledgerStream, eventlog.Snapshot{Seq: s.ledgerTail, Data: s.ledger.Snapshot()})
	if err == nil {
		s.ledgerBytes = 0
	}
	return err
}

func (s *shard) snapshotSender(ctx context.Context) error {
	if s.senderBytes == 0 {
		return nil
	}
	err := s.b.Log.PutSnapshot(ctx, s.messageStream, eventlog.Snapshot{Seq: eventlog.Seq(s.sender.Tail), Data: s.sender.Snapshot()})
	if err == nil {
		s.senderBytes = 0
	}
	return err
}

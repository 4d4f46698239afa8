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
	traffic       *traffic // the queue's
	messageStream eventlog.Stream
	ledgerStream  eventlog.Stream

	loaded     bool
	sender     *queue.Sender
	ledger     *queue.Ledger
	ledgerTail eventlog.Seq
	ledgerEnd  tail
	messageEnd tail
	blind      bool // the commands at hand need no more than the ledger, which others may have folded further
	unread     bool // the message stream was never needed
	opens      bool // this process hands out messages
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
		b: h.broker, keys: h.keys, id: h.id, index: index, traffic: &h.traffic,
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
	s.ledgerEnd, s.messageEnd = tail{stale: true}, tail{}
	snap, ok, err := s.b.Log.Snapshot(ctx, s.ledgerStream, eventlog.Seq(1<<63))
	if err != nil {
		return storeFault(err)
	} else if ok {
		if s.ledger, err = queue.LoadLedger(s.b.Limits, snap.Data); err != nil {
			return fmt.Errorf("%w: %w", eventlog.ErrCorrupt, err)
		}
		s.ledgerTail = snap.Seq
	}
	s.unread = true
	if !s.blind {
		if err := s.loadMessages(ctx); err != nil {
			return err
		}
	}
	if err := s.follow(ctx); err != nil {
		return err
	}
	if s.ledger.Version == 0 || s.sender.Version == 0 && !s.unread {
		return fmt.Errorf("%w: shard %d of queue %v has no beginning", eventlog.ErrCorrupt, s.index, s.id)
	}
	s.loaded = true
	return nil
}

// loadMessages takes the newest snapshot of the message stream, which is to be followed from there.
func (s *shard) loadMessages(ctx context.Context) error {
	snap, ok, err := s.b.Log.Snapshot(ctx, s.messageStream, eventlog.Seq(1<<63))
	if err != nil {
		return storeFault(err)
	} else if ok {
		if s.sender, err = queue.LoadSender(s.b.Limits, snap.Data); err != nil {
			return fmt.Errorf("%w: %w", eventlog.ErrCorrupt, err)
		}
	}
	s.unread, s.messageEnd = false, tail{stale: true}
	return nil
}

// catchUp folds what others, or an earlier life of this process, have written since. Where they have dropped what was
// not folded yet, a newer snapshot stands.
func (s *shard) catchUp(ctx context.Context) (err error) {
	if s.unread && !s.blind {
		err = s.loadMessages(ctx)
	}
	if err == nil {
		err = s.follow(ctx)
	}
	if _, gone := truncated(err); gone {
		return s.load(ctx)
	}
	return err
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
	if e.Data != nil {
		s.blocks.append(newBlock(events.Position(e.Seq), h, e.Header, e.Data, nil), s.ledger.Cursor)
	}
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

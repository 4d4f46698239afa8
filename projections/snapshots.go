package projections

import (
	"fmt"

	"github.com/leaselog/leaselog/events"
)

// Snapshots keeps the states of shards from which every other fold and every process begins. One is due when what was
// written since the last has outgrown the state, and for a shard in use every day. Its view says where they stand.
var Snapshots = Projection{Name: "project-snapshots", View: "snapshots", New: func() Fold { return &snapshotFold{} }}

// SnapshotsView is what is kept of one shard.
type SnapshotsView struct {
	At events.Instant `cbor:"1,keyasint"` // the highest instant of the log here
}

// Snapshotter is a [Fold] that makes snapshots.
type Snapshotter interface {
	Fold
	// Due gives the snapshots of ledger and message stream that are to be kept now, nil for none.
	Due() (ledger, messages *Snapshot)
	// Stand says that those are kept that Due gave last.
	Stand()
}

const (
	// ledgerFloor and messagesFloor are bytes that are folded again without a thought. An entry of the message stream
	// is paid for with its bodies, though nobody reads them.
	ledgerFloor, messagesFloor = 256 << 10, 16 << 20
	// outgrown is how many times the state the tail may be.
	outgrown = 4
)

type snapshotFold struct {
	standing
	ledgerBytes, messageBytes int            // since the last snapshot
	ledgerAt, messagesAt      events.Instant // of that, 0 for none
}

// Start implements [Fold].
func (s *snapshotFold) Start(b Start) (uint64, error) {
	s.State = b.State
	s.ledgerAt, s.messagesAt = s.ledger.High, s.sender.High
	return s.tail, nil
}

// Ledger implements [Fold].
func (s *snapshotFold) Ledger(e Entry, h *events.LedgerHeader, _ []events.Event) {
	s.ledgerBytes += e.Bytes
	if s.ledgerAt == 0 {
		s.ledgerAt = h.At
	}
}

// Message implements [Fold].
func (s *snapshotFold) Message(e Entry, h *events.Header) {
	s.messageBytes += e.Bytes + int(h.Bytes)
	if s.messagesAt == 0 {
		s.messagesAt = h.At
	}
}

// Due implements [Snapshotter].
func (s *snapshotFold) Due() (ledger, messages *Snapshot) {
	due := func(bytes, floor, size int, high, last events.Instant) bool {
		return bytes > max(floor, outgrown*size) || bytes > 0 && high-last >= aDay
	}
	if due(s.ledgerBytes, ledgerFloor, s.ledger.Size(), s.ledger.High, s.ledgerAt) {
		ledger = &Snapshot{s.tail, s.ledger.Snapshot()}
	}
	if due(s.messageBytes, messagesFloor, s.sender.Size(), s.sender.High, s.messagesAt) {
		messages = &Snapshot{uint64(s.sender.Tail), s.sender.Snapshot()}
	}
	return ledger, messages
}

// Stand implements [Snapshotter].
func (s *snapshotFold) Stand() {
	ledger, messages := s.Due()
	if ledger != nil {
		s.ledgerBytes, s.ledgerAt = 0, s.ledger.High
	}
	if messages != nil {
		s.messageBytes, s.messagesAt = 0, s.sender.High
	}
}

// View implements [Fold].
func (s *snapshotFold) View(Look) ([]byte, error) {
	return events.EncodeRecord(SnapshotsView{At: s.high()}), nil
}

// ReadSnapshots reads the view of one shard.
func ReadSnapshots(view []byte) (v SnapshotsView, err error) {
	if err = events.DecodeRecord(view, &v); err != nil {
		err = fmt.Errorf("snapshots view: %w", err)
	}
	return v, err
}

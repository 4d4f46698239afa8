package events

// Event is something that happened in a shard. Its struct is the payload; its type number stands in the codec's table.
type Event interface{ number() uint64 }

// Configured puts settings in force. The control entry at Control, written in the same commit, says the same to senders.
type Configured struct {
	At       Instant  `cbor:"1,keyasint"`
	Version  uint64   `cbor:"2,keyasint"`
	Settings Settings `cbor:"3,keyasint"`
	Control  Position `cbor:"4,keyasint"`
}

// Info is what the state keeps of a message that it looks at for the first time.
type Info struct {
	Group    Hash    `cbor:"1,keyasint,omitzero"`
	Retained Instant `cbor:"2,keyasint"`           // retention counts from here
	Due      Instant `cbor:"3,keyasint"`           // deliverable since
	Expires  Instant `cbor:"4,keyasint,omitempty"` // own expiry; 0: none
	Limit    uint32  `cbor:"5,keyasint,omitempty"` // own maximum of receives; 0: the queue's
	Key      uint32  `cbor:"6,keyasint,omitempty"` // key version of its block
}

// Leased hands out messages until an instant, all under one lease id.
type Leased struct {
	At    Instant `cbor:"1,keyasint"`
	Lease LeaseID `cbor:"2,keyasint"`
	Until Instant `cbor:"3,keyasint"`
	Items []Taken `cbor:"4,keyasint"`
}

// Taken is one message of a [Leased]. Info is there when the message is at the cursor and was not looked at before.
type Taken struct {
	Position Position `cbor:"1,keyasint"`
	Info     *Info    `cbor:"2,keyasint,omitempty"`
}

// Passed moves the cursor over messages that were looked at and not leased: their group was locked, they were not due,
// or it was a move task that looked.
type Passed struct {
	At    Instant `cbor:"1,keyasint"`
	Items []Taken `cbor:"2,keyasint"` // each with Info
}

// Extended changes the end of leases.
type Extended struct {
	At    Instant    `cbor:"1,keyasint"`
	Until Instant    `cbor:"2,keyasint"`
	Items []Position `cbor:"3,keyasint"`
}

// Released ends leases by their holder's will; the messages become visible again at Visible.
type Released struct {
	At      Instant    `cbor:"1,keyasint"`
	Visible Instant    `cbor:"2,keyasint"`
	Items   []Position `cbor:"3,keyasint"`
	// Uncounted takes the receive back from the messages' counts: for an API that has it, no rule yet.
	Uncounted bool `cbor:"4,keyasint,omitempty"`
}

// Acked finishes messages, under the lease that each had. Lease is kept so that a repeated ack can be recognized.
type Acked struct {
	At    Instant    `cbor:"1,keyasint"`
	Lease LeaseID    `cbor:"2,keyasint"`
	Items []Position `cbor:"3,keyasint"`
}

// Failed keeps messages in place without delivering them: for an API that has it, no rule yet.
type Failed struct {
	At    Instant    `cbor:"1,keyasint"`
	Lease LeaseID    `cbor:"2,keyasint"`
	Items []Position `cbor:"3,keyasint"`
}

// Recovered makes failed messages deliverable again: no rule yet.
type Recovered struct {
	At    Instant    `cbor:"1,keyasint"`
	Items []Position `cbor:"2,keyasint"`
}

// Expired discards messages past their retention. The cursor moves to To when that is beyond it, over Skipped
// messages that nobody had looked at, every one of them expired; Items were looked at and pending.
type Expired struct {
	At      Instant    `cbor:"1,keyasint"`
	Items   []Position `cbor:"2,keyasint,omitempty"`
	To      Position   `cbor:"3,keyasint,omitempty"`
	Skipped uint64     `cbor:"4,keyasint,omitempty"`
}

// Moved takes messages to another queue: Items[i] of this shard is now at Position+i of the target.
type Moved struct {
	At       Instant    `cbor:"1,keyasint"`
	Items    []Position `cbor:"2,keyasint"`
	Queue    QueueID    `cbor:"3,keyasint"`
	Shard    uint32     `cbor:"4,keyasint,omitempty"`
	Position Position   `cbor:"5,keyasint"`
	Reason   MoveReason `cbor:"6,keyasint,omitempty"`
}

// MoveReason says why a message was moved.
type MoveReason uint8

const (
	Exhausted MoveReason = 0 // it was received as often as its queue allows
	Redriven  MoveReason = 1 // a move task took it
)

// Arrived says in the target's ledger what a move brought: the message at Position+i has IDs[i] and came from Items[i]
// of the source. It is for search; the state keeps nothing of it but the total.
type Arrived struct {
	At       Instant     `cbor:"1,keyasint"`
	IDs      []MessageID `cbor:"2,keyasint"`
	Position Position    `cbor:"3,keyasint"`
	Queue    QueueID     `cbor:"4,keyasint"`
	Shard    uint32      `cbor:"5,keyasint,omitempty"`
	Items    []Position  `cbor:"6,keyasint"`
}

// Purged finishes every message before To, leased or not: Messages of them. The control entry at Control, written in
// the same commit, makes a sender who does not know of the purge conflict.
type Purged struct {
	At       Instant  `cbor:"1,keyasint"`
	To       Position `cbor:"2,keyasint"`
	Messages uint64   `cbor:"3,keyasint,omitempty"`
	Control  Position `cbor:"4,keyasint"`
}

// Anchored says nothing: it is a ledger's last entry where a store lets old ones go. The anchor of the message stream,
// written in the same commit, stands at Control; version 1 did not say so, and has 0.
type Anchored struct {
	At      Instant  `cbor:"1,keyasint"`
	Control Position `cbor:"2,keyasint,omitempty"`
}

// LaneOpened and LaneClosed are places in the format for lanes of messages due later; no rule yet.
type LaneOpened struct {
	At   Instant `cbor:"1,keyasint"`
	Lane uint32  `cbor:"2,keyasint"`
	From Instant `cbor:"3,keyasint"`
}

// LaneClosed ends a lane at a position, so that a slow sender meets a conflict there.
type LaneClosed struct {
	At   Instant  `cbor:"1,keyasint"`
	Lane uint32   `cbor:"2,keyasint"`
	End  Position `cbor:"3,keyasint"`
}

// The numbers of the event types: kept for ever, see the table in codec.go.

func (*Configured) number() uint64 { return 1 }
func (*Leased) number() uint64     { return 2 }
func (*Passed) number() uint64     { return 3 }
func (*Extended) number() uint64   { return 4 }
func (*Released) number() uint64   { return 5 }
func (*Acked) number() uint64      { return 6 }
func (*Failed) number() uint64     { return 7 }
func (*Recovered) number() uint64  { return 8 }
func (*Expired) number() uint64    { return 9 }
func (*Moved) number() uint64      { return 10 }
func (*Arrived) number() uint64    { return 11 }
func (*Purged) number() uint64     { return 12 }
func (*Anchored) number() uint64   { return 13 }
func (*LaneOpened) number() uint64 { return 14 }
func (*LaneClosed) number() uint64 { return 15 }

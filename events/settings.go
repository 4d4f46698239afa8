package events

// Settings are all that the rules know of a queue. They are an event ([Configured]): a change holds from an exact
// position of each shard on.
type Settings struct {
	Status           Status      `cbor:"1,keyasint,omitempty"`
	Fifo             bool        `cbor:"2,keyasint,omitempty"`
	Delivery         Delivery    `cbor:"3,keyasint,omitempty"` // FIFO only
	DedupScope       DedupScope  `cbor:"4,keyasint,omitempty"` // FIFO only
	DedupSeconds     uint32      `cbor:"5,keyasint,omitempty"` // how long an id is remembered; 0: never
	ContentDedup     bool        `cbor:"6,keyasint,omitempty"` // the hash of the body stands in for a missing id
	LeaseSeconds     uint32      `cbor:"7,keyasint,omitempty"` // of a receive that names none
	RetentionSeconds uint32      `cbor:"8,keyasint,omitempty"`
	MaxBytes         uint32      `cbor:"9,keyasint,omitempty"` // of one message
	DelaySeconds     uint32      `cbor:"10,keyasint,omitempty"`
	WaitSeconds      uint32      `cbor:"11,keyasint,omitempty"` // of a receive that names none
	KeyReuseSeconds  uint32      `cbor:"12,keyasint,omitempty"` // how long an unwrapped data key may be kept
	DeadLetter       *DeadLetter `cbor:"13,keyasint,omitempty"`
	Rate             *Rate       `cbor:"14,keyasint,omitempty"` // no rule uses it yet
	KeyVersion       uint32      `cbor:"15,keyasint,omitempty"` // of the data keys, the oldest that may still seal
}

// Status says what a queue still does.
type Status uint8

const (
	Active   Status = 0
	Draining Status = 1 // takes no messages, hands out what it has
	Deleted  Status = 2 // takes and hands out nothing, for ever
	Shredded Status = 3 // deleted, and its keys are destroyed
)

// Delivery is the rule by which a FIFO queue hands out the messages of one group.
type Delivery uint8

const (
	OnePerGroup Delivery = 0 // a receive gives at most one message of a group, and none while one is leased
	AsManyAsFit Delivery = 1 // a receive walks a group from its oldest message and stops at the first that is leased or not due
)

// DedupScope says among which messages a deduplication id is unique.
type DedupScope uint8

const (
	DedupQueue DedupScope = 0 // the id alone counts; the queue has one shard
	DedupGroup DedupScope = 1 // id and group count
)

// DeadLetter says where a message goes that was received Receives times and not acked.
type DeadLetter struct {
	Queue    QueueID `cbor:"1,keyasint"`
	Receives uint32  `cbor:"2,keyasint"`
	// Gone is true once that queue was deleted: the policy is still shown, and messages go on being delivered here.
	Gone bool `cbor:"3,keyasint,omitempty"`
}

// Rate limits receives: a place in the format for an API that needs it.
type Rate struct {
	Receives uint32 `cbor:"1,keyasint"`
	Seconds  uint32 `cbor:"2,keyasint"`
}

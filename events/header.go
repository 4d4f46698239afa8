package events

// Kind says what an entry is.
type Kind uint8

const (
	Block   Kind = 0 // messages (message stream) or events (ledger)
	Control Kind = 1 // no messages: settings changed or a purge; takes one position, which the ledger names as finished
	Anchor  Kind = 2 // nothing: keeps the running values when old entries are gone
)

// Header is the part of a message stream's entry outside the seal: what rules and views need without opening bodies.
// It is authenticated with the sealed data. Every header, of control entries and anchors too, repeats the running
// values: Totals, Version, Epoch and High are true after this entry.
//
// Columns that are the same for every message are left out. A column that is there has one value per message.
type Header struct {
	Kind    Kind    `cbor:"1,keyasint,omitempty"`
	ID      BlockID `cbor:"2,keyasint"`
	At      Instant `cbor:"3,keyasint"`           // when it was decided; its messages were enqueued then
	High    Instant `cbor:"4,keyasint"`           // the highest At so far
	Count   uint32  `cbor:"5,keyasint,omitempty"` // messages
	Bytes   uint64  `cbor:"6,keyasint,omitempty"` // of bodies and attributes, not sealed
	Totals  Totals  `cbor:"7,keyasint"`
	Version uint64  `cbor:"8,keyasint"`            // of the settings in force
	Epoch   uint64  `cbor:"9,keyasint,omitempty"`  // of the dedup memory: hashes of an older epoch do not count
	Key     uint32  `cbor:"10,keyasint,omitempty"` // version of the data key that sealed the entry

	Groups  []byte    `cbor:"11,keyasint,omitempty"` // 16 bytes a message: keyed hash of its group, zero for none
	Dedups  []byte    `cbor:"12,keyasint,omitempty"` // 16 bytes a message: keyed hash of its dedup id, zero for none
	Due     []Instant `cbor:"13,keyasint,omitempty"` // delivered no earlier
	Expires []Instant `cbor:"14,keyasint,omitempty"` // the message's own expiry; 0: the queue's retention alone counts
	Limits  []uint32  `cbor:"15,keyasint,omitempty"` // the message's own maximum of receives; 0: the queue's
	Origins []Origin  `cbor:"16,keyasint,omitempty"` // of messages that a move brought here

	Settings *Settings `cbor:"17,keyasint,omitempty"` // control entry: the settings from here on
	// Forgets is true on a control entry that starts a new dedup epoch.
	Forgets bool `cbor:"18,keyasint,omitempty"`
	// Finished, on a control entry of a purge, is the position before which every message is finished.
	Finished Position `cbor:"19,keyasint,omitempty"`
}

// Totals count what a stream has held since its creation.
type Totals struct {
	Messages uint64 `cbor:"1,keyasint,omitempty"`
	Bytes    uint64 `cbor:"2,keyasint,omitempty"`
}

// Origin is what a moved message keeps from before the move.
type Origin struct {
	ID       MessageID `cbor:"1,keyasint"`
	Enqueued Instant   `cbor:"2,keyasint"`
	// Queue, Shard and Position are where it came from.
	Queue    QueueID  `cbor:"3,keyasint"`
	Shard    uint32   `cbor:"4,keyasint,omitempty"`
	Position Position `cbor:"5,keyasint"`
	// FromEnqueued is true where retention goes on from Enqueued; otherwise it starts at the move.
	FromEnqueued bool   `cbor:"6,keyasint,omitempty"`
	Receives     uint32 `cbor:"7,keyasint,omitempty"` // how often it was received there
	// Lease is the last one it had there, unless that was released: whoever had it holds a receipt that names it.
	Lease  LeaseID    `cbor:"8,keyasint,omitzero"`
	Reason MoveReason `cbor:"9,keyasint,omitempty"`
}

// Width is how many positions the entry takes.
func (h *Header) Width() uint32 { return max(1, h.Count) }

// Group gives the keyed hash of the i-th message's group.
func (h *Header) Group(i int) Hash { return column(h.Groups, i) }

// Dedup gives the keyed hash of the i-th message's deduplication id.
func (h *Header) Dedup(i int) Hash { return column(h.Dedups, i) }

func column(c []byte, i int) (v Hash) {
	if len(c) > 0 {
		copy(v[:], c[16*i:16*i+16])
	}
	return v
}

// DueAt is when the i-th message may first be delivered: its enqueue instant, or later.
func (h *Header) DueAt(i int) Instant {
	if len(h.Due) > 0 && h.Due[i] > h.At {
		return h.Due[i]
	}
	return h.At
}

// ExpiresAt is the i-th message's own expiry; 0 for none.
func (h *Header) ExpiresAt(i int) Instant {
	if len(h.Expires) > 0 {
		return h.Expires[i]
	}
	return 0
}

// Limit is the i-th message's own maximum of receives; 0 for none.
func (h *Header) Limit(i int) uint32 {
	if len(h.Limits) > 0 {
		return h.Limits[i]
	}
	return 0
}

// Origin gives where the i-th message came from, nil for one that was sent here.
func (h *Header) Origin(i int) *Origin {
	if len(h.Origins) > 0 {
		return &h.Origins[i]
	}
	return nil
}

// MessageID gives the i-th message's id.
func (h *Header) MessageID(i int) MessageID {
	if o := h.Origin(i); o != nil {
		return o.ID
	}
	return h.ID.Message(h.At, i)
}

// Enqueued is when the i-th message was first sent.
func (h *Header) Enqueued(i int) Instant {
	if o := h.Origin(i); o != nil {
		return o.Enqueued
	}
	return h.At
}

// RetainedFrom is the instant from which the i-th message's retention counts.
func (h *Header) RetainedFrom(i int) Instant {
	if o := h.Origin(i); o != nil && o.FromEnqueued {
		return o.Enqueued
	}
	return h.At
}

// Message is what the seal of a block holds of one message.
type Message struct {
	Body       []byte      `cbor:"1,keyasint"`
	Attributes []Attribute `cbor:"2,keyasint,omitempty"`
	Group      string      `cbor:"3,keyasint,omitempty"`
	Dedup      string      `cbor:"4,keyasint,omitempty"`
	Trace      string      `cbor:"5,keyasint,omitempty"`
	Sender     string      `cbor:"6,keyasint,omitempty"`
	// DeadLetter is the message's own dead-letter queue, by name: for an API that has it.
	DeadLetter string `cbor:"7,keyasint,omitempty"`
}

// Attribute is a named value beside the body. Type is the API's word for it, kept as sent.
type Attribute struct {
	Name  string `cbor:"1,keyasint"`
	Type  string `cbor:"2,keyasint"`
	Value []byte `cbor:"3,keyasint"`
}

// Size is what counts against the queue's limit: bytes of the body and of each attribute's name, type and value.
func (m *Message) Size() int {
	n := len(m.Body)
	for _, a := range m.Attributes {
		n += len(a.Name) + len(a.Type) + len(a.Value)
	}
	return n
}

// LedgerHeader is the header of a ledger's entry. The running values are true after the entry.
type LedgerHeader struct {
	Kind    Kind         `cbor:"1,keyasint,omitempty"`
	At      Instant      `cbor:"2,keyasint"`
	High    Instant      `cbor:"3,keyasint"`
	Version uint64       `cbor:"4,keyasint"`
	Totals  LedgerTotals `cbor:"5,keyasint"`
}

// LedgerTotals count what has happened in a shard since its creation.
type LedgerTotals struct {
	Received uint64 `cbor:"1,keyasint,omitempty"` // leases given
	Acked    uint64 `cbor:"2,keyasint,omitempty"`
	Expired  uint64 `cbor:"3,keyasint,omitempty"`
	Purged   uint64 `cbor:"4,keyasint,omitempty"`
	Moved    uint64 `cbor:"5,keyasint,omitempty"` // away from here
	Arrived  uint64 `cbor:"6,keyasint,omitempty"` // by a move
}

// Finished is how many messages have left the shard.
func (t LedgerTotals) Finished() uint64 { return t.Acked + t.Expired + t.Purged + t.Moved }

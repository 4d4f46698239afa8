package broker

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"hash"
	"strings"

	"github.com/leaselog/leaselog/events"
	"github.com/leaselog/leaselog/internal/fault"
	"github.com/leaselog/leaselog/internal/queue"
)

// receipt is what a holder shows to act on a lease. As text it is lower-case hex: message id, queue, shard, position,
// lease id, key id and MAC. It says where to look, so that a forged one is refused without reading the store.
type receipt struct {
	message  events.MessageID
	queue    events.QueueID
	shard    uint16
	position events.Position
	lease    events.LeaseID
}

const (
	receiptBody  = 16 + 16 + 2 + 8 + 8 + 1
	receiptBytes = receiptBody + 16
	// receiptKeyID names the key that authenticates receipts. There is one so far.
	receiptKeyID = 1
)

// receiptShape is as long as every receipt.
var receiptShape = strings.Repeat("0", 2*receiptBytes)

func (b *Broker) receipt(r receipt) string {
	m := b.macs.Get().(*receiptMAC)
	defer b.macs.Put(m)
	buf := append(append(m.buf[:0], r.message[:]...), r.queue[:]...)
	buf = binary.BigEndian.AppendUint16(buf, r.shard)
	buf = binary.BigEndian.AppendUint64(buf, uint64(r.position))
	buf = append(append(buf, r.lease[:]...), receiptKeyID)
	copy(m.buf[:], buf)
	m.sign()
	return hex.EncodeToString(m.buf[:])
}

// receiptMAC is a receipt's bytes with the keyed state that authenticates them, pooled: making that state costs more
// than using it.
type receiptMAC struct {
	keyed hash.Hash
	buf   [receiptBytes]byte
	sum   [sha256.Size]byte
}

func (b *Broker) newReceiptMAC() any {
	return &receiptMAC{keyed: hmac.New(sha256.New, b.ReceiptKey[:])}
}

// sign puts the MAC behind the body.
func (m *receiptMAC) sign() {
	m.keyed.Reset()
	m.keyed.Write(m.buf[:receiptBody])
	copy(m.buf[receiptBody:], m.keyed.Sum(m.sum[:0]))
}

// parseReceipt reads a receipt of a queue. Faults: ForeignLease.
func (b *Broker) parseReceipt(text string, id events.QueueID) (r receipt, err error) {
	if len(text) != 2*receiptBytes {
		return r, errReceipt("it has %d characters, and one of ours has %d", len(text), 2*receiptBytes)
	}
	m := b.macs.Get().(*receiptMAC)
	defer b.macs.Put(m)
	buf := &m.buf
	if _, err := hex.Decode(buf[:], []byte(text)); err != nil {
		return r, errReceipt("it is not hexadecimal")
	}
	var shown [receiptBytes - receiptBody]byte
	copy(shown[:], buf[receiptBody:])
	if m.sign(); buf[receiptBody-1] != receiptKeyID || !hmac.Equal(buf[receiptBody:], shown[:]) {
		return r, errReceipt(notOurs)
	}
	copy(r.message[:], buf[0:])
	copy(r.queue[:], buf[16:])
	r.shard = binary.BigEndian.Uint16(buf[32:])
	r.position = events.Position(binary.BigEndian.Uint64(buf[34:]))
	copy(r.lease[:], buf[42:])
	if r.queue != id {
		return r, errReceipt(notOurs)
	}
	return r, nil
}

// notOurs is said of a forged receipt and of one of another queue alike: the queue may be another account's, and who
// guesses at receipts must not learn that he guessed right.
const notOurs = "it was not made for this queue, or it was changed"

func errReceipt(why string, args ...any) error {
	return fault.New(fault.ForeignLease, "the receipt handle is not valid: "+why, args...)
}

func (r receipt) held() queue.Held { return queue.Held{Position: r.position, Lease: r.lease} }

package queue

import (
	"fmt"
	"slices"

	"github.com/leaselog/leaselog/events"
)

// A snapshot is a state's bytes: the same state gives the same bytes, so that replay can be compared with what was kept.

type ledgerSnapshot struct {
	Format   uint32     `cbor:"1,keyasint"`
	Values   values     `cbor:"2,keyasint"`
	Messages []*Message `cbor:"3,keyasint"`
}

type senderSnapshot struct {
	Format uint32         `cbor:"1,keyasint"`
	Values senderValues   `cbor:"2,keyasint"`
	Due    []dueAt        `cbor:"3,keyasint"`
	Pages  []pageSnapshot `cbor:"4,keyasint"`
}

// pageSnapshot is a page of the window: 24 bytes an id, hash and value, in the order of the hashes.
type pageSnapshot struct {
	Minute events.Instant `cbor:"1,keyasint"`
	IDs    []byte         `cbor:"2,keyasint"`
}

const snapshotFormat = 1

// Snapshot gives the bytes of the state.
func (l *Ledger) Snapshot() []byte {
	return events.EncodeRecord(ledgerSnapshot{snapshotFormat, l.values, l.pending.byPosition.Items()})
}

// LoadLedger gives the state back that Snapshot wrote.
func LoadLedger(limits Limits, data []byte) (*Ledger, error) {
	var s ledgerSnapshot
	if err := load(data, &s, &s.Format); err != nil {
		return nil, fmt.Errorf("snapshot of a ledger: %w", err)
	}
	l := NewLedger(limits)
	l.values = s.Values
	for _, m := range s.Messages {
		l.pending.put(m)
	}
	return l, nil
}

// Snapshot gives the bytes of the state between two blocks. What Settle would drop is left out.
func (s *Sender) Snapshot() []byte {
	must(s.draft == nil, "snapshot inside a block")
	out := senderSnapshot{Format: snapshotFormat, Values: s.senderValues, Due: slices.DeleteFunc(s.due.Items(), s.pastDue)}
	for _, p := range s.window.from(s.Settings.DedupSeconds) {
		out.Pages = append(out.Pages, p.snapshot())
	}
	return events.EncodeRecord(out)
}

// LoadSender gives the state back that Snapshot wrote.
func LoadSender(limits Limits, data []byte) (*Sender, error) {
	var in senderSnapshot
	if err := load(data, &in, &in.Format); err != nil {
		return nil, fmt.Errorf("snapshot of a message stream: %w", err)
	}
	s := NewSender(limits)
	s.senderValues = in.Values
	for _, d := range in.Due {
		s.due.Set(d)
	}
	for _, p := range in.Pages {
		if len(p.IDs)%24 != 0 {
			return nil, fmt.Errorf("snapshot of a message stream: a page of %d bytes", len(p.IDs))
		}
		s.window.page(p.Minute).load(p.IDs)
	}
	return s, nil
}

func load(data []byte, into any, format *uint32) error {
	if err := events.DecodeRecord(data, into); err != nil {
		return err
	}
	if *format != snapshotFormat {
		return fmt.Errorf("format %d is not known", *format)
	}
	return nil
}

// Size is about how many bytes a snapshot of the state takes: what a shard weighs against the tail of its ledger.
func (l *Ledger) Size() int { return 256 + 96*l.Len() }

// Size is about how many bytes a snapshot of the state takes.
func (s *Sender) Size() int { return 256 + 16*s.due.Len() + 24*s.window.size() }

// Remembered is how many deduplication ids are kept.
func (s *Sender) Remembered() int { return s.window.size() }

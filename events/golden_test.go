package events

import (
	"encoding/hex"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fxamacker/cbor/v2"
	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the golden files that are missing; one that is there is never changed")

// sampleAt and the other samples are the values in the golden files.
const sampleAt Instant = 1_700_000_000_123

var (
	sampleQueue    = QueueID{0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef, 0xfe, 0xdc, 0xba, 0x98, 0x76, 0x54, 0x32, 0x10}
	sampleLease    = LeaseID{1, 2, 3, 4, 5, 6, 7, 8}
	sampleBlock    = BlockID{0xb0, 0xb1, 0xb2, 0xb3, 0xb4, 0xb5, 0xb6, 0xb7, 0xb8, 0xb9, 0xba, 0xbb, 0xbc, 0xbd, 0xbe, 0xbf}
	sampleHash     = Hash{0xa0, 0xa1, 0xa2, 0xa3, 0xa4, 0xa5, 0xa6, 0xa7, 0xa8, 0xa9, 0xaa, 0xab, 0xac, 0xad, 0xae, 0xaf}
	sampleSettings = Settings{Status: Draining, Fifo: true, Delivery: AsManyAsFit, DedupScope: DedupGroup, DedupSeconds: 300, ContentDedup: true,
		LeaseSeconds: 30, RetentionSeconds: 345_600, MaxBytes: 262_144, DelaySeconds: 5, WaitSeconds: 20, KeyReuseSeconds: 3600,
		DeadLetter: &DeadLetter{Queue: sampleQueue, Receives: 3, Gone: true}, Rate: &Rate{Receives: 10, Seconds: 1}}
	sampleInfo   = Info{Group: sampleHash, Retained: sampleAt, Due: sampleAt + 5000, Expires: sampleAt + 60_000, Limit: 4, Key: 2}
	sampleOrigin = Origin{ID: sampleBlock.Message(sampleAt, 1), Enqueued: sampleAt - 1000, Queue: sampleQueue, Shard: 2, Position: 77,
		FromEnqueued: true, Receives: 3}
)

// samples has every type of event with every field set.
var samples = []Event{
	&Configured{At: sampleAt, Version: 7, Settings: sampleSettings, Control: 42},
	&Leased{At: sampleAt, Lease: sampleLease, Until: sampleAt + 30_000, Items: []Taken{{Position: 5}, {Position: 300, Info: &sampleInfo}}},
	&Passed{At: sampleAt, Items: []Taken{{Position: 301, Info: &sampleInfo}}},
	&Extended{At: sampleAt, Until: sampleAt + 60_000, Items: []Position{5, 300}},
	&Released{At: sampleAt, Visible: sampleAt + 1, Items: []Position{5, 300}, Uncounted: true},
	&Acked{At: sampleAt, Lease: sampleLease, Items: []Position{5, 300}},
	&Failed{At: sampleAt, Lease: sampleLease, Items: []Position{5, 300}},
	&Recovered{At: sampleAt, Items: []Position{5, 300}},
	&Expired{At: sampleAt, Items: []Position{5, 300}, To: 400, Skipped: 90},
	&Moved{At: sampleAt, Items: []Position{5, 300}, Queue: sampleQueue, Shard: 2, Position: 1000, Reason: 1},
	&Arrived{At: sampleAt, IDs: []MessageID{sampleBlock.Message(sampleAt, 0)}, Position: 1000, Queue: sampleQueue, Shard: 2, Items: []Position{5}},
	&Purged{At: sampleAt, To: 400, Messages: 90, Control: 401},
	&Anchored{At: sampleAt, Control: 42},
	&LaneOpened{At: sampleAt, Lane: 1, From: sampleAt + 3_600_000},
	&LaneClosed{At: sampleAt, Lane: 1, End: 500},
}

var sampleHeaders = map[string]*Header{
	"header-block": {ID: sampleBlock, At: sampleAt, High: sampleAt + 1, Count: 2, Bytes: 1000, Totals: Totals{Messages: 12, Bytes: 9000}, Version: 7,
		Epoch: 3, Key: 2, Groups: twice(sampleHash), Dedups: twice(sampleHash), Due: []Instant{0, sampleAt + 5000}, Expires: []Instant{0, sampleAt + 60_000},
		Limits: []uint32{0, 4}, Origins: []Origin{sampleOrigin, sampleOrigin}},
	"header-moved": {ID: sampleBlock, At: sampleAt, High: sampleAt, Count: 1, Bytes: 5, Totals: Totals{Messages: 1, Bytes: 5}, Version: 1,
		Origins: []Origin{{ID: sampleOrigin.ID, Enqueued: sampleOrigin.Enqueued, Queue: sampleQueue, Position: 77, Receives: 3, Lease: sampleLease, Reason: Redriven}}},
	"header-plain":   {ID: sampleBlock, At: sampleAt, High: sampleAt, Count: 1, Bytes: 5, Totals: Totals{Messages: 1, Bytes: 5}, Version: 1},
	"header-control": {Kind: Control, ID: sampleBlock, At: sampleAt, High: sampleAt, Version: 7, Epoch: 1, Settings: &sampleSettings, Forgets: true},
	"header-anchor":  {Kind: Anchor, ID: sampleBlock, At: sampleAt, High: sampleAt, Totals: Totals{Messages: 12, Bytes: 9000}, Version: 7},
}

func twice(h Hash) []byte { return append(append([]byte{}, h[:]...), h[:]...) }

var sampleLedgerHeader = &LedgerHeader{Kind: Anchor, At: sampleAt, High: sampleAt + 1, Version: 7,
	Totals: LedgerTotals{Received: 1, Acked: 2, Expired: 3, Purged: 4, Moved: 5, Arrived: 6}}

var sampleMessages = []Message{
	{Body: []byte("hello")},
	{Body: []byte{}, Attributes: []Attribute{{Name: "n", Type: "String", Value: []byte("v")}}, Group: "g", Dedup: "d", Trace: "t", Sender: "s", DeadLetter: "dl"},
}

// TestGoldenEvents holds the bytes of every event, and that every type of the table is among them under its number.
func TestGoldenEvents(t *testing.T) {
	seen := map[uint64]bool{}
	for _, e := range samples {
		n := e.number()
		seen[n] = true
		if made := fmt.Sprintf("%T", kinds[n].make()); made != fmt.Sprintf("%T", e) {
			t.Errorf("%T has the number %d, under which the table has %s", e, n, made)
		}
		name := strings.ToLower(strings.TrimPrefix(fmt.Sprintf("%T", e), "*events."))
		golden(t, fmt.Sprintf("%02d-%s.v%d", n, name, kinds[n].version), Encode([]Event{e}), []Event{e}, Decode)
	}
	for n, k := range kinds {
		if !seen[n] {
			t.Errorf("type %d, %T, has no golden file", n, k.make())
		}
		if k.make().number() != n {
			t.Errorf("%T stands under %d in the table and has the number %d", k.make(), n, k.make().number())
		}
	}
}

// TestFormerVersions reads what former versions of events wrote.
func TestFormerVersions(t *testing.T) {
	for name, want := range map[string]Event{"13-anchored.v1": &Anchored{At: sampleAt}} {
		file, err := os.ReadFile(filepath.Join("testdata", name+".golden"))
		if err != nil {
			t.Fatal(err)
		}
		text, _, _ := strings.Cut(string(file), "\n")
		data, err := hex.DecodeString(text)
		if err != nil {
			t.Fatal(err)
		}
		got, err := Decode(data)
		if diff := cmp.Diff([]Event{want}, got); err != nil || diff != "" {
			t.Errorf("%s: %v (-want +got):\n%s", name, err, diff)
		}
	}
}

func TestGoldenHeaders(t *testing.T) {
	for name, h := range sampleHeaders {
		golden(t, name+".v1", EncodeHeader(h), h, DecodeHeader)
	}
	golden(t, "ledger-header.v1", EncodeLedgerHeader(sampleLedgerHeader), sampleLedgerHeader, DecodeLedgerHeader)
	golden(t, "messages.v1", EncodeMessages(sampleMessages), sampleMessages, DecodeMessages)
}

// golden compares bytes with a golden file, and what the file decodes to with the value. The file holds the bytes in
// hex and, for the reader, in the diagnostic notation of CBOR.
func golden[T any](t *testing.T, name string, data []byte, value T, decode func([]byte) (T, error)) {
	t.Helper()
	path := filepath.Join("testdata", name+".golden")
	file, err := os.ReadFile(path)
	if os.IsNotExist(err) && *update {
		file = []byte(hex.EncodeToString(data) + "\n\n" + notation(t, data) + "\n")
		err = os.WriteFile(path, file, 0o644)
	}
	if err != nil {
		t.Fatalf("%v; -update writes what is missing", err)
	}
	kept, _, _ := strings.Cut(string(file), "\n")
	if kept != hex.EncodeToString(data) {
		t.Errorf("%s: bytes changed, and what was written with the former ones is still in logs:\n%x\n%s", name, data, kept)
	}
	old, _ := hex.DecodeString(kept)
	got, err := decode(old)
	if diff := cmp.Diff(value, got); err != nil || diff != "" {
		t.Errorf("%s: %v (-want +got):\n%s", name, err, diff)
	}
}

func notation(t *testing.T, data []byte) string {
	t.Helper()
	s, err := cbor.Diagnose(data)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

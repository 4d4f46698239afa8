package auth

import (
	"encoding/hex"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/leaselog/leaselog/events"
)

// TestRecordBytes holds what stands in logs already: these bytes must be read for ever, and are never edited.
func TestRecordBytes(t *testing.T) {
	unexported := cmpopts.IgnoreUnexported(accountRecord{}, keyRecord{})
	account := &accountRecord{ID: id{1}, Handle: "acme", Created: 5, Disabled: 6}
	key := &keyRecord{ID: keyID{2}, Account: id{1}, Kind: Pair, Label: "x", Policies: [][]byte{{'{', '}'}}, Created: 5, Disabled: 6, Rotated: 7,
		Generation: 8, Secret: []byte{9}, Former: []byte{10}, FormerUntil: 11}
	for name, c := range map[string]struct {
		record, into any
		golden       string
	}{
		"account": {account, new(accountRecord), "a4015001000000000000000000000000000000026461636d6503050406"},
		"key":     {key, new(keyRecord), "ac0150020000000000000000000000000000000250010000000000000000000000000000000364706169720461780581427b7d06050706080709080a41090b410a0c0b"},
	} {
		if got := hex.EncodeToString(events.EncodeRecord(c.record)); got != c.golden {
			t.Errorf("%s is written as\n%s", name, got)
		}
		golden, err := hex.DecodeString(c.golden)
		if err != nil {
			t.Fatal(err)
		}
		if err := events.DecodeRecord(golden, c.into); err != nil || !cmp.Equal(c.into, c.record, unexported) {
			t.Errorf("%s is read as %+v, %v", name, c.into, err)
		}
	}
}

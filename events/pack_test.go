package events

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"os"
	"reflect"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestPack packs what has something to pack, at once from many goroutines, and reads it back.
func TestPack(t *testing.T) {
	noise := make([]byte, 2000)
	rand.Read(noise)
	var letters string
	for len(letters) < 1024 {
		letters += rand.Text()
	}
	for name, tt := range map[string]struct {
		body []byte
		most int // bytes of the block
	}{
		"small":       {[]byte(strings.Repeat("a", packMin-40)), packMin},
		"json":        {[]byte(strings.Repeat(`{"order":4711,"customer":"c-17","state":"paid"},`, 25)), 200},
		"base32":      {[]byte(letters), 800},
		"noise":       {noise, 2020},
		"a large one": {bytes.Repeat([]byte(letters), 2000), 100_000},
	} {
		t.Run(name, func(t *testing.T) {
			messages := []Message{{Body: tt.body, Group: "g"}}
			plain := EncodeMessages(messages)
			var all sync.WaitGroup
			for range 4 {
				all.Go(func() {
					packed := Pack(plain)
					if len(packed) > tt.most || len(packed) > len(plain) {
						t.Errorf("%d bytes became %d, at most %d were expected", len(plain), len(packed), tt.most)
					}
					got, err := DecodeMessages(packed)
					if err != nil || !reflect.DeepEqual(got, messages) {
						t.Errorf("%v: %d messages came out", err, len(got))
					}
				})
			}
			all.Wait()
		})
	}
	packed := Pack(EncodeMessages([]Message{{Body: bytes.Repeat([]byte("x"), packMin)}}))
	if _, err := DecodeMessages(packed[:len(packed)-3]); err == nil {
		t.Error("half of it was read")
	}
}

// TestGoldenPacked reads what was packed once. What packers give may change; what they gave stays in logs.
func TestGoldenPacked(t *testing.T) {
	want := []Message{{Body: []byte(strings.Repeat(`{"order":4711,"state":"paid"}`, 30)), Group: "g"}}
	const path = "testdata/messages-packed.v1.golden"
	file, err := os.ReadFile(path)
	if os.IsNotExist(err) && *update {
		file = []byte(hex.EncodeToString(Pack(EncodeMessages(want))) + "\n")
		err = os.WriteFile(path, file, 0o644)
	}
	if err != nil {
		t.Fatalf("%v; -update writes what is missing", err)
	}
	data, err := hex.DecodeString(strings.TrimSpace(string(file)))
	if err != nil {
		t.Fatal(err)
	}
	got, err := DecodeMessages(data)
	if diff := cmp.Diff(want, got); err != nil || diff != "" || len(data) > 200 {
		t.Error(len(data), err, diff)
	}
}

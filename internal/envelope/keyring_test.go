package envelope

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"github.com/leaselog/leaselog/events"
	"github.com/leaselog/leaselog/internal/eventlog"
)

// The values were computed with Python's hmac and struct, not with this package:
// hmac.new(bytes(range(32)), b"".join(struct.pack(">I", len(s)) + s for s in (label, *parts)), sha256).digest()[:16]
func TestHashGolden(t *testing.T) {
	k := testKeyring(t, &fakeKeys{}, rand.Reader, 1)
	for _, c := range []struct{ want, parts string }{
		{"63caba7c0f5920c01aefc654781b5af5", "dedup|order-17"},
		{"78a066c127497ba42ddab579a9d4badd", "group|order-17"},
		{"71da9441e01731379f656a437523ea13", "dedup|a|order-17"},
		{"56e00e642d3c317ce3eb018cd0a40b96", "dedup"},
		{"4c85ac8a719749baefa0ded92946df20", "dedup|" + strings.Repeat("é", 200)},
	} {
		parts := strings.Split(c.parts, "|")
		for range 2 { // the second time with a state that was used before
			h, err := k.Hash(t.Context(), testNow, testReuse, parts[0], parts[1:]...)
			if got := hex.EncodeToString(h[:]); err != nil || got != c.want {
				t.Errorf("Hash(%q) = %s, %v; want %s", parts, got, err, c.want)
			}
		}
	}
}

// The values were computed with Python's cryptography: nonce + AESGCM(bytes([7])*32).encrypt(nonce, plain, b"\x01" +
// queue + struct.pack(">I", 9) + b"q/0000/m0" + struct.pack(">Q", 258) + struct.pack(">I", 6) + b"header")
func TestSealGolden(t *testing.T) {
	for plain, want := range map[string]string{
		"hello": "a0a1a2a3a4a5a6a7a8a9aaabfa8d74472f64835a1c5ca424f1c89ff2dabed8e80d",
		"":      "a0a1a2a3a4a5a6a7a8a9aaab86c21587192d24943ad4085a98a772ed",
	} {
		k := testKeyring(t, &fakeKeys{}, counting{}, 7)
		got, err := k.Seal(t.Context(), testNow, testReuse, Place{"q/0000/m0", 258}, 7, []byte("header"), []byte(plain))
		if err != nil || hex.EncodeToString(got) != want {
			t.Errorf("Seal(%q) = %x, %v; want %s", plain, got, err, want)
		}
	}
}

func TestHashTellsListsApart(t *testing.T) {
	k := testKeyring(t, &fakeKeys{}, rand.Reader, 1)
	strings := rapid.SliceOfN(rapid.StringMatching(`[a\x00-\x02]{0,3}`), 1, 4)
	rapid.Check(t, func(t *rapid.T) {
		a, b := strings.Draw(t, "a"), strings.Draw(t, "b")
		ha, _ := k.Hash(t.Context(), testNow, testReuse, a[0], a[1:]...)
		hb, _ := k.Hash(t.Context(), testNow, testReuse, b[0], b[1:]...)
		if (ha == hb) != slices.Equal(a, b) {
			t.Fatalf("%q gives %x, %q gives %x", a, ha, b, hb)
		}
	})
}

func TestHashIsNeverZero(t *testing.T) {
	if notZero(events.Hash{}) == (events.Hash{}) {
		t.Error("the zero hash must stay free for none")
	}
	if h := (events.Hash{5}); notZero(h) != h {
		t.Error("any other hash must stay as it is")
	}
}

func TestSealThenOpen(t *testing.T) {
	k := testKeyring(t, &fakeKeys{}, rand.Reader, 2)
	rapid.Check(t, func(t *rapid.T) {
		place := Place{rapid.String().Draw(t, "stream"), rapid.Uint64().Draw(t, "seq")}
		version := rapid.Uint32Range(1, 2).Draw(t, "version")
		header, plain := rapid.SliceOf(rapid.Byte()).Draw(t, "header"), rapid.SliceOf(rapid.Byte()).Draw(t, "plain")
		sealed, err := k.Seal(t.Context(), testNow, testReuse, place, version, header, plain)
		if err != nil || len(sealed) != len(plain)+28 {
			t.Fatalf("sealed %d bytes to %d, %v", len(plain), len(sealed), err)
		}
		before := bytes.Clone(sealed)
		got, err := k.Open(t.Context(), testNow, testReuse, place, version, header, sealed)
		if err != nil || !bytes.Equal(got, plain) {
			t.Fatalf("opened %x, %v; want %x", got, err, plain)
		}
		if !bytes.Equal(sealed, before) {
			t.Fatal("Open changed what it opened")
		}
	})
}

// entry is all that Open is given besides its keyring.
type entry struct {
	queue          events.QueueID
	place          Place
	version        uint32
	header, sealed []byte
}

func (e entry) open(t testing.TB, ring Ring) ([]byte, error) {
	k, err := Open(&anyQueue{}, rand.Reader, "test", e.queue, ring)
	if err != nil {
		t.Fatal(err)
	}
	return k.Open(t.Context(), testNow, testReuse, e.place, e.version, e.header, e.sealed)
}

// anyQueue unwraps a ring for every queue, so that only the seal can tell queues apart.
type anyQueue struct{ fakeKeys }

func (*anyQueue) Unwrap(_ context.Context, _ string, _ []byte, c Context) ([]byte, error) {
	return fakeKey(c.Version), nil
}

// TestTamper changes one input at a time, every bit of each, and cuts and lengthens what can be.
func TestTamper(t *testing.T) {
	for _, plain := range []string{"a body", ""} {
		ring := testRing(t, &fakeKeys{}, 2)
		e := entry{queue: testQueue, place: Place{"q/0000/m0", 7}, version: 2, header: []byte("header")}
		k := testKeyring(t, &fakeKeys{}, rand.Reader, 2)
		e.sealed, _ = k.Seal(t.Context(), testNow, testReuse, e.place, e.version, e.header, []byte(plain))
		if got, err := e.open(t, ring); err != nil || string(got) != plain {
			t.Fatalf("unchanged, it opened as %q, %v", got, err)
		}
		for name, changed := range changes(e) {
			if got, err := changed.open(t, ring); !errors.Is(err, eventlog.ErrCorrupt) || got != nil {
				t.Errorf("%q with %s changed opened as %q, %v; want ErrCorrupt", plain, name, got, err)
			}
		}
	}
}

func changes(e entry) map[string]entry {
	all := map[string]entry{}
	for i := range 128 {
		c := e
		c.queue[i/8] ^= 1 << (i % 8)
		all[fmt.Sprint("queue bit ", i)] = c
	}
	for i := range 64 {
		c := e
		c.place.Seq ^= 1 << i
		all[fmt.Sprint("seq bit ", i)] = c
	}
	for _, v := range []uint32{0, 1, 3, 1 << 31} {
		c := e
		c.version = v
		all[fmt.Sprint("version ", v)] = c
	}
	for name, b := range altered([]byte(e.place.Stream)) {
		c := e
		c.place.Stream = string(b)
		all["stream "+name] = c
	}
	for name, b := range altered(e.header) {
		c := e
		c.header = b
		all["header "+name] = c
	}
	for name, b := range altered(e.sealed) {
		c := e
		c.sealed = b
		all["sealed "+name] = c
	}
	c := e // the border between two inputs moved
	c.place.Stream, c.header = e.place.Stream+"h", e.header[1:]
	all["border"] = c
	return all
}

func altered(b []byte) map[string][]byte {
	all := map[string][]byte{"longer": append(bytes.Clone(b), 0), "doubled": append(bytes.Clone(b), b...)}
	for i := range b {
		all[fmt.Sprint("cut to ", i)] = bytes.Clone(b[:i])
		for bit := range 8 {
			c := bytes.Clone(b)
			c[i] ^= 1 << bit
			all[fmt.Sprint("byte ", i, " bit ", bit)] = c
		}
	}
	return all
}

func TestVersionThatTheRingLacks(t *testing.T) {
	k := testKeyring(t, &fakeKeys{}, rand.Reader, 2)
	if _, err := k.Seal(t.Context(), testNow, testReuse, Place{}, 3, nil, nil); !errors.Is(err, ErrVersion) {
		t.Errorf("Seal: %v; want ErrVersion", err)
	}
	if _, err := k.Open(t.Context(), testNow, testReuse, Place{}, 3, nil, nil); !errors.Is(err, ErrVersion) {
		t.Errorf("Open: %v; want ErrVersion", err)
	}
}

// TestNonces draws more than a stock of them: none may come twice.
func TestNonces(t *testing.T) {
	k := testKeyring(t, &fakeKeys{}, rand.Reader, 1)
	seen := map[string]bool{}
	for range 5*nonceStock + 1 {
		sealed, err := k.Seal(t.Context(), testNow, testReuse, Place{}, 1, nil, nil)
		if err != nil || seen[string(sealed[:nonceSize])] {
			t.Fatalf("nonce %x came twice, or %v", sealed, err)
		}
		seen[string(sealed[:nonceSize])] = true
	}
}

func TestNoNonceNoSeal(t *testing.T) {
	k := testKeyring(t, &fakeKeys{}, io.LimitReader(rand.Reader, nonceStock*nonceSize+5), 1)
	for i := range nonceStock + 2 {
		sealed, err := k.Seal(t.Context(), testNow, testReuse, Place{}, 1, nil, nil)
		if ok := i < nonceStock; ok != (err == nil) || ok != (sealed != nil) {
			t.Fatalf("seal %d: %x, %v", i, sealed, err)
		}
	}
}

func TestWorn(t *testing.T) {
	k := testKeyring(t, &fakeKeys{}, rand.Reader, 1)
	if k.Worn(testNow.Add(wornSeconds) - 1) {
		t.Error("a key of less than a day is worn")
	}
	if !k.Worn(testNow.Add(wornSeconds)) {
		t.Error("a key of a day is not worn")
	}
	k.current().seals.Store(sealsMax - 1)
	if k.Worn(testNow) {
		t.Error("a key is worn one seal too early")
	}
	if _, err := k.Seal(t.Context(), testNow, testReuse, Place{}, 1, nil, nil); err != nil || !k.Worn(testNow) {
		t.Errorf("a key with all its seals used is not worn, %v", err)
	}
}

// TestManyGoroutines is for the race detector: keys lapse and are unwrapped again under the feet of all.
func TestManyGoroutines(t *testing.T) {
	k := testKeyring(t, &fakeKeys{}, rand.Reader, 3)
	want, _ := k.Hash(t.Context(), testNow, testReuse, "group", "a")
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range 300 {
				now, version := testNow.Add(uint32(i)), uint32(1+(i+g)%3)
				place, header, plain := Place{"s", uint64(i)}, []byte{byte(g)}, []byte{byte(i)}
				sealed, err := k.Seal(t.Context(), now, 1, place, version, header, plain)
				opened, err2 := k.Open(t.Context(), now, 1, place, version, header, sealed)
				hash, err3 := k.Hash(t.Context(), now, 1, "group", "a")
				if err := errors.Join(err, err2, err3); err != nil || !bytes.Equal(opened, plain) || hash != want {
					t.Errorf("%x opened as %x, hash %x, %v", plain, opened, hash, err)
				}
				k.Lapse(now, 1)
			}
		})
	}
	wg.Wait()
}

// TestPrintsNoKey prints a keyring in use in every way that a careless line of logging would.
func TestPrintsNoKey(t *testing.T) {
	k := testKeyring(t, &fakeKeys{}, rand.Reader, 1)
	k.Seal(t.Context(), testNow, testReuse, Place{}, 1, nil, nil)
	k.Hash(t.Context(), testNow, testReuse, "group", "a")
	for _, verb := range []string{"%v", "%+v", "%#v", "%x"} {
		s := fmt.Sprintf(verb, k)
		if strings.Contains(s, strings.Repeat("01", 16)) || strings.Contains(s, "1 1 1 1 1") || strings.Contains(s, "000102030405") {
			t.Errorf("%s shows a key: %s", verb, s)
		}
	}
}

func FuzzOpen(f *testing.F) {
	k := testKeyring(f, &fakeKeys{}, counting{}, 1)
	place, header := Place{"q/0000/m0", 7}, []byte("header")
	good, _ := k.Seal(f.Context(), testNow, testReuse, place, 1, header, []byte("hello"))
	for _, n := range []int{0, nonceSize, nonceSize + tagSize, len(good)} {
		f.Add(good[:n])
	}
	f.Fuzz(func(t *testing.T, sealed []byte) {
		plain, err := k.Open(t.Context(), testNow, testReuse, place, 1, header, sealed)
		if bytes.Equal(sealed, good) != (err == nil) {
			t.Fatalf("%x opened as %q, %v", sealed, plain, err)
		}
		if err != nil && !errors.Is(err, eventlog.ErrCorrupt) {
			t.Fatalf("%v; want ErrCorrupt", err)
		}
	})
}

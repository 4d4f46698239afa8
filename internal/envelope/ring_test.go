package envelope

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/leaselog/leaselog/events"
	"github.com/leaselog/leaselog/internal/eventlog"
	"github.com/leaselog/leaselog/internal/fault"
)

func TestRingRecord(t *testing.T) {
	ring := Ring{Name: Version{Wrapped: []byte{1}, Created: 5}, Versions: []Version{{1, "k", []byte{2}, 5}, {2, "", []byte{3}, 6}}}
	const want = "a2" + "01" + "a2" + "034101" + "0405" +
		"02" + "82" + "a4" + "0101" + "02616b" + "034102" + "0405" + "a3" + "0102" + "034103" + "0406"
	data := events.EncodeRecord(ring)
	if got := hex.EncodeToString(data); got != want {
		t.Errorf("ring is written as %s, want %s", got, want)
	}
	var back Ring
	if err := events.DecodeRecord(data, &back); err != nil || !cmp.Equal(ring, back) {
		t.Errorf("%v, %s", err, cmp.Diff(ring, back))
	}
}

func TestNewRing(t *testing.T) {
	wrapped := func(version uint32) []byte { return fakeWrap(Context{"test", testQueue, version}) }
	want := Ring{Name: Version{0, "", wrapped(0), testNow}, Versions: []Version{{1, "ref", wrapped(1), testNow}}}
	got, err := NewRing(t.Context(), &fakeKeys{}, "test", testQueue, "ref", testNow)
	if err != nil || !cmp.Equal(want, got) {
		t.Errorf("%v, %s", err, cmp.Diff(want, got))
	}
}

// TestRotate: the new version seals, the old one opens what it sealed, hashes stay, and the old ring is as it was.
func TestRotate(t *testing.T) {
	keys := &fakeKeys{}
	ring := testRing(t, keys, 1)
	ring.Versions = slices.Grow(ring.Versions, 4) // room that two rotations must not share
	old := testKeyring(t, keys, rand.Reader, 1)
	a, errA := Rotate(t.Context(), keys, "test", testQueue, ring, "", testNow.Add(1))
	b, errB := Rotate(t.Context(), keys, "test", testQueue, ring, "other", testNow.Add(2))
	if errA != nil || errB != nil || len(ring.Versions) != 1 || a.Versions[1].Ref != "" || b.Versions[1].Ref != "other" {
		t.Fatalf("%v and %v of %v: %v, %v", a, b, ring, errA, errB)
	}
	sealed, _ := old.Seal(t.Context(), testNow, testReuse, Place{}, old.Current(), nil, []byte("hello"))
	hash, _ := old.Hash(t.Context(), testNow, testReuse, "group", "a")

	k, err := Open(keys, rand.Reader, "test", testQueue, a)
	if err != nil || k.Current() != 2 {
		t.Fatalf("version %d is current, %v", k.Current(), err)
	}
	if plain, err := k.Open(t.Context(), testNow, testReuse, Place{}, 1, nil, sealed); err != nil || string(plain) != "hello" {
		t.Errorf("opened %q, %v", plain, err)
	}
	if again, err := k.Hash(t.Context(), testNow, testReuse, "group", "a"); err != nil || again != hash {
		t.Errorf("hash %x became %x, %v", hash, again, err)
	}
}

func TestGenerateFails(t *testing.T) {
	keys := &fakeKeys{}
	keys.fail(fault.New(fault.Invalid, "unknown key"))
	if _, err := NewRing(t.Context(), keys, "test", testQueue, "x", testNow); !fault.Is(err, fault.Invalid) {
		t.Errorf("%v; want the fault of the keys", err)
	}
}

func TestDamagedRing(t *testing.T) {
	for what, damage := range map[string]func(*Ring){
		"no name key":         func(r *Ring) { r.Name = Version{} },
		"a data key for name": func(r *Ring) { r.Name.Version = 1 },
		"no data key":         func(r *Ring) { r.Versions = nil },
		"version 0":           func(r *Ring) { r.Versions[0].Version = 0 },
		"a version twice":     func(r *Ring) { r.Versions[1].Version = 1 },
		"no bytes":            func(r *Ring) { r.Versions[1].Wrapped = nil },
	} {
		ring := testRing(t, &fakeKeys{}, 2)
		damage(&ring)
		if _, err := Open(&fakeKeys{}, rand.Reader, "test", testQueue, ring); !errors.Is(err, eventlog.ErrCorrupt) {
			t.Errorf("%s: %v; want ErrCorrupt", what, err)
		}
	}
}

// TestRenew: a keyring goes on with a later ring, keeps what it has unwrapped, and ignores an earlier one.
func TestRenew(t *testing.T) {
	keys := &fakeKeys{}
	k := testKeyring(t, keys, rand.Reader, 2)
	sealed, _ := k.Seal(t.Context(), testNow, testReuse, Place{}, 2, nil, []byte("hello"))
	unwraps := keys.unwraps.Load()
	if err := k.Renew(testRing(t, keys, 3)); err != nil || k.Current() != 3 {
		t.Fatalf("version %d is current, %v", k.Current(), err)
	}
	if err := k.Renew(testRing(t, keys, 1)); err != nil || k.Current() != 3 {
		t.Errorf("an old ring made version %d current, %v", k.Current(), err)
	}
	if plain, err := k.Open(t.Context(), testNow, testReuse, Place{}, 2, nil, sealed); err != nil || string(plain) != "hello" {
		t.Errorf("opened %q, %v", plain, err)
	}
	if n := keys.unwraps.Load(); n != unwraps {
		t.Errorf("%d keys were unwrapped again", n-unwraps)
	}
	if err := k.Renew(Ring{}); !errors.Is(err, eventlog.ErrCorrupt) || k.Current() != 3 {
		t.Errorf("no ring: %v, version %d", err, k.Current())
	}
}

// TestUsable: what was opened may be shown for as long as its key may be used.
func TestUsable(t *testing.T) {
	keys := &fakeKeys{}
	k := testKeyring(t, keys, rand.Reader, 1)
	k.Seal(t.Context(), testNow, testReuse, Place{}, 1, nil, nil)
	keys.fail(errors.New("out of reach"))
	if err := k.Usable(t.Context(), testNow.Add(testReuse-1), testReuse, 1); err != nil {
		t.Errorf("within the reuse period: %v", err)
	}
	if err := k.Usable(t.Context(), testNow.Add(testReuse), testReuse, 1); !fault.Is(err, fault.KeyLost) {
		t.Errorf("after it: %v", err)
	}
	if err := k.Usable(t.Context(), testNow, testReuse, 2); !errors.Is(err, ErrVersion) {
		t.Errorf("of an unknown version: %v", err)
	}
}

// TestRetire drops what has a successor of before an instant, and never the newest.
func TestRetire(t *testing.T) {
	keys := &fakeKeys{}
	ring, _ := NewRing(t.Context(), keys, "test", testQueue, "", testNow)
	for i := range uint32(3) {
		ring, _ = Rotate(t.Context(), keys, "test", testQueue, ring, "", testNow.Add(10*(i+1)))
	}
	for after, first := range map[uint32]uint32{0: 1, 10: 1, 11: 2, 20: 2, 21: 3, 30: 3, 31: 4, 1000: 4} {
		got := ring.Retire(testNow.Add(after))
		if got.Versions[0].Version != first || got.Current() != 4 || len(ring.Versions) != 4 || !cmp.Equal(got.Name, ring.Name) {
			t.Errorf("%d seconds later the first is %d, want %d", after, got.Versions[0].Version, first)
		}
	}
}

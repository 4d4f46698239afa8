package envelope

import (
	"context"
	"crypto/rand"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leaselog/leaselog/events"
	"github.com/leaselog/leaselog/internal/fault"
)

var errKMS = errors.New("the KMS is down")

// TestReusePeriod walks one clock through the life of a cached key; unwraps is the sum so far.
func TestReusePeriod(t *testing.T) {
	keys := &fakeKeys{}
	k := testKeyring(t, keys, rand.Reader, 1)
	for _, step := range []struct {
		what    string
		at      events.Instant
		reuse   uint32
		unwraps int32
	}{
		{"first use", 0, 300, 1},
		{"last moment of the period", 299_999, 300, 1},
		{"end of the period", 300_000, 300, 2},
		{"a clock a little behind", 295_000, 300, 2},
		{"a clock that was set back", 294_999, 300, 3},
		{"a shorter period", 354_999, 60, 4},
		{"no reuse", 354_999, 0, 5},
		{"no reuse, and a clock behind", 354_998, 0, 6},
	} {
		if _, err := k.Hash(t.Context(), testNow+step.at, step.reuse, "group", "a"); err != nil {
			t.Fatalf("%s: %v", step.what, err)
		}
		if n := keys.unwraps.Load(); n != step.unwraps {
			t.Errorf("%s: %d unwraps, want %d", step.what, n, step.unwraps)
		}
	}
}

func TestVersionsAreCachedApart(t *testing.T) {
	keys := &fakeKeys{}
	k := testKeyring(t, keys, rand.Reader, 3)
	for range 2 {
		for v := uint32(1); v <= 3; v++ {
			if _, err := k.Seal(t.Context(), testNow, testReuse, Place{}, v, nil, nil); err != nil {
				t.Fatal(err)
			}
		}
	}
	if n := keys.unwraps.Load(); n != 3 {
		t.Errorf("%d unwraps of 3 versions", n)
	}
}

// TestDisabledKey: a cached key works until its period ends, then sends and receives stop with KeyLost, and a second
// after the key is back they go on.
func TestDisabledKey(t *testing.T) {
	keys := &fakeKeys{}
	k := testKeyring(t, keys, rand.Reader, 1)
	seal := func(at events.Instant) error {
		_, err := k.Seal(t.Context(), testNow+at, 60, Place{}, 1, nil, nil)
		return err
	}
	if err := seal(0); err != nil {
		t.Fatal(err)
	}
	keys.fail(errKMS)
	if err := seal(59_999); err != nil {
		t.Errorf("inside the period: %v", err)
	}
	for _, at := range []events.Instant{60_000, 60_999} {
		if err := seal(at); !fault.Is(err, fault.KeyLost) || !errors.Is(err, errKMS) {
			t.Errorf("at %d: %v; want KeyLost because of %v", at, err, errKMS)
		}
	}
	if n := keys.unwraps.Load(); n != 2 {
		t.Errorf("%d unwraps; a failure answers for a second", n)
	}
	keys.heal()
	if err := seal(61_000); err != nil {
		t.Errorf("a second after the failure, with the key back: %v", err)
	}
}

func TestKeyLostKeepsItsReason(t *testing.T) {
	keys := &fakeKeys{}
	k := testKeyring(t, keys, rand.Reader, 1)
	keys.fail(fault.New(fault.KeyLost, "the key is disabled"))
	_, err := k.Hash(t.Context(), testNow, testReuse, "group", "a")
	if f := fault.Of(err); f.Code != fault.KeyLost || f.Message != "the key is disabled" {
		t.Errorf("%v; want the fault of the keys", err)
	}
}

func TestWrongKeyLength(t *testing.T) {
	k := testKeyring(t, &fakeKeys{short: true}, rand.Reader, 1)
	if _, err := k.Hash(t.Context(), testNow, testReuse, "group", "a"); !fault.Is(err, fault.KeyLost) {
		t.Errorf("a key of 16 bytes: %v; want KeyLost", err)
	}
}

// TestOneUnwrappingForAll: who needs a key while it is unwrapped waits for that, and gets its outcome, good or bad.
func TestOneUnwrappingForAll(t *testing.T) {
	for _, failure := range []error{nil, errKMS} {
		synctest.Test(t, func(t *testing.T) {
			keys := &fakeKeys{}
			k := testKeyring(t, keys, rand.Reader, 1)
			keys.gate = make(chan struct{})
			if failure != nil {
				keys.fail(failure)
			}
			var wg sync.WaitGroup
			for i := range 50 {
				wg.Go(func() {
					_, err := k.Hash(t.Context(), testNow+events.Instant(i), 0, "group", "a")
					if !errors.Is(err, failure) || (failure != nil) != fault.Is(err, fault.KeyLost) {
						t.Errorf("got %v because of %v", err, failure)
					}
				})
			}
			synctest.Wait()
			close(keys.gate)
			wg.Wait()
			if n := keys.unwraps.Load(); n != 1 {
				t.Errorf("%d unwraps", n)
			}
		})
	}
}

// TestBegunTwice: who decided to unwrap a moment after somebody else did joins that one.
func TestBegunTwice(t *testing.T) {
	k := testKeyring(t, &fakeKeys{}, rand.Reader, 1)
	a := k.name.begin(t.Context(), testNow, 60)
	if b := k.name.begin(t.Context(), testNow, 60); a != b {
		t.Error("two unwrappings of one key were begun")
	}
}

// TestCallerGone: whoever leaves gets their own context's error, and the others the key.
func TestCallerGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		keys := &fakeKeys{}
		k := testKeyring(t, keys, rand.Reader, 1)
		keys.gate = make(chan struct{})
		ctx, leave := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() {
			if _, err := k.Hash(ctx, testNow, testReuse, "group", "a"); !errors.Is(err, context.Canceled) {
				t.Errorf("who left got %v", err)
			}
		})
		synctest.Wait()
		wg.Go(func() {
			if _, err := k.Hash(t.Context(), testNow, testReuse, "group", "a"); err != nil {
				t.Errorf("who stayed got %v", err)
			}
		})
		leave()
		synctest.Wait()
		close(keys.gate)
		wg.Wait()
		if n := keys.unwraps.Load(); n != 1 {
			t.Errorf("%d unwraps", n)
		}
	})
}

// TestSilentKMS: an unwrapping without an answer ends by itself.
func TestSilentKMS(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		keys := &fakeKeys{}
		k := testKeyring(t, keys, rand.Reader, 1)
		keys.gate = make(chan struct{})
		begun := time.Now()
		_, err := k.Hash(t.Context(), testNow, testReuse, "group", "a")
		if took := time.Since(begun); !fault.Is(err, fault.KeyLost) || took != unwrapSecondsMax*time.Second {
			t.Errorf("%v after %v", err, took)
		}
	})
}

func TestLapse(t *testing.T) {
	keys := &fakeKeys{}
	k := testKeyring(t, keys, rand.Reader, 1)
	held := func() bool { return k.name.last.Load() != nil || (*k.data.Load())[0].last.Load() != nil }
	use := func() {
		k.Hash(t.Context(), testNow, 60, "group", "a")
		k.Seal(t.Context(), testNow, 60, Place{}, 1, nil, nil)
	}
	use()
	if k.Lapse(testNow+59_999, 60); keys.unwraps.Load() != 2 || !held() {
		t.Error("keys were forgotten inside their period")
	}
	if k.Lapse(testNow+60_000, 60); held() {
		t.Error("keys were kept beyond their period")
	}
	use()
	if k.Lapse(testNow, 0); held() {
		t.Error("keys were kept though all were to be forgotten")
	}
}

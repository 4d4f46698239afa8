package envelope

import (
	"context"
	"encoding/binary"
	"io"
	"sync/atomic"
	"testing"

	"github.com/leaselog/leaselog/events"
)

// fakeKeys stands in for a KMS: it counts what it is asked, and fails or waits on command. A key is its version's
// number repeated, the name key 0, 1, 2 …; what is "wrapped" is the context.
type fakeKeys struct {
	unwraps atomic.Int32
	fails   atomic.Pointer[error]
	gate    chan struct{} // an Unwrap waits until it is closed; nil: it does not
	short   bool          // gives keys that are too short
}

func (f *fakeKeys) fail(err error) { f.fails.Store(&err) }
func (f *fakeKeys) heal()          { f.fails.Store(nil) }

func (f *fakeKeys) Generate(_ context.Context, _ string, c Context) (key, wrapped []byte, err error) {
	if err := f.fails.Load(); err != nil {
		return nil, nil, *err
	}
	return fakeKey(c.Version), fakeWrap(c), nil
}

func (f *fakeKeys) Unwrap(ctx context.Context, _ string, wrapped []byte, c Context) ([]byte, error) {
	f.unwraps.Add(1)
	if f.gate != nil {
		select {
		case <-f.gate:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	if err := f.fails.Load(); err != nil {
		return nil, *err
	}
	if string(wrapped) != string(fakeWrap(c)) {
		return nil, io.ErrUnexpectedEOF
	}
	if f.short {
		return fakeKey(c.Version)[:16], nil
	}
	return fakeKey(c.Version), nil
}

func fakeWrap(c Context) []byte {
	return binary.BigEndian.AppendUint32(append([]byte(c.Deployment), c.Queue[:]...), c.Version)
}

func fakeKey(version uint32) []byte {
	key := make([]byte, keySize)
	for i := range key {
		if key[i] = byte(version); version == nameVersion {
			key[i] = byte(i)
		}
	}
	return key
}

// counting gives bytes that rise from 0xa0, so that the first nonce is known.
type counting struct{}

func (counting) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 0xa0 + byte(i)
	}
	return len(p), nil
}

var testQueue = events.QueueID{0x10, 0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18, 0x19, 0x1a, 0x1b, 0x1c, 0x1d, 0x1e, 0x1f}

const (
	testNow   = events.Instant(1_800_000_000_000)
	testReuse = 300
)

// testRing has the data key versions 1 to n.
func testRing(t testing.TB, keys Keys, n int) Ring {
	t.Helper()
	ring, err := NewRing(t.Context(), keys, "test", testQueue, "", testNow)
	for i := 1; i < n && err == nil; i++ {
		ring, err = Rotate(t.Context(), keys, "test", testQueue, ring, "", testNow)
	}
	if err != nil {
		t.Fatal(err)
	}
	return ring
}

func testKeyring(t testing.TB, keys Keys, rand io.Reader, versions int) *Keyring {
	t.Helper()
	k, err := Open(keys, rand, "test", testQueue, testRing(t, keys, versions))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

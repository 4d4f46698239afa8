package host

import (
	"runtime"
	"runtime/debug"
	"testing"
	"time"
)

// TestMemoryLimit holds that whatever is alive has room to grow by 48 MB and three tenths until the collector must run, also
// where much of the memory is not objects: a drained FIFO queue of 1,000,000 has 93 MB alive and 50 MB beside, and with 144 MB
// for all of it the collector ran 55 times a second.
func TestMemoryLimit(t *testing.T) {
	const mb = 1 << 20
	for _, c := range []struct{ live, beside, want int64 }{
		{10 * mb, 5 * mb, heapFloor},
		{60 * mb, 30 * mb, heapFloor},
		{93 * mb, 50 * mb, 191 * mb},
		{300 * mb, 60 * mb, 450 * mb},
		{10 * mb, 400 * mb, heapFloor}, // scattered over spans that are nearly empty: collecting is what gives them back
		{100 * mb, 400 * mb, 296 * mb},
	} {
		if limit := memoryLimit(c.live, c.beside); limit != c.want {
			t.Errorf("%d MB alive and %d beside: the limit is %d MB, want %d", c.live/mb, c.beside/mb, limit/mb, c.want/mb)
		}
	}
}

// The limit rises by the collection that finds more alive, and falls when that is gone.
func TestMemoryFollows(t *testing.T) {
	newMemory().follow()
	until := func(what string, ok func(limit int64) bool) {
		t.Helper()
		for deadline := time.Now().Add(20 * time.Second); ; <-time.After(time.Millisecond) {
			runtime.GC()
			limit := debug.SetMemoryLimit(-1)
			if ok(limit) {
				return
			}
			if time.Now().After(deadline) {
				t.Fatalf("%s: the limit is %d MB", what, limit>>20)
			}
		}
	}
	state := make([]byte, 300<<20)
	until("300 MB are alive", func(limit int64) bool { return limit >= 390<<20 })
	runtime.KeepAlive(state)
	until("nothing is alive", func(limit int64) bool { return limit == heapFloor })
}

package host

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
)

// What the server allocates is mostly short-lived, so the collector may run rarely; but a program on a laptop should
// stay small. Both are had by a high target and a soft limit, which rises only with what is really alive: with the
// deduplication windows of busy FIFO queues, above all.
const (
	gcPercent = 300
	heapFloor = 144 << 20
	// headroom is what may be allocated at least between two collections.
	headroom = 48 << 20
)

// tuneCollector sets the collector of this process up, unless the environment has.
var tuneCollector = sync.OnceFunc(func() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	if os.Getenv("GOMEMLIMIT") == "" {
		newMemory().follow()
	}
})

// memory reads what the runtime has.
type memory struct{ samples []metrics.Sample }

func newMemory() *memory {
	m := &memory{}
	for _, name := range []string{"/gc/heap/live:bytes", "/memory/classes/total:bytes", "/memory/classes/heap/released:bytes",
		"/memory/classes/heap/free:bytes", "/memory/classes/heap/objects:bytes"} {
		m.samples = append(m.samples, metrics.Sample{Name: name})
	}
	return m
}

// collected is found dead by the next collection.
type collected struct{ _ *collected }

// follow lets the soft limit follow what the program needs: now and after every collection. Later would be too late,
// since what is alive can double between two looks, and then one collection follows on the other.
func (m *memory) follow() {
	metrics.Read(m.samples)
	var b [5]int64
	for i := range b {
		b[i] = int64(m.samples[i].Value.Uint64())
	}
	live, total, released, free, objects := b[0], b[1], b[2], b[3], b[4]
	debug.SetMemoryLimit(memoryLimit(live, total-released-free-objects))
	runtime.AddCleanup(new(collected), (*memory).follow, m)
}

// memoryLimit is the soft limit for so many bytes of live objects, and so many that the runtime has beside objects and
// cannot give away: room in spans that are partly used, stacks, tables. The limit is on all of it, so what is beside must
// not take the room that objects need, or the collector would run all the time. More of it than of what is in use is no
// reason to grow.
func memoryLimit(live, beside int64) int64 {
	need := live + max(headroom, live*3/10)
	return max(heapFloor, need+min(beside, need))
}

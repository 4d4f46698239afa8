package host

import (
	"os"
	"runtime/debug"
	"runtime/metrics"
)

// What the server allocates is mostly short-lived, so the collector may run rarely; but a program on a laptop should
// stay small. Both are had by a high target and a soft limit, which rises only with what is really alive: with the
// deduplication windows of busy FIFO queues, above all.
const (
	gcPercent = 300
	heapFloor = 144 << 20
)

// memory sets the collector up, unless the environment has.
type memory struct {
	limited bool
	samples []metrics.Sample
}

func newMemory() *memory {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	m := &memory{limited: os.Getenv("GOMEMLIMIT") == ""}
	for _, name := range []string{"/gc/heap/live:bytes", "/memory/classes/total:bytes", "/memory/classes/heap/released:bytes",
		"/memory/classes/heap/free:bytes", "/memory/classes/heap/objects:bytes"} {
		m.samples = append(m.samples, metrics.Sample{Name: name})
	}
	m.adjust()
	return m
}

// adjust lets the soft limit follow what the program needs.
func (m *memory) adjust() {
	if !m.limited {
		return
	}
	metrics.Read(m.samples)
	var b [5]int64
	for i := range b {
		b[i] = int64(m.samples[i].Value.Uint64())
	}
	live, total, released, free, objects := b[0], b[1], b[2], b[3], b[4]
	debug.SetMemoryLimit(memoryLimit(live, total-released-free-objects))
}

// memoryLimit is the soft limit for so many bytes of live objects, and so many that the runtime has beside objects and
// cannot give away: room in spans that are partly used, stacks, tables. The limit is on all of it, so what is beside must
// not take the room that objects need, or the collector would run all the time.
func memoryLimit(live, beside int64) int64 {
	return max(heapFloor, live+live*3/10+beside)
}

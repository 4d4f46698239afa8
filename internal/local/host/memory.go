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
	live    []metrics.Sample
}

func newMemory() *memory {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	m := &memory{limited: os.Getenv("GOMEMLIMIT") == "", live: []metrics.Sample{{Name: "/gc/heap/live:bytes"}}}
	m.adjust()
	return m
}

// adjust lets the soft limit follow what is alive: a limit close to it would make the collector run all the time.
func (m *memory) adjust() {
	if !m.limited {
		return
	}
	metrics.Read(m.live)
	live := int64(m.live[0].Value.Uint64())
	debug.SetMemoryLimit(max(heapFloor, live+live*3/10))
}

package broker

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/leaselog/leaselog/internal/eventlog/eventlogtest"
)

// BenchmarkLife is the whole life of a message, by 64 goroutines over the log in memory.
func BenchmarkLife(b *testing.B) {
	for _, k := range kinds {
		b.Run(k.name, func(b *testing.B) {
			w := benchWorld(b, onShards(k.shards))
			q := w.create("q", k.fifo)
			each(b, func(i int64) {
				w.send(q, "g"+string(rune('a'+i%64))+":"+time.Duration(i).String())
				for {
					if found := w.receive(q, 1); len(found) > 0 {
						w.ack(q, found...)
						return
					}
				}
			})
			b.ReportMetric(float64(w.log.Calls(eventlogtest.OpCommit))/float64(b.N), "commits/op")
		})
	}
}

// BenchmarkSend, BenchmarkReceive and BenchmarkAck take its parts.
func BenchmarkSend(b *testing.B) {
	w := benchWorld(b)
	q := w.create("q", false)
	each(b, func(int64) { w.send(q, "message") })
}

func BenchmarkReceive(b *testing.B) {
	w := benchWorld(b)
	w.edit = append(w.edit, func(c *Config) { c.Limits.InFlight = 1 << 30 })
	w.b.Limits.InFlight = 1 << 30
	q := w.create("q", false)
	fill(w, b.N, func(n int) { w.send(q, texts("m", n)...) })
	each(b, func(int64) { w.receive(q, 1) })
}

func BenchmarkAck(b *testing.B) {
	w := benchWorld(b)
	w.b.Limits.InFlight = 1 << 30
	q := w.create("q", false)
	var held []Delivery
	fill(w, b.N, func(n int) {
		w.send(q, texts("m", n)...)
		held = append(held, w.receive(q, n)...)
	})
	each(b, func(i int64) { w.ack(q, held[i]) })
}

func benchWorld(b *testing.B, edit ...func(*Config)) *world {
	w := newWorld(b, openKeys(b), edit...)
	b.Cleanup(w.b.Close)
	return w
}

// fill works through n in thousands.
func fill(w *world, n int, f func(n int)) {
	for ; n > 0; n -= 1000 {
		f(min(n, 1000))
	}
}

// each runs f b.N times, by 64 goroutines.
func each(b *testing.B, f func(i int64)) {
	var next atomic.Int64
	var work sync.WaitGroup
	runtime.GC()
	b.ReportAllocs()
	b.ResetTimer()
	for range 64 {
		work.Go(func() {
			for i := next.Add(1) - 1; i < int64(b.N); i = next.Add(1) - 1 {
				f(i)
			}
		})
	}
	work.Wait()
	b.StopTimer()
}

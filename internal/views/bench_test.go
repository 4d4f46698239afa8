package views_test

import (
	"encoding/binary"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"testing"
	"time"

	"github.com/leaselog/leaselog/events"
	"github.com/leaselog/leaselog/internal/eventlog"
	"github.com/leaselog/leaselog/internal/queue"
	"github.com/leaselog/leaselog/internal/views"
	"github.com/leaselog/leaselog/projections"
)

// BenchmarkRebuild makes each view of a shard with 1,000,000 entries, none of which has a snapshot behind it or was looked
// at: the worst there is.
func BenchmarkRebuild(b *testing.B) {
	const entries = 1_000_000
	w := newWorld(b)
	defer w.b.Close()
	s := plain
	s.Fifo, s.ContentDedup = true, true // one shard
	q := w.create("q.fifo", s, "", 0)
	name := w.shards(q)[0]
	r := w.replay(name)
	stream := eventlog.Stream(events.MessageStream(q, 0, 0))
	for i := range uint64(entries) {
		c := eventlog.Commit{At: int64(w.now)}
		binary.BigEndian.PutUint64(c.Writer[:], i+1)
		seq := r.sender.Tail
		r.sender.Open(events.BlockID(c.Writer), w.now)
		a, err := r.sender.Decide(queue.Outgoing{Size: 1, Group: events.Hash{1}, Dedup: events.Hash(c.Writer)})
		w.must(err)
		r.sender.Add(a)
		c.Appends = []eventlog.Append{{Stream: stream, Seq: eventlog.Seq(seq), Width: 1, Header: events.EncodeHeader(r.sender.Close())}}
		r.sender.Settle()
		w.must(w.log.Commit(w.ctx, c))
		w.now += 100
	}
	for _, p := range projections.All() {
		b.Run(p.View, func(b *testing.B) {
			b.ReportAllocs()
			made := 0
			remake := func() {
				data, err := (&views.Follower{Log: w.log, Store: w.store}).Make(w.ctx, name, p, nil)
				w.must(err)
				b.ReportMetric(float64(len(data)), "B/view")
				made++
			}
			for b.Loop() {
				remake()
			}
			b.ReportMetric(float64(made*entries)/b.Elapsed().Seconds(), "entries/s")
			b.ReportMetric(float64(highest(remake))/1e6, "MB")
		})
	}
}

// highest gives by how many bytes the heap was larger than before, at most, while f ran and the collector left little over.
func highest(f func()) (peak uint64) {
	heap := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	now := func() uint64 {
		metrics.Read(heap)
		return heap[0].Value.Uint64()
	}
	defer debug.SetGCPercent(debug.SetGCPercent(2))
	runtime.GC()
	before := now()
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for t := time.NewTicker(time.Millisecond); ; {
			select {
			case <-t.C:
				peak = max(peak, now()-min(before, now()))
			case <-stop:
				t.Stop()
				return
			}
		}
	}()
	f()
	close(stop)
	<-stopped
	return peak
}

package store

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/leaselog/leaselog/internal/eventlog"
)

// cpu is the processor time of the process so far.
func cpu() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// reportCPU adds µs of processor time per operation: a commit's own time is spent mostly waiting for the disk.
func reportCPU(b *testing.B, before time.Duration) {
	b.ReportMetric(float64((cpu()-before).Microseconds())/float64(b.N), "cpu-µs/op")
}

// BenchmarkCommit has 64 clients append 1 KB entries, each to the end that it was told last: clients of one stream
// take turns by a lock, as they do behind one runner.
func BenchmarkCommit(b *testing.B) {
	for _, streams := range []int{1, 16, 64} {
		b.Run(fmt.Sprintf("streams=%d", streams), func(b *testing.B) { benchmarkCommit(b, streams, 1) })
	}
	// What a runner does: it joins what its clients want into one block.
	b.Run("runner", func(b *testing.B) { benchmarkCommit(b, 1, 64) })
}

func benchmarkCommit(b *testing.B, streams, group int) {
	s := open(b, Config{Dir: b.TempDir()})
	names := make([]eventlog.Stream, streams)
	ends := make([]struct {
		sync.Mutex
		next eventlog.Seq
	}, streams)
	for i := range names {
		names[i] = eventlog.Stream(fmt.Sprintf("q/%026d/m/0", i))
	}
	data, header := make([]byte, 1024*group), make([]byte, 100)
	var left atomic.Int64
	left.Store(int64(b.N))
	b.ReportAllocs()
	b.ResetTimer()
	before := cpu()
	var wg sync.WaitGroup
	for client := range 64 {
		wg.Go(func() {
			at := client % streams
			for left.Add(-int64(group)) > -int64(group) {
				ends[at].Lock()
				c := eventlog.Commit{Writer: newWriter(), Appends: []eventlog.Append{{
					Stream: names[at], Seq: ends[at].next, Width: uint32(group), Header: header, Data: data,
				}}}
				if err := s.Commit(context.Background(), c); err != nil {
					b.Error(err)
				}
				ends[at].next += eventlog.Seq(group)
				ends[at].Unlock()
			}
		})
	}
	wg.Wait()
	b.StopTimer()
	reportCPU(b, before)
	reportWritten(b, s)
}

// reportWritten adds how often a byte is written in the end: to the log, by the flush, by compactions.
func reportWritten(b *testing.B, s *Store) {
	m := s.current.Load().db.Metrics()
	written := m.WAL.BytesWritten
	for _, l := range m.Levels {
		written += l.TableBytesFlushed + l.TableBytesCompacted + l.BlobBytesFlushed + l.BlobBytesCompacted
	}
	b.ReportMetric(float64(written)/float64(m.WAL.BytesIn), "written/in")
}

// BenchmarkRace has all clients append to one stream at once without a lock, so that most meet a conflict.
func BenchmarkRace(b *testing.B) {
	s := open(b, Config{Dir: b.TempDir()})
	data := make([]byte, 1024)
	var next atomic.Uint64
	b.SetParallelism(32)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			seq := next.Load()
			err := s.Commit(context.Background(), entry("race", eventlog.Seq(seq), data))
			var conflict *eventlog.Conflict
			if err == nil {
				next.Store(seq + 1)
			} else if !errors.As(err, &conflict) {
				b.Error(err)
			}
		}
	})
}

func BenchmarkClaim(b *testing.B) {
	s := open(b, Config{Dir: b.TempDir()})
	var n atomic.Uint64
	b.SetParallelism(32)
	b.ReportAllocs()
	before := cpu()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			c := eventlog.Commit{Writer: newWriter(), Claims: []eventlog.Claim{{Key: fmt.Sprintf("nonce/%d", n.Add(1)), Until: 1 << 50}}}
			if err := s.Commit(context.Background(), c); err != nil {
				b.Error(err)
			}
		}
	})
	reportCPU(b, before)
}

// filled has 100,000 entries of 1 KB, in blocks of ten, in four streams.
func filled(b *testing.B) (*Store, eventlog.Seq) {
	s := open(b, Config{Dir: b.TempDir()})
	const blocks = 2500
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			for n := range eventlog.Seq(blocks) {
				c := eventlog.Commit{Writer: newWriter(), Appends: []eventlog.Append{{
					Stream: eventlog.Stream(fmt.Sprint("s", i)), Seq: 10 * n, Width: 10, Data: make([]byte, 10<<10),
				}}}
				if err := s.Commit(context.Background(), c); err != nil {
					b.Error(err)
				}
			}
		})
	}
	wg.Wait()
	return s, blocks * 10
}

func BenchmarkReadOne(b *testing.B) {
	s, end := filled(b)
	b.ReportAllocs()
	b.ResetTimer()
	at := eventlog.Seq(0)
	for range b.N {
		got, err := s.Read(context.Background(), "s1", at, eventlog.Limits{Entries: 1})
		if err != nil || len(got) != 1 {
			b.Fatal(len(got), err)
		}
		at = got[0].Next() % end
	}
}

func BenchmarkReadChunk(b *testing.B) {
	s, end := filled(b)
	b.ReportAllocs()
	b.SetBytes(100 * 10 << 10)
	b.ResetTimer()
	at := eventlog.Seq(0)
	for range b.N {
		got, err := s.Read(context.Background(), "s1", at, eventlog.Limits{Entries: 100})
		if err != nil || len(got) != 100 {
			b.Fatal(len(got), err)
		}
		at = got[99].Next() % end
	}
}

func BenchmarkReadEnd(b *testing.B) {
	s, end := filled(b)
	b.ReportAllocs()
	b.ResetTimer()
	for range b.N {
		if got, err := s.Read(context.Background(), "s1", end, eventlog.Limits{Entries: 1}); err != nil || len(got) != 0 {
			b.Fatal(len(got), err)
		}
	}
}

func BenchmarkLast(b *testing.B) {
	s, _ := filled(b)
	b.ReportAllocs()
	b.ResetTimer()
	for range b.N {
		if _, ok, err := s.Last(context.Background(), "s1"); err != nil || !ok {
			b.Fatal(ok, err)
		}
	}
}

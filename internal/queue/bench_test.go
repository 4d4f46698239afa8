package queue_test

import (
	"encoding/binary"
	"fmt"
	"runtime"
	"testing"

	"github.com/leaselog/leaselog/events"
	"github.com/leaselog/leaselog/internal/queue"
)

// BenchmarkLease decides and applies leases from a window of blocks of ten. Old leases lapse, so that what is in
// flight stays as it is.
func BenchmarkLease(b *testing.B) {
	for _, n := range []int{1, 10} {
		b.Run(fmt.Sprintf("of=%d", n), func(b *testing.B) { benchmarkLease(b, n) })
	}
}

func benchmarkLease(b *testing.B, n int) {
	w := newWorld(queue.DefaultLimits, began)
	w.configure(1, defaults)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if i*n%10 == 0 {
			w.send(make([]queue.Outgoing, 10)...)
		}
		at := began + events.Instant(i)
		c := &queue.Lease{At: at, ID: events.LeaseID{1}, Until: at + 1_000_000, Max: n, Window: queue.Window{Blocks: w.blocks[len(w.blocks)-1:]}}
		d, _ := queue.Decide(w.ledger, c)
		for _, e := range d.Events {
			w.ledger.Evolve(e)
		}
		ackOldest(w, at, n)
		w.ledger.Settle()
	}
}

// ackOldest keeps about 10,000 leases.
func ackOldest(w *world, at events.Instant, n int) {
	for ; n > 0 && w.ledger.Len() > 10_000; n-- {
		w.ledger.Pending(0, func(m *queue.Message) bool {
			d, _ := queue.Decide(w.ledger, &queue.Ack{At: at, Items: []queue.Held{{Position: m.Position, Lease: m.Lease}}})
			w.ledger.Evolve(d.Events[0])
			return false
		})
	}
}

// BenchmarkAck acks one of 10,000 leased messages, and takes it back so that there is one to ack.
func BenchmarkAck(b *testing.B) {
	w := leased(10_000)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		mark := w.ledger.Mark()
		p := events.Position(1 + i%10_000)
		d, _ := queue.Decide(w.ledger, &queue.Ack{At: began, Items: []queue.Held{{Position: p, Lease: w.ledger.Get(p).Lease}}})
		w.ledger.Evolve(d.Events[0])
		w.ledger.Rollback(mark)
	}
}

// leased gives a world with n leased messages.
func leased(n int) *world {
	w := newWorld(queue.Limits{InFlight: n, LookAhead: n, Passed: n, Delayed: n}, began)
	w.configure(1, defaults)
	for range n / 10 {
		w.send(make([]queue.Outgoing, 10)...)
	}
	if _, err := w.decide(&queue.Lease{At: began, ID: w.lease(), Until: began + 30_000, Max: n, Window: w.window(n)}); err != nil {
		panic(err)
	}
	return w
}

// BenchmarkSendDedup decides and adds one message with a deduplication id, 10,000 a second.
func BenchmarkSendDedup(b *testing.B) {
	s := dedupSender()
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		remember(s, i, 10_000)
	}
	b.ReportMetric(float64(s.Remembered()), "ids")
}

func dedupSender() *queue.Sender {
	s := queue.NewSender(queue.DefaultLimits)
	v := defaults
	v.Fifo, v.DedupSeconds = true, 300
	s.Control(events.BlockID{1}, began, queue.Control{Version: 1, Settings: &v})
	return s
}

// remember sends the i-th message, of so many a second.
func remember(s *queue.Sender, i, rate int) {
	s.Open(events.BlockID{2}, began+events.Instant(i*1000/rate))
	a, err := s.Decide(queue.Outgoing{Group: events.Hash{1}, Dedup: mixed(i)})
	if err != nil || a.Duplicate {
		panic(fmt.Sprint(a, err))
	}
	s.Add(a)
	s.Close()
	s.Settle()
}

// mixed is a hash without the cost of one (splitmix64).
func mixed(i int) (h events.Hash) {
	for j := range 2 {
		x := uint64(2*i+j+1) * 0x9e3779b97f4a7c15
		x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
		x = (x ^ x>>27) * 0x94d049bb133111eb
		binary.LittleEndian.PutUint64(h[8*j:], x^x>>31)
	}
	return h
}

// TestWindowMemory holds promise 9: at most 40 bytes for a remembered id, at any rate and at any moment on the way.
func TestWindowMemory(t *testing.T) {
	most := 1_000_000
	if testing.Short() {
		most = 100_000
	}
	for _, rate := range []int{100, 3_500, 20_000} {
		n := min(most, 300*rate) // at the lowest rate no more fit into the window
		s := dedupSender()
		before, worst := heap(), 0.0
		for i := range n {
			remember(s, i, rate)
			if i+1 == n || (i+1)%(n/5) == 0 {
				worst = max(worst, float64(heap()-before)/float64(s.Remembered()))
			}
		}
		t.Logf("%d a second, %d ids: at most %.1f bytes each", rate, s.Remembered(), worst)
		if worst > 40 {
			t.Errorf("at %d a second an id takes %.1f bytes, more than 40", rate, worst)
		}
		runtime.KeepAlive(s)
	}
}

// TestPendingMemory says what a leased message takes: the comment on DefaultLimits rests on it.
func TestPendingMemory(t *testing.T) {
	const n = 100_000
	before := heap()
	w := leased(n)
	w.blocks, w.log = nil, nil
	each := float64(heap()-before) / n
	t.Logf("a leased message takes %.0f bytes", each)
	if each > 400 {
		t.Errorf("a leased message takes %.0f bytes, more than 400", each)
	}
	runtime.KeepAlive(w)
}

func heap() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

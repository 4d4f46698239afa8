package store

import (
	"slices"
	"sync"
	"testing"
)

// witness keeps what clients of a queue were told, and holds it to the promises. All of them have one clock.
type witness struct {
	mu     sync.Mutex
	sent   map[string]bool     // by the message's id
	leases map[string][]*lease // of each message
	acked  map[string]*lease   // by which it was acked, for certain
	maybe  map[string]bool     // an ack has failed, and may have taken effect all the same
	failed int                 // sends that may have taken effect all the same, in messages
}

// lease is what a client was told of one. Its end is the last that was confirmed.
type lease struct {
	message   string
	number    uint32 // of the message's
	from, end int64  // Unix milliseconds
}

func newWitness() *witness {
	return &witness{sent: map[string]bool{}, leases: map[string][]*lease{}, acked: map[string]*lease{}, maybe: map[string]bool{}}
}

// sends notes what was answered with success.
func (w *witness) sends(t testing.TB, ids ...string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, id := range ids {
		if w.sent[id] {
			t.Errorf("two messages have the id %s", id)
		}
		w.sent[id] = true
	}
}

// doubts notes sends that may have taken effect.
func (w *witness) doubts(messages int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.failed += messages
}

func (w *witness) delivers(l *lease) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.leases[l.message] = append(w.leases[l.message], l)
}

// extends notes that a lease ends later.
func (w *witness) extends(l *lease, end int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	l.end = max(l.end, end)
}

// acks notes how an ack was answered: whether with success, or so that it may have taken effect.
func (w *witness) acks(t testing.TB, l *lease, done, maybe bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if first := w.acked[l.message]; done && first != nil && first != l {
		t.Errorf("message %s was acked by its leases %d and %d", l.message, first.number, l.number)
	}
	if done {
		w.acked[l.message] = l
	}
	w.maybe[l.message] = w.maybe[l.message] || maybe
}

// left counts the messages that must still come.
func (w *witness) left() (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for id := range w.sent {
		if w.acked[id] == nil && !w.maybe[id] {
			n++
		}
	}
	return n
}

// judge is called when nothing more is to come. It gives how many messages came again.
func (w *witness) judge(t testing.TB) (again int) {
	t.Helper()
	if n := w.left(); n > 0 {
		t.Errorf("%d of %d messages were lost", n, len(w.sent))
	}
	strangers := 0
	for id, all := range w.leases {
		if !w.sent[id] {
			strangers++
		}
		slices.SortFunc(all, func(a, b *lease) int { return int(a.number) - int(b.number) })
		for i, l := range all {
			if acked := w.acked[id]; acked != nil && l.number > acked.number {
				t.Errorf("message %s was delivered by its lease %d, after lease %d had acked it", id, l.number, acked.number)
			}
			if i == 0 {
				continue
			}
			again++
			if before := all[i-1]; l.number == before.number || l.from < before.end {
				t.Errorf("message %s: its lease %d begins at %d, lease %d ends at %d", id, l.number, l.from, before.number, before.end)
			}
		}
	}
	if strangers > w.failed {
		t.Errorf("%d messages came whose sends were not answered, and %d sends may have taken effect", strangers, w.failed)
	}
	return again
}

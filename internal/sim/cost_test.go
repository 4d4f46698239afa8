package sim

import (
	"context"
	"math/rand/v2"
	"strconv"
	"testing"
	"testing/synctest"

	"github.com/leaselog/leaselog/events"
	"github.com/leaselog/leaselog/internal/broker"
	"github.com/leaselog/leaselog/internal/queue"
)

// spent is what a run of commands has cost: calls of the store, and the largest state.
type spent struct{ commits, reads, state int }

const rounds = 150

// TestCost holds promise 9: what a command costs does not depend on how many messages wait, nor does the state.
func TestCost(t *testing.T) {
	for _, fifo := range []bool{false, true} {
		var few, many spent
		synctest.Test(t, func(t *testing.T) { few = cost(t, fifo, 10) })
		synctest.Test(t, func(t *testing.T) { many = cost(t, fifo, 3_000) })
		t.Logf("fifo %t: %+v with 10 waiting, %+v with 3,000", fifo, few, many)
		// A send, a receive and an ack are a commit each. Blocks are read 64 at a time.
		if few.commits != 3*rounds || many.commits != 3*rounds {
			t.Errorf("%d rounds of send, receive and ack took %d and %d commits, not %d", rounds, few.commits, many.commits, 3*rounds)
		}
		if most := rounds/64 + 2; few.reads > most || many.reads > most {
			t.Errorf("%d rounds took %d and %d reads, at most %d should do", rounds, few.reads, many.reads, most)
		}
		if few.state != 1 || many.state != 1 {
			t.Errorf("the state grew to %d and %d messages, 1 is in flight", few.state, many.state)
		}
	}
}

// cost sends, receives and acks one message at a time, while so many others wait.
func cost(t *testing.T, fifo bool, waiting int) (c spent) {
	settings := events.Settings{Fifo: fifo, LeaseSeconds: 30, RetentionSeconds: 86400, MaxBytes: 1024, KeyReuseSeconds: 300, DedupSeconds: 300}
	p := &plan{Hosts: 1, Exclusive: true, Shards: 1, Limits: queue.DefaultLimits, Clocks: right, Cache: 1 << 20,
		Specs: []spec{{Settings: settings, DeadLetter: -1}}}
	s := newSimulation(Options{}, p, rand.New(rand.NewPCG(1, 2)))
	r := s.judged(func() {
		s.open()
		l, k := s.hosts[0].life, s.queues[0]
		for range waiting {
			s.finish(s.sendOne(l, k))
		}
		s.round(l, k)
		commits, reads := s.seen["commit"], s.seen["read"]+s.seen["last"]
		for range rounds {
			c.state = max(c.state, s.round(l, k))
		}
		c.commits, c.reads = s.seen["commit"]-commits, s.seen["read"]+s.seen["last"]-reads
	})
	if r.Wrong != "" {
		t.Error(r.Wrong)
	}
	return c
}

// round sends, receives and acks one message, and gives how many the state kept while it was leased.
func (s *simulation) round(l *life, k *known) (kept int) {
	s.finish(s.sendOne(l, k))
	s.held = nil
	s.finish(s.take(l, k, broker.Receive{Queue: k.id, Max: 1}))
	s.must(len(s.held) == 1, "%d messages came", len(s.held))
	kept = s.witness.queues[k.id].shards[0].replay.Len()
	s.finish(s.ack(l, s.held[0]))
	return kept
}

// sendOne sends a message of a group of its own.
func (s *simulation) sendOne(l *life, k *known) *command {
	n := strconv.Itoa(len(s.attempts))
	a := &attempt{n: len(s.attempts), queue: k.id, body: plain + n}
	if k.fifo {
		a.group, a.dedup = plain+n, plain+n
	}
	s.attempts = append(s.attempts, a)
	return s.command(l, "send "+n, func(ctx context.Context) func() {
		sent, err := l.broker.Send(ctx, k.id, []broker.Outgoing{{Message: events.Message{Body: []byte(a.body), Group: a.group, Dedup: a.dedup,
			Attributes: []events.Attribute{{Name: "n", Type: "s", Value: []byte(n)}}}}})
		return func() {
			s.must(err == nil, "send: %v", err)
			s.sent(ctx, k, a, sent[0], nil)
		}
	})
}

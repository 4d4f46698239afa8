package sim

import (
	"bytes"
	"context"
	"slices"
	"time"

	"github.com/leaselog/leaselog/events"
	"github.com/leaselog/leaselog/internal/broker"
	"github.com/leaselog/leaselog/internal/eventlog"
	"github.com/leaselog/leaselog/internal/eventlog/eventlogtest"
	"github.com/leaselog/leaselog/internal/queue"
)

// open starts the brokers and makes the queues.
func (s *simulation) open() {
	for i := range s.Hosts {
		h := &host{n: i}
		h.offset.Store(s.drawOffset())
		s.hosts = append(s.hosts, h)
		s.boot(h)
	}
	for i, sp := range s.Specs {
		n := &name{text: "q" + string(rune('0'+i)), spec: sp}
		s.names = append(s.names, n)
		s.finish(s.create(s.hosts[0].life, n))
	}
}

// finale heals everything, lets everybody have an answer, and then empties all queues with a fresh broker: every
// message must come out, or have ended in a way that the log tells.
func (s *simulation) finale() {
	s.note("everything heals")
	s.healed = true
	s.keys.down.Store(false)
	s.landAll(func() bool { return chance(s.rand, 0.5) })
	for n := 0; len(s.running) > 0; n++ {
		s.must(n < 20_000, "%s has no answer though everything is well", s.running[0].name)
		if s.settle(); !s.forward(nil) {
			s.sleep(100 * time.Millisecond)
		}
		s.settle()
	}
	s.retire()
	s.check()
	s.viewed(false)
	for _, h := range s.hosts {
		if h.life != nil {
			s.crash(h.life)
		}
	}
	s.landAll(func() bool { return true })
	s.sleep(time.Minute) // leases, delays and clocks that were ahead
	s.hosts[0].offset.Store(0)
	s.boot(s.hosts[0])
	s.drain(s.hosts[0].life)
	s.check()
	s.viewed(true)
}

// drain receives and acks until nothing is left.
func (s *simulation) drain(l *life) {
	for round := 0; ; round++ {
		s.must(round < 400, "messages are left that nobody can receive: %s", s.left())
		s.finish(s.tick(l))
		busy := false
		for _, k := range s.queues {
			if k.deleting || len(s.witness.living(k)) == 0 {
				continue
			}
			busy = true
			s.empties(l, k)
		}
		if !busy {
			break
		}
		s.sleep(10 * time.Second)
	}
	for _, k := range s.queues {
		if !k.deleting {
			s.finish(s.depth(l, k))
		}
	}
}

// empties receives and acks until a receive comes back with nothing.
func (s *simulation) empties(l *life, k *known) {
	for range 1000 {
		s.held = nil
		s.finish(s.take(l, k, broker.Receive{Queue: k.id, Max: 10, LeaseSeconds: new(uint32(30)), WaitSeconds: new(uint32(0))}))
		if len(s.held) == 0 {
			return
		}
		for _, h := range slices.Clone(s.held) {
			s.finish(s.ack(l, h))
			s.must(h.attempt.acked, "message %d was received and cannot be acked", h.attempt.n)
		}
	}
}

func (s *simulation) left() (text string) {
	for _, k := range s.queues {
		for _, l := range s.witness.living(k) {
			if !k.deleting {
				text += k.name.text + ":" + l.attempt.body + " "
			}
		}
	}
	return text
}

// check reads the whole log again: its own invariants, and that a replay from the beginning gives what was folded
// on the way.
func (s *simulation) check() {
	err := eventlogtest.Check(context.Background(), s.memory, s.memory.Streams()...)
	s.must(err == nil, "the log: %v", err)
	queues := slices.SortedFunc(values(s.witness.queues), compare)
	for _, q := range queues {
		for _, sh := range q.sorted() {
			if sh.ruling.Status != events.Deleted { // what is deleted may be dropped as it is
				s.replay(sh)
			}
		}
	}
	for _, a := range s.attempts {
		s.must(a.answer != sentAnswer || a.letter != nil, "message %d was answered with success, and is not in the log", a.n)
	}
}

func values[K comparable, V any](m map[K]V) func(func(V) bool) {
	return func(yield func(V) bool) {
		for _, v := range m {
			if !yield(v) {
				return
			}
		}
	}
}

// replay folds a shard's ledger from its first entry.
func (s *simulation) replay(sh *wShard) {
	stream := eventlog.Stream(events.LedgerStream(sh.queue.id, sh.index))
	l := queue.NewLedger(s.Limits)
	entries, err := s.memory.Read(context.Background(), stream, 0, eventlog.Limits{})
	if err != nil || len(entries) > 0 && entries[len(entries)-1].Next() != sh.tails[stream] { // the beginning was dropped
		snap, ok, _ := s.memory.Snapshot(context.Background(), stream, 1<<62)
		s.must(ok, "%s was dropped and has no snapshot", stream)
		s.count("replay from a snapshot")
		l, err = queue.LoadLedger(s.Limits, snap.Data)
		s.must(err == nil, "a snapshot of %s: %v", stream, err)
		entries, err = s.memory.Read(context.Background(), stream, snap.Seq, eventlog.Limits{})
		s.must(err == nil, "reading %s: %v", stream, err)
	}
	for _, e := range entries {
		happened, err := events.Decode(e.Data)
		s.must(err == nil, "entry %d of %s: %v", e.Seq, e.Stream, err)
		for _, ev := range happened {
			l.Evolve(ev)
		}
	}
	l.Check()
	s.must(bytes.Equal(l.Snapshot(), sh.replay.Snapshot()), "a replay of %s gives another state", stream)
}

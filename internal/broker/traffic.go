package broker

import (
	"math"
	"sync/atomic"

	"github.com/leaselog/leaselog/internal/eventlog"
)

// Traffic is what this process has done to a queue since it opened it. Numbers are of messages where nothing else is said.
type Traffic struct {
	Sent, Received, Acked, Expired uint64
	DeadLettered                   uint64 // moved from here to the dead-letter queue
	EmptyReceives                  uint64 // receives that were answered with nothing
	Commits, Conflicts             uint64 // writes to the log that stand, and that another process's came before
	ReadUnits, WriteUnits          float64
}

// traffic is a queue's, being counted by its runners.
type traffic struct {
	sent, received, acked, expired, deadLettered, empty, commits, conflicts atomic.Uint64
	// of capacity, in thousandths
	reads, writes atomic.Uint64
}

var _ eventlog.Bill = (*traffic)(nil)

// Charge implements [eventlog.Bill].
func (t *traffic) Charge(readUnits, writeUnits float64) {
	plus(&t.reads, uint64(math.Round(1000*readUnits)))
	plus(&t.writes, uint64(math.Round(1000*writeUnits)))
}

// plus spares what did not happen, as most did not, the price of being added.
func plus(to *atomic.Uint64, n uint64) {
	if n > 0 {
		to.Add(n)
	}
}

func (t *traffic) add(d *Tally) {
	plus(&t.sent, uint64(d.Sent))
	plus(&t.received, uint64(d.Leased))
	plus(&t.acked, uint64(d.Acked))
	plus(&t.expired, d.Expired)
	plus(&t.deadLettered, uint64(d.DeadLettered))
	plus(&t.empty, uint64(d.EmptyReceives))
}

func (t *traffic) wrote(o Outcome) {
	switch o {
	case Stands:
		t.commits.Add(1)
	case Conflict:
		t.conflicts.Add(1)
	}
}

func (t *traffic) read() Traffic {
	return Traffic{Sent: t.sent.Load(), Received: t.received.Load(), Acked: t.acked.Load(), Expired: t.expired.Load(), DeadLettered: t.deadLettered.Load(),
		EmptyReceives: t.empty.Load(), Commits: t.commits.Load(), Conflicts: t.conflicts.Load(),
		ReadUnits: float64(t.reads.Load()) / 1000, WriteUnits: float64(t.writes.Load()) / 1000}
}

// did tells who counts what was done to a queue.
func (h *handle) did(d *Tally) { h.broker.did(&h.traffic, d) }

func (b *Broker) did(t *traffic, d *Tally) {
	t.add(d)
	b.Meter.Done(d)
}

// foundNothing is the tally of a receive that was answered with nothing.
var foundNothing = Tally{EmptyReceives: 1}

package broker

import (
	"time"

	"github.com/leaselog/leaselog/events"
	"github.com/leaselog/leaselog/internal/eventlog"
)

// Meter hears what the broker does, for a host that counts it. It is called by the runners, between a commit and its
// answers: it must not block, and should cost no more than some additions. What it is given is valid during the call.
type Meter interface {
	// Done is called once for every group of commands that stands in the log, for every move and purge, and for every
	// receive that was answered with nothing.
	Done(t *Tally)
	// Wrote is called once for every commit whose outcome is known, or that was given up.
	Wrote(w Write)
}

// Tally says what a group of commands did. Numbers are of messages where nothing else is said.
type Tally struct {
	Commands    int // that were decided together; 0 for what is no group
	Wrote       bool
	Sent        int
	SentBytes   int // of their bodies and attributes
	Duplicates  int // sends that added nothing
	Leased      int // receives, in the words of the APIs
	Redelivered int // of the leased, those that were leased before: that lease ended without an ack
	Acked       int
	Extended    int
	Released    int
	LateLeases  int // acks and extensions that were refused because their lease had ended
	Expired     uint64
	Moved       int
	Purged      uint64
	// DeadLettered is how many of the moved went to a dead-letter queue, and EmptyReceives counts receives.
	DeadLettered, EmptyReceives int
}

// Outcome says how a commit ended.
type Outcome uint8

// The outcomes of the log's contract. Unknown means that nobody waits any more for what may still take effect.
const (
	Stands Outcome = iota
	Conflict
	Refused
	Unknown
	Outcomes // how many there are
)

// Write is one commit of the log.
type Write struct {
	Outcome Outcome
	Repeats int // how often it was repeated, identical, because its outcome was not known
	Bytes   int // of its entries
	Took    time.Duration
}

// unmetered is the meter of a broker that nobody counts.
type unmetered struct{}

func (unmetered) Done(*Tally) {}
func (unmetered) Wrote(Write) {}

// wrote tells the meter of a commit that began at an instant, and gives its outcome.
func (b *Broker) wrote(c *eventlog.Commit, began time.Time, repeats int, err error) Outcome {
	w := Write{Repeats: repeats, Took: time.Since(began)}
	for i := range c.Appends {
		w.Bytes += len(c.Appends[i].Header) + len(c.Appends[i].Data)
	}
	switch {
	case err == nil:
	case isConflict(err):
		w.Outcome = Conflict
	case isRefused(err):
		w.Outcome = Refused
	default:
		w.Outcome = Unknown
	}
	b.Meter.Wrote(w)
	return w.Outcome
}

// count adds up what a group did that stands. The refusals were counted when they were decided.
func (g *group) count() {
	t := &g.tally
	t.Commands, t.Wrote = len(g.decided), g.header != nil || len(g.happened) > 0
	t.Sent, t.SentBytes = len(g.messages), g.bytes
	for _, e := range g.happened {
		switch e := e.(type) {
		case *events.Leased:
			t.Leased += len(e.Items)
		case *events.Acked:
			t.Acked += len(e.Items)
		case *events.Extended:
			t.Extended += len(e.Items)
		case *events.Released:
			t.Released += len(e.Items)
		case *events.Expired:
			t.Expired += uint64(len(e.Items)) + e.Skipped
		}
	}
	for _, c := range g.decided {
		if r, ok := c.(*receive); ok {
			t.Redelivered += r.redelivered()
		}
	}
	for _, r := range g.served {
		t.Redelivered += r.redelivered()
	}
	g.b.did(g.traffic, t)
}

func (c *receive) redelivered() (n int) {
	for i := range c.taken {
		if c.taken[i].receives > 1 {
			n++
		}
	}
	return n
}

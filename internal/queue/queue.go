// Package queue holds the rules: what may happen to messages, and what has happened to them.
//
// A shard of a queue is two folds. [Sender] folds the headers of the message stream: it decides what may be added.
// [Ledger] folds the events of the ledger stream: it decides what may be handed out and finished. Both have the same
// two halves: deciding looks at the state and a command and gives events or a refusal, evolving applies an event that
// stands in the log. There is no clock, no chance, no I/O and no goroutine here: instants and ids come in commands, and
// what a decision must see of the log it asks for with a [Need].
//
// A message is, for the ledger, in one of four places:
//
//	ahead     at the cursor or beyond it: nobody has looked at it, and the ledger holds nothing of it
//	pending   looked at, not finished: passed over (its group was locked, or it was not due), leased, or released
//	finished  behind the cursor and not pending: acked, expired, purged or moved
//
// That a lease has lapsed, that a message is exhausted or past its retention is not an event but follows from an
// instant: see [Ledger.lapsed], [Ledger.exhausted] and [Ledger.expired].
package queue

import "github.com/leaselog/leaselog/events"

// Limits bound what a shard keeps in memory. Zero values are not useful: start from DefaultLimits.
type Limits struct {
	// InFlight is how many messages may be leased at once; a receive beyond it gives nothing.
	InFlight int
	// LookAhead is how many messages may be pending only because their group was locked. It is apart from InFlight,
	// or the messages behind a busy group would use up all leases.
	LookAhead int
	// Passed is how many messages one decision may pass over, so that an entry stays small.
	Passed int
	// Delayed is how many messages may be not yet due: each is kept in memory until it is.
	Delayed int
}

// DefaultLimits are those of a server. At 20,000 each, leases and look-ahead take about 6 MB a shard.
var DefaultLimits = Limits{InFlight: 20_000, LookAhead: 20_000, Passed: 1_000, Delayed: 100_000}

// DelaySecondsMax is the longest delay of a message (Basaltic 4.1, SQS: 15 minutes).
const DelaySecondsMax = 900

// LeaseSecondsMax is the longest lease counted from now (Basaltic 9.1, SQS: 12 hours).
const LeaseSecondsMax = 43_200

// ClockAheadMax is how far the log may be ahead of a clock before the log is not followed: one bad clock must not
// freeze a shard or end its leases. In milliseconds.
const ClockAheadMax = 5_000

// InstantOf gives the instant at which a command is decided: now, or the highest instant of the log where that is
// later, but not when it is later by more than ClockAheadMax.
func InstantOf(now, high events.Instant) events.Instant {
	if high > now && high-now <= ClockAheadMax {
		return high
	}
	return now
}

package broker

import (
	"fmt"

	"github.com/leaselog/leaselog/events"
	"github.com/leaselog/leaselog/internal/envelope"
	"github.com/leaselog/leaselog/internal/eventlog"
)

// Registered is what a queue's record says to those who read a log without a broker.
type Registered struct {
	ID      events.QueueID
	Account string
	Name    string
	Shards  int
	Status  events.Status
	Deleted events.Instant // 0: it was not
	Ring    envelope.Ring  // empty once the queue is shredded
	// DeadLetters says that it is the dead-letter queue of another.
	DeadLetters bool
}

// The keys of claims that hold the queues: a record under QueuePrefix and the id in hex, the way to it under
// NamePrefix, the account, a slash and the name.
const (
	QueuePrefix = "queue/"
	NamePrefix  = "name/"
)

// ReadRegistered reads the value of a claim under QueuePrefix. Its error is ErrCorrupt.
func ReadRegistered(value []byte) (Registered, error) {
	var r record
	if err := events.DecodeRecord(value, &r); err != nil {
		return Registered{}, fmt.Errorf("%w: %w", eventlog.ErrCorrupt, err)
	}
	return Registered{ID: r.ID, Account: r.Account, Name: r.Name, Shards: int(r.Shards), Status: r.Settings.Status, Deleted: r.Deleted, Ring: r.Ring, DeadLetters: len(r.Sources) > 0}, nil
}

// Gone says whether the queue was deleted.
func (r Registered) Gone() bool { return r.Status == events.Deleted || r.Status == events.Shredded }

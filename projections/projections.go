// Package projections folds the log into views: what an operator looks at, kept beside the log and never needed by it.
//
// A view is kept for each shard of a queue, and whoever reads merges those of a queue. It says up to where both streams
// of its shard are in it ([Ends]), and is a function of the log up to there and of nothing else: whatever was repeated,
// late, lost or done twice on the way, the same ends give the same bytes. So a view can be dropped and made again.
//
// Here is no I/O, no clock and no chance. Package views reads the log, lets a [Fold] fold it, and keeps what it gives.
package projections

import (
	"fmt"

	"github.com/leaselog/leaselog/events"
	"github.com/leaselog/leaselog/internal/queue"
)

// Shard names one shard of a queue.
type Shard struct {
	Queue events.QueueID
	Index int
}

// Key is where the shard's view is kept.
func (s Shard) Key(view string) string { return fmt.Sprintf("%s/%x/%04x", view, s.Queue[:], s.Index) }

// Ends say how far the streams of a shard are folded: the places of the next entries.
type Ends struct {
	Ledger   uint64          `cbor:"1,keyasint"`
	Messages events.Position `cbor:"2,keyasint"`
}

// Reach says whether nothing up to other is missing.
func (e Ends) Reach(other Ends) bool {
	return e.Ledger >= other.Ledger && e.Messages >= other.Messages
}

// Projection is one kind of view, and the function that keeps it.
type Projection struct {
	Name string // of the function: also the folder under functions/ and the resource in template.yaml
	View string // begins the keys of its views
	// History is how many milliseconds of the log are in the view. 0 is for one that stands on the state of the shard,
	// which begins with the newest snapshots.
	History events.Instant
	New     func() Fold
}

// All lists the projections, for those who keep every view and for the tests that hold functions/, template.yaml and this
// list equal.
func All() []Projection { return []Projection{Depth, Traffic, Redrive, Snapshots} }

// Embedded lists those that a server keeps for its embedded store: its broker, alone there, makes the snapshots itself.
func Embedded() []Projection { return []Projection{Depth, Traffic, Redrive} }

// Fold makes the view of one shard. The ledger is folded first, up to its end, and then the message stream, so that a
// message that the ledger names is there. A fold that stands on the state is given each entry after the state has taken it.
type Fold interface {
	// Start begins with what is known already. It gives from where the ledger is read.
	Start(Start) (ledger uint64, err error)
	// Ledger takes the next entry of the ledger.
	Ledger(Entry, *events.LedgerHeader, []events.Event)
	// Messages gives from where the message stream is read when the ledger is folded up to an end. It may lie before
	// what was folded already.
	Messages() events.Position
	// Message takes the next entry of the message stream.
	Message(Entry, *events.Header)
	// Ends is how far both are folded.
	Ends() Ends
	// View gives the view's bytes. look shows headers that it needs again.
	View(look Look) ([]byte, error)
}

// Start is what a fold begins with.
type Start struct {
	Kept  []byte // the view as it is kept, nil for none
	Ends  Ends   // that Kept is true for; for none of a projection with a history, where that begins
	State *State // for a projection that stands on it
}

// Snapshot is the state of a stream's fold just before Seq.
type Snapshot struct {
	Seq  uint64
	Data []byte
}

// Entry is the place of an entry, and how many bytes it has.
type Entry struct {
	Seq, Next uint64
	Bytes     int
}

// Look shows the header of the entry that covers a position of the message stream, and where that entry begins.
type Look func(events.Position) (events.Position, *events.Header, error)

// State is the fold of a shard that the rules make. Any number of views of the shard stand on the same one.
type State struct {
	ledger *queue.Ledger
	sender *queue.Sender
	tail   uint64 // of the ledger
}

// NewState takes the state from the newest snapshots, and from nothing where they are nil. whole says that snapshots are
// to be made of it; otherwise it does without the deduplication ids, which are most of it.
func NewState(ledger, messages *Snapshot, whole bool) (s *State, err error) {
	s = &State{ledger: queue.NewLedger(queue.DefaultLimits), sender: queue.NewSender(queue.DefaultLimits)}
	if ledger != nil {
		if s.ledger, err = queue.LoadLedger(queue.DefaultLimits, ledger.Data); err != nil {
			return nil, err
		}
		s.tail = ledger.Seq
	}
	if messages != nil {
		if s.sender, err = queue.LoadSender(queue.DefaultLimits, messages.Data); err != nil {
			return nil, err
		}
	}
	if !whole {
		s.sender.Reading()
	}
	return s, nil
}

// Happened takes the next entry of the ledger.
func (s *State) Happened(e Entry, happened []events.Event) {
	for _, h := range happened {
		s.ledger.Evolve(h)
	}
	s.ledger.Settle()
	s.tail = e.Next
}

// Written takes an entry of the message stream. One that the state has already is passed over.
func (s *State) Written(e Entry, h *events.Header) {
	if events.Position(e.Seq) < s.sender.Tail {
		return
	}
	s.sender.Evolve(events.Position(e.Seq), h)
	s.sender.Settle()
}

// Messages gives from where the message stream is read on.
func (s *State) Messages() events.Position { return s.sender.Tail }

// Ends is how far both streams are folded.
func (s *State) Ends() Ends { return Ends{s.tail, s.sender.Tail} }

// high is the highest instant that the shard has reached.
func (s *State) high() events.Instant { return max(s.ledger.High, s.sender.High) }

// alive says whether the message at a position is not finished.
func (s *State) alive(p events.Position) bool {
	return p >= s.ledger.Cursor || s.ledger.Get(p) != nil
}

// standing is what is the same in all folds that stand on the state.
type standing struct{ *State }

// Ledger implements [Fold].
func (standing) Ledger(Entry, *events.LedgerHeader, []events.Event) {}

// Message implements [Fold].
func (standing) Message(Entry, *events.Header) {}

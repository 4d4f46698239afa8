package queue_test

import (
	"crypto/sha256"
	"encoding/binary"

	"github.com/leaselog/leaselog/events"
	"github.com/leaselog/leaselog/internal/queue"
)

// world is one shard with its two streams kept in slices: what a broker does around the rules, without the log.
type world struct {
	limits queue.Limits
	ledger *queue.Ledger
	sender *queue.Sender
	blocks []queue.BlockAt
	log    []events.Event
	now    events.Instant
	ids    uint64 // given so far
	key    uint32 // version of the data key that seals what is sent
}

func newWorld(l queue.Limits, now events.Instant) *world {
	return &world{limits: l, ledger: queue.NewLedger(l), sender: queue.NewSender(l), now: now}
}

// at is the instant of a command that is decided now.
func (w *world) at() events.Instant {
	return queue.InstantOf(w.now, max(w.ledger.High, w.sender.High))
}

func (w *world) block() (b events.BlockID) {
	w.ids++
	binary.BigEndian.PutUint64(b[:], w.ids)
	return b
}

func (w *world) lease() (l events.LeaseID) {
	w.ids++
	binary.BigEndian.PutUint64(l[:], w.ids)
	return l
}

// configure writes new settings to both streams, as one commit does.
func (w *world) configure(version uint64, s events.Settings) queue.Decision {
	c := &queue.Configure{At: w.at(), Version: version, Settings: s, Control: w.sender.Tail}
	d, _ := queue.Decide(w.ledger, c)
	if len(d.Events) > 0 {
		w.control(version, &s, false, 0)
		w.apply(d.Events)
	}
	return d
}

func (w *world) control(version uint64, s *events.Settings, forgets bool, finished events.Position) {
	w.write(queue.Control{Version: version, Settings: s, Forgets: forgets, Finished: finished})
}

func (w *world) write(c queue.Control) {
	seq := w.sender.Tail
	w.blocks = append(w.blocks, queue.BlockAt{Seq: seq, Header: w.sender.Control(w.block(), w.at(), c)})
	w.sender.Settle()
}

// sent is what became of one message.
type sent struct {
	queue.Addition
	err error
}

// send decides messages one after another and writes what is added as one block.
func (w *world) send(out ...queue.Outgoing) (all []sent) {
	seq := w.sender.Tail
	w.sender.Open(w.block(), w.at())
	for _, m := range out {
		a, err := w.sender.Decide(m)
		if err == nil && !a.Duplicate {
			w.sender.Add(a)
		}
		all = append(all, sent{a, err})
	}
	if h := w.sender.Close(); h != nil {
		h.Key = w.key
		w.blocks = append(w.blocks, queue.BlockAt{Seq: seq, Header: h})
	}
	w.sender.Settle()
	return all
}

// window shows up to n blocks from the cursor on.
func (w *world) window(n int) queue.Window {
	i := 0
	for i < len(w.blocks) && w.blocks[i].Next() <= w.ledger.Cursor {
		i++
	}
	end := min(i+n, len(w.blocks))
	return queue.Window{Blocks: w.blocks[i:end], End: end == len(w.blocks)}
}

// decide applies what follows from a command.
func (w *world) decide(c queue.Command) (queue.Decision, error) {
	d, err := queue.Decide(w.ledger, c)
	w.apply(d.Events)
	return d, err
}

func (w *world) apply(es []events.Event) {
	for _, e := range es {
		w.ledger.Evolve(e)
	}
	w.ledger.Settle()
	w.log = append(w.log, es...)
}

// expirable gives the end of the entries that are past their retention as a whole, and the messages before it.
func (w *world) expirable(at events.Instant) (to events.Position, messages uint64) {
	for _, b := range w.blocks {
		if b.Header.High > w.ledger.ExpiredBefore(at) {
			break
		}
		to, messages = b.Next(), b.Header.Totals.Messages
	}
	return to, messages
}

// depth counts what the log holds ahead of the cursor, and asks the rules for the rest.
func (w *world) depth(at events.Instant) queue.Depth {
	alive := uint64(0)
	for _, b := range w.blocks {
		for i := range int(b.Header.Count) {
			if b.Seq+events.Position(i) >= w.ledger.Cursor && !w.ledger.Past(b.Header, i, at) {
				alive++
			}
		}
	}
	return queue.CountDepth(w.ledger, w.sender, alive, at)
}

// hash stands in for the keyed hash; the label is what it is of.
func hash(label, s string) (h events.Hash) {
	if s != "" {
		sum := sha256.Sum256([]byte(label + ":" + s))
		copy(h[:], sum[:])
	}
	return h
}

// leasesOf gives the messages that events lease, in their order.
func leasesOf(es []events.Event) (all []events.Position) {
	for _, e := range es {
		if e, ok := e.(*events.Leased); ok {
			for _, t := range e.Items {
				all = append(all, t.Position)
			}
		}
	}
	return all
}

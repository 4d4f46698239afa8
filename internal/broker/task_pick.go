package broker

import (
	"context"
	"slices"

	"github.com/leaselog/leaselog/events"
	"github.com/leaselog/leaselog/internal/fault"
	"github.com/leaselog/leaselog/internal/queue"
)

// picking is a look of a move task at one shard: which messages it takes now, and how far it comes with that.
type picking struct {
	b      *Broker
	task   *task
	filter filter
	shard  *shard
	index  int
	at     events.Instant
	most   int                       // messages to take
	to     events.QueueID            // only those that go there
	any    bool                      // or all, wherever they go
	gone   map[events.QueueID]string // targets that take nothing, and why

	looked []queue.Found // that the cursor goes over
	picks  []pick
	state  taskShard // of the task, once this is done
	reason string    // why messages are left
	left   bool      // one was met that goes elsewhere: this is how far the task comes
	bytes  int
	stuck  bool // another round would find the same
}

// pick is a message to take.
type pick struct {
	queue.Found
	target  events.QueueID
	header  *events.Header
	index   int
	message *events.Message
}

// run looks at messages until it has as many as it may, or has seen enough.
func (p *picking) run(ctx context.Context) error {
	p.state = p.task.Shards[p.index]
	s, err := p.survey(ctx)
	if err != nil {
		return err
	}
	used := 0
	for i, f := range s.Found {
		if len(p.picks) == p.most {
			p.stop(f.Position)
			break
		}
		before := len(p.picks)
		if full, err := p.see(ctx, f); err != nil {
			return err
		} else if full {
			p.stop(f.Position)
			break
		}
		if !p.left || len(p.picks) > before {
			used = i + 1
		}
	}
	p.looked = s.Found[:used]
	if p.stop(s.Next); s.Full && used == 0 && len(p.picks) == 0 {
		p.end()
	}
	return nil
}

// stop notes how far the task has come, if it did not stop before.
func (p *picking) stop(at events.Position) {
	if !p.left {
		p.left, p.state.Reached = true, at
	}
}

// end gives the shard up for this round, since it holds as many messages that were passed over as it may. Where none of
// them is waited for, another round would find the same.
func (p *picking) end() {
	p.state.Reached = p.state.End
	if p.stuck = p.state.Mark == nil; p.stuck {
		p.reason = "too many messages do not pass the filter: the queue can hold no more of those that were looked at and left"
	}
}

// survey asks the rules, and fetches what they must see.
func (p *picking) survey(ctx context.Context) (queue.Surveyed, error) {
	s, since := p.shard, p.state.Reached
	if p.state.Mark != nil {
		since = p.state.Mark.Position
	}
	for {
		found := s.ledger.Look(queue.Survey{At: p.at, From: p.state.Reached, To: p.state.End, Since: since, Max: min(moveLooksMax, p.b.Limits.Passed),
			Window: s.blocks.window(s.ledger.Cursor, s.sender.Tail)})
		if found.Need == nil {
			return found, nil
		}
		if err := s.fetch(ctx); err != nil {
			return found, err
		}
	}
}

// see decides about one message, and says true where it does not fit any more.
func (p *picking) see(ctx context.Context, f queue.Found) (full bool, err error) {
	if f.Gone {
		return false, nil
	}
	bl, m, err := p.shard.message(ctx, f.Position)
	if fault.Is(err, fault.KeyLost) {
		p.wait(f, "the key of some messages cannot be used now")
		if f.Group != (events.Hash{}) { // the next of its group, under another key, must not overtake it in another look
			p.stop(p.state.End)
		}
		return p.left, nil
	}
	if err != nil {
		return false, err
	}
	i := int(f.Position - bl.Seq)
	if !p.filter.matches(bl.Header, i, m) {
		p.count(&p.state.Skipped)
		return false, nil
	}
	target, reason, err := p.target(ctx, bl.Header.Origin(i))
	switch {
	case err != nil:
		return false, err
	case reason != "":
		p.count(&p.state.Failed)
		p.reason = reason
	case !f.Free:
		p.wait(f, "")
	case !p.any && target != p.to:
		p.stop(f.Position)
	case len(p.picks) > 0 && p.bytes+m.Size() > moveBytesMax:
		return true, nil
	default:
		p.bytes += m.Size()
		p.picks = append(p.picks, pick{Found: f, target: target, header: bl.Header, index: i, message: m})
	}
	return false, nil
}

// count counts what is left for good, unless the task comes to it again.
func (p *picking) count(n *uint64) {
	if !p.left {
		*n++
	}
}

// wait notes a message for which the task comes back.
func (p *picking) wait(f queue.Found, reason string) {
	if p.left {
		return
	}
	p.state.Waiting++
	if reason != "" {
		p.reason = reason
	}
	if p.state.Mark == nil {
		p.state.Mark = &taskMark{Position: f.Position, Skipped: p.state.Skipped, Failed: p.state.Failed}
	}
}

// target is where a message goes, or why it goes nowhere.
func (p *picking) target(ctx context.Context, origin *events.Origin) (id events.QueueID, reason string, err error) {
	if id = p.task.Target; id != (events.QueueID{}) {
		return id, "", nil
	}
	if origin == nil {
		return id, "some messages were sent to this queue and not moved here: they have no source to go back to", nil
	}
	id = origin.Queue
	if reason, known := p.gone[id]; known {
		return id, reason, nil
	}
	h, err := p.b.open(ctx, id)
	switch {
	case fault.Is(err, fault.NotFound), err == nil && h.account != p.task.Account:
		reason, err = "the source "+id.String()+" of some messages is gone", nil
	case err == nil && h.fifo != p.shard.ledger.Settings.Fifo, id == p.task.Queue:
		reason = "the source " + id.String() + " of some messages is of the other kind"
	}
	if p.gone == nil {
		p.gone = make(map[events.QueueID]string)
	}
	if err == nil {
		p.gone[id] = reason
	}
	return id, reason, err
}

// decide asks the rules for the events that take what was picked to a place in the target.
func (p *picking) decide(q events.QueueID, shard uint32, at events.Position) (queue.Decision, error) {
	items := make([]events.Position, 0, len(p.picks))
	for _, x := range p.picks {
		items = append(items, x.Position)
	}
	return queue.Decide(p.shard.ledger, &queue.Redrive{At: p.at, Looked: p.looked, Items: slices.Clip(items), Queue: q, Shard: shard, Position: at})
}

package broker

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/leaselog/leaselog/events"
	"github.com/leaselog/leaselog/internal/envelope"
	"github.com/leaselog/leaselog/internal/eventlog"
	"github.com/leaselog/leaselog/internal/fault"
	"github.com/leaselog/leaselog/internal/queue"
	"github.com/leaselog/leaselog/projections"
)

// group is the commands that are decided together, and what they add to the two streams of a shard.
type group struct {
	*runner
	ctx     context.Context
	now, at events.Instant // the clock, and the instant of the decisions
	cmds    []command
	looking *receive // whose turn is held while the rules are asked

	senderMark   queue.SenderMark
	ledgerMark   queue.Mark
	parkedBefore []*receive
	nearBefore   []*block // nil where nobody else writes

	header   *events.Header // of the block, nil where nothing is sent
	blockID  events.BlockID
	start    events.Position
	messages []events.Message
	bytes    int
	happened []events.Event
	items    int // messages that the events name

	decided []command
	errs    []error // the answer of each
	claims  []eventlog.Claim
	served  []*receive
	// restsOnLedger and restsOnMessages are set by an answer that follows from what the stream does not hold, so that
	// its end must be certain: an append makes it so, otherwise it is read.
	restsOnLedger, restsOnMessages bool
	tally                          Tally
	measures                       []*measure
	answered                       bool // everybody has an answer, if only that the outcome is not known
	unserved                       bool // the group was full before all who are parked were looked at
}

var (
	// errLater says that a command does not fit into this group any more.
	errLater = errors.New("decided in the next group")
	// errParked says that a receive found nothing and waits.
	errParked = errors.New("parked")
)

func newGroup(ctx context.Context, r *runner, cmds []command) *group {
	g := &group{runner: r, ctx: ctx, cmds: cmds, now: r.b.Now(), at: r.at(), start: r.sender.Tail, senderMark: r.sender.Mark(),
		ledgerMark: r.ledger.Mark(), parkedBefore: slices.Clip(r.parked)}
	g.decided, g.errs = make([]command, 0, len(cmds)), make([]error, 0, len(cmds))
	if !r.b.Exclusive { // a commit that loses is nothing rare, and blocks that were read are paid for
		g.nearBefore = r.blocks.mark()
	}
	return g
}

// decide takes the sends first: what they add can be handed out in the same commit. Both keep their order.
func (g *group) decide(cmds []command) (rest []command) {
	rest, others := g.sends(cmds)
	for i, c := range others {
		if err := g.try(c); errors.Is(err, errLater) {
			rest = append(rest, others[i:]...)
			break
		}
	}
	g.serve()
	return rest
}

// sends decides the sends among the commands and closes their block.
func (g *group) sends(cmds []command) (rest, others []command) {
	if !slices.ContainsFunc(cmds, func(c command) bool { _, ok := c.(*send); return ok }) {
		return nil, cmds
	}
	mustRead(g.rand, g.blockID[:])
	g.sender.Open(g.blockID, g.at)
	full := false
	for _, c := range cmds {
		if _, ok := c.(*send); !ok {
			others = append(others, c)
		} else if full || errors.Is(g.try(c), errLater) {
			full, rest = true, append(rest, c)
		}
	}
	if g.header = g.sender.Close(); g.header != nil {
		g.header.Key = g.keys.Current()
		g.draft = newBlock(g.start, g.header, events.EncodeHeader(g.header), nil, g.messages)
		g.blocks.append(g.draft, g.ledger.Cursor)
	}
	return rest, others
}

// try decides a command.
func (g *group) try(c command) error {
	err := g.counting(c)
	if err == nil {
		err = c.decide(g)
	}
	if !errors.Is(err, errLater) && !errors.Is(err, errParked) {
		g.outcome(c, g.claim(c, err))
	}
	return err
}

// outcome keeps the answer of a command. That what it had to see was dropped follows, nearly always, from a state
// that others have left behind.
func (g *group) outcome(c command, err error) {
	if _, gone := truncated(err); gone {
		g.outdated(&eventlog.Conflict{}) // however lately the ends were looked at: the read may have hung for long
		g.restsOnLedger, g.restsOnMessages = true, true
	}
	g.decided, g.errs = append(g.decided, c), append(g.errs, err)
}

// apply adds the events of a decision to the group and to the working state.
func (g *group) apply(d queue.Decision) {
	for _, e := range d.Events {
		g.ledger.Evolve(e)
		g.items += named(e)
	}
	g.happened = append(g.happened, d.Events...)
}

// named is about how many messages an event names.
func named(e events.Event) int {
	switch e := e.(type) {
	case *events.Leased:
		return len(e.Items)
	case *events.Passed:
		return len(e.Items)
	case *events.Acked:
		return len(e.Items)
	case *events.Extended:
		return len(e.Items)
	case *events.Released:
		return len(e.Items)
	case *events.Expired:
		return len(e.Items)
	}
	return 1
}

// full says whether the events of the group are as many as one entry may hold.
func (g *group) full() bool { return g.items >= groupItemsMax }

// commit writes what was decided. It gives true when others have written meanwhile, so that everything is to be
// decided again; the working state is then rolled back.
func (g *group) commit() (again bool, err error) {
	if sure, err := g.ended(g.ctx, g.restsOnLedger && len(g.happened) == 0, g.restsOnMessages && g.header == nil, g.start); err != nil || !sure {
		g.rollback()
		return err == nil, err
	}
	if g.header == nil && len(g.happened) == 0 && len(g.claims) == 0 {
		return false, nil
	}
	c, err := g.build()
	if err != nil {
		g.rollback()
		return false, err
	}
	err = g.persist(g.ctx, c, func(err error) { g.answerAll(err) })
	switch {
	case err == nil:
		g.stands(c)
		return false, nil
	case isConflict(err):
		g.met(err)
		g.rollback()
		return true, nil
	case !isRefused(err):
		g.loaded = false // nobody knows what stands: read it again
	}
	g.rollback()
	return false, err
}

// build gives the commit of the group, sealed.
func (g *group) build() (c eventlog.Commit, err error) {
	c.At, c.Claims = int64(g.now), g.claims
	mustRead(g.rand, c.Writer[:])
	if g.header != nil {
		a, err := g.sealed(g.ctx, g.start, g.header, g.draft.header, events.EncodeMessages(g.messages))
		if err != nil {
			return c, err
		}
		c.Appends = append(c.Appends, a)
	}
	if len(g.happened) > 0 {
		c.Appends = append(c.Appends, g.ledgerEntry(g.at, g.happened))
	}
	return c, nil
}

// sealed gives the append of an entry of the message stream.
func (s *shard) sealed(ctx context.Context, seq events.Position, h *events.Header, header, plain []byte) (eventlog.Append, error) {
	place := envelope.Place{Stream: string(s.messageStream), Seq: uint64(seq)}
	if s.b.Packed {
		plain = events.Pack(plain)
	}
	data, err := s.keys.Seal(ctx, s.b.Now(), s.ledger.Settings.KeyReuseSeconds, place, h.Key, header, plain)
	return s.entry(seq, h, header, data), err
}

func (s *shard) entry(seq events.Position, h *events.Header, header, data []byte) eventlog.Append {
	return eventlog.Append{Stream: s.messageStream, Seq: eventlog.Seq(seq), Width: h.Width(), Header: header, Data: data}
}

// ledgerEntry gives the append of events that are applied to the working state.
func (s *shard) ledgerEntry(at events.Instant, happened []events.Event) eventlog.Append {
	return eventlog.Append{Stream: s.ledgerStream, Seq: s.ledgerTail, Width: 1,
		Header: events.EncodeLedgerHeader(s.ledger.Header(events.Block, at)), Data: events.Encode(happened)}
}

// stands makes the working state the state: the commit is in the log.
func (s *shard) stands(c eventlog.Commit) {
	s.ledger.Settle()
	s.sender.Settle()
	s.draft = nil
	for _, a := range c.Appends {
		if a.Stream == s.ledgerStream {
			s.ledgerTail++
			s.ledgerEnd.sure, s.ledgerEnd.known = true, s.b.Now()
			s.ledgerBytes += len(a.Data) + len(a.Header)
		} else if a.Stream == s.messageStream {
			s.messageEnd.sure, s.messageEnd.known = true, s.b.Now()
			s.senderBytes += len(a.Data) + len(a.Header)
		}
	}
	s.reached()
}

// reached tells how far the streams are known to reach.
func (s *shard) reached() {
	s.b.Reached(projections.Shard{Queue: s.id, Index: s.index}, projections.Ends{Ledger: uint64(s.ledgerTail), Messages: s.sender.Tail})
}

// rollback makes the state what it was before the group.
func (g *group) rollback() {
	g.ledger.Rollback(g.ledgerMark)
	g.sender.Rollback(g.senderMark)
	g.blocks.forget(g.draft)
	g.draft = nil
	g.blocks.restore(g.nearBefore)
	g.parked = g.parkedBefore
	if g.answered {
		return
	}
	for _, p := range g.served {
		p.giveBack()
	}
	for _, c := range g.decided {
		if p, ok := c.(*receive); ok {
			p.giveBack()
		}
	}
}

// finish answers everybody: what was decided stands in the log.
func (g *group) finish() {
	for _, e := range g.happened {
		g.observe(e)
	}
	g.counted()
	g.count()
	for _, m := range g.measures {
		m.depth, m.err = g.depth(g.sender.Tail)
	}
	g.publish() // first, so that whoever is answered finds it
	g.answerAll(nil)
	if !g.tally.Wrote {
		return // a reader leaves snapshots to those who write, as it may have no right to
	}
	if err := g.snapshots(g.ctx); err != nil {
		g.b.Logger.Warn("a snapshot could not be written; the next start will take longer", "queue", g.id.String(), "error", err)
	}
}

// answerAll answers the callers once: with an error for all, or each with its own outcome.
func (g *group) answerAll(err error) {
	if g.answered {
		return
	}
	g.answered = true
	for i, c := range g.decided {
		if err != nil {
			c.answer(err)
		} else {
			c.answer(g.errs[i])
		}
		g.turn()
	}
	for _, p := range g.served {
		p.answer(err)
		g.turn()
	}
}

// refused answers the commands of a group that was not committed. One that was refused for its content, or for the
// key that its block needs, is split. It gives true where those who are parked are to be looked at again.
func (g *group) refused(after []command, err error) (look bool) {
	var r *eventlog.Refused
	content := errors.As(err, &r) && r.Content || fault.Is(err, fault.KeyLost)
	switch {
	case g.answered:
		return true
	case content && len(g.cmds) > 1:
		g.later, g.single = append(g.cmds, after...), len(g.cmds)
		return true
	}
	g.later = after
	g.fail(g.cmds, storeFault(err))
	if len(g.cmds) > 0 {
		return true
	}
	for _, p := range g.served { // it was they who were refused
		p.fail(storeFault(err))
		g.turn()
	}
	return false
}

// persist repeats an identical commit until its outcome is known. Callers do not wait that long: stalled is called
// once when the store has kept silent for a while, and whoever comes meanwhile is refused.
func (r *runner) persist(ctx context.Context, c eventlog.Commit, stalled func(error)) (err error) {
	began, attempt := time.Now(), 0
	defer func() { r.traffic.wrote(r.b.wrote(&c, began, attempt, err)) }()
	defer r.stalled.Store(false)
	for ; ; attempt++ {
		err := r.b.Log.Commit(ctx, c)
		if decided(err, attempt) {
			return err
		}
		if silent := time.Since(began); silent > unknownGiveUp {
			return unconfirmed(err)
		} else if silent > unknownPatience && !r.stalled.Load() {
			r.b.Logger.Warn("the store does not confirm a write; it is repeated", "queue", r.id.String(), "shard", r.index, "error", err)
			r.stall()
			stalled(unconfirmed(err))
		}
		if r.b.pause(ctx, attempt) != nil {
			return unconfirmed(err)
		}
	}
}

package broker

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/leaselog/leaselog/events"
	"github.com/leaselog/leaselog/internal/fault"
	"github.com/leaselog/leaselog/internal/queue"
)

// Receive asks for messages.
type Receive struct {
	Queue        events.QueueID
	Max          int
	LeaseSeconds *uint32 // nil: the queue's
	WaitSeconds  *uint32 // nil: the queue's
	// BytesMax bounds the answer, and Encoded gives a delivery's size in it. The first message always goes.
	// Zero: no bound.
	BytesMax int
	Encoded  func(*Delivery) int
}

// Delivery is a message with its lease.
type Delivery struct {
	ID       events.MessageID
	Receipt  string
	Message  *events.Message // shared: not to be changed
	Receives uint32          // this lease included
	Enqueued events.Instant
	Visible  events.Instant // when this lease lapses
	Origin   *events.Origin // where a move brought it from, or nil
}

// receive asks shards for messages: one after another without waiting, or parked at all of them at once. Whichever
// takes its turn first serves it.
type receive struct {
	reply
	counts
	request  *Receive
	deadline events.Instant // 0: it does not wait
	turn     atomic.Int32
	missed   atomic.Bool // a shard had something while another held the turn
	shards   []*runner   // where it is parked

	shard *runner // that has served it
	lease events.LeaseID
	until events.Instant
	lasts bool // the lease is meant to last, not to end at once
	taken []taken

	lost    map[uint32]bool // data keys that could not be used in this look
	lostErr error
}

// The states of a receive's turn.
const (
	waiting int32 = iota
	deciding
	over
)

// taken is a message that was leased.
type taken struct {
	block    *block
	position events.Position
	message  *events.Message
	receives uint32
}

func newReceive(o *once, request *Receive) *receive {
	c := &receive{reply: newReply(), request: request}
	c.counts = counts{o, c.answerKept}
	return c
}

// Receive leases messages, waiting for the first as long as it may. An empty answer is no fault.
// Faults: NotFound, also while it waits; KeyLost; Unavailable; Unconfirmed.
func (b *Broker) Receive(ctx context.Context, request Receive) ([]Delivery, error) {
	h, err := b.open(ctx, request.Queue)
	if err != nil {
		return nil, err
	}
	nothing := func([]Delivery) []byte { return nil }
	again := func(data []byte) ([]Delivery, bool, error) { return h.again(ctx, data) }
	// A repeat finds its answer before it waits; a replay has nothing to find.
	found, err := counted(ctx, b, !keyed(ctx), nothing, again, func(o *once) ([]Delivery, error) { return h.receive(ctx, o, request) })
	if err == nil && len(found) == 0 {
		h.did(&foundNothing)
	}
	if err == nil && b.Unattended {
		h.tidy(ctx)
	}
	return found, err
}

// tidy moves what the queue's shards, as far as they are open here, hold exhausted. A failure is none of the caller's,
// and the sweep's next turn repairs it.
func (h *handle) tidy(ctx context.Context) {
	for _, r := range h.started() {
		if events.Instant(r.exhausted.Load()) > h.broker.Now() {
			continue
		}
		if err := h.broker.moveExhausted(ctx, r, h); err != nil {
			h.broker.Logger.Warn("messages that were received too often could not be moved yet", "queue", h.id.String(), "shard", r.index, "error", err)
		}
	}
}

func (h *handle) receive(ctx context.Context, o *once, request Receive) ([]Delivery, error) {
	b := h.broker
	began := b.Now()
	if h.shards() > 1 {
		if found, err := h.visit(ctx, o, &request); err != nil || len(found) > 0 {
			return found, b.noQueue(h.id, err)
		}
	}
	wait := h.record.Load().Settings.WaitSeconds
	if request.WaitSeconds != nil {
		wait = *request.WaitSeconds
	}
	if wait == 0 && h.shards() > 1 {
		return nil, nil
	}
	c := newReceive(o, &request)
	if wait > 0 {
		c.deadline = patience(ctx, began, wait)
	}
	for i := range h.shards() {
		c.shards = append(c.shards, h.runner(i))
	}
	found, err := h.ask(ctx, c)
	return found, b.noQueue(h.id, err)
}

// patience is until when a receive waits: as long as it may, and never to the end of its caller's own time.
func patience(ctx context.Context, began events.Instant, wait uint32) events.Instant {
	until := began.Add(wait)
	if end, bounded := ctx.Deadline(); bounded {
		until = min(until, began+max(0, events.Instant(time.Until(end).Milliseconds()-answerMargin)))
	}
	return until
}

// visit asks every shard once, beginning at the next in turn, and stops at the first that has something. A shard that
// cannot answer now counts only where the others have nothing.
func (h *handle) visit(ctx context.Context, o *once, request *Receive) (found []Delivery, err error) {
	first := h.turn()
	var unavailable error
	for i := range h.shards() {
		c := newReceive(o, request)
		c.shards = []*runner{h.runner((first + i) % h.shards())}
		found, err = h.ask(ctx, c)
		switch {
		case fault.Is(err, fault.Unavailable) || fault.Is(err, fault.KeyLost):
			unavailable = err
		case err != nil || len(found) > 0:
			return found, err
		}
	}
	return nil, unavailable
}

// ask asks shards at once, and waits until one of them has something, the deadline comes, or the caller leaves.
func (h *handle) ask(ctx context.Context, c *receive) ([]Delivery, error) {
	if c.deadline > 0 {
		h.broker.polls.Add(1)
		defer h.broker.polls.Add(-1)
	}
	for _, r := range c.shards {
		r.do(c)
	}
	select {
	case err := <-c.reply:
		if err != nil {
			return nil, err
		}
		return h.deliver(c), nil
	case <-ctx.Done():
		if !c.turn.CompareAndSwap(waiting, over) {
			go h.giveBack(c)
		}
		return nil, unconfirmed(ctx.Err())
	}
}

// giveBack releases what was leased for a caller who has left meanwhile: it would lapse only at its lease's end.
func (h *handle) giveBack(c *receive) {
	select {
	case err := <-c.reply:
		if err != nil || len(c.taken) == 0 {
			return
		}
	case <-h.broker.life.Done():
		return
	}
	r := &extend{reply: newReply()}
	for _, t := range c.taken {
		r.items = append(r.items, queue.Extension{Held: queue.Held{Position: t.position, Lease: c.lease}})
	}
	c.shard.do(r)
}

// deliver makes receipts. A receive whose leases have ended when its commit stands hands nothing out, unless they
// were meant to end at once.
func (h *handle) deliver(c *receive) []Delivery {
	if c.lasts && c.until <= h.broker.Now() {
		return nil
	}
	out := make([]Delivery, len(c.taken))
	for i, t := range c.taken {
		n := int(t.position - t.block.Seq)
		id := t.block.Header.MessageID(n)
		out[i] = Delivery{ID: id, Message: t.message, Receives: t.receives, Enqueued: t.block.Header.Enqueued(n),
			Visible: c.until, Origin: t.block.Header.Origin(n),
			Receipt: h.broker.receipt(receipt{message: id, queue: h.id, shard: uint16(c.shard.index), position: t.position, lease: c.lease})}
	}
	return out
}

func (c *receive) leaseSeconds(s events.Settings) uint32 {
	if c.request.LeaseSeconds != nil {
		return *c.request.LeaseSeconds
	}
	return s.LeaseSeconds
}

// decide takes the turn and looks. Where it finds nothing and may wait, it is parked.
func (c *receive) decide(g *group) error {
	if g.full() {
		return errLater
	}
	if !c.take() {
		if c.turn.Load() != over { // another shard decides, and pokes this one if it finds nothing
			g.parked = append(g.parked, c)
		}
		return errParked
	}
	err := c.look(g)
	switch {
	case err != nil:
		return err
	case len(c.taken) == 0 && c.deadline > g.now:
		c.giveBack()
		g.parked = append(g.parked, c)
		return errParked
	case len(c.taken) == 0:
		g.restsOnLedger, g.restsOnMessages = true, true
	}
	return nil
}

// take claims the turn: no other shard serves the receive until it is given back or over.
func (c *receive) take() bool {
	if c.turn.CompareAndSwap(waiting, deciding) {
		return true
	}
	c.missed.Store(true)
	return c.turn.CompareAndSwap(waiting, deciding)
}

// giveBack lets the receive wait on. A shard that could not take its turn meanwhile is asked to look again.
func (c *receive) giveBack() {
	c.taken = nil
	c.turn.Store(waiting)
	if c.missed.Swap(false) {
		for _, r := range c.shards {
			r.poke()
		}
	}
}

// answer ends the receive whose turn the caller holds.
func (c *receive) answer(err error) {
	c.turn.Store(over)
	c.reply.answer(err)
}

// fail ends a receive with an error, unless another shard serves it.
func (c *receive) fail(err error) {
	if c.turn.CompareAndSwap(waiting, over) {
		c.reply.answer(err)
	}
}

// serve lets parked receives look, oldest first, until one finds nothing, and ends those whose time is up.
func (g *group) serve() {
	var still []*receive
	nothing := false
	for _, p := range g.parked {
		if p.turn.Load() == over {
			continue
		}
		g.unserved = g.unserved || !nothing && g.full()
		if p.deadline > g.now && (nothing || g.unserved) || !p.take() {
			still = append(still, p)
			continue
		}
		if err := g.counting(p); err != nil { // a repeat of what was served already, or is in this very group
			if errors.Is(err, errLater) {
				p.giveBack()
				still, g.unserved = append(still, p), true
			} else {
				g.outcome(p, err)
			}
			continue
		}
		found, err := p.again(g)
		if found {
			err = g.claim(p, err)
		}
		switch {
		case err != nil:
			g.outcome(p, err)
		case found:
			g.served = append(g.served, p)
		default:
			still, nothing = append(still, p), true
		}
	}
	g.parked = still
}

// again looks for a parked receive whose turn it holds. One whose time is up counts as found, with nothing.
func (c *receive) again(g *group) (found bool, err error) {
	if err = c.look(g); err != nil {
		return false, err
	}
	if len(c.taken) > 0 {
		return true, nil
	}
	if c.deadline <= g.now {
		g.restsOnLedger, g.restsOnMessages = true, true
		return true, nil
	}
	c.giveBack()
	return false, nil
}

// look asks the rules until they hand something out or there is nothing.
func (c *receive) look(g *group) error {
	g.opens = true
	g.looking = c // not by defer: whoever recovers from a panic must know
	err := c.find(g)
	if g.looking = nil; err != nil {
		c.taken = nil
	}
	return err
}

// find is look without the bookkeeping. What the rules must see it fetches.
func (c *receive) find(g *group) error {
	c.until = g.at.Add(c.leaseSeconds(g.ledger.Settings))
	c.shard, c.taken, c.lasts, c.lost = g.runner, nil, c.until > g.at, nil
	if c.lease == (events.LeaseID{}) {
		mustRead(g.rand, c.lease[:])
	}
	for limit := c.request.Max; ; {
		if err := g.skipExpired(); err != nil {
			return err
		}
		mark, before, items := g.ledger.Mark(), len(g.happened), g.items
		again, err := c.once(g, limit)
		n := len(c.taken)
		if err == nil {
			n = c.fits()
		}
		if err != nil || n < len(c.taken) { // what cannot be handed out is not leased
			g.ledger.Rollback(mark)
			g.blocks.forgetNear() // the cursor has moved back
			g.happened, g.items, limit = g.happened[:before], items, n
		}
		switch {
		case c.lose(err):
			limit = c.request.Max
		case err != nil:
			return err
		case n == len(c.taken) && (!again || g.full()):
			return c.nothingElse()
		}
	}
}

// once makes one decision, and says whether another may find more.
func (c *receive) once(g *group, limit int) (again bool, err error) {
	g.blocks.advance(g.ledger.Cursor) // it may have jumped over all that is near
	if g.blocks.end(g.ledger.Cursor) < min(g.ledger.Cursor+events.Position(limit), g.sender.Tail) {
		if err := g.fetch(g.ctx); err != nil { // a full answer is worth a read
			return false, err
		}
	}
	d, err := queue.Decide(g.ledger, &queue.Lease{At: g.at, ID: c.lease, Until: c.until, Max: limit,
		Window: g.blocks.window(g.ledger.Cursor, g.sender.Tail), Lost: c.lost, PassLost: !c.lost[g.keys.Current()]})
	if err != nil {
		return false, err
	}
	if d.Need != nil {
		return true, g.fetch(g.ctx)
	}
	g.apply(d)
	c.taken = nil
	for _, e := range d.Events {
		if l, ok := e.(*events.Leased); ok {
			if err := c.collect(g, l); err != nil {
				return false, err
			}
		}
	}
	return d.Again, nil
}

// keyLost is what collect meets: a data key that cannot be used now.
type keyLost struct {
	error
	version uint32
}

func (k keyLost) Unwrap() error { return k.error }

// lose notes a lost key, so that the next decision does without what it seals. Each is noted once, and a queue has few.
func (c *receive) lose(err error) bool {
	var k keyLost
	if !errors.As(err, &k) || c.lost[k.version] {
		return false
	}
	if c.lost == nil {
		c.lost = map[uint32]bool{}
	}
	c.lost[k.version], c.lostErr = true, k.error
	return true
}

// nothingElse is the answer where something was left for its lost key: the fault, unless other messages were found.
func (c *receive) nothingElse() error {
	if len(c.lost) > 0 && len(c.taken) == 0 {
		return c.lostErr
	}
	return nil
}

// collect finds the bodies of what was leased.
func (c *receive) collect(g *group, l *events.Leased) error {
	for _, t := range l.Items {
		bl, m, err := g.message(g.ctx, t.Position)
		if fault.Is(err, fault.KeyLost) {
			return keyLost{err, g.ledger.Get(t.Position).Info.Key}
		}
		if err != nil {
			return err
		}
		c.taken = append(c.taken, taken{bl, t.Position, m, g.ledger.Get(t.Position).Receives})
	}
	return nil
}

// fits is how many of the messages fit into the answer; at least one.
func (c *receive) fits() int {
	if c.request.BytesMax == 0 {
		return len(c.taken)
	}
	total := 0
	for i, t := range c.taken {
		d := Delivery{Message: t.message, Receives: t.receives, Receipt: receiptShape}
		if total += c.request.Encoded(&d); total > c.request.BytesMax && i > 0 {
			return i
		}
	}
	return len(c.taken)
}

// skipExpired moves the cursor over a long run of messages that are past their retention, found by bisection.
func (g *group) skipExpired() error {
	if s := g.ledger.Settings.Status; s == events.Deleted || s == events.Shredded {
		return queue.ErrDeleted() // what it would read may be dropped already
	}
	before := g.ledger.ExpiredBefore(g.at)
	g.blocks.advance(g.ledger.Cursor)
	if len(g.blocks.near) == 0 && g.ledger.Cursor < g.sender.Tail {
		if err := g.fetch(g.ctx); err != nil {
			return err
		}
	}
	if n := len(g.blocks.near); n == 0 || g.blocks.near[n-1].Next() >= g.start || g.blocks.near[n-1].Header.High > before {
		return nil
	}
	to, sent, err := g.b.bisect(g.ctx, g.messageStream, g.ledger.Cursor, g.start, before)
	if err != nil {
		return err
	}
	d, err := queue.Decide(g.ledger, &queue.Expire{At: g.at, To: to, Sent: sent})
	if err == nil {
		g.apply(d)
	}
	return err
}

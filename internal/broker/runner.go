package broker

import (
	"bufio"
	"context"
	"fmt"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/leaselog/leaselog/events"
	"github.com/leaselog/leaselog/internal/eventlog"
	"github.com/leaselog/leaselog/internal/fault"
)

// command is something that one caller asks of one shard. It is decided as often as it takes, and answered once.
type command interface {
	// decide asks the rules, applies what follows to the group's working state, and keeps the answer. It gives
	// errLater to be decided in the next group. Any other error is the command's answer.
	decide(g *group) error
	// answer tells the caller: nil when what was decided stands in the log.
	answer(err error)
	// fail is answer for a command that was not decided.
	fail(err error)
}

// alone is a command that must be the only one of its commit, because it writes a control entry or works on two shards.
type alone interface {
	command
	run(ctx context.Context, r *runner) error
}

// reply is how a command's answer reaches its caller.
type reply chan error

func newReply() reply { return make(reply, 1) }

// answer gives the first answer; a later one has nobody to hear it.
func (r reply) answer(err error) {
	select {
	case r <- err:
	default:
	}
}

func (r reply) fail(err error) { r.answer(err) }

// await waits for the answer. A caller that leaves early does not know what became of its command.
func (r reply) await(ctx context.Context) error {
	end := ctx.Done()
	if end == nil {
		return <-r
	}
	select {
	case err := <-r:
		return err
	case <-end:
		return unconfirmed(ctx.Err())
	}
}

// runner decides and commits for one shard, a group of commands at a time.
type runner struct {
	*shard
	rand *bufio.Reader // ids by the block, not by the call

	mu      sync.Mutex
	inbox   []command
	spare   []command     // the last inbox, empty, to be filled again
	stopped error         // why no command is taken any more; nil while they are
	wake    chan struct{} // has room for one

	later   []command  // taken from the inbox, and not in the group that is being committed
	single  int        // how many of later are to be committed one by one
	group   *group     // being decided or committed
	parked  []*receive // long polls that found nothing, oldest first
	probes  int        // of the log's end since something happened here
	stalled atomic.Bool
	// exhausted is the first instant at which a message may have to move to the dead-letter queue.
	exhausted atomic.Int64
	broken    error // the shard contradicted itself; nothing is decided any more
}

func newRunner(h *handle, index int) *runner {
	r := &runner{shard: newShard(h, index), rand: bufio.NewReaderSize(h.broker.Rand, 512), wake: make(chan struct{}, 1)}
	r.exhausted.Store(int64(events.Never))
	b := h.broker
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.closing:
		r.stopped = errStopping()
	case h.stopped != nil:
		r.stopped = h.stopped
	default:
		b.running.Go(r.loop)
	}
	return r
}

// do hands a command to the shard.
func (r *runner) do(c command) {
	r.mu.Lock()
	full, stopped := len(r.inbox) >= inboxMax, r.stopped
	if !full && stopped == nil && !r.stalled.Load() {
		r.inbox = append(r.inbox, c)
		r.mu.Unlock()
		r.poke()
		return
	}
	r.mu.Unlock()
	switch {
	case stopped != nil:
		c.fail(stopped)
	case full:
		c.fail(fault.New(fault.Unavailable, "%d commands wait for this queue already; nothing was done, try again", inboxMax))
	default:
		c.fail(errStalled)
	}
}

var errStalled = fault.New(fault.Unavailable, "the store does not confirm an earlier write to this queue; nothing was done, try again")

// poke makes the runner look at its inbox and its parked receives.
func (r *runner) poke() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// stop lets the runner finish what waits, end its parked receives, and end. What comes later is refused with reason.
func (r *runner) stop(reason error) {
	r.mu.Lock()
	if r.stopped == nil {
		r.stopped = reason
	}
	r.mu.Unlock()
	r.poke()
}

func (r *runner) take() (cmds []command, stopped error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	cmds, r.inbox, r.spare = r.inbox, r.spare, nil
	return cmds, r.stopped
}

// reuse gives back an inbox whose commands are all answered.
func (r *runner) reuse(cmds []command) {
	clear(cmds)
	if cap(cmds) > spareMax {
		return
	}
	r.mu.Lock()
	r.spare = cmds[:0]
	r.mu.Unlock()
}

// loop is the runner's goroutine.
func (r *runner) loop() {
	r.b.shards.Add(1)
	defer r.b.shards.Add(-1)
	life := eventlog.Billed(r.b.life, r.traffic)
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		r.turn()
		r.b.Ready(r.b.life)
		cmds, stopped := r.take()
		if len(cmds) == 0 && stopped != nil {
			r.unpark(stopped)
			return
		}
		r.process(life, cmds)
		if r.b.life.Err() != nil {
			return
		}
		if len(cmds) > 0 {
			r.reuse(cmds)
			r.probes = 0
			continue // more may have come meanwhile
		}
		idle := r.idle()
		until := time.Now().Add(idle)
		timer.Reset(idle)
		select {
		case <-r.wake:
		case <-timer.C:
		case <-r.b.life.Done():
			return
		}
		select {
		case <-r.wake: // both came at once: one turn is for both
		default:
		}
		if !time.Now().Before(until) {
			r.turn()
			r.look(life)
		}
	}
}

// turn waits, in a simulation, until this runner may go on.
func (r *runner) turn() {
	if r.b.Turn != nil {
		r.b.Turn(string(r.ledgerStream))
	}
}

// idle is how long nothing can change by itself for those who wait.
func (r *runner) idle() time.Duration {
	if len(r.parked) == 0 || !r.loaded {
		return time.Hour
	}
	now := r.b.Now()
	next := min(r.ledger.NextVisible(r.at()), r.sender.NextDue(r.at()), now.Add(3600))
	for _, p := range r.parked {
		if p.turn.Load() == waiting { // otherwise another shard serves it, and pokes this one if it gives it back
			next = min(next, p.deadline)
		}
	}
	if !r.b.Exclusive {
		next = min(next, now+r.probe()) // another process may write, and signals nothing here
	}
	return max(0, time.Duration(next-now)*time.Millisecond)
}

// probe is how long to wait before the end of a shared store's stream is looked at again: longer each time.
func (r *runner) probe() events.Instant {
	r.probes = min(r.probes+1, 6)
	return probeFirst << r.probes
}

// look reads what other processes have written, for those who are parked.
func (r *runner) look(ctx context.Context) {
	if r.b.Exclusive || !r.loaded || len(r.parked) == 0 {
		return
	}
	if more, _ := r.glance(ctx); more {
		r.probes, r.blind = 0, false
		r.loaded = r.catchUp(ctx) == nil
	}
}

// process answers every command. A broken invariant is caught here: the shard is refused from then on, not guessed.
func (r *runner) process(ctx context.Context, cmds []command) {
	r.later, r.single = cmds, 0
	r.fresh()
	defer func() {
		if p := recover(); p != nil {
			r.refuse(p)
			r.abort()
		}
	}()
	for look := true; len(r.later) > 0 || look && len(r.parked) > 0; {
		r.blind = !r.b.Exclusive && len(r.parked) == 0 && !slices.ContainsFunc(r.later, needsMessages)
		if err := r.ready(ctx); err != nil {
			r.fail(r.later, err)
			r.failParked(err)
			r.later = nil
			return
		}
		if len(r.later) > 0 {
			if c, ok := r.later[0].(alone); ok {
				r.later, look = r.later[1:], true
				r.runAlone(ctx, c)
				continue
			}
		}
		look = r.next(ctx)
		r.group = nil // not by defer: whoever recovers from a panic must know
	}
	r.publish()
}

// refuse makes the shard decide nothing any more, since it panicked.
func (r *runner) refuse(p any) {
	r.broken = fmt.Errorf("shard %d of queue %v is refused: %v", r.index, r.id, p)
	r.b.Logger.Error("a shard broke its invariants and is refused until the next start", "queue", r.id.String(),
		"shard", r.index, "ledger", r.ledgerTail, "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
}

// abort answers everybody with the reason why the shard is refused, also those whose turn the runner holds.
func (r *runner) abort() {
	if g := r.group; g != nil {
		g.answerAll(r.broken)
		if g.looking != nil {
			g.looking.answer(r.broken)
		}
		r.fail(g.cmds, r.broken)
	}
	r.fail(r.later, r.broken)
	r.failParked(r.broken)
	r.group, r.later = nil, nil
}

// ready makes the state one that may be decided upon.
func (r *runner) ready(ctx context.Context) error {
	switch {
	case r.broken != nil:
		return r.broken
	case !r.loaded:
		return r.load(ctx)
	case !r.b.Exclusive && r.overdue():
		err := r.catchUp(ctx)
		r.loaded = err == nil
		return err
	}
	return nil
}

// needsMessages says whether a command has to do with more than what is leased.
func needsMessages(c command) bool {
	switch c.(type) {
	case *ack, *extend:
		return false
	}
	return true
}

func (r *runner) runAlone(ctx context.Context, c alone) {
	answered := false
	defer func() {
		if !answered {
			c.answer(fault.Because(fault.Internal, nil, "something went wrong here"))
		}
	}()
	err := c.run(ctx, r)
	answered = true
	c.answer(err)
	r.turn()
}

// fail answers commands with an error.
func (r *runner) fail(cmds []command, err error) {
	for _, c := range cmds {
		c.fail(err)
		r.turn()
	}
}

// failParked answers the parked receives with an error, nil for nothing found.
func (r *runner) failParked(err error) {
	for _, p := range r.parked {
		p.fail(err)
		r.turn()
	}
	r.parked = nil
}

// unpark ends the parked receives: a queue that is gone is told, a server that stops gives nothing.
func (r *runner) unpark(stopped error) {
	if !fault.Is(stopped, fault.NotFound) {
		stopped = nil
	}
	r.failParked(stopped)
}

// publish lets the ticker know when it is needed.
func (r *runner) publish() {
	if r.loaded {
		r.exhausted.Store(int64(r.ledger.NextExhausted()))
	}
}

// next decides and commits as many of the commands as fit into one commit; the others stay. It gives true where those
// who are parked are to be looked at again.
func (r *runner) next(ctx context.Context) (look bool) {
	n := slices.IndexFunc(r.later, func(c command) bool { _, ok := c.(alone); return ok })
	if n < 0 {
		n = len(r.later)
	}
	if r.single > 0 {
		r.single--
		n = min(n, 1)
	}
	cmds, after := r.later[:n:n], r.later[n:]
	if err := r.foresee(ctx, cmds); err != nil {
		r.later, r.loaded = after, false
		r.fail(cmds, err)
		return true
	}
	for attempt := 0; ; attempt++ {
		g := newGroup(ctx, r, cmds)
		r.group = g
		r.later = join(g.decide(cmds), after)
		again, err := g.commit()
		switch {
		case err != nil:
			return g.refused(after, err)
		case !again:
			g.finish()
			return g.unserved
		}
		if err := r.retry(ctx, attempt); err != nil && !g.answered {
			r.later = after
			r.fail(cmds, err)
			return true
		}
		if g.answered {
			return true // everybody was told that the outcome is not known; now it is known that nothing was done
		}
	}
}

// foresee looks at the places where commands will write, and where receives will find more than is known here: a full
// answer is worth a read.
func (r *runner) foresee(ctx context.Context, cmds []command) error {
	ledger, messages := len(r.parked) > 0, false
	for _, c := range cmds {
		_, sends := c.(*send)
		in, receives := c.(*receive)
		more := receives && r.ledger.Cursor+events.Position(in.request.Max) > r.sender.Tail
		ledger, messages = ledger || !sends, messages || sends || more
	}
	return r.foreseen(ctx, ledger, messages)
}

// join gives a and b in one slice, and b itself where a is empty, as it nearly always is.
func join(a, b []command) []command {
	if len(a) == 0 {
		return b
	}
	return append(a, b...)
}

// retry reads what others have written, after a pause that grows when it happens again and again.
func (r *runner) retry(ctx context.Context, attempt int) error {
	if attempt > 0 {
		if err := r.b.pause(ctx, min(attempt, raceAttempts)); err != nil {
			return err
		}
	}
	if err := r.catchUp(ctx); err != nil {
		r.loaded = false // how far the folds came is not known
		return err
	}
	return nil
}

// stall refuses what has come while a commit is not confirmed, and what comes until it is.
func (r *runner) stall() {
	r.stalled.Store(true)
	cmds, _ := r.take()
	r.fail(r.later, errStalled)
	r.fail(cmds, errStalled)
	r.failParked(errStalled)
	r.later, r.single = nil, 0
}

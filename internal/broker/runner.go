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
	select {
	case err := <-r:
		return err
	case <-ctx.Done():
		return unconfirmed(ctx.Err())
	}
}

// runner decides and commits for one shard, a group of commands at a time.
type runner struct {
	*shard
	rand *bufio.Reader // ids by the block, not by the call

	mu       sync.Mutex
	inbox    []command
	stopping bool
	wake     chan struct{} // has room for one

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
	if r.stopping = b.closing; !r.stopping {
		b.running.Go(r.loop)
	}
	return r
}

// do hands a command to the shard.
func (r *runner) do(c command) {
	r.mu.Lock()
	full, stopping := len(r.inbox) >= inboxMax, r.stopping
	if !full && !stopping && !r.stalled.Load() {
		r.inbox = append(r.inbox, c)
		r.mu.Unlock()
		r.poke()
		return
	}
	r.mu.Unlock()
	switch {
	case stopping:
		c.fail(errStopping())
	case full:
		c.fail(fault.New(fault.Unavailable, "%d commands wait for this queue already; nothing was done, try again", inboxMax))
	default:
		c.fail(errStalled())
	}
}

func errStalled() error {
	return fault.New(fault.Unavailable, "the store does not confirm an earlier write to this queue; nothing was done, try again")
}

// poke makes the runner look at its inbox and its parked receives.
func (r *runner) poke() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// stop lets the runner finish what waits, answer its parked receives with nothing, and end.
func (r *runner) stop() {
	r.mu.Lock()
	r.stopping = true
	r.mu.Unlock()
	r.poke()
}

func (r *runner) take() (cmds []command, stopping bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	cmds, r.inbox = r.inbox, nil
	return cmds, r.stopping
}

// loop is the runner's goroutine.
func (r *runner) loop() {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		r.turn()
		cmds, stopping := r.take()
		if len(cmds) == 0 && stopping {
			r.unpark()
			return
		}
		r.process(r.b.life, cmds)
		if r.b.life.Err() != nil {
			return
		}
		if len(cmds) > 0 {
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
		if !time.Now().Before(until) { // also when both came at once
			r.turn()
			r.look()
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
	next := r.ledger.NextVisible(r.at())
	for _, p := range r.parked {
		if p.turn.Load() == waiting { // otherwise another shard serves it, and pokes this one if it gives it back
			next = min(next, p.deadline)
		}
	}
	if !r.b.Exclusive {
		next = min(next, now+r.probe()) // another process may write, and signals nothing here
	}
	return max(0, min(time.Duration(next-now)*time.Millisecond, time.Hour))
}

// probe is how long to wait before the end of a shared store's stream is looked at again: longer each time.
func (r *runner) probe() events.Instant {
	r.probes = min(r.probes+1, 6)
	return probeFirst << r.probes
}

// look reads what other processes have written, for those who are parked.
func (r *runner) look() {
	if r.b.Exclusive || !r.loaded || len(r.parked) == 0 {
		return
	}
	if sure, err := r.confirm(r.b.life); err == nil && !sure {
		r.probes = 0
		r.loaded = r.catchUp(r.b.life) == nil
	}
}

// process answers every command. A broken invariant is caught here: the shard is refused from then on, not guessed.
func (r *runner) process(ctx context.Context, cmds []command) {
	rest := cmds
	defer func() {
		if p := recover(); p != nil {
			r.broken = fmt.Errorf("shard %d of queue %v is refused: %v", r.index, r.id, p)
			r.b.Logger.Error("a shard broke its invariants and is refused until the next start", "queue", r.id.String(),
				"shard", r.index, "ledger", r.ledgerTail, "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
			r.fail(rest, r.broken)
		}
	}()
	for look := true; len(rest) > 0 || look && len(r.parked) > 0; {
		look = false
		if err := r.ready(ctx); err != nil {
			r.fail(rest, err)
			return
		}
		if len(rest) > 0 {
			if c, ok := rest[0].(alone); ok {
				rest, look = rest[1:], true
				r.runAlone(ctx, c)
				continue
			}
		}
		rest = r.group(ctx, rest)
	}
	r.publish()
}

// ready makes the state one that may be decided upon.
func (r *runner) ready(ctx context.Context) error {
	switch {
	case r.broken != nil:
		return r.broken
	case !r.loaded:
		return r.load(ctx)
	case !r.b.Exclusive && r.b.Now()-r.confirmed > tailAge:
		return r.catchUp(ctx) // by now the streams may have lost entries behind their old ends
	}
	return nil
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

// fail answers commands, and those who are parked, with an error.
func (r *runner) fail(cmds []command, err error) {
	for _, c := range cmds {
		c.fail(err)
		r.turn()
	}
	for _, p := range r.parked {
		p.fail(err)
		r.turn()
	}
	r.parked = nil
}

// unpark answers the parked receives with nothing.
func (r *runner) unpark() {
	for _, p := range r.parked {
		p.end()
		r.turn()
	}
	r.parked = nil
}

// publish lets the ticker know when it is needed.
func (r *runner) publish() {
	if r.loaded {
		r.exhausted.Store(int64(r.ledger.NextExhausted()))
	}
}

// group decides as many of the commands as fit into one commit, commits them, and gives those that are left.
func (r *runner) group(ctx context.Context, cmds []command) (rest []command) {
	n := slices.IndexFunc(cmds, func(c command) bool { _, ok := c.(alone); return ok })
	if n < 0 {
		n = len(cmds)
	}
	return append(r.attempt(ctx, cmds[:n]), cmds[n:]...)
}

// attempt decides and commits until the log agrees.
func (r *runner) attempt(ctx context.Context, cmds []command) (rest []command) {
	for attempt := 0; ; attempt++ {
		g := newGroup(ctx, r)
		rest = g.decide(cmds)
		again, err := g.commit()
		if err != nil {
			return g.refused(cmds, rest, err)
		}
		if !again {
			g.finish()
			return rest
		}
		if err := r.retry(ctx, attempt); err != nil {
			r.fail(cmds, err)
			return nil
		}
	}
}

// retry reads what others have written, after a pause that grows when it happens again and again.
func (r *runner) retry(ctx context.Context, attempt int) error {
	if attempt > 0 {
		if err := r.b.pause(ctx, attempt); err != nil {
			return err
		}
	}
	if err := r.catchUp(ctx); err != nil {
		r.loaded = false // how far the folds came is not known
		return err
	}
	return nil
}

// flush refuses what has come while a commit is not confirmed.
func (r *runner) flush(err error) {
	cmds, _ := r.take()
	for _, c := range cmds {
		c.fail(err)
		r.turn()
	}
}

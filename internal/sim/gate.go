package sim

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/leaselog/leaselog/internal/eventlog"
)

// call is a call of the log that waits at its gate.
type call struct {
	life   *life
	who    string // the command that makes it; empty for a runner
	what   string
	commit *eventlog.Commit // of what writes entries
	writes bool
	run    func() error // carries it out
	answer chan error
}

// turn is a runner that waits for its turn.
type turn struct {
	life *life
	who  string
	pass chan struct{}
}

func (t *turn) String() string { return t.life.String() + " " + shorten(t.who) }

// errLost is what a call gets whose answer is lost: it tells nothing.
var errLost = errors.New("the simulated store does not answer")

// call brings a call to the gate and waits for its answer. A broker that has crashed gets no further.
func (l *life) call(ctx context.Context, c *call) error {
	s := l.sim
	c.life, c.answer = l, make(chan error, 1)
	if id, ok := ctx.Value(commandKey{}).(*command); ok {
		c.who = id.name
	}
	s.mu.Lock()
	if l.dead {
		s.mu.Unlock()
		return errLost
	}
	s.calls = append(s.calls, c)
	s.mu.Unlock()
	return <-c.answer
}

// turn brings a runner to the gate and waits for its turn.
func (l *life) turn(runner string) {
	s := l.sim
	t := &turn{life: l, who: runner, pass: make(chan struct{})}
	s.mu.Lock()
	if l.dead {
		s.mu.Unlock()
		return
	}
	s.turns = append(s.turns, t)
	s.mu.Unlock()
	<-t.pass
}

// waiting gives what stands at the gates, in an order that does not depend on who came first: two timers that fire
// in the same instant wake their goroutines in any order.
func (s *simulation) waiting() (calls []*call, turns []*turn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	slices.SortStableFunc(s.calls, func(a, b *call) int {
		return cmp.Or(cmp.Compare(a.life.n, b.life.n), cmp.Compare(a.who, b.who), cmp.Compare(a.what, b.what))
	})
	slices.SortStableFunc(s.turns, func(a, b *turn) int {
		return cmp.Or(cmp.Compare(a.life.n, b.life.n), cmp.Compare(a.who, b.who))
	})
	return slices.Clone(s.calls), slices.Clone(s.turns)
}

// pass lets a runner go on.
func (s *simulation) pass(t *turn) {
	s.mu.Lock()
	s.turns = slices.DeleteFunc(s.turns, func(x *turn) bool { return x == t })
	s.mu.Unlock()
	s.note("%s goes on", t)
	close(t.pass)
}

// fate is what becomes of a call.
type fate string

const (
	ok     fate = "ok"
	refuse fate = "refused"        // certainly not applied; an error for a read
	before fate = "lost before"    // not applied, unknown to the caller
	after  fate = "lost after"     // applied, unknown to the caller
	behind fate = "lost, may land" // unknown to the caller, and may be applied later
)

// settleCall lets a call meet its fate. What it committed is shown to the witness at once.
func (s *simulation) settleCall(c *call, f fate) {
	s.mu.Lock()
	s.calls = slices.DeleteFunc(s.calls, func(x *call) bool { return x == c })
	s.mu.Unlock()
	err := errLost
	defer func() { c.answer <- err }() // also when a judge ends the run
	switch f {
	case ok:
		err = s.carryOut(c)
	case after:
		s.carryOut(c)
	case behind:
		s.late = append(s.late, c)
	case refuse:
		if c.commit != nil {
			err = &eventlog.Refused{Cause: errLost}
		}
	}
	op, _, _ := strings.Cut(c.what, " ")
	s.count(op)
	if s.count("call " + string(f)); c.commit != nil && isConflict(err) {
		s.count("conflict")
	}
	s.note("%s %s %s: %s%s", c.life, c.who, c.what, f, tail(err, f))
}

func isConflict(err error) bool {
	var c *eventlog.Conflict
	return errors.As(err, &c)
}

func tail(err error, f fate) string {
	if err == nil || f != ok {
		return ""
	}
	return ", " + err.Error()
}

// carryOut does what a call asks.
func (s *simulation) carryOut(c *call) error {
	err := c.run()
	if c.commit != nil {
		s.witness.see(c.commit)
	}
	return err
}

// link is the log as one life of a broker sees it.
type link struct{ *life }

// Commit implements [eventlog.Log].
func (l link) Commit(ctx context.Context, c eventlog.Commit) error {
	return l.call(ctx, &call{what: l.sim.describe(&c), commit: &c, writes: true, run: func() error {
		return l.sim.store.Commit(context.Background(), c)
	}})
}

// Read implements [eventlog.Log].
func (l link) Read(ctx context.Context, s eventlog.Stream, from eventlog.Seq, lim eventlog.Limits) (out []eventlog.Entry, err error) {
	err = l.call(ctx, &call{what: fmt.Sprintf("read %s %d", l.sim.stream(s), from), run: func() (err error) {
		out, err = l.sim.store.Read(context.Background(), s, from, lim)
		if lim.Lagging {
			out = l.sim.lag(s, from, out)
		}
		return err
	}})
	return out, err
}

// Last implements [eventlog.Log].
func (l link) Last(ctx context.Context, s eventlog.Stream) (e eventlog.Entry, found bool, err error) {
	err = l.call(ctx, &call{what: "last " + l.sim.stream(s), run: func() (err error) {
		e, found, err = l.sim.store.Last(context.Background(), s)
		return err
	}})
	return e, found, err
}

// Claim implements [eventlog.Log].
func (l link) Claim(ctx context.Context, key string) (c eventlog.Claim, found bool, err error) {
	err = l.call(ctx, &call{what: "claim " + l.sim.key(key), run: func() (err error) {
		c, found, err = l.sim.store.Claim(context.Background(), key)
		return err
	}})
	return c, found, err
}

// Claims implements [eventlog.Log].
func (l link) Claims(ctx context.Context, prefix, after string, limit int) (out []eventlog.Claim, err error) {
	err = l.call(ctx, &call{what: "claims " + prefix + " " + l.sim.key(after), run: func() (err error) {
		out, err = l.sim.store.Claims(context.Background(), prefix, after, limit)
		return err
	}})
	return out, err
}

// Snapshot implements [eventlog.Log].
func (l link) Snapshot(ctx context.Context, s eventlog.Stream, seq eventlog.Seq) (snap eventlog.Snapshot, found bool, err error) {
	err = l.call(ctx, &call{what: "snapshot " + l.sim.stream(s), run: func() (err error) {
		snap, found, err = l.sim.store.Snapshot(context.Background(), s, seq)
		return err
	}})
	return snap, found, err
}

// PutSnapshot implements [eventlog.Log].
func (l link) PutSnapshot(ctx context.Context, s eventlog.Stream, snap eventlog.Snapshot) error {
	return l.call(ctx, &call{what: fmt.Sprintf("put snapshot %s %d", l.sim.stream(s), snap.Seq), writes: true, run: func() error {
		return l.sim.store.PutSnapshot(context.Background(), s, snap)
	}})
}

// Drop implements [eventlog.Log].
func (l link) Drop(ctx context.Context, s eventlog.Stream, from, to eventlog.Seq) error {
	return l.call(ctx, &call{what: fmt.Sprintf("drop %s %d-%d", l.sim.stream(s), from, to), writes: true, run: func() error {
		return l.sim.store.Drop(context.Background(), s, from, to)
	}})
}

// describe names what a commit writes.
func (s *simulation) describe(c *eventlog.Commit) string {
	var parts []string
	for _, a := range c.Appends {
		parts = append(parts, fmt.Sprintf("%s %d", s.stream(a.Stream), a.Seq))
	}
	for _, a := range c.Claims {
		parts = append(parts, fmt.Sprintf("%s if %d", s.key(a.Key), a.If))
	}
	return "commit " + strings.Join(parts, ", ")
}

// stream and key give the last part of a queue's id instead of the whole: the history is for people.
func (s *simulation) stream(name eventlog.Stream) string { return shorten(string(name)) }
func (s *simulation) key(key string) string              { return strings.Replace(key, "queue/", "", 1) }

func shorten(name string) string {
	if len(name) > 32 {
		return name[28:]
	}
	return name
}

// lag leaves out of a read what the stream did not have yet when it was read so before.
func (s *simulation) lag(stream eventlog.Stream, from eventlog.Seq, entries []eventlog.Entry) []eventlog.Entry {
	end, ends := s.ends[stream], from
	if n := len(entries); n > 0 {
		ends = entries[n-1].Next()
	}
	s.ends[stream] = max(end, ends)
	return slices.DeleteFunc(entries, func(e eventlog.Entry) bool { return e.Seq >= end })
}

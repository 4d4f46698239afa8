package eventlogtest

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"

	"github.com/leaselog/leaselog/internal/eventlog"
)

// ErrInjected is in the chain of every error that a [Faulty] makes up.
var ErrInjected = errors.New("injected by the test")

// Op names a method of the log.
type Op string

// The methods that a Faulty counts and lets fail.
const (
	OpCommit      Op = "Commit"
	OpRead        Op = "Read"
	OpLast        Op = "Last"
	OpClaim       Op = "Claim"
	OpClaims      Op = "Claims"
	OpSnapshot    Op = "Snapshot"
	OpPutSnapshot Op = "PutSnapshot"
	OpDrop        Op = "Drop"
)

// Writes reports whether the method changes the log.
func (o Op) Writes() bool { return o == OpCommit || o == OpPutSnapshot || o == OpDrop }

// Fault is what becomes of one call.
type Fault int

// The faults. Only for a commit is Refuse another thing than Before, and only for what writes are After and Late.
const (
	Pass   Fault = iota
	Refuse       // fails before it took effect, and says so: *eventlog.Refused
	Before       // fails before it took effect: the outcome is unknown to the caller
	After        // fails after it took effect, or was answered otherwise: unknown to the caller
	Late         // fails now: unknown to the caller; takes effect when the test says [Faulty.Land]
)

func (f Fault) String() string {
	return [...]string{"pass", "refuse", "before", "after", "late"}[f]
}

// Call is one call of a Faulty, as its plan sees it.
type Call struct {
	Op     Op
	N      int             // counts the calls of this method, from 1
	Write  int             // counts the calls of all methods that write, from 1; 0 for one that reads
	Commit eventlog.Commit // of a Commit
	Stream eventlog.Stream // of what is about one stream
	Key    string          // of a Claim; the prefix of a Claims
}

// Plan decides what becomes of a call. It runs in the goroutine of the call, before anything else happens, and may
// be called by many at once. It may use the Faulty, Land above all; calls it makes itself are planned and counted, too.
type Plan func(Call) Fault

// Nth is the plan that one call of a method meets a fault: the n-th, from 1.
func Nth(op Op, n int, fault Fault) Plan {
	return when(fault, func(c Call) bool { return c.Op == op && c.N == n })
}

// NthWrite is the plan that the n-th call of those that write meets a fault, from 1. A use case has as many plans
// as it makes writes.
func NthWrite(n int, fault Fault) Plan {
	return when(fault, func(c Call) bool { return c.Write == n })
}

func when(fault Fault, hit func(Call) bool) Plan {
	return func(c Call) Fault {
		if hit(c) {
			return fault
		}
		return Pass
	}
}

// Faulty is a log that fails as planned. Without a plan it only counts.
type Faulty struct {
	log eventlog.Log

	mu     sync.Mutex
	plan   Plan
	script map[Op][]Fault
	calls  map[Op]int
	late   []lateCall
}

// lateCall is a call that was answered with an error and has not taken effect yet.
type lateCall struct {
	call  Call
	apply func(context.Context) error
}

// NewFaulty wraps a log. All goes well until a plan says otherwise.
func NewFaulty(log eventlog.Log) *Faulty {
	return &Faulty{log: log, script: map[Op][]Fault{}, calls: map[Op]int{}}
}

// Plan sets the plan for the calls to come; nil lets them pass.
func (f *Faulty) Plan(p Plan) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.plan = p
}

// Script adds faults for the next calls of a method, one each. They come before the plan, which decides on.
func (f *Faulty) Script(op Op, faults ...Fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.script[op] = append(f.script[op], faults...)
}

// Calls counts the calls of a method so far, those that failed among them.
func (f *Faulty) Calls(op Op) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.calls[op]
}

// Counts gives the calls of all methods that were called.
func (f *Faulty) Counts() map[Op]int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return maps.Clone(f.calls)
}

// ResetCounts begins to count from 0 again.
func (f *Faulty) ResetCounts() {
	f.mu.Lock()
	defer f.mu.Unlock()
	clear(f.calls)
}

// Pending lists the late calls that have not landed, in the order they were made.
func (f *Faulty) Pending() []Call {
	f.mu.Lock()
	defer f.mu.Unlock()
	var calls []Call
	for _, l := range f.late {
		calls = append(calls, l.call)
	}
	return calls
}

// Land lets all pending calls take effect, in the order they were made, and gives what the log answered to each:
// a *Conflict where another commit took the place meanwhile.
func (f *Faulty) Land() []error {
	f.mu.Lock()
	late := f.late
	f.late = nil
	f.mu.Unlock()
	var answers []error
	for _, l := range late {
		answers = append(answers, l.apply(context.Background()))
	}
	return answers
}

// LandOne lets the i-th of the pending calls take effect, so that a simulator may choose any order.
func (f *Faulty) LandOne(i int) error {
	f.mu.Lock()
	l := f.late[i]
	f.late = slices.Delete(f.late, i, i+1)
	f.mu.Unlock()
	return l.apply(context.Background())
}

// Forget lets the pending calls never take effect.
func (f *Faulty) Forget() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.late = nil
}

// next counts a call and decides what becomes of it.
func (f *Faulty) next(c Call) Fault {
	f.mu.Lock()
	f.calls[c.Op]++
	c.N = f.calls[c.Op]
	if c.Op.Writes() {
		c.Write = f.calls[OpCommit] + f.calls[OpPutSnapshot] + f.calls[OpDrop]
	}
	plan := f.plan
	if queue := f.script[c.Op]; len(queue) > 0 {
		plan = func(Call) Fault { return queue[0] }
		f.script[c.Op] = queue[1:]
	}
	f.mu.Unlock()
	if plan == nil {
		return Pass
	}
	return plan(c)
}

// write makes a call that changes the log.
func (f *Faulty) write(ctx context.Context, c Call, apply func(context.Context) error) error {
	switch f.next(c) {
	case Refuse:
		return &eventlog.Refused{Cause: ErrInjected}
	case Before:
		return unknown("before", c)
	case After:
		_ = apply(ctx) // whatever was answered is lost on the way
		return unknown("after", c)
	case Late:
		f.mu.Lock()
		f.late = append(f.late, lateCall{c, apply})
		f.mu.Unlock()
		return unknown("late", c)
	}
	return apply(ctx)
}

// read decides about a call that changes nothing: every fault is an error without an answer.
func (f *Faulty) read(c Call) error {
	if fault := f.next(c); fault != Pass {
		return unknown(fault.String(), c)
	}
	return nil
}

// unknownOutcome is an error that tells a caller nothing, and the reader of a test's output all.
type unknownOutcome struct {
	fault string
	op    Op
}

func unknown(fault string, c Call) error { return &unknownOutcome{fault, c.Op} }

func (u *unknownOutcome) Error() string { return string(u.op) + " failed (" + u.fault + ")" }
func (u *unknownOutcome) Unwrap() error { return ErrInjected }

// Commit implements [eventlog.Log].
func (f *Faulty) Commit(ctx context.Context, c eventlog.Commit) error {
	return f.write(ctx, Call{Op: OpCommit, Commit: c}, func(ctx context.Context) error { return f.log.Commit(ctx, c) })
}

// PutSnapshot implements [eventlog.Log].
func (f *Faulty) PutSnapshot(ctx context.Context, s eventlog.Stream, snap eventlog.Snapshot) error {
	return f.write(ctx, Call{Op: OpPutSnapshot, Stream: s}, func(ctx context.Context) error {
		return f.log.PutSnapshot(ctx, s, snap)
	})
}

// Drop implements [eventlog.Log].
func (f *Faulty) Drop(ctx context.Context, s eventlog.Stream, from, to eventlog.Seq) error {
	return f.write(ctx, Call{Op: OpDrop, Stream: s}, func(ctx context.Context) error {
		return f.log.Drop(ctx, s, from, to)
	})
}

// Read implements [eventlog.Log].
func (f *Faulty) Read(ctx context.Context, s eventlog.Stream, from eventlog.Seq, l eventlog.Limits) ([]eventlog.Entry, error) {
	if err := f.read(Call{Op: OpRead, Stream: s}); err != nil {
		return nil, err
	}
	return f.log.Read(ctx, s, from, l)
}

// Last implements [eventlog.Log].
func (f *Faulty) Last(ctx context.Context, s eventlog.Stream) (eventlog.Entry, bool, error) {
	if err := f.read(Call{Op: OpLast, Stream: s}); err != nil {
		return eventlog.Entry{}, false, err
	}
	return f.log.Last(ctx, s)
}

// Claim implements [eventlog.Log].
func (f *Faulty) Claim(ctx context.Context, key string) (eventlog.Claim, bool, error) {
	if err := f.read(Call{Op: OpClaim, Key: key}); err != nil {
		return eventlog.Claim{}, false, err
	}
	return f.log.Claim(ctx, key)
}

// Claims implements [eventlog.Log].
func (f *Faulty) Claims(ctx context.Context, prefix, after string, limit int) ([]eventlog.Claim, error) {
	if err := f.read(Call{Op: OpClaims, Key: prefix}); err != nil {
		return nil, err
	}
	return f.log.Claims(ctx, prefix, after, limit)
}

// Snapshot implements [eventlog.Log].
func (f *Faulty) Snapshot(ctx context.Context, s eventlog.Stream, seq eventlog.Seq) (eventlog.Snapshot, bool, error) {
	if err := f.read(Call{Op: OpSnapshot, Stream: s}); err != nil {
		return eventlog.Snapshot{}, false, err
	}
	return f.log.Snapshot(ctx, s, seq)
}

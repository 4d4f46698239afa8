// Package sim runs the whole broker under a seed: several brokers over one log in memory, clients that send, receive,
// ack and change queues, crashes and restarts, clocks that are off and step, and a store that refuses, answers too
// late or not at all. Time is virtual and everything else is the code that ships.
//
// One goroutine goes at a time. Every call of the log, and every turn of a runner, waits at a gate until the seed
// lets it through; between two steps nothing moves. So a seed gives the same history whenever it is run, which is
// itself tested: each runs twice.
//
// Projections follow, woken by a stream of changes that doubles, shuffles, delays and drops; at the end their views must be
// what the log gives.
//
// Two judges look on after every step and share no code with the rules. The [witness] reads what was committed,
// entry by entry, and knows what each message may still become. The other compares with it what clients were told: an
// answer binds, silence does not.
package sim

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"runtime/debug"
	"sync"
	"testing/synctest"
	"time"

	"github.com/leaselog/leaselog/events"
	"github.com/leaselog/leaselog/internal/broker"
	"github.com/leaselog/leaselog/internal/eventlog"
)

// Options say what to simulate.
type Options struct {
	Seed  uint64
	Steps int // 0: as many as the seed wants
	// Store wraps the log; a test of the judges breaks it here.
	Store func(*eventlog.Memory) eventlog.Log
	// Skew is added to the brokers' clocks without the judges' knowledge; another way to break something.
	Skew func(true events.Instant) events.Instant
}

// simulation is one run of a seed. Only the goroutine that runs it touches it, apart from what mu guards.
type simulation struct {
	Options
	*plan
	rand       *rand.Rand
	memory     *eventlog.Memory
	store      eventlog.Log
	keys       *keys
	witness    *witness
	projectors *projectors
	history    bytes.Buffer
	steps      int
	seen       map[string]int

	hosts    []*host
	lives    int
	ends     map[eventlog.Stream]eventlog.Seq // as a read that lags has them
	late     []*call                          // commits that were answered as unknown and have not landed
	started  int                              // commands so far
	running  []*command
	names    []*name
	queues   []*known // every queue that a client was told of
	attempts []*attempt
	held     []*hold
	move     broker.TaskID // the last move task that a client was told of
	healed   bool          // no more faults

	mu       sync.Mutex
	calls    []*call
	turns    []*turn
	finished []*command
	alarm    string // what a broker logged as an error
}

// failure is how a judge ends a run.
type failure struct{ text string }

func (s *simulation) failf(format string, args ...any) {
	panic(failure{fmt.Sprintf(format, args...)})
}

// must fails the run unless ok.
func (s *simulation) must(ok bool, format string, args ...any) {
	if !ok {
		s.failf(format, args...)
	}
}

// Report is what came of a seed.
type Report struct {
	History []byte
	Wrong   string         // empty for nothing
	Seen    map[string]int // what has happened, and what was judged, how often
}

// Run simulates a seed inside a synctest bubble.
func Run(o Options) Report {
	r := rand.New(rand.NewPCG(o.Seed, 0x6c656173656c6f67))
	s := newSimulation(o, draw(r), r)
	return s.judged(s.run)
}

func newSimulation(o Options, p *plan, r *rand.Rand) *simulation {
	memory := eventlog.NewMemory()
	s := &simulation{Options: o, plan: p, rand: r, memory: memory, store: memory, keys: &keys{}, seen: map[string]int{}, ends: map[eventlog.Stream]eventlog.Seq{}}
	if o.Store != nil {
		s.store = o.Store(memory)
	}
	s.witness = newWitness(s)
	s.projectors = newProjectors(memory, o.Seed)
	return s
}

// judged runs a simulation, ends whatever it has started, and reports.
func (s *simulation) judged(run func()) Report {
	var wrong string
	defer s.clean()
	func() {
		defer func() {
			switch p := recover().(type) {
			case nil:
			case failure:
				wrong = p.text
			default:
				wrong = fmt.Sprintf("panic: %v\n%s", p, debug.Stack())
			}
		}()
		run()
	}()
	if wrong != "" {
		s.note("WRONG: %s", wrong)
	}
	return Report{s.history.Bytes(), wrong, s.seen}
}

func (s *simulation) run() {
	s.note("%+v", *s.plan)
	s.open()
	steps := s.Steps
	if steps == 0 {
		steps = 100 + s.rand.IntN(600)
	}
	for ; s.steps < steps; s.steps++ {
		s.step()
		s.judge()
		s.project()
	}
	s.finale()
}

// note adds a line to the history.
func (s *simulation) note(format string, args ...any) {
	fmt.Fprintf(&s.history, "%4d %9.3f  ", s.steps, float64(s.now()-epoch)/1000)
	fmt.Fprintf(&s.history, format, args...)
	s.history.WriteByte('\n')
}

// count remembers that something has happened.
func (s *simulation) count(what string) { s.seen[what]++ }

// epoch is when a bubble's clock begins.
const epoch = events.Instant(946684800_000)

// now is the true time. What brokers take for it may be another.
func (s *simulation) now() events.Instant { return events.Instant(time.Now().UnixMilli()) }

// settle waits until nothing can move by itself, and hears what commands have ended.
func (s *simulation) settle() {
	synctest.Wait()
	s.mu.Lock()
	ended, alarm := s.finished, s.alarm
	s.finished = nil
	s.mu.Unlock()
	s.must(alarm == "", "a broker raised an alarm: %s", alarm)
	for _, c := range ended {
		s.hear(c)
	}
}

// logger takes the brokers' errors as failures: a broken invariant is caught by the broker, and must not pass.
func (s *simulation) logger() *slog.Logger { return slog.New(alarms{s}) }

type alarms struct{ *simulation }

func (alarms) Enabled(_ context.Context, l slog.Level) bool { return l >= slog.LevelError }
func (a alarms) WithAttrs([]slog.Attr) slog.Handler         { return a }
func (a alarms) WithGroup(string) slog.Handler              { return a }

func (a alarms) Handle(_ context.Context, r slog.Record) error {
	text := r.Message
	r.Attrs(func(at slog.Attr) bool {
		text += " " + at.String()
		return true
	})
	a.mu.Lock()
	defer a.mu.Unlock()
	a.alarm = text
	return nil
}

// source is a seeded source of bytes for one life of a broker.
type source struct {
	mu sync.Mutex
	r  *rand.ChaCha8
}

func newSource(seed uint64, life int) io.Reader {
	var key [32]byte
	for i := range 8 {
		key[i], key[8+i] = byte(seed>>(8*i)), byte(life>>(8*i))
	}
	return &source{r: rand.NewChaCha8(key)}
}

func (s *source) Read(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.r.Read(p)
}

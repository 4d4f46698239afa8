package store

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leaselog/leaselog/events"
	"github.com/leaselog/leaselog/internal/broker"
	"github.com/leaselog/leaselog/internal/eventlog"
	"github.com/leaselog/leaselog/internal/local/keys"
)

const (
	contenders = 64
	// contendEnv is how long each size of the table is measured, such as 60s. By default it is long enough to hold the
	// promises to many races, and too short for figures to quote.
	contendEnv = "LEASELOG_CONTENTION"
	// abandoned is how often a worker lets a message go without an ack, one in so many.
	abandoned = 20
	leaseLong = 60 * time.Second
	leaseLess = 2 * time.Second
)

// TestContention lets 64 workers, each with a broker and a store of its own as processes have, send, receive and ack on
// one queue in DynamoDB: no message is lost, leased twice at a time, or delivered after its ack. Beside it the same runs
// on a log in memory, each call of which takes 5 ms of virtual time: an emulator on two cores is not DynamoDB.
func TestContention(t *testing.T) {
	d := startDatabase(t)
	k, err := keys.Open(filepath.Join(t.TempDir(), "key"))
	if err != nil {
		t.Fatal(err)
	}
	length, virtual := 4*time.Second, 4*time.Second
	if text := os.Getenv(contendEnv); text != "" {
		if length, err = time.ParseDuration(text); err != nil {
			t.Fatal(err)
		}
		virtual = length
	}
	var emulated, simulated []figures
	for _, shards := range []int{1, 4, 16} {
		t.Run(fmt.Sprint("emulator, shards ", shards), func(t *testing.T) {
			tables := Tables(d.Tables(t))
			c := newContest(t, k, length, func(c *contest) eventlog.Log {
				return d.openOn(t, tables, func(s *Config) { s.Consumed = c.units.count })
			}, shards)
			emulated = append(emulated, c.run())
		})
		t.Run(fmt.Sprint("5 ms, shards ", shards), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				memory := eventlog.NewMemory()
				c := newContest(t, k, virtual, func(*contest) eventlog.Log { return slow{memory} }, shards)
				simulated = append(simulated, c.run())
			})
		})
	}
	t.Logf("%d workers\n%-16s %s\n", contenders, "", figuresHead)
	for i, f := range emulated {
		t.Logf("%-16s %v", "emulator", f)
		t.Logf("%-16s %v", "5 ms", simulated[i])
	}
	for _, all := range [][]figures{emulated, simulated} {
		for i := range all[1:] {
			if all[i].lost() <= all[i+1].lost() {
				t.Errorf("with %d shards %.0f %% of the writes lose a race, with %d still %.0f %%", all[i].shards, 100*all[i].lost(), all[i+1].shards, 100*all[i+1].lost())
			}
		}
	}
}

// slow is a log whose calls take about 5 ms, as those of DynamoDB do.
type slow struct{ *eventlog.Memory }

func (slow) half() { time.Sleep(1500*time.Microsecond + mathrand.N(2*time.Millisecond)) }

func (s slow) Commit(ctx context.Context, c eventlog.Commit) error {
	s.half()
	defer s.half()
	return s.Memory.Commit(ctx, c)
}

func (s slow) Read(ctx context.Context, name eventlog.Stream, from eventlog.Seq, l eventlog.Limits) ([]eventlog.Entry, error) {
	s.half()
	defer s.half()
	return s.Memory.Read(ctx, name, from, l)
}

func (s slow) Last(ctx context.Context, name eventlog.Stream) (eventlog.Entry, bool, error) {
	s.half()
	defer s.half()
	return s.Memory.Last(ctx, name)
}

// racing counts the races that are run on a log, and those that are lost.
type racing struct {
	eventlog.Log
	contest *contest
}

func (r racing) Commit(ctx context.Context, c eventlog.Commit) error {
	err := r.Log.Commit(ctx, c)
	r.contest.commits.Add(1)
	if met := (*eventlog.Conflict)(nil); errors.As(err, &met) {
		r.contest.conflicts.Add(1)
	}
	return err
}

func (r racing) Read(ctx context.Context, name eventlog.Stream, from eventlog.Seq, l eventlog.Limits) ([]eventlog.Entry, error) {
	r.contest.reads.Add(1)
	return r.Log.Read(ctx, name, from, l)
}

func (r racing) Last(ctx context.Context, name eventlog.Stream) (eventlog.Entry, bool, error) {
	r.contest.reads.Add(1)
	return r.Log.Last(ctx, name)
}

// figures are a line of the table.
type figures struct {
	shards, acked             int
	seconds                   float64
	commits, conflicts, reads int64
	p50, p99, most            time.Duration
	readUnits, writeUnits     float64
}

const figuresHead = "shards  messages/s  lost races  writes/message  reads/message  write units  read units"

func (f figures) lost() float64 { return float64(f.conflicts) / float64(f.commits) }

func (f figures) String() string {
	n := float64(f.acked)
	return fmt.Sprintf("%6d  %10.0f  %8.0f %%  %14.1f  %13.1f  %11.1f  %10.1f %v %v %v", f.shards, n/f.seconds, 100*f.lost(),
		float64(f.commits)/n, float64(f.reads)/n, f.writeUnits/n, f.readUnits/n, f.p50.Round(time.Millisecond), f.p99.Round(time.Millisecond), f.most.Round(time.Millisecond))
}

// contest is many workers on one queue, each a process of its own, and the ledger of what they were told.
type contest struct {
	*testing.T
	shards                     int
	length                     time.Duration
	queue                      events.QueueID
	process                    func() *broker.Broker
	processes                  []*broker.Broker
	senders, receivers, ackers function

	units                     units
	commits, conflicts, reads atomic.Int64

	mu     sync.Mutex
	times  []time.Duration
	sent   map[events.MessageID]bool
	leases map[events.MessageID][]lease
	acked  map[events.MessageID]uint32 // by the lease of which number
}

// lease is what a delivery says of it.
type lease struct {
	number    uint32 // of the message
	from, end events.Instant
}

func newContest(t *testing.T, k *keys.Keys, length time.Duration, open func(*contest) eventlog.Log, shards int) *contest {
	t.Helper()
	c := &contest{T: t, shards: shards, length: length, sent: map[events.MessageID]bool{}, leases: map[events.MessageID][]lease{}, acked: map[events.MessageID]uint32{}}
	c.process = func() *broker.Broker {
		b, err := broker.New(broker.Config{Log: racing{open(c), c}, Keys: k, Rand: rand.Reader, Deployment: "test", Shards: shards, ReceiptKey: k.Secret("receipts"),
			Now: func() events.Instant { return events.Instant(time.Now().UnixMilli()) }, CommitItems: ItemsMax})
		if err != nil {
			t.Error(err)
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		c.processes = append(c.processes, b)
		return b
	}
	c.queue = newQueue(t, c.process(), false)
	return c
}

// run measures for a while, then lets the workers take what is left, and holds what they were told to the promises.
func (c *contest) run() figures {
	c.Helper()
	c.all(func() { c.send(10) }) // so that nobody meets an empty queue
	c.all(func() { c.receive(1) })
	c.units.take()
	c.commits.Store(0)
	c.conflicts.Store(0)
	c.reads.Store(0)
	before := len(c.acked)
	c.times = nil
	began := time.Now()
	c.all(func() {
		for time.Since(began) < c.length && !c.Failed() {
			c.send(1)
			c.receive(1)
		}
	})
	f := figures{shards: c.shards, acked: len(c.acked) - before, seconds: time.Since(began).Seconds(), commits: c.commits.Load(), conflicts: c.conflicts.Load(), reads: c.reads.Load()}
	slices.Sort(c.times)
	f.p50, f.p99, f.most = c.times[len(c.times)/2], c.times[len(c.times)*99/100], c.times[len(c.times)-1]
	f.readUnits, f.writeUnits = c.units.take()
	until := time.Now().Add(time.Minute)
	c.all(func() {
		for c.left() > 0 && time.Now().Before(until) && !c.Failed() {
			c.receive(10)
		}
	})
	for _, b := range c.processes {
		b.Close()
	}
	c.judge()
	return f
}

// function is the idle processes of a function. An invocation takes the one that was used last, or starts one.
type function struct {
	mu   sync.Mutex
	idle []*broker.Broker
}

func (f *function) take(c *contest) (b *broker.Broker, end func()) {
	f.mu.Lock()
	if n := len(f.idle); n > 0 {
		b, f.idle = f.idle[n-1], f.idle[:n-1]
	}
	f.mu.Unlock()
	if b == nil {
		b = c.process()
	}
	return b, func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.idle = append(f.idle, b)
	}
}

func (c *contest) all(work func()) {
	var all sync.WaitGroup
	for range contenders {
		all.Go(work)
	}
	all.Wait()
}

func (c *contest) left() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.sent) - len(c.acked)
}

func (c *contest) send(n int) {
	b, end := c.senders.take(c)
	defer end()
	defer c.took(time.Now())
	var out []broker.Outgoing
	for range n {
		out = append(out, message([]byte("a message of some bytes"), false, ""))
	}
	answers, err := b.Send(c.Context(), c.queue, out)
	if err != nil {
		c.Errorf("send: %v", err)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, a := range answers {
		if a.Err != nil || c.sent[a.ID] {
			c.Errorf("sent %s: %v", a.ID, a.Err)
		}
		c.sent[a.ID] = true
	}
}

// receive takes messages and acks them, but for some, whose leases it lets end.
func (c *contest) receive(most int) {
	b, end := c.receivers.take(c)
	defer c.took(time.Now())
	length, none := leaseLong, uint32(0)
	drop := mathrand.N(abandoned) == 0
	if drop {
		length = leaseLess
	}
	seconds := uint32(length.Seconds())
	found, err := b.Receive(c.Context(), broker.Receive{Queue: c.queue, Max: most, LeaseSeconds: &seconds, WaitSeconds: &none})
	end()
	if err != nil {
		c.Errorf("receive: %v", err)
		return
	}
	c.mu.Lock()
	for _, d := range found {
		c.leases[d.ID] = append(c.leases[d.ID], lease{d.Receives, d.Visible - events.Instant(length.Milliseconds()), d.Visible})
	}
	c.mu.Unlock()
	if drop || len(found) == 0 {
		return
	}
	b, end = c.ackers.take(c)
	defer end()
	answers, err := b.Ack(c.Context(), c.queue, receiptsOf(found))
	if err != nil {
		c.Errorf("ack: %v", err)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, d := range found {
		if answers[i] != nil {
			c.Errorf("ack inside the lease: %v", answers[i])
		}
		if n := c.acked[d.ID]; n != 0 {
			c.Errorf("message %s was acked by its leases %d and %d", d.ID, n, d.Receives)
		}
		c.acked[d.ID] = d.Receives
	}
}

func (c *contest) took(began time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.times = append(c.times, time.Since(began))
}

// judge holds the ledger to the promises.
func (c *contest) judge() {
	c.Helper()
	if n := c.left(); n > 0 {
		c.Errorf("%d of %d messages were not acked in the end", n, len(c.sent))
	}
	again := 0
	for id, all := range c.leases {
		if !c.sent[id] {
			c.Errorf("message %s was delivered and never sent", id)
		}
		ordered := make([]*lease, len(all)+1)
		for _, l := range all {
			if int(l.number) > len(all) || ordered[l.number] != nil {
				c.Errorf("message %s has %d leases, and one is its number %d", id, len(all), l.number)
				continue
			}
			ordered[l.number] = &l
			if acked := c.acked[id]; l.number > acked {
				c.Errorf("message %s was delivered with its lease %d, after lease %d acked it", id, l.number, acked)
			}
			again += min(1, int(l.number)-1)
		}
		for i := 2; i < len(ordered); i++ {
			if a, b := ordered[i-1], ordered[i]; a != nil && b != nil && b.from < a.end {
				c.Errorf("message %s was leased at %d, and the lease before it ends at %d", id, b.from, a.end)
			}
		}
	}
	if again == 0 {
		c.Error("no message came again after its lease")
	}
	c.Logf("%d messages, %d of %d writes lost a race, %d deliveries after a lease that ended", len(c.sent), c.conflicts.Load(), c.commits.Load(), again)
}

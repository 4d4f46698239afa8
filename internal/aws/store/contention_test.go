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
	"strings"
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
	// contendEnv is how long each line of the table is measured, such as 30s. By default it is long enough to hold the
	// promises to many races, and short for figures to quote.
	contendEnv = "LEASELOG_CONTENTION"
	// abandoned is how often a message is let go without an ack, one in so many, with a lease of leaseLess.
	abandoned = 8
	leaseLong = 60 * time.Second
	leaseLess = 2 * time.Second
)

// TestContention lets 64 workers send, receive and ack on one queue in DynamoDB, each call in a process of its own as
// Lambda does it: no message is lost, leased twice at a time, or delivered after its ack, and the share of writes that
// lose a race is told. Beside it the same on a log in memory, each call of which takes 5 ms of virtual
// time, since the emulator, with all else on the same cores, is not DynamoDB: that share falls as shards are added.
func TestContention(t *testing.T) {
	d := startDatabase(t)
	k, err := keys.Open(filepath.Join(t.TempDir(), "key"))
	if err != nil {
		t.Fatal(err)
	}
	length, emulate := 2*time.Second, []int{4}
	if text := os.Getenv(contendEnv); text != "" {
		if length, err = time.ParseDuration(text); err != nil {
			t.Fatal(err)
		}
		emulate = []int{1, 4, 16}
	}
	var lines []string
	for _, shards := range emulate {
		t.Run(fmt.Sprint("emulator, shards ", shards), func(t *testing.T) {
			tables := Tables(d.Tables(t))
			f := contend(t, k, shards, length, func(u *units) eventlog.Log {
				return d.openOn(t, tables, func(s *Config) { s.Consumed = u.count })
			})
			lines = append(lines, fmt.Sprint("emulator  ", f))
		})
	}
	var simulated []figures
	for _, shards := range []int{1, 4, 16} {
		t.Run(fmt.Sprint("5 ms, shards ", shards), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				memory := eventlog.NewMemory()
				simulated = append(simulated, contend(t, k, shards, length, func(*units) eventlog.Log { return slow{memory} }))
			})
		})
	}
	if t.Failed() {
		return
	}
	for i, f := range simulated {
		lines = append(lines, fmt.Sprint("5 ms      ", f))
		if i == 0 {
			continue
		}
		if less := simulated[i-1]; less.lost() <= f.lost() || less.acked >= f.acked {
			t.Errorf("with %d shards %.0f %% of the writes lose a race and %d messages are acked, with %d %.0f %% and %d",
				less.shards, 100*less.lost(), less.acked, f.shards, 100*f.lost(), f.acked)
		}
	}
	t.Logf("%d workers\n          %s\n%s", contenders, figuresHead, strings.Join(lines, "\n"))
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

func (s slow) Snapshot(ctx context.Context, name eventlog.Stream, seq eventlog.Seq) (eventlog.Snapshot, bool, error) {
	s.half()
	defer s.half()
	return s.Memory.Snapshot(ctx, name, seq)
}

// racing counts the races that are run on a log, and those that are lost.
type racing struct {
	eventlog.Log
	of *contest
}

func (r racing) Commit(ctx context.Context, c eventlog.Commit) error {
	err := r.Log.Commit(ctx, c)
	r.of.commits.Add(1)
	if met := (*eventlog.Conflict)(nil); errors.As(err, &met) {
		r.of.conflicts.Add(1)
	}
	return err
}

func (r racing) Read(ctx context.Context, name eventlog.Stream, from eventlog.Seq, l eventlog.Limits) ([]eventlog.Entry, error) {
	r.of.reads.Add(1)
	return r.Log.Read(ctx, name, from, l)
}

// figures are a line of the table.
type figures struct {
	shards, acked             int
	seconds                   float64
	commits, conflicts, reads int64
	readUnits, writeUnits     float64
	median, late              time.Duration // of sends and of receives with their acks
}

const figuresHead = "shards  messages/s  lost races  writes  reads a message  write units  read units  p50      p99"

func (f figures) lost() float64 { return float64(f.conflicts) / float64(f.commits) }

func (f figures) String() string {
	n := float64(f.acked)
	return fmt.Sprintf("%6d  %10.0f  %8.0f %%  %6.1f  %15.1f  %11.1f  %10.1f  %-7v  %v", f.shards, n/f.seconds, 100*f.lost(),
		float64(f.commits)/n, float64(f.reads)/n, f.writeUnits/n, f.readUnits/n, f.median.Round(time.Millisecond), f.late.Round(time.Millisecond))
}

// contest is many workers on one queue.
type contest struct {
	*testing.T
	*witness
	queue     events.QueueID
	start     func() *broker.Broker
	processes []*broker.Broker // of all functions

	sending, receiving, acking function
	units                      units
	commits, conflicts, reads  atomic.Int64
	took                       []time.Duration
}

// function is the idle processes of a function. An invocation takes the one that was used last, or starts one.
type function struct{ idle []*broker.Broker }

func (c *contest) invoke(f *function, do func(*broker.Broker)) {
	c.mu.Lock()
	var b *broker.Broker
	if n := len(f.idle); n > 0 {
		b, f.idle = f.idle[n-1], f.idle[:n-1]
	} else {
		b = c.start()
		c.processes = append(c.processes, b)
	}
	c.mu.Unlock()
	began := time.Now()
	do(b)
	c.mu.Lock()
	defer c.mu.Unlock()
	f.idle, c.took = append(f.idle, b), append(c.took, time.Since(began))
}

// contend measures for a while, then lets the workers take what is left, and holds what they were told to the promises.
func contend(t *testing.T, k *keys.Keys, shards int, length time.Duration, open func(*units) eventlog.Log) figures {
	t.Helper()
	c := &contest{T: t, witness: newWitness()}
	c.start = func() *broker.Broker {
		b, err := broker.New(broker.Config{Log: racing{open(&c.units), c}, Keys: k, Rand: rand.Reader, Deployment: "test", Shards: shards, ReceiptKey: k.Secret("receipts"),
			Now: func() events.Instant { return events.Instant(time.Now().UnixMilli()) }, CommitItems: ItemsMax})
		if err != nil {
			panic(err) // it is called by goroutines
		}
		return b
	}
	c.invoke(&c.sending, func(b *broker.Broker) { c.queue = newQueue(t, b, false) })
	c.all(contenders, func() { c.send(4); c.receive(1, 0) }) // so that nobody meets an empty queue, and processes are warm
	c.units.take()
	c.commits.Store(0)
	c.conflicts.Store(0)
	c.reads.Store(0)
	c.took = nil
	before, began := len(c.acked), time.Now()
	c.all(contenders, func() {
		for time.Since(began) < length && !t.Failed() {
			c.send(1)
			c.receive(1, 0)
		}
	})
	f := figures{shards: shards, acked: len(c.acked) - before, seconds: time.Since(began).Seconds(), commits: c.commits.Load(), conflicts: c.conflicts.Load(), reads: c.reads.Load()}
	f.readUnits, f.writeUnits = c.units.take()
	slices.Sort(c.took)
	f.median, f.late = c.took[len(c.took)/2], c.took[len(c.took)*99/100]
	until := time.Now().Add(time.Minute)
	c.all(8, func() {
		for c.left() > 0 && time.Now().Before(until) && !t.Failed() {
			c.receive(10, 1)
		}
	})
	for _, b := range c.processes {
		b.Close()
	}
	if again := c.judge(t); again == 0 {
		t.Error("no message came again after its lease")
	}
	return f
}

func (c *contest) all(workers int, work func()) {
	var all sync.WaitGroup
	for range workers {
		all.Go(work)
	}
	all.Wait()
}

func (c *contest) send(n int) {
	var out []broker.Outgoing
	for range n {
		out = append(out, message([]byte("a message of some bytes"), false, ""))
	}
	c.invoke(&c.sending, func(b *broker.Broker) {
		answers, err := b.Send(c.Context(), c.queue, out)
		if err != nil {
			c.Errorf("send: %v", err)
		}
		for _, a := range answers {
			if a.Err != nil {
				c.Errorf("send: %v", a.Err)
			}
			c.sends(c, a.ID.String())
		}
	})
}

// receive takes messages and acks them, but for some, whose leases it lets end.
func (c *contest) receive(most int, wait uint32) {
	length := leaseLong
	if mathrand.N(abandoned) == 0 {
		length = leaseLess
	}
	seconds := uint32(length.Seconds())
	var receipts []string
	var leases []*lease
	c.invoke(&c.receiving, func(b *broker.Broker) {
		found, err := b.Receive(c.Context(), broker.Receive{Queue: c.queue, Max: most, LeaseSeconds: &seconds, WaitSeconds: &wait})
		if err != nil {
			c.Errorf("receive: %v", err)
		}
		receipts = receiptsOf(found)
		for _, d := range found {
			l := &lease{d.ID.String(), d.Receives, int64(d.Visible) - length.Milliseconds(), int64(d.Visible)}
			c.delivers(l)
			leases = append(leases, l)
		}
	})
	if length == leaseLess || len(leases) == 0 {
		return
	}
	c.invoke(&c.acking, func(b *broker.Broker) {
		answers, err := b.Ack(c.Context(), c.queue, receipts)
		if err != nil {
			c.Errorf("ack: %v", err)
			return
		}
		for i, l := range leases {
			if answers[i] != nil {
				c.Errorf("ack inside the lease: %v", answers[i])
			}
			c.acks(c, l, answers[i] == nil, false)
		}
	})
}

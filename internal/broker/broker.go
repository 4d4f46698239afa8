// Package broker is where a rule meets the log: it loads, asks the rules, commits and answers. One use case a file.
//
// Each shard of a queue has one runner. Commands that wait for a shard are decided together, one after another, and
// committed as one entry for each of its two streams. Any number of brokers may work on the same log: what one of
// them did not know becomes a conflict, and then it reads on and decides again.
package broker

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/leaselog/leaselog/events"
	"github.com/leaselog/leaselog/internal/envelope"
	"github.com/leaselog/leaselog/internal/eventlog"
	"github.com/leaselog/leaselog/internal/queue"
	"github.com/leaselog/leaselog/projections"
)

// Config says what a broker works with.
type Config struct {
	Log        eventlog.Log
	Keys       envelope.Keys
	ReceiptKey [32]byte              // authenticates receipts; the same in every process of a deployment
	Now        func() events.Instant // this process's clock
	Rand       io.Reader             // for ids; crypto/rand.Reader outside tests
	Deployment string                // names this installation in the context of wrapped keys
	Shards     int                   // of a new standard queue; default 1
	// Exclusive says that no other process writes to the log, so that what was read last is its end.
	Exclusive bool
	// Packed says that bytes of the log cost more than the work to make them fewer: blocks are compressed.
	Packed bool
	// Unattended says that no Tick comes within seconds, so that a receive also moves what it finds received too often.
	Unattended bool
	// CommitItems bounds the appends and claims of one commit together, for a log that has such a bound; at least 4.
	// Default: none.
	CommitItems int
	CacheBytes  int          // of decoded blocks, shared by the shards that are loaded; default 24 MB
	Limits      queue.Limits // default queue.DefaultLimits
	Logger      *slog.Logger // default: nothing is logged
	// Turn is called by a runner, with its name, before it goes on: after it was woken, and after each answer it gave.
	// A simulator lets one goroutine go at a time with it. Default: nothing.
	Turn func(runner string)
	// Jitter gives a random duration below most, for pauses between attempts; default: math/rand's.
	Jitter func(most time.Duration) time.Duration
	// Ready returns when the log would write what is decided now next, so that whatever comes until then is decided
	// with it. A runner calls it before it takes its commands. Default: always.
	Ready func(ctx context.Context)
	Meter Meter // hears what is done; default: nobody
	// Reached hears up to where a shard's streams stand, after each commit and where something new was read. It is called
	// by the runners, between a commit and its answers: it must not block. Default: nobody.
	Reached func(projections.Shard, projections.Ends)
	// Buried is called before the last of a deleted queue is forgotten, to forget what is kept of it elsewhere; it may be
	// called again. Default: there is nothing.
	Buried func(ctx context.Context, queue events.QueueID, shards int) error
	// Views is where projections keep what many queues are asked for at once. Default: every queue's state is asked.
	Views projections.Store
}

// Broker serves the queues of one log.
type Broker struct {
	Config
	polls   atomic.Int64    // receives that may wait
	life    context.Context // ends when the broker stops for good
	end     context.CancelFunc
	running sync.WaitGroup // runners
	shards  atomic.Int64   // how many of them
	macs    sync.Pool      // of *receiptMAC
	mu      sync.Mutex     // guards what follows
	closing bool
	queues  map[events.QueueID]*handle
	names   map[nameKey]events.QueueID
	// sweepAt is when the records are to be read for what is half done: after the start, now and then where others
	// write too, and until doubtful after a command failed between its writes.
	sweepAt, doubtful events.Instant
	// movesAt is when move tasks are to be looked for, and moveStarts counts those that were started here.
	movesAt    events.Instant
	moveStarts uint64
}

type nameKey struct{ account, name string }

// New makes a broker and reports every problem of its configuration at once.
func New(c Config) (*Broker, error) {
	var problems []error
	for what, missing := range map[string]bool{"Log": c.Log == nil, "Keys": c.Keys == nil, "Now": c.Now == nil, "Rand": c.Rand == nil} {
		if missing {
			problems = append(problems, errors.New("broker: Config."+what+" is missing"))
		}
	}
	if c.Shards < 0 || c.Shards > shardsMax {
		problems = append(problems, errors.New("broker: Config.Shards must be 1 to 1024"))
	}
	if c.CommitItems != 0 && c.CommitItems < appendsMost+claimsMost {
		problems = append(problems, errors.New("broker: Config.CommitItems must be at least 4"))
	}
	if len(problems) > 0 {
		return nil, errors.Join(problems...)
	}
	c.Shards = max(1, c.Shards)
	if c.CacheBytes == 0 {
		c.CacheBytes = 24 << 20
	}
	if c.Limits == (queue.Limits{}) {
		c.Limits = queue.DefaultLimits
	}
	if c.Jitter == nil {
		c.Jitter = func(most time.Duration) time.Duration { return time.Duration(rand.Int64N(int64(most))) }
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Ready == nil {
		c.Ready = func(context.Context) {}
	}
	if c.Meter == nil {
		c.Meter = unmetered{}
	}
	if c.Reached == nil {
		c.Reached = func(projections.Shard, projections.Ends) {}
	}
	if c.Buried == nil {
		c.Buried = func(context.Context, events.QueueID, int) error { return nil }
	}
	b := &Broker{Config: c, queues: map[events.QueueID]*handle{}, names: map[nameKey]events.QueueID{}}
	b.macs.New = b.newReceiptMAC
	b.life, b.end = context.WithCancel(context.Background())
	return b, nil
}

// Close answers waiting receives with nothing, lets running commands finish, and returns when they have. Commands
// that come later are refused as Unavailable.
func (b *Broker) Close() {
	b.mu.Lock()
	b.closing = true
	open := slices.Collect(maps.Values(b.queues))
	b.mu.Unlock() // a handle that starts a runner holds its own lock and waits for this one
	for _, h := range open {
		h.stop(errStopping())
	}
	b.running.Wait()
	b.end()
}

// Abandon ends the broker at once, as a crash does: nothing is finished or answered.
func (b *Broker) Abandon() { b.end() }

// cacheShare is how many bytes of decoded blocks one shard may keep.
func (b *Broker) cacheShare() int { return b.CacheBytes / int(max(1, b.shards.Load())) }

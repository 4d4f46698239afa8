// Package consumer reads the stream of the log table's changes with the Kinesis client, for servers; functions are handed
// its records.
package consumer

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"

	"github.com/leaselog/leaselog/internal/aws/stream"
	"github.com/leaselog/leaselog/internal/eventlog"
	"github.com/leaselog/leaselog/projections"
)

// Consumer reads a stream together with the consumers of other processes: they share its shards evenly, and take over what
// one that died has left.
//
// A shard is read by who holds its claim, from the checkpoint on, and its children when it was read to its end. For a
// moment two may read the same shard: a record may come twice, and late. Whoever finds that the checkpoint was moved by
// another stops.
type Consumer struct {
	Client *kinesis.Client
	Stream string            // name
	Log    eventlog.Log      // whose claims say who reads what
	Store  projections.Store // of checkpoints
	// Consume takes what records say. It is called again with the same after an error.
	Consume func(context.Context, []stream.Wakeup) error
	Now     func() int64 // Unix milliseconds
	Logger  *slog.Logger
	Rand    io.Reader     // default: crypto/rand.Reader
	Lease   time.Duration // of a claim, renewed four times as often; default 20 s

	leases  leases
	ended   map[string]bool // shards that were read to their end
	mu      sync.Mutex
	running map[string]context.CancelFunc
	readers sync.WaitGroup
}

const leaseDefault = 20 * time.Second

// Run reads until ctx ends, and then lets others have its shards.
func (c *Consumer) Run(ctx context.Context) error {
	if c.Lease == 0 {
		c.Lease = leaseDefault
	}
	if c.Rand == nil {
		c.Rand = rand.Reader
	}
	me, err := newMember(c.Rand)
	if err != nil {
		return err
	}
	c.leases = leases{log: c.Log, rand: c.Rand, prefix: "stream/" + c.Stream + "/", me: me, millis: c.Lease.Milliseconds()}
	c.ended, c.running = map[string]bool{}, map[string]context.CancelFunc{}
	renewed, told := time.Now(), ""
	for ctx.Err() == nil {
		began := time.Now()
		err := c.round(ctx)
		switch {
		case err == nil:
			renewed, told = began, ""
		case time.Since(renewed) > c.Lease*3/4: // somebody else may read soon
			c.keep(ctx, nil)
		}
		if err != nil && ctx.Err() == nil && err.Error() != told {
			told = err.Error()
			c.Logger.WarnContext(ctx, "the stream of changes is not shared out now, which is tried again", "stream", c.Stream, "error", err)
		}
		wait(ctx, c.Lease/4)
	}
	c.keep(ctx, nil)
	c.readers.Wait()
	return c.leave()
}

// round renews what this process has, takes what is free as far as that is fair, and lets readers read just that.
func (c *Consumer) round(ctx context.Context) error {
	shards, err := c.open(ctx)
	if err != nil {
		return err
	}
	now := c.Now()
	h, err := c.leases.look(ctx, now, shards)
	if err != nil {
		return err
	}
	take, give := h.share(shards)
	c.stop(give)
	if err := c.leases.renew(ctx, now, h, give); err != nil {
		return err
	}
	mine := slices.DeleteFunc(h.mine, func(s string) bool { return slices.Contains(give, s) })
	for _, s := range take {
		if c.leases.take(ctx, now, h, s) == nil { // otherwise another was faster, or the next round sees
			mine = append(mine, s)
		}
	}
	c.keep(ctx, mine)
	return nil
}

// open gives the shards that may be read now: not read to their end, as their parents are, or these are gone.
func (c *Consumer) open(ctx context.Context) (names []string, err error) {
	var all []types.Shard
	in := &kinesis.ListShardsInput{StreamName: &c.Stream}
	for {
		out, err := c.Client.ListShards(ctx, in)
		if err != nil {
			return nil, fmt.Errorf("list the shards: %w", err)
		}
		all = append(all, out.Shards...)
		if out.NextToken == nil {
			break
		}
		in = &kinesis.ListShardsInput{NextToken: out.NextToken}
	}
	known := map[string]bool{}
	for i := range all {
		known[*all[i].ShardId] = true
	}
	for i := range all {
		ready := true
		for _, s := range []*string{all[i].ShardId, all[i].ParentShardId, all[i].AdjacentParentShardId} {
			if s == nil || !known[*s] {
				continue
			}
			ended, err := c.finished(ctx, *s, s != all[i].ShardId)
			if err != nil {
				return nil, err
			}
			ready = ready && ended == (s != all[i].ShardId)
		}
		if ready {
			names = append(names, *all[i].ShardId)
		}
	}
	return names, nil
}

// finished says whether a shard was read to its end, by anybody where ask says so: a shard that nobody waits for is asked
// about when it is read.
func (c *Consumer) finished(ctx context.Context, shard string, ask bool) (bool, error) {
	c.mu.Lock()
	ended := c.ended[shard]
	c.mu.Unlock()
	if ended || !ask {
		return ended, nil
	}
	ended, err := (&reader{Consumer: c, shard: shard}).begin(ctx)
	if ended {
		c.mu.Lock()
		c.ended[shard] = true
		c.mu.Unlock()
	}
	return ended, err
}

// keep lets readers read these shards and no others.
func (c *Consumer) keep(ctx context.Context, shards []string) {
	c.mu.Lock()
	others := slices.DeleteFunc(slices.Collect(maps.Keys(c.running)), func(s string) bool { return slices.Contains(shards, s) })
	c.mu.Unlock()
	c.stop(others)
	for _, s := range shards {
		c.start(ctx, s)
	}
}

func (c *Consumer) start(ctx context.Context, shard string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.running[shard] != nil {
		return
	}
	ctx, cancel := context.WithCancel(ctx)
	c.running[shard] = cancel
	c.readers.Go(func() {
		defer cancel()
		ended := (&reader{Consumer: c, shard: shard}).run(ctx)
		c.mu.Lock()
		defer c.mu.Unlock()
		c.ended[shard] = c.ended[shard] || ended
		delete(c.running, shard)
	})
}

func (c *Consumer) stop(shards []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range shards {
		if cancel := c.running[s]; cancel != nil {
			cancel()
		}
	}
}

// leave gives up everything at once, so that nobody waits for it to lapse.
func (c *Consumer) leave() error {
	ctx, cancel := context.WithTimeout(context.Background(), c.Lease/4)
	defer cancel()
	now := c.Now()
	h, err := c.leases.look(ctx, now, nil)
	if err == nil {
		err = c.leases.renew(ctx, now, h, append(slices.Clone(h.mine), memberPrefix+c.leases.me))
	}
	if err != nil {
		return fmt.Errorf("leave the stream %s: %w", c.Stream, err)
	}
	return nil
}

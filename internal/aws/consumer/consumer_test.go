package consumer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"

	"github.com/leaselog/leaselog/events"
	"github.com/leaselog/leaselog/internal/aws/awstest"
	"github.com/leaselog/leaselog/internal/aws/stream"
	"github.com/leaselog/leaselog/internal/eventlog"
	"github.com/leaselog/leaselog/projections"
)

// TestShare: whoever comes, leaves or dies, shards that are to be read are divided evenly, and nothing else is taken.
func TestShare(t *testing.T) {
	shards := []string{"a", "b", "c", "d", "e"}
	for _, c := range []struct {
		name       string
		mine, free []string
		members    int
		take, give []string
	}{
		{"alone", nil, shards, 1, shards, nil},
		{"one of two, nothing taken yet", nil, shards, 2, shards[:3], nil},
		{"another came", shards, nil, 2, nil, []string{"a", "b"}},
		{"even", []string{"a", "b"}, nil, 2, nil, nil},
		{"another died", []string{"a", "b"}, []string{"c", "d", "e"}, 1, []string{"c", "d", "e"}, nil},
		{"a shard ended", []string{"a", "b", "x"}, []string{"c"}, 2, []string{"c"}, []string{"x"}},
	} {
		h := held{mine: c.mine, free: c.free, members: c.members}
		if take, give := h.share(shards); !slices.Equal(take, c.take) || !slices.Equal(give, c.give) {
			t.Errorf("%s: takes %v and gives %v, want %v and %v", c.name, take, give, c.take, c.give)
		}
	}
}

// mortal is a log that its process can no longer reach once it is dead, or while it is throttled.
type mortal struct {
	eventlog.Log
	dead atomic.Bool
}

var errDead = errors.New("the process is dead")

func (m *mortal) Commit(ctx context.Context, c eventlog.Commit) error {
	if m.dead.Load() {
		return &eventlog.Refused{Cause: errDead}
	}
	return m.Log.Commit(ctx, c)
}

// readers are consumers of one stream, and what they were given.
type readers struct {
	*testing.T
	client *kinesis.Client
	log    eventlog.Log
	store  projections.Store

	mu   sync.Mutex
	seen map[projections.Shard][]uint64 // ends in the order in which they came
	put  map[projections.Shard]uint64
}

const (
	testStream = "changes"
	testLease  = 2 * time.Second
)

// process starts a consumer, and gives what ends it and what kills it.
func (r *readers) process() (stop, kill func()) {
	log := &mortal{Log: r.log}
	c := &Consumer{Client: r.client, Stream: testStream, Log: log, Store: r.store, Lease: testLease, Logger: slog.New(slog.DiscardHandler),
		Now: func() int64 { return time.Now().UnixMilli() },
		Consume: func(_ context.Context, all []stream.Wakeup) error {
			r.mu.Lock()
			defer r.mu.Unlock()
			for _, w := range all {
				r.seen[w.Shard] = append(r.seen[w.Shard], w.Reach.Ledger)
			}
			return nil
		}}
	ctx, cancel := context.WithCancel(r.Context())
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()
	end := sync.OnceValue(func() error {
		cancel()
		return <-ended
	})
	r.Cleanup(func() { end() })
	return func() {
			if err := end(); err != nil {
				r.Error(err)
			}
		}, func() {
			log.dead.Store(true)
			if err := end(); err == nil {
				r.Error("a dead process has left its claims")
			}
		}
}

func (r *readers) must(err error) {
	r.Helper()
	if err != nil {
		r.Fatal(err)
	}
}

// change puts a record as DynamoDB would, for each of some streams of the log, which have all partition keys.
func (r *readers) change(n int) {
	r.Helper()
	var entries []types.PutRecordsRequestEntry
	for i := range n {
		name := projections.Shard{Queue: events.QueueID{1}, Index: i % 16}
		seq := r.put[name]
		r.put[name]++
		key := events.LedgerStream(name.Queue, name.Index)
		entries = append(entries, types.PutRecordsRequestEntry{PartitionKey: &key, Data: fmt.Appendf(nil,
			`{"eventName":"INSERT","dynamodb":{"Keys":{"s":{"S":"%s"},"n":{"N":"%d"}},"NewImage":{"w":{"N":"1"}}}}`, key, seq)})
	}
	out, err := r.client.PutRecords(r.Context(), &kinesis.PutRecordsInput{StreamName: aws.String(testStream), Records: entries})
	r.must(err)
	if *out.FailedRecordCount > 0 {
		r.Fatalf("%d records were not put", *out.FailedRecordCount)
	}
}

// until waits for what the consumers bring about.
func (r *readers) until(what string, ok func() bool) {
	r.Helper()
	began := time.Now()
	for ; !ok(); <-time.After(50 * time.Millisecond) {
		if time.Since(began) > time.Minute {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.Fatalf("waited in vain: %s; put %v, seen %v", what, r.put, r.seen)
		}
	}
	r.Logf("%s: after %v", what, time.Since(began).Round(10*time.Millisecond))
}

// arrived says whether every log stream's last change was told.
func (r *readers) arrived() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for name, n := range r.put {
		if len(r.seen[name]) == 0 || slices.Max(r.seen[name]) != n {
			return false
		}
	}
	return true
}

// holders counts the shards that each process has claimed.
func (r *readers) holders() map[string]int {
	all, err := r.log.Claims(r.Context(), "stream/"+testStream+"/shard", "", 100)
	r.must(err)
	of := map[string]int{}
	for _, c := range all {
		if c.Until > time.Now().UnixMilli() {
			of[c.Holder]++
		}
	}
	return of
}

func (r *readers) active() {
	r.Helper()
	r.must(kinesis.NewStreamExistsWaiter(r.client).Wait(r.Context(), &kinesis.DescribeStreamInput{StreamName: aws.String(testStream)}, time.Minute))
	r.until("the stream is active", func() bool {
		out, err := r.client.DescribeStreamSummary(r.Context(), &kinesis.DescribeStreamSummaryInput{StreamName: aws.String(testStream)})
		r.must(err)
		return out.StreamDescriptionSummary.StreamStatus == types.StreamStatusActive
	})
}

// shards gives those that are open.
func (r *readers) shards() (open []types.Shard) {
	r.Helper()
	out, err := r.client.ListShards(r.Context(), &kinesis.ListShardsInput{StreamName: aws.String(testStream)})
	r.must(err)
	for _, s := range out.Shards {
		if s.SequenceNumberRange.EndingSequenceNumber == nil {
			open = append(open, s)
		}
	}
	return open
}

// TestConsumer: two processes read a stream of LocalStack's that is split and merged; one of them is killed, another
// comes and leaves. Every change is told, and no child is read before its parents.
func TestConsumer(t *testing.T) {
	r := &readers{T: t, log: eventlog.NewMemory(), store: projections.NewMemory(), seen: map[projections.Shard][]uint64{}, put: map[projections.Shard]uint64{}}
	endpoint := awstest.New(t, awstest.Config{}).Endpoint
	r.client = kinesis.NewFromConfig(aws.Config{Region: awstest.Region, BaseEndpoint: &endpoint, Credentials: credentials.NewStaticCredentialsProvider("test", "test", ""),
		RetryMaxAttempts: 12}) // LocalStack starts its Kinesis with the first call, and refuses until that runs
	stopA, _ := r.process() // before there is a stream
	_, err := r.client.CreateStream(t.Context(), &kinesis.CreateStreamInput{StreamName: aws.String(testStream), ShardCount: aws.Int32(2)})
	r.must(err)
	r.active()
	r.change(100)
	r.until("one process reads all", r.arrived)
	_, killB := r.process()
	r.until("two processes share the shards", func() bool { h := r.holders(); return len(h) == 2 })
	r.change(100)
	r.until("two processes read all", r.arrived)

	half := r.shards()[0]
	_, err = r.client.SplitShard(t.Context(), &kinesis.SplitShardInput{StreamName: aws.String(testStream), ShardToSplit: half.ShardId,
		NewStartingHashKey: aws.String("85070591730234615865843651857942052863")})
	r.must(err)
	r.active()
	r.change(200)
	r.until("what came after a split is read", r.arrived)
	killB()
	r.change(100)
	r.until("a dead process' shards are taken over", r.arrived)
	r.process()
	r.until("a new process has its share", func() bool { return len(r.holders()) == 2 })
	open := r.shards()
	slices.SortFunc(open, func(a, b types.Shard) int {
		x, y := len(*a.HashKeyRange.StartingHashKey), len(*b.HashKeyRange.StartingHashKey)
		if x != y {
			return x - y
		}
		return slices.Compare([]byte(*a.HashKeyRange.StartingHashKey), []byte(*b.HashKeyRange.StartingHashKey))
	})
	_, err = r.client.MergeShards(t.Context(), &kinesis.MergeShardsInput{StreamName: aws.String(testStream), ShardToMerge: open[0].ShardId, AdjacentShardToMerge: open[1].ShardId})
	r.must(err)
	r.active()
	r.change(200)
	r.until("what came after a merge is read", r.arrived)
	stopA()
	r.change(100)
	r.until("a process that left is not waited for", r.arrived)
	r.generations()
}

// generations holds that a shard is read when its parents are finished: from no checkpoints on, each look gives shards
// whose parents the looks before gave.
func (r *readers) generations() {
	r.Helper()
	out, err := r.client.ListShards(r.Context(), &kinesis.ListShardsInput{StreamName: aws.String(testStream)})
	r.must(err)
	parents := map[string][]*string{}
	for _, s := range out.Shards {
		parents[*s.ShardId] = []*string{s.ParentShardId, s.AdjacentParentShardId}
	}
	c := &Consumer{Client: r.client, Stream: testStream, Store: projections.NewMemory(), ended: map[string]bool{}}
	n := 0
	for ; len(c.ended) < len(parents); n++ {
		now, err := c.open(r.Context())
		r.must(err)
		if len(now) == 0 {
			r.Fatalf("after %v nothing is read, of %v", c.ended, parents)
		}
		for _, s := range now {
			for _, p := range parents[s] {
				if p != nil && !c.ended[*p] {
					r.Errorf("%s is read before its parent %s", s, *p)
				}
			}
		}
		for _, s := range now {
			r.must(c.Store.Save(r.Context(), c.checkpoint(s), []byte(shardEnd), 0))
			c.ended[s] = true
		}
	}
	if n != 3 { // before the split, between, after the merge
		r.Errorf("there were %d generations of shards: %v", n, parents)
	}
}

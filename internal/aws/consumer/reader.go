package consumer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"

	"github.com/leaselog/leaselog/internal/aws/stream"
	"github.com/leaselog/leaselog/projections"
)

// reader reads one shard of the stream from its checkpoint on.
type reader struct {
	*Consumer
	shard   string
	seq     string // of the last record that was consumed; empty: none
	version uint64 // of the checkpoint
}

const (
	// readPause lies between two reads: a shard gives five a second to all who read it.
	readPause    = time.Second
	readPauseMax = 10 * time.Second
	readRecords  = 1000
	// shardEnd is the checkpoint of a shard that was read to its end. No sequence number looks so.
	shardEnd = "end"
)

func (c *Consumer) checkpoint(shard string) string { return "stream/" + c.Stream + "/" + shard }

// begin loads the checkpoint, and says whether the shard was read to its end.
func (r *reader) begin(ctx context.Context) (ended bool, err error) {
	k, _, err := r.Store.Load(ctx, r.checkpoint(r.shard))
	r.seq, r.version = string(k.Data), k.Version
	return r.seq == shardEnd, err
}

// run reads until the shard ends, which it tells, ctx does, or another process has gone on from the same checkpoint.
func (r *reader) run(ctx context.Context) (ended bool) {
	iterator, pause := "", readPause
	for began := false; ctx.Err() == nil; {
		var err error
		if !began {
			if ended, err = r.begin(ctx); ended {
				return true
			}
			began = err == nil
		} else if iterator == "" {
			iterator, err = r.iterator(ctx)
		} else {
			iterator, err = r.read(ctx, iterator)
			if err == nil && r.seq == shardEnd {
				return true
			}
		}
		var expired *types.ExpiredIteratorException
		switch {
		case errors.Is(err, projections.ErrChanged):
			return false // who holds the claim now is there already
		case errors.As(err, &expired):
			iterator = ""
			continue
		case err != nil && ctx.Err() == nil:
			r.Logger.WarnContext(ctx, "a shard of the stream cannot be read now, and is tried again", "shard", r.shard, "error", err)
			iterator, pause = "", min(2*pause, readPauseMax)
		default:
			pause = readPause
		}
		if iterator != "" || err != nil {
			wait(ctx, pause)
		}
	}
	return false
}

// iterator begins behind the checkpoint; without one, or where that is older than what the stream keeps, at the first record.
func (r *reader) iterator(ctx context.Context) (string, error) {
	in := &kinesis.GetShardIteratorInput{StreamName: &r.Stream, ShardId: &r.shard, ShardIteratorType: types.ShardIteratorTypeTrimHorizon}
	if r.seq != "" {
		in.ShardIteratorType, in.StartingSequenceNumber = types.ShardIteratorTypeAfterSequenceNumber, &r.seq
	}
	out, err := r.Client.GetShardIterator(ctx, in)
	var invalid *types.InvalidArgumentException
	if errors.As(err, &invalid) && r.seq != "" {
		in.ShardIteratorType, in.StartingSequenceNumber = types.ShardIteratorTypeTrimHorizon, nil
		out, err = r.Client.GetShardIterator(ctx, in)
	}
	if err != nil {
		return "", fmt.Errorf("begin reading: %w", err)
	}
	return aws.ToString(out.ShardIterator), nil
}

// read lets what came be consumed, and keeps how far that is.
func (r *reader) read(ctx context.Context, iterator string) (next string, err error) {
	out, err := r.Client.GetRecords(ctx, &kinesis.GetRecordsInput{ShardIterator: &iterator, Limit: aws.Int32(readRecords)})
	if err != nil {
		return "", err
	}
	if err := r.Consume(ctx, r.wakeups(ctx, out.Records)); err != nil {
		return "", err
	}
	seq := r.seq
	if n := len(out.Records); n > 0 {
		seq = aws.ToString(out.Records[n-1].SequenceNumber)
	}
	if out.NextShardIterator == nil {
		seq = shardEnd
	}
	if seq == r.seq {
		return aws.ToString(out.NextShardIterator), nil
	}
	if err := r.Store.Save(ctx, r.checkpoint(r.shard), []byte(seq), r.version); err != nil {
		return "", err
	}
	r.seq, r.version = seq, r.version+1
	return aws.ToString(out.NextShardIterator), nil
}

// wakeups gives what records say, once for each shard of a queue. What does not decode is told and passed over.
func (r *reader) wakeups(ctx context.Context, records []types.Record) (all []stream.Wakeup) {
	of := map[projections.Shard]int{}
	for i := range records {
		w, wakes, err := stream.Decode(records[i].Data)
		if err != nil {
			r.Logger.ErrorContext(ctx, "a record of the stream was set aside", "shard", r.shard, "record", aws.ToString(records[i].SequenceNumber), "error", err)
		}
		if !wakes {
			continue
		}
		n, known := of[w.Shard]
		if !known {
			of[w.Shard] = len(all)
			all = append(all, w)
			continue
		}
		all[n].Reach = projections.Ends{Ledger: max(all[n].Reach.Ledger, w.Reach.Ledger), Messages: max(all[n].Reach.Messages, w.Reach.Messages)}
	}
	return all
}

// wait returns after a while, or when ctx has ended.
func wait(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}

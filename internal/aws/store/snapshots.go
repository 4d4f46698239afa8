package store

import (
	"context"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/feature/dynamodb/expression"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/leaselog/leaselog/internal/eventlog"
)

// snapshot is what stands for a snapshot: its bytes are in chunks, so that looking through all of them costs little.
type snapshot struct {
	name    eventlog.Stream
	seq     eventlog.Seq
	blob    blob
	expires uint64 // Unix seconds, 0: never
}

func (n snapshot) key() item {
	return item{"p": text("s/" + string(n.name)), "k": text(sortable(uint64(n.seq)))}
}

func (n snapshot) chunks() string {
	return "c/" + string(n.name) + "/" + sortable(uint64(n.seq)) + "/" + n.blob.name()
}

func (n snapshot) chunk(i int) item {
	return item{"p": text(n.chunks()), "k": text(sortable(uint64(i)))}
}

func readSnapshot(name eventlog.Stream, it item) (snapshot, error) {
	f := fields{item: it}
	n := snapshot{name: name, blob: readBlob(&f), expires: f.unsigned("x", false)}
	if _, err := fmt.Sscanf(f.text("k"), "%d", &n.seq); err != nil || f.err != nil || len(n.blob.hash) == 0 {
		return n, fmt.Errorf("%w: a snapshot of stream %s does not decode", eventlog.ErrCorrupt, name)
	}
	return n, nil
}

// Snapshot implements [eventlog.Log].
func (s *Store) Snapshot(ctx context.Context, name eventlog.Stream, seq eventlog.Seq) (eventlog.Snapshot, bool, error) {
	if err := ctx.Err(); err != nil {
		return eventlog.Snapshot{}, false, err
	}
	for it, err := range s.query(ctx, s.snapshotsUpTo(name, seq, 4)) {
		if err != nil {
			return eventlog.Snapshot{}, false, err
		}
		n, err := readSnapshot(name, it)
		if err != nil {
			return eventlog.Snapshot{}, false, err
		}
		if expired(n.expires, s.now()) {
			continue
		}
		key := expression.KeyEqual(expression.Key("p"), expression.Value(n.chunks()))
		data, err := s.join(ctx, s.tables.Views, key, n.blob)
		if err != nil {
			return eventlog.Snapshot{}, false, fmt.Errorf("snapshot of stream %s at %d: %w", name, n.seq, err)
		}
		return eventlog.Snapshot{Seq: n.seq, Data: data}, true, nil
	}
	return eventlog.Snapshot{}, false, nil
}

// snapshotsUpTo asks for the snapshots at or before seq, the newest first.
func (s *Store) snapshotsUpTo(name eventlog.Stream, seq eventlog.Seq, page int32) *dynamodb.QueryInput {
	key := expression.KeyEqual(expression.Key("p"), expression.Value("s/"+string(name))).
		And(expression.KeyLessThanEqual(expression.Key("k"), expression.Value(sortable(uint64(seq)))))
	e := must(expression.NewBuilder().WithKeyCondition(key).Build())
	return &dynamodb.QueryInput{TableName: &s.tables.Views, KeyConditionExpression: e.KeyCondition(), ExpressionAttributeNames: e.Names(),
		ExpressionAttributeValues: e.Values(), ScanIndexForward: aws.Bool(false), Limit: aws.Int32(page)}
}

// PutSnapshot implements [eventlog.Log]. The one before it gets an end.
func (s *Store) PutSnapshot(ctx context.Context, name eventlog.Stream, snap eventlog.Snapshot) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if len(snap.Data) > snapshotBytesMax {
		return fmt.Errorf("a snapshot has at most %d bytes, not %d", snapshotBytesMax, len(snap.Data))
	}
	n := snapshot{name: name, seq: snap.Seq, blob: blobOf(snap.Data)}
	for i, chunk := range chunksOf(snap.Data) {
		it := n.chunk(i)
		it["d"] = raw(chunk)
		if _, err := s.put(ctx, &dynamodb.PutItemInput{TableName: &s.tables.Views, Item: it}, s.again); err != nil {
			return fmt.Errorf("write a chunk of a snapshot of stream %s: %w", name, err)
		}
	}
	it := n.key()
	n.blob.into(it)
	out, err := s.put(ctx, &dynamodb.PutItemInput{TableName: &s.tables.Views, Item: it, ReturnValues: types.ReturnValueAllOld}, s.again)
	if err != nil {
		return fmt.Errorf("write a snapshot of stream %s: %w", name, err)
	}
	end := s.now().Add(snapshotAge)
	if len(out.Attributes) > 0 {
		if old, err := readSnapshot(name, out.Attributes); err == nil && old.blob.name() != n.blob.name() {
			if err := s.endChunks(ctx, old, end); err != nil {
				return err
			}
		}
	}
	return s.endOlder(ctx, name, func(snapshot) time.Time { return end })
}

// endOlder gives an end to the snapshots of a stream that have none, but for the newest, which never expires. A zero
// instant leaves one as it is.
func (s *Store) endOlder(ctx context.Context, name eventlog.Stream, end func(snapshot) time.Time) error {
	const anywhere, page = 1<<64 - 1, 100
	newest := true
	for it, err := range s.query(ctx, s.snapshotsUpTo(name, anywhere, page)) {
		if err != nil {
			return err
		}
		n, err := readSnapshot(name, it)
		if err != nil {
			return err
		}
		if expired(n.expires, s.now()) {
			continue
		}
		if x := end(n); !newest && !x.IsZero() && (n.expires == 0 || x.Unix() < int64(n.expires)) {
			if err := s.endChunks(ctx, n, x); err != nil {
				return err
			}
			if err := s.expire(ctx, s.tables.Views, n.key(), expiry(x)); err != nil {
				return err
			}
		}
		newest = false
	}
	return nil
}

// endChunks gives an end to the chunks of a snapshot: later than its own, which is set behind it.
func (s *Store) endChunks(ctx context.Context, n snapshot, x time.Time) error {
	for i := range n.blob.chunks {
		if err := s.expire(ctx, s.tables.Views, n.chunk(i), expiry(x.Add(chunkMore))); err != nil {
			return err
		}
	}
	return nil
}

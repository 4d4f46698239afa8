package store

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/feature/dynamodb/expression"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/leaselog/leaselog/internal/eventlog"
)

// blob says what bytes are that stand in chunks elsewhere.
type blob struct {
	chunks, bytes int
	hash          []byte // SHA-256
}

func blobOf(data []byte) blob {
	sum := sha256.Sum256(data)
	return blob{chunks: len(chunksOf(data)), bytes: len(data), hash: sum[:]}
}

func chunksOf(data []byte) [][]byte { return slices.Collect(slices.Chunk(data, chunkBytesMax)) }

func (b blob) into(it item) {
	it["b"], it["l"], it["y"] = number(b.chunks), number(b.bytes), raw(b.hash)
}

func readBlob(f *fields) blob {
	return blob{chunks: int(f.unsigned("b", false)), bytes: int(f.unsigned("l", false)), hash: f.bytes("y")}
}

// chunkKey gives where a chunk of an entry stands: no stream has a blank in its name.
func chunkKey(w eventlog.Writer, s eventlog.Stream, n int) item {
	return item{"s": text(chunkPartition(w, s)), "n": number(n)}
}

func chunkPartition(w eventlog.Writer, s eventlog.Stream) string {
	return " " + base64.RawURLEncoding.EncodeToString(w[:]) + "/" + string(s)
}

// putChunk writes a chunk of an entry, which may stand already: an earlier attempt of the same commit wrote it. It
// outlives the entry, which expires at x.
func (s *Store) putChunk(ctx context.Context, key item, chunk []byte, x int64) error {
	key["d"], key["x"] = raw(chunk), signed(x+int64(chunkMore/time.Second))
	_, err := s.put(ctx, &dynamodb.PutItemInput{TableName: &s.tables.Log, Item: key,
		ConditionExpression: absent.Condition(), ExpressionAttributeNames: absent.Names(),
		ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld}, s.again)
	var stands *types.ConditionalCheckFailedException
	if errors.As(err, &stands) {
		f := fields{item: stands.Item}
		if !bytes.Equal(f.bytes("d"), chunk) {
			return fmt.Errorf("%w: other bytes stand where a chunk of an entry goes", eventlog.ErrCorrupt)
		}
		return nil
	}
	if err != nil {
		return fmt.Errorf("write a chunk: %w", err)
	}
	return nil
}

// load puts the chunks of an entry's data together.
func (s *Store) load(ctx context.Context, r *row) error {
	if r.blob.chunks == 0 {
		return nil
	}
	key := expression.KeyEqual(expression.Key("s"), expression.Value(chunkPartition(r.Writer, r.Stream)))
	data, err := s.join(ctx, s.tables.Log, key, r.blob)
	if err != nil {
		return fmt.Errorf("data of stream %s at %d: %w", r.Stream, r.Seq, err)
	}
	r.Data = data
	return nil
}

// join reads all chunks of a partition, and demands that they are the bytes that were written.
func (s *Store) join(ctx context.Context, table string, key expression.KeyConditionBuilder, b blob) ([]byte, error) {
	e := must(expression.NewBuilder().WithKeyCondition(key).Build())
	data := make([]byte, 0, min(b.bytes, snapshotBytesMax))
	for it, err := range s.query(ctx, &dynamodb.QueryInput{TableName: &table, KeyConditionExpression: e.KeyCondition(),
		ExpressionAttributeNames: e.Names(), ExpressionAttributeValues: e.Values()}) {
		if err != nil {
			return nil, err
		}
		f := fields{item: it}
		if data = append(data, f.bytes("d")...); len(data) > b.bytes {
			break
		}
	}
	if sum := sha256.Sum256(data); !bytes.Equal(sum[:], b.hash) {
		return nil, fmt.Errorf("%w: %d bytes in %d chunks were written, and %d others are read", eventlog.ErrCorrupt, b.bytes, b.chunks, len(data))
	}
	return data, nil
}

// name tells a blob from others at the same place.
func (b blob) name() string { return hex.EncodeToString(b.hash[:min(len(b.hash), 16)]) }

package store

import (
	"context"
	"errors"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/feature/dynamodb/expression"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/leaselog/leaselog/projections"
)

var _ projections.Store = (*Store)(nil)

func viewKey(key string) item { return item{"p": text("v/" + key), "k": text(".")} }

// Load implements [projections.Store].
func (s *Store) Load(ctx context.Context, key string) (projections.Kept, bool, error) {
	it, err := s.get(ctx, &dynamodb.GetItemInput{TableName: &s.tables.Views, Key: viewKey(key), ConsistentRead: aws.Bool(true)})
	if err != nil || len(it) == 0 {
		return projections.Kept{}, false, err
	}
	f := fields{item: it}
	k := projections.Kept{Data: f.bytes("d"), Version: f.unsigned("v", true)}
	forgotten := f.unsigned("x", false) != 0
	if f.err != nil {
		return projections.Kept{}, false, fmt.Errorf("view %s: %w", key, f.err)
	}
	if forgotten {
		return projections.Kept{Version: k.Version}, false, nil
	}
	return k, true, nil
}

// Forget implements [projections.Store]. The item goes when DynamoDB gets to it, which may be days later.
func (s *Store) Forget(ctx context.Context, key string) error {
	if err := s.expire(ctx, s.tables.Views, viewKey(key), expiry(s.now())); err != nil {
		return fmt.Errorf("forget view %s: %w", key, err)
	}
	return nil
}

// Save implements [projections.Store].
func (s *Store) Save(ctx context.Context, key string, data []byte, ifVersion uint64) error {
	if len(data) > projections.DataBytesMax {
		return fmt.Errorf("a view has at most %d bytes, not %d", projections.DataBytesMax, len(data))
	}
	version := expression.Name("v")
	still := version.Equal(expression.Value(ifVersion))
	if ifVersion == 0 {
		still = version.AttributeNotExists()
	}
	e := must(expression.NewBuilder().WithCondition(still).Build())
	it := viewKey(key)
	it["d"], it["v"] = raw(data), number(ifVersion+1)
	_, err := s.put(ctx, &dynamodb.PutItemInput{TableName: &s.tables.Views, Item: it, ConditionExpression: e.Condition(),
		ExpressionAttributeNames: e.Names(), ExpressionAttributeValues: e.Values()}, s.again)
	var stands *types.ConditionalCheckFailedException
	if errors.As(err, &stands) {
		return projections.ErrChanged // maybe by an attempt of this call whose answer was lost
	}
	if err != nil {
		return fmt.Errorf("save view %s: %w", key, err)
	}
	return nil
}

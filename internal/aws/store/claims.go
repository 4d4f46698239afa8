package store

import (
	"context"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/feature/dynamodb/expression"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/leaselog/leaselog/internal/eventlog"
)

// Claim implements [eventlog.Log].
func (s *Store) Claim(ctx context.Context, key string) (eventlog.Claim, bool, error) {
	if err := ctx.Err(); err != nil {
		return eventlog.Claim{}, false, err
	}
	it, err := s.get(ctx, &dynamodb.GetItemInput{TableName: &s.tables.Claims, Key: claimKey(key), ConsistentRead: aws.Bool(true)})
	if err != nil || it == nil {
		return eventlog.Claim{}, false, err
	}
	c, err := readClaim(key, it)
	return c, err == nil, err
}

// Claims implements [eventlog.Log]. It gives those of the directory that the prefix names, and none of deeper ones.
func (s *Store) Claims(ctx context.Context, prefix, after string, limit int) ([]eventlog.Claim, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	inside := strings.HasPrefix(after, prefix)
	if limit <= 0 || !inside && after > prefix {
		return nil, nil
	}
	dir, _ := directory(prefix)
	in := s.claimsOf(dir, prefix, limit)
	if inside && after != "" {
		in.ExclusiveStartKey = item{"p": text(partition(dir)), "k": text("/" + after[len(dir):])}
	}
	var found []eventlog.Claim
	for it, err := range s.query(ctx, in) {
		if err != nil {
			return nil, err
		}
		f := fields{item: it}
		c, err := readClaim(dir+strings.TrimPrefix(f.text("k"), "/"), it)
		if err != nil {
			return nil, err
		}
		if found = append(found, c); len(found) == limit {
			break
		}
	}
	return found, nil
}

func (s *Store) claimsOf(dir, prefix string, limit int) *dynamodb.QueryInput {
	key := expression.KeyEqual(expression.Key("p"), expression.Value(partition(dir))).
		And(expression.Key("k").BeginsWith("/" + prefix[len(dir):]))
	e := must(expression.NewBuilder().WithKeyCondition(key).Build())
	return &dynamodb.QueryInput{TableName: &s.tables.Claims, KeyConditionExpression: e.KeyCondition(), Limit: aws.Int32(int32(min(limit, queryItemsMax))),
		ExpressionAttributeNames: e.Names(), ExpressionAttributeValues: e.Values()}
}

package store

import (
	"context"
	"fmt"
	"io"
	"iter"
	"net/http"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go/middleware"

	"github.com/leaselog/leaselog/internal/eventlog"
)

// once leaves a call unrepeated. After a repeat inside one call, a refusal would say nothing of the attempt before it.
func once(o *dynamodb.Options) { o.Retryer, o.HTTPClient = aws.NopRetryer{}, plainBodies{o.HTTPClient} }

// again repeats a call that changes nothing, or nothing more.
func (s *Store) again(o *dynamodb.Options) {
	o.Retryer, o.HTTPClient = s.retryer, plainBodies{o.HTTPClient}
}

// plainBodies hides that the SDK's request bodies have WriteTo. The SDK closes them as soon as an answer begins, and
// from then on WriteTo gives io.EOF as an error, where Read gives it as the end (smithy-go 1.28.9). net/http, which
// looks behind the last byte of a body, takes that for a failed write when the answer was faster than the look, and
// closes the connection in the middle of the answer.
type plainBodies struct{ dynamodb.HTTPClient }

// Do implements [dynamodb.HTTPClient].
func (p plainBodies) Do(r *http.Request) (*http.Response, error) {
	if r.Body != nil {
		r.Body = struct{ io.ReadCloser }{r.Body}
	}
	return p.HTTPClient.Do(r)
}

// heard takes from an answer what it cost and when it was given.
func (s *Store) heard(ctx context.Context, operation string, began time.Time, md middleware.Metadata, used ...types.ConsumedCapacity) {
	if date, ok := awsmiddleware.GetServerTime(md); ok {
		s.clock.observe(began, s.now(), date)
	}
	units := 0.0
	for _, u := range used {
		units += aws.ToFloat64(u.CapacityUnits)
	}
	if operation == "GetItem" || operation == "Query" {
		s.charge(ctx, operation, units, 0)
	} else {
		s.charge(ctx, operation, 0, units)
	}
}

// charge tells whoever counts what a call took.
func (s *Store) charge(ctx context.Context, operation string, readUnits, writeUnits float64) {
	s.consumed(operation, readUnits, writeUnits)
	eventlog.Charge(ctx, readUnits, writeUnits)
}

func one(used *types.ConsumedCapacity) types.ConsumedCapacity {
	if used == nil {
		return types.ConsumedCapacity{}
	}
	return *used
}

func (s *Store) get(ctx context.Context, in *dynamodb.GetItemInput) (item, error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	in.ReturnConsumedCapacity = types.ReturnConsumedCapacityTotal
	began := s.now()
	out, err := s.client.GetItem(ctx, in, s.again)
	if err != nil {
		return nil, fmt.Errorf("read table %s: %w", *in.TableName, err)
	}
	s.heard(ctx, "GetItem", began, out.ResultMetadata, one(out.ConsumedCapacity))
	return out.Item, nil
}

// query gives the items of a query one by one, page after page as they are wanted.
func (s *Store) query(ctx context.Context, in *dynamodb.QueryInput) iter.Seq2[item, error] {
	in.ReturnConsumedCapacity = types.ReturnConsumedCapacityTotal
	if in.ConsistentRead == nil {
		in.ConsistentRead = aws.Bool(true)
	}
	return func(yield func(item, error) bool) {
		for {
			out, err := s.page(ctx, in)
			if err != nil {
				yield(nil, fmt.Errorf("read table %s: %w", *in.TableName, err))
				return
			}
			for _, it := range out.Items {
				if !yield(it, nil) {
					return
				}
			}
			if in.ExclusiveStartKey = out.LastEvaluatedKey; len(in.ExclusiveStartKey) == 0 {
				return
			}
		}
	}
}

func (s *Store) page(ctx context.Context, in *dynamodb.QueryInput) (*dynamodb.QueryOutput, error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	began := s.now()
	out, err := s.client.Query(ctx, in, s.again)
	if err == nil {
		s.heard(ctx, "Query", began, out.ResultMetadata, one(out.ConsumedCapacity))
	}
	return out, err
}

// first gives the first item of a query, nil for none.
func (s *Store) first(ctx context.Context, in *dynamodb.QueryInput) (item, error) {
	for it, err := range s.query(ctx, in) {
		return it, err
	}
	return nil, nil
}

func (s *Store) put(ctx context.Context, in *dynamodb.PutItemInput, retries func(*dynamodb.Options)) (*dynamodb.PutItemOutput, error) {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	in.ReturnConsumedCapacity = types.ReturnConsumedCapacityTotal
	began := s.now()
	out, err := s.client.PutItem(ctx, in, retries)
	if err == nil {
		s.heard(ctx, "PutItem", began, out.ResultMetadata, one(out.ConsumedCapacity))
	}
	return out, err
}

func (s *Store) update(ctx context.Context, in *dynamodb.UpdateItemInput, retries func(*dynamodb.Options)) error {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	in.ReturnConsumedCapacity = types.ReturnConsumedCapacityTotal
	began := s.now()
	out, err := s.client.UpdateItem(ctx, in, retries)
	if err == nil {
		s.heard(ctx, "UpdateItem", began, out.ResultMetadata, one(out.ConsumedCapacity))
	}
	return err
}

func (s *Store) transact(ctx context.Context, in *dynamodb.TransactWriteItemsInput) error {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	in.ReturnConsumedCapacity = types.ReturnConsumedCapacityTotal
	began := s.now()
	out, err := s.client.TransactWriteItems(ctx, in, once)
	if err == nil {
		s.heard(ctx, "TransactWriteItems", began, out.ResultMetadata, out.ConsumedCapacity...)
	}
	return err
}

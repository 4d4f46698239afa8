package store

import (
	"context"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/feature/dynamodb/expression"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/leaselog/leaselog/internal/eventlog"
)

// An entry that lasts has no expiry, since its stream may stay idle for longer than any entry is kept. Where such entries
// stand is noted beside the log, before they are written: whoever writes the next one finds those before it there, and
// gives them the age of an entry that is written now. So the one before it stays for as long as what follows it directly,
// and what is missing behind it is old enough to be explained by its expiry.

func lastingKey(name eventlog.Stream, seq eventlog.Seq) item {
	return item{"p": text("a/" + string(name)), "k": text(sortable(uint64(seq)))}
}

// noteLasting notes the places of lasting entries. A note without its entry does no harm.
func (w *write) noteLasting(ctx context.Context) error {
	for _, a := range w.commit.Appends {
		if !a.Lasting {
			continue
		}
		if _, err := w.put(ctx, &dynamodb.PutItemInput{TableName: &w.tables.Views, Item: lastingKey(a.Stream, a.Seq)}, w.again); err != nil {
			return fmt.Errorf("note a lasting entry of stream %s: %w", a.Stream, err)
		}
	}
	return nil
}

// endFormer gives an end to the lasting entries before those of this commit, which stands. Those that it fails to reach
// stay noted, and are reached by the next lasting entry.
func (w *write) endFormer(ctx context.Context) {
	for _, a := range w.commit.Appends {
		if a.Lasting {
			_ = w.endLasting(ctx, a.Stream, a.Seq) // an entry that stays for longer misleads nobody
		}
	}
}

func (s *Store) endLasting(ctx context.Context, name eventlog.Stream, before eventlog.Seq) error {
	end := s.now().Add(entryAge)
	for it, err := range s.query(ctx, s.lastingBefore(name, before)) {
		if err != nil {
			return err
		}
		f := fields{item: it}
		var seq eventlog.Seq
		if _, err := fmt.Sscanf(f.text("k"), "%d", &seq); err != nil || f.err != nil {
			return fmt.Errorf("%w: a note of a lasting entry of stream %s does not decode", eventlog.ErrCorrupt, name)
		}
		if err := s.endEntry(ctx, name, seq, end.Unix()); err != nil {
			return err
		}
		if err := s.expire(ctx, s.tables.Views, lastingKey(name, seq), expiry(end)); err != nil {
			return err
		}
	}
	return nil
}

// endEntry gives an end to an entry that lasts, and leaves any other as it is.
func (s *Store) endEntry(ctx context.Context, name eventlog.Stream, seq eventlog.Seq, end int64) error {
	x := expression.Name("x")
	lasts := expression.AttributeExists(expression.Name("t")).And(expression.AttributeNotExists(x))
	e := must(expression.NewBuilder().WithUpdate(expression.Set(x, expression.Value(end))).WithCondition(lasts).Build())
	return met(s.update(ctx, &dynamodb.UpdateItemInput{TableName: &s.tables.Log, Key: entryKey(name, seq), UpdateExpression: e.Update(),
		ConditionExpression: e.Condition(), ExpressionAttributeNames: e.Names(), ExpressionAttributeValues: e.Values()}, s.again))
}

// lastingBefore asks for the notes that have no end yet.
func (s *Store) lastingBefore(name eventlog.Stream, before eventlog.Seq) *dynamodb.QueryInput {
	key := expression.KeyEqual(expression.Key("p"), expression.Value("a/"+string(name))).
		And(expression.KeyLessThan(expression.Key("k"), expression.Value(sortable(uint64(before)))))
	e := must(expression.NewBuilder().WithKeyCondition(key).WithFilter(expression.AttributeNotExists(expression.Name("x"))).Build())
	return &dynamodb.QueryInput{TableName: &s.tables.Views, KeyConditionExpression: e.KeyCondition(), FilterExpression: e.Filter(),
		ExpressionAttributeNames: e.Names(), ExpressionAttributeValues: e.Values(), ConsistentRead: aws.Bool(true)}
}

package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/feature/dynamodb/expression"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"golang.org/x/sync/errgroup"

	"github.com/leaselog/leaselog/internal/eventlog"
)

// Drop implements [eventlog.Log]. It records what it is about to drop before it drops it, a page at a time; when it
// fails half way, the same call again does the rest. The entries go on taking their places for a while, so that
// whoever knows an end of the stream from before does not write there.
func (s *Store) Drop(ctx context.Context, name eventlog.Stream, from, to eventlog.Seq) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	last, ok, err := s.last(ctx, name, false)
	if gone := (*endExpired)(nil); errors.As(err, &gone) {
		return nil // and all before it
	}
	if err != nil || !ok {
		return err
	}
	if err := s.dropEntries(ctx, name, from, min(to, last.Seq)); err != nil {
		return fmt.Errorf("drop of stream %s: %w", name, err)
	}
	first, err := s.firstLeft(ctx, name)
	if err != nil {
		return err
	}
	now := s.now()
	return s.endOlder(ctx, name, func(n snapshot) time.Time {
		if n.seq <= first {
			return now
		}
		return time.Time{}
	})
}

// dropEntries drops the entries that lie wholly in [from, to).
func (s *Store) dropEntries(ctx context.Context, name eventlog.Stream, from, to eventlog.Seq) error {
	var run []row // without a gap, not recorded yet
	drop := func() error {
		err := s.dropRun(ctx, name, run)
		run = nil
		return err
	}
	if from >= to {
		return nil
	}
	for it, err := range s.query(ctx, s.entriesFrom(name, from, eventlog.Limits{HeadersOnly: true, Entries: queryItemsMax})) {
		if err != nil {
			return err
		}
		r, err := readRow(name, it)
		if err != nil {
			return err
		}
		if r.Next() > to {
			break
		}
		if r.dropped {
			continue
		}
		if n := len(run); n > 0 && (run[n-1].Next() != r.Seq || n == queryItemsMax) {
			if err := drop(); err != nil {
				return err
			}
		}
		run = append(run, r)
	}
	return drop()
}

// dropRun records a range, and then drops its entries.
func (s *Store) dropRun(ctx context.Context, name eventlog.Stream, run []row) error {
	if len(run) == 0 {
		return nil
	}
	if err := s.recordDrop(ctx, name, run[0].Seq, run[len(run)-1].Next()); err != nil {
		return err
	}
	x := s.now().Add(dropMore)
	workers, ctx := errgroup.WithContext(ctx)
	workers.SetLimit(dropWorkers)
	for _, r := range run {
		workers.Go(func() error {
			return s.expire(ctx, s.tables.Log, entryKey(name, r.Seq), expiry(x).Set(expression.Name("z"), expression.Value(true)))
		})
	}
	return workers.Wait()
}

// recordDrop keeps a range for good. Of two that begin at one place the longer one stays.
func (s *Store) recordDrop(ctx context.Context, name eventlog.Stream, from, to eventlog.Seq) error {
	end := expression.Name("e")
	e := must(expression.NewBuilder().WithUpdate(expression.Set(end, expression.Value(uint64(to)))).
		WithCondition(expression.Or(expression.AttributeNotExists(end), end.LessThan(expression.Value(uint64(to))))).Build())
	return met(s.update(ctx, &dynamodb.UpdateItemInput{TableName: &s.tables.Views, UpdateExpression: e.Update(), ConditionExpression: e.Condition(),
		Key:                      item{"p": text("d/" + string(name)), "k": text(sortable(uint64(from)))},
		ExpressionAttributeNames: e.Names(), ExpressionAttributeValues: e.Values()}, s.again))
}

// droppedFrom follows the recorded ranges from a position on, and gives where they end.
func (s *Store) droppedFrom(ctx context.Context, name eventlog.Stream, from, to eventlog.Seq) (eventlog.Seq, error) {
	key := expression.KeyEqual(expression.Key("p"), expression.Value("d/"+string(name))).
		And(expression.KeyLessThan(expression.Key("k"), expression.Value(sortable(uint64(to)))))
	e := must(expression.NewBuilder().WithKeyCondition(key).Build())
	for it, err := range s.query(ctx, &dynamodb.QueryInput{TableName: &s.tables.Views, KeyConditionExpression: e.KeyCondition(),
		ExpressionAttributeNames: e.Names(), ExpressionAttributeValues: e.Values()}) {
		if err != nil {
			return 0, err
		}
		f := fields{item: it}
		var begin eventlog.Seq
		if _, err := fmt.Sscanf(f.text("k"), "%d", &begin); err != nil {
			f.fail("k")
		}
		if end := eventlog.Seq(f.unsigned("e", true)); begin <= from && end > from {
			from = end
		}
		if f.err != nil {
			return 0, fmt.Errorf("what was dropped of stream %s: %w", name, f.err)
		}
	}
	return from, nil
}

// firstLeft gives where the oldest entry stands that is left of a stream.
func (s *Store) firstLeft(ctx context.Context, name eventlog.Stream) (eventlog.Seq, error) {
	for it, err := range s.query(ctx, s.entriesFrom(name, 0, eventlog.Limits{HeadersOnly: true, Entries: queryItemsMax})) {
		if err != nil {
			return 0, err
		}
		r, err := readRow(name, it)
		if err != nil || !r.gone(s.now()) {
			return r.Seq, err
		}
	}
	return 0, nil
}

// expiry is the change that lets an item expire.
func expiry(x time.Time) expression.UpdateBuilder {
	return expression.Set(expression.Name("x"), expression.Value(x.Unix()))
}

// expire changes an item that is to expire. One that is gone already is not made anew.
func (s *Store) expire(ctx context.Context, table string, key item, set expression.UpdateBuilder) error {
	stands := expression.AttributeExists(expression.Name("p"))
	if table == s.tables.Log {
		stands = expression.AttributeExists(expression.Name("s"))
	}
	e := must(expression.NewBuilder().WithUpdate(set).WithCondition(stands).Build())
	return met(s.update(ctx, &dynamodb.UpdateItemInput{TableName: &table, Key: key, UpdateExpression: e.Update(), ConditionExpression: e.Condition(),
		ExpressionAttributeNames: e.Names(), ExpressionAttributeValues: e.Values()}, s.again))
}

// met takes a condition that did not hold as done.
func met(err error) error {
	if lost, err := outcome(err); lost == nil {
		return err
	}
	return nil
}

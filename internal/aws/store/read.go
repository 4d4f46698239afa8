package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/feature/dynamodb/expression"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/leaselog/leaselog/internal/eventlog"
)

// Read implements [eventlog.Log].
func (s *Store) Read(ctx context.Context, name eventlog.Stream, from eventlog.Seq, l eventlog.Limits) ([]eventlog.Entry, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	for try := 0; ; try++ {
		found, err := s.read(ctx, name, from, l)
		var g *gap
		switch {
		case !errors.As(err, &g):
			return found, err
		case try == gapReads:
			return nil, s.explain(ctx, g)
		}
	}
}

// gap is where a read began and found no entry, though one stands behind.
type gap struct {
	name eventlog.Stream
	from eventlog.Seq
	next row
}

func (g *gap) Error() string {
	return fmt.Sprintf("stream %s has an entry at %d and none at %d before it", g.name, g.next.Seq, g.from)
}

// reading is one read under way.
type reading struct {
	*Store
	limits eventlog.Limits
	size   int
	found  []eventlog.Entry
}

func (s *Store) read(ctx context.Context, name eventlog.Stream, from eventlog.Seq, l eventlog.Limits) ([]eventlog.Entry, error) {
	r := reading{Store: s, limits: l}
	began, first := s.now(), true
	known, ok := s.ends.get(name)
	bound := from == 0 || ok && known.seq == from // where an entry ends, so that none before covers it
	for it, err := range s.query(ctx, s.entriesFrom(name, from, l)) {
		if err != nil {
			return nil, err
		}
		next, err := readRow(name, it)
		if err != nil {
			return nil, err
		}
		if next.gone(began) {
			continue
		}
		if first && next.Seq != from {
			if full, err := r.begin(ctx, name, from, bound); full || err != nil {
				return r.found, err
			}
			if len(r.found) == 0 {
				return nil, &gap{name, from, next}
			}
		}
		first = false
		if full, err := r.add(ctx, next); full || err != nil {
			return r.found, err
		}
	}
	if first && !bound {
		if _, err := r.begin(ctx, name, from, false); err != nil {
			return nil, err
		}
	}
	if n := len(r.found); n > 0 {
		s.ends.learn(name, r.found[n-1].Next(), began.UnixMilli())
	} else if ok && known.seq == from && !l.Lagging {
		s.ends.learn(name, from, began.UnixMilli())
	}
	return r.found, nil
}

// begin adds the entry that covers from and begins before it, if there is one.
func (r *reading) begin(ctx context.Context, name eventlog.Stream, from eventlog.Seq, none bool) (full bool, err error) {
	if none {
		return false, nil
	}
	cover, ok, err := r.covering(ctx, name, from-1, !r.limits.HeadersOnly)
	if err != nil || !ok || cover.Next() <= from {
		return false, err
	}
	return r.add(ctx, cover)
}

// add takes an entry, unless the read has enough or a gap comes before it.
func (r *reading) add(ctx context.Context, next row) (full bool, err error) {
	n := len(r.found)
	if n > 0 && r.found[n-1].Next() > next.Seq {
		return true, eventlog.CheckDense([]eventlog.Entry{r.found[n-1], next.Entry})
	}
	size := len(next.Header)
	if !r.limits.HeadersOnly {
		size = next.size()
	}
	r.size += size
	if n > 0 && (r.found[n-1].Next() != next.Seq || r.limits.Bytes > 0 && r.size > r.limits.Bytes) {
		return true, nil
	}
	if !r.limits.HeadersOnly {
		if err := r.load(ctx, &next); err != nil {
			return true, err
		}
	}
	r.found = append(r.found, next.Entry)
	return r.limits.Entries > 0 && n+1 >= r.limits.Entries, nil // without asking for the next page
}

// entriesFrom asks for the entries that begin at from or behind.
func (s *Store) entriesFrom(name eventlog.Stream, from eventlog.Seq, l eventlog.Limits) *dynamodb.QueryInput {
	in := s.entries(name, expression.KeyGreaterThanEqual(expression.Key("n"), expression.Value(uint64(from))), !l.HeadersOnly)
	in.ConsistentRead = aws.Bool(!l.Lagging)
	if l.Entries > 0 {
		in.Limit = aws.Int32(int32(min(l.Entries, queryItemsMax)))
	}
	return in
}

// newest asks for the entry that begins at seq, or else the last one before it.
func (s *Store) newest(name eventlog.Stream, seq eventlog.Seq, data bool) *dynamodb.QueryInput {
	in := s.entries(name, expression.KeyLessThanEqual(expression.Key("n"), expression.Value(uint64(seq))), data)
	in.ScanIndexForward, in.Limit = aws.Bool(false), aws.Int32(1)
	return in
}

func (s *Store) entries(name eventlog.Stream, where expression.KeyConditionBuilder, data bool) *dynamodb.QueryInput {
	b := expression.NewBuilder().WithKeyCondition(expression.KeyEqual(expression.Key("s"), expression.Value(string(name))).And(where))
	if !data {
		b = b.WithProjection(projection("n", "w", "c", "h", "x", "z", "t"))
	}
	e := must(b.Build())
	return &dynamodb.QueryInput{TableName: &s.tables.Log, KeyConditionExpression: e.KeyCondition(), ProjectionExpression: e.Projection(),
		ExpressionAttributeNames: e.Names(), ExpressionAttributeValues: e.Values()}
}

func projection(names ...string) (p expression.ProjectionBuilder) {
	for _, n := range names {
		p = p.AddNames(expression.Name(n))
	}
	return p
}

// covering gives the entry that takes seq.
func (s *Store) covering(ctx context.Context, name eventlog.Stream, seq eventlog.Seq, data bool) (row, bool, error) {
	it, err := s.first(ctx, s.newest(name, seq, data))
	if err != nil || it == nil {
		return row{}, false, err
	}
	r, err := readRow(name, it)
	return r, err == nil && !r.gone(s.now()) && r.Next() > seq, err
}

// Last implements [eventlog.Log]. A stream whose last entry has expired is an error: nobody can say where it ends.
func (s *Store) Last(ctx context.Context, name eventlog.Stream) (eventlog.Entry, bool, error) {
	if err := ctx.Err(); err != nil {
		return eventlog.Entry{}, false, err
	}
	r, ok, err := s.last(ctx, name, true)
	if err == nil && ok {
		err = s.load(ctx, &r)
	}
	return r.Entry, ok && err == nil, err
}

// last gives the last entry as it stands, which for a stream without entries is one that ends at 0.
func (s *Store) last(ctx context.Context, name eventlog.Stream, data bool) (row, bool, error) {
	began := s.now()
	const anywhere = 1<<64 - 1
	it, err := s.first(ctx, s.newest(name, anywhere, data))
	if err != nil || it == nil {
		return row{}, false, err
	}
	r, err := readRow(name, it)
	if err != nil {
		return row{}, false, err
	}
	if r.gone(began) {
		return row{}, false, &endExpired{name, r.Seq}
	}
	s.ends.learn(name, r.Next(), began.UnixMilli())
	return r, true, nil
}

// endExpired says that a stream has lost its end: nobody can say where it goes on.
type endExpired struct {
	name eventlog.Stream
	seq  eventlog.Seq
}

func (e *endExpired) Error() string {
	return fmt.Sprintf("the last entry of stream %s, at %d, has expired, so that nothing may be written behind it", e.name, e.seq)
}

// Unwrap says what that is in the words of the contract.
func (*endExpired) Unwrap() error { return eventlog.ErrCorrupt }

// explain says why a gap is there: its entries were dropped, or have expired, or the log is corrupt.
func (s *Store) explain(ctx context.Context, g *gap) error {
	reach, err := s.droppedFrom(ctx, g.name, g.from, g.next.Seq)
	if err != nil {
		return err
	}
	if reach >= g.next.Seq || g.next.written != 0 && s.now().Sub(time.Unix(g.next.written, 0)) > truncatedAge {
		return &eventlog.Truncated{Stream: g.name, From: g.from, To: g.next.Seq}
	}
	return fmt.Errorf("%w: %w", eventlog.ErrCorrupt, g)
}

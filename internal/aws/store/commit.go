package store

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/feature/dynamodb/expression"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/leaselog/leaselog/internal/eventlog"
)

// Commit implements [eventlog.Log].
func (s *Store) Commit(ctx context.Context, c eventlog.Commit) error {
	if err := ctx.Err(); err != nil {
		return refuse(err)
	}
	if err := eventlog.CheckCommit(c); err != nil {
		return err
	}
	w, err := s.writeOf(&c)
	if err != nil {
		return &eventlog.Refused{Content: true, Cause: err}
	}
	if err := s.checkClock(ctx); err != nil {
		return refuse(err)
	}
	if err := s.checkInstant(&c); err != nil {
		return refuse(err)
	}
	atEnd, err := w.atEnds(ctx)
	if err != nil {
		return refuse(err)
	}
	if !atEnd {
		return w.judge(ctx)
	}
	if err := w.putChunks(ctx); err != nil {
		return refuse(err) // nothing refers to them
	}
	return w.send(ctx)
}

// refuse says that a commit was not applied by this call, and may be later.
func refuse(cause error) error { return &eventlog.Refused{Cause: cause} }

// checkInstant refuses entries that would expire at another time than they must, above all at once.
func (s *Store) checkInstant(c *eventlog.Commit) error {
	apart := time.UnixMilli(c.At).Sub(s.now())
	if len(c.Appends) > 0 && apart.Abs() > instantsApart {
		return fmt.Errorf("the commit's instant is %v from the clock, at most %v are accepted", apart.Abs().Round(time.Second), instantsApart)
	}
	return nil
}

// write is a commit in DynamoDB's words.
type write struct {
	*Store
	commit *eventlog.Commit
	ops    []operation // appends first, then claims
	since  []int64     // for each append, since when the end of its stream is known
}

// operation is what a commit does to one item: a put or an update.
type operation struct {
	put    *types.Put
	update *types.Update
	bytes  int // of the item afterwards
}

// absent is the condition that no item stands at a key.
var absent = must(expression.NewBuilder().WithCondition(expression.AttributeNotExists(expression.Name("s"))).Build())

func must(e expression.Expression, err error) expression.Expression {
	if err != nil {
		panic(err) // it is written in this package, and does not depend on any data
	}
	return e
}

// writeOf refuses what DynamoDB would refuse for its size.
func (s *Store) writeOf(c *eventlog.Commit) (*write, error) {
	if n := len(c.Appends) + len(c.Claims); n > ItemsMax {
		return nil, fmt.Errorf("a commit has at most %d appends and claims together, not %d", ItemsMax, n)
	}
	w := &write{Store: s, commit: c}
	for i := range c.Appends {
		a := &c.Appends[i]
		if len(a.Header) > inlineBytesMax || len(a.Data) > dataBytesMax {
			return nil, fmt.Errorf("an entry has at most %d bytes of header and %d of data, not %d and %d", inlineBytesMax, dataBytesMax, len(a.Header), len(a.Data))
		}
		it := entryItem(c, a)
		w.ops = append(w.ops, operation{bytes: itemBytes(it), put: &types.Put{TableName: &s.tables.Log, Item: it,
			ConditionExpression: absent.Condition(), ExpressionAttributeNames: absent.Names(),
			ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld}})
	}
	for i := range c.Claims {
		w.ops = append(w.ops, s.claimOperation(c, &c.Claims[i]))
	}
	total := 0
	for _, op := range w.ops {
		if total += op.bytes; op.bytes > itemBytesMax {
			return nil, fmt.Errorf("an entry's header or a claim has %d bytes, at most %d are kept", op.bytes, itemBytesMax)
		}
	}
	if total > transactionBytesMax {
		return nil, fmt.Errorf("a commit has at most %d bytes, not %d", transactionBytesMax, total)
	}
	return w, nil
}

// claimOperation sets a claim where it is free or has the version that was read, and was not set by this very commit:
// giving a claim up frees it for the commit's own repeat.
func (s *Store) claimOperation(c *eventlog.Commit, claim *eventlog.Claim) operation {
	name, value := expression.Name, expression.Value
	set := expression.Set(name("o"), value(claim.Holder)).Set(name("u"), value(claim.Until)).Set(name("c"), value(c.Writer[:])).
		Set(name("d"), value(append([]byte{}, claim.Value...))).
		Set(name("v"), expression.Plus(expression.IfNotExists(name("v"), value(0)), value(1)))
	if x, ok := claimExpiry(c, claim); ok {
		set = set.Set(name("x"), value(x))
	} else {
		set = set.Remove(name("x"))
	}
	free := expression.Or(name("u").LessThanEqual(value(c.At)), name("v").Equal(value(claim.If)))
	e := must(expression.NewBuilder().WithUpdate(set).WithCondition(expression.Or(expression.AttributeNotExists(name("p")),
		free.And(name("c").NotEqual(value(c.Writer[:]))))).Build())
	const others = 80 // names of attributes, writer, numbers
	return operation{bytes: 2*len(claim.Key) + len(claim.Holder) + len(claim.Value) + others, update: &types.Update{TableName: &s.tables.Claims,
		Key: claimKey(claim.Key), UpdateExpression: e.Update(), ConditionExpression: e.Condition(),
		ExpressionAttributeNames: e.Names(), ExpressionAttributeValues: e.Values(),
		ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld}}
}

// atEnds says whether every append begins where its stream ends. Where that is not known, or not freshly enough to
// write by it, it is read.
func (w *write) atEnds(ctx context.Context) (bool, error) {
	for _, a := range w.commit.Appends {
		now := w.now()
		known, ok := w.ends.get(a.Stream)
		if ok && known.seq == a.Seq && known.fresh(now) {
			w.since = append(w.since, known.at)
			continue
		}
		last, _, err := w.last(ctx, a.Stream, false)
		if err != nil {
			return false, err
		}
		if last.Next() != a.Seq {
			return false, nil
		}
		w.since = append(w.since, now.UnixMilli())
	}
	return true, nil
}

// putChunks writes what does not fit into the entries themselves. It comes first, so that no entry is without its data.
func (w *write) putChunks(ctx context.Context) error {
	for i := range w.commit.Appends {
		a := &w.commit.Appends[i]
		if inline(a) {
			continue
		}
		for n, chunk := range chunksOf(a.Data) {
			if err := w.putChunk(ctx, chunkKey(w.commit.Writer, a.Stream, n), chunk, entryExpiry(w.commit.At)); err != nil {
				return err
			}
		}
	}
	return nil
}

// send writes, and says which of the four outcomes it was.
func (w *write) send(ctx context.Context) error {
	began := w.now().UnixMilli()
	lost, err := w.execute(ctx)
	if lost != nil {
		w.losing(ctx)
		return w.met(ctx, lost)
	}
	if err != nil {
		return fmt.Errorf("commit of %d appends and %d claims: %w", len(w.commit.Appends), len(w.commit.Claims), err)
	}
	for i, a := range w.commit.Appends {
		since := w.since[i]
		if len(w.ops) == 1 {
			since = began // the put shows the end; a transaction may be the repeat of one that stood before
		}
		w.ends.learn(a.Stream, a.Seq+eventlog.Seq(a.Width), since)
	}
	return nil
}

// execute makes the one call that applies the commit. Where conditions failed, it gives for each operation what stands
// there, nil where nothing is in the way.
func (w *write) execute(ctx context.Context) (lost []item, err error) {
	switch op := w.ops[0]; {
	case len(w.ops) > 1:
		err = w.transact(ctx, w.transaction())
	case op.put != nil:
		_, err = w.put(ctx, &dynamodb.PutItemInput{TableName: op.put.TableName, Item: op.put.Item,
			ConditionExpression: op.put.ConditionExpression, ExpressionAttributeNames: op.put.ExpressionAttributeNames,
			ReturnValuesOnConditionCheckFailure: op.put.ReturnValuesOnConditionCheckFailure}, once)
	default:
		u := op.update
		err = w.update(ctx, &dynamodb.UpdateItemInput{TableName: u.TableName, Key: u.Key, UpdateExpression: u.UpdateExpression,
			ConditionExpression: u.ConditionExpression, ExpressionAttributeNames: u.ExpressionAttributeNames,
			ExpressionAttributeValues: u.ExpressionAttributeValues, ReturnValuesOnConditionCheckFailure: u.ReturnValuesOnConditionCheckFailure}, once)
	}
	return outcome(err)
}

// transaction is the same for every repeat of the commit, and so is its token: within ten minutes DynamoDB itself
// answers a repeat as it did the first.
func (w *write) transaction() *dynamodb.TransactWriteItemsInput {
	in := &dynamodb.TransactWriteItemsInput{ClientRequestToken: aws.String(hex.EncodeToString(w.commit.Writer[:]))}
	for _, op := range w.ops {
		in.TransactItems = append(in.TransactItems, types.TransactWriteItem{Put: op.put, Update: op.update})
	}
	return in
}

// losing counts what a write that lost has cost: DynamoDB charges for it and does not tell. It is as much as if the
// write had gone through, unless what stands there is larger.
func (w *write) losing(ctx context.Context) {
	units, name := 0.0, "PutItem"
	for _, op := range w.ops {
		units += float64((op.bytes + 1023) / 1024)
	}
	switch {
	case len(w.ops) > 1:
		units, name = 2*units, "TransactWriteItems"
	case w.ops[0].update != nil:
		name = "UpdateItem"
	}
	w.charge(ctx, name, 0, units)
}

// met says what a write means that met something: done where it met itself.
func (w *write) met(ctx context.Context, lost []item) error {
	var found eventlog.Conflict
	for i, it := range lost {
		switch {
		case it == nil:
			continue
		case len(it) == 0:
			return w.judge(ctx) // what stands there is not told
		}
		ours, err := w.meets(i, it, &found)
		if err != nil {
			return refuse(err) // something else stands there, readable or not
		}
		if ours {
			return nil
		}
	}
	return &found
}

// meets adds what stands at the place of an operation to a conflict, and says whether this very commit put it there.
func (w *write) meets(i int, it item, found *eventlog.Conflict) (ours bool, err error) {
	if i >= len(w.commit.Appends) {
		c, err := readClaim(w.commit.Claims[i-len(w.commit.Appends)].Key, it)
		found.Claims = append(found.Claims, c)
		return c.Writer == w.commit.Writer, err
	}
	r, err := readRow(w.commit.Appends[i].Stream, it)
	if err != nil || r.gone(w.now()) {
		return false, err // its place is taken all the same
	}
	if r.Writer == w.commit.Writer {
		return true, nil
	}
	w.ends.learn(r.Stream, r.Next(), w.since[i])
	r.Data = nil
	found.Entries = append(found.Entries, r.Entry)
	return false, nil
}

// judge says what a commit would meet, by reading alone. The claims come first: if the commit was not applied when its
// entries are looked at, it was not when a claim of another was seen.
func (w *write) judge(ctx context.Context) error {
	var found eventlog.Conflict
	ours := false
	for _, want := range w.commit.Claims {
		c, ok, err := w.Claim(ctx, want.Key)
		if err != nil {
			return refuse(err)
		}
		if ours = ours || ok && c.Writer == w.commit.Writer; ok && c.Until > w.commit.At && c.Version != want.If {
			found.Claims = append(found.Claims, c)
		}
	}
	taken := len(found.Claims) > 0
	var gap error
	for _, a := range w.commit.Appends {
		last, _, err := w.last(ctx, a.Stream, false)
		if err != nil {
			return refuse(err)
		}
		if end := last.Next(); end <= a.Seq {
			if end < a.Seq {
				gap = fmt.Errorf("stream %s ends at %d, an entry at %d would leave a gap", a.Stream, end, a.Seq)
			}
			continue
		}
		taken = true
		r, ok, err := w.covering(ctx, a.Stream, a.Seq, false)
		if err != nil {
			return refuse(err)
		}
		if ok {
			ours = ours || r.Seq == a.Seq && r.Writer == w.commit.Writer
			found.Entries = append(found.Entries, r.Entry)
		}
	}
	switch {
	case ours:
		return nil
	case taken:
		return &found
	case gap != nil:
		return refuse(gap)
	}
	return refuse(errors.New("others write at the same places now"))
}

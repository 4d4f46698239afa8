package store

import (
	"context"
	"crypto/rand"
	"errors"
	"flag"
	"net/http"
	"testing"
	"time"

	"github.com/leaselog/leaselog/internal/aws/awstest"
	"github.com/leaselog/leaselog/internal/aws/storetest"
	"github.com/leaselog/leaselog/internal/eventlog"
	"github.com/leaselog/leaselog/internal/eventlog/eventlogtest"
)

// database is a DynamoDB for one test and its parts.
type database struct{ *storetest.DB }

func startDatabase(t *testing.T) database { return database{storetest.Start(t)} }

// open gives a store on new tables.
func (d database) open(t testing.TB, edit ...func(*Config)) *Store {
	t.Helper()
	return d.openOn(t, Tables(d.Tables(t)), edit...)
}

// openOn gives another store on tables that exist.
func (d database) openOn(t testing.TB, tables Tables, edit ...func(*Config)) *Store {
	t.Helper()
	c := Config{Client: d.Client(nil), Tables: tables}
	for _, e := range edit {
		e(&c)
	}
	s, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// through lets the store speak to DynamoDB by way of another.
func (d database) through(wrap func(http.RoundTripper) http.RoundTripper) func(*Config) {
	return func(c *Config) { c.Client = d.Client(wrap) }
}

// apart is a log for the suite, which is made for logs that begin in 1970 and end with a test: its instants are
// shifted to now, since entries written in 1970 have long expired, and its writers are made the test's own, since
// DynamoDB knows the token of a transaction wherever it was used.
type apart struct {
	eventlog.Log
	shift int64
	mask  eventlog.Writer
}

func newApart(log eventlog.Log) apart {
	a := apart{Log: log, shift: time.Now().UnixMilli()}
	rand.Read(a.mask[:])
	return a
}

func (a apart) writer(w eventlog.Writer) eventlog.Writer {
	if w == (eventlog.Writer{}) {
		return w
	}
	for i := range w {
		w[i] ^= a.mask[i]
	}
	return w
}

func (a apart) instant(until, by int64) int64 {
	if until == eventlog.Forever {
		return until
	}
	return until + by
}

func (a apart) claims(claims []eventlog.Claim, by int64) (all []eventlog.Claim) {
	for _, c := range claims {
		c.Until, c.Writer = a.instant(c.Until, by), a.writer(c.Writer)
		all = append(all, c)
	}
	return all
}

func (a apart) entries(all []eventlog.Entry) []eventlog.Entry {
	for i := range all {
		all[i].Writer = a.writer(all[i].Writer)
	}
	return all
}

func (a apart) Commit(ctx context.Context, c eventlog.Commit) error {
	c.At, c.Writer, c.Claims = c.At+a.shift, a.writer(c.Writer), a.claims(c.Claims, a.shift)
	err := a.Log.Commit(ctx, c)
	var met *eventlog.Conflict
	if errors.As(err, &met) {
		met.Entries, met.Claims = a.entries(met.Entries), a.claims(met.Claims, -a.shift)
	}
	return err
}

func (a apart) Read(ctx context.Context, s eventlog.Stream, from eventlog.Seq, l eventlog.Limits) ([]eventlog.Entry, error) {
	all, err := a.Log.Read(ctx, s, from, l)
	return a.entries(all), err
}

func (a apart) Last(ctx context.Context, s eventlog.Stream) (eventlog.Entry, bool, error) {
	e, ok, err := a.Log.Last(ctx, s)
	e.Writer = a.writer(e.Writer)
	return e, ok, err
}

func (a apart) Claim(ctx context.Context, key string) (eventlog.Claim, bool, error) {
	c, ok, err := a.Log.Claim(ctx, key)
	if ok {
		c = a.claims([]eventlog.Claim{c}, -a.shift)[0]
	}
	return c, ok, err
}

func (a apart) Claims(ctx context.Context, prefix, after string, limit int) ([]eventlog.Claim, error) {
	all, err := a.Log.Claims(ctx, prefix, after, limit)
	return a.claims(all, -a.shift), err
}

// TestLog runs the suite on DynamoDB.
func TestLog(t *testing.T) {
	if testing.Short() {
		fewer(t)
	}
	d := startDatabase(t)
	eventlogtest.Run(t, func(t *testing.T) eventlog.Log { return newApart(d.open(t)) })
}

// TestLogOnLocalStack runs it through LocalStack, which reads and writes DynamoDB's protocol in its own way.
func TestLogOnLocalStack(t *testing.T) {
	fewer(t)
	d := database{storetest.At(awstest.New(t, awstest.Config{}).Endpoint)}
	eventlogtest.Run(t, func(t *testing.T) eventlog.Log { return newApart(d.open(t)) })
}

// fewer makes do with fewer random runs, unless a number of them is asked for.
func fewer(t *testing.T) {
	if checks := flag.Lookup("rapid.checks"); checks.Value.String() == checks.DefValue {
		flag.Set("rapid.checks", "20")
		t.Cleanup(func() { flag.Set("rapid.checks", checks.DefValue) })
	}
}

// TestLogUnderFaults runs it with every fault that a caller can meet.
func TestLogUnderFaults(t *testing.T) {
	fewer(t)
	d := startDatabase(t)
	eventlogtest.RunUnderFaults(t, func(t *testing.T) eventlog.Log { return newApart(d.open(t)) })
}

// pair is two stores on the same tables, which know nothing of each other, used in turns.
type pair struct {
	eventlog.Log
	other eventlog.Log
	turn  chan bool
}

func (p pair) next() eventlog.Log {
	other := <-p.turn
	p.turn <- !other
	if other {
		return p.other
	}
	return p.Log
}

func (p pair) Commit(ctx context.Context, c eventlog.Commit) error { return p.next().Commit(ctx, c) }

func (p pair) Read(ctx context.Context, s eventlog.Stream, from eventlog.Seq, l eventlog.Limits) ([]eventlog.Entry, error) {
	return p.next().Read(ctx, s, from, l)
}

func (p pair) Last(ctx context.Context, s eventlog.Stream) (eventlog.Entry, bool, error) {
	return p.next().Last(ctx, s)
}

func (p pair) Drop(ctx context.Context, s eventlog.Stream, from, to eventlog.Seq) error {
	return p.next().Drop(ctx, s, from, to)
}

// TestLogOfTwo runs the suite over two processes: what one knows of a stream's end is behind what the other does.
func TestLogOfTwo(t *testing.T) {
	fewer(t)
	d := startDatabase(t)
	eventlogtest.Run(t, func(t *testing.T) eventlog.Log {
		tables := Tables(d.Tables(t))
		turn := make(chan bool, 1)
		turn <- false
		return newApart(pair{d.openOn(t, tables), d.openOn(t, tables), turn})
	})
}

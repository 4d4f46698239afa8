package store

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/leaselog/leaselog/internal/eventlog"
	"github.com/leaselog/leaselog/internal/eventlog/eventlogtest"

	"github.com/leaselog/leaselog/internal/aws/storetest"
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

// shifted is a log whose instants begin now instead of in 1970, for the suite, which has small ones of its own:
// entries written in 1970 have long expired.
type shifted struct {
	eventlog.Log
	by int64
}

func (s shifted) out(until int64) int64 {
	if until == eventlog.Forever {
		return until
	}
	return until + s.by
}

func (s shifted) in(c eventlog.Claim) eventlog.Claim {
	if c.Until != eventlog.Forever && c.Version > 0 {
		c.Until -= s.by
	}
	return c
}

func (s shifted) Commit(ctx context.Context, c eventlog.Commit) error {
	c.At += s.by
	claims := c.Claims
	c.Claims = nil
	for _, claim := range claims {
		claim.Until = s.out(claim.Until)
		c.Claims = append(c.Claims, claim)
	}
	err := s.Log.Commit(ctx, c)
	var met *eventlog.Conflict
	if errors.As(err, &met) {
		for i := range met.Claims {
			met.Claims[i] = s.in(met.Claims[i])
		}
	}
	return err
}

func (s shifted) Claim(ctx context.Context, key string) (eventlog.Claim, bool, error) {
	c, ok, err := s.Log.Claim(ctx, key)
	return s.in(c), ok, err
}

func (s shifted) Claims(ctx context.Context, prefix, after string, limit int) ([]eventlog.Claim, error) {
	all, err := s.Log.Claims(ctx, prefix, after, limit)
	for i := range all {
		all[i] = s.in(all[i])
	}
	return all, err
}

// TestLog runs the suite on DynamoDB.
func TestLog(t *testing.T) {
	d := startDatabase(t)
	eventlogtest.Run(t, func(t *testing.T) eventlog.Log { return shifted{d.open(t), time.Now().UnixMilli()} })
}

// TestLogUnderFaults runs it with every fault that a caller can meet.
func TestLogUnderFaults(t *testing.T) {
	d := startDatabase(t)
	eventlogtest.RunUnderFaults(t, func(t *testing.T) eventlog.Log { return shifted{d.open(t), time.Now().UnixMilli()} })
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
	d := startDatabase(t)
	eventlogtest.Run(t, func(t *testing.T) eventlog.Log {
		tables := Tables(d.Tables(t))
		turn := make(chan bool, 1)
		turn <- false
		return shifted{pair{d.openOn(t, tables), d.openOn(t, tables), turn}, time.Now().UnixMilli()}
	})
}

var writers int64

func newWriter() (w eventlog.Writer) {
	writers++
	copy(w[:], fmt.Sprintf("w%d", writers))
	return w
}

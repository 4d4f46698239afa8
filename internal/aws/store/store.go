// Package store is the log in three tables of DynamoDB, shared by any number of processes.
//
// Nothing is coordinated but by the conditional write: an entry is put only where none stands, a claim is set only
// where it is free or has the version that was read. One append alone is one PutItem, one claim alone one UpdateItem,
// and everything else one TransactWriteItems. Nothing is ever scanned, and nothing is deleted here: what is not wanted
// any more gets an instant in the attribute x, after which readers take it as absent and DynamoDB removes it (TTL).
package store

import (
	"errors"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/leaselog/leaselog/internal/eventlog"
)

// Tables are the names of the tables. Each has the TTL attribute x.
type Tables struct {
	Log    string // partition key s (string), sort key n (number): entries and, under names with a blank, their chunks
	Claims string // partition key p (string), sort key k (string)
	Views  string // partition key p (string), sort key k (string): snapshots, and what was dropped
}

// Config says what a store works with.
type Config struct {
	// Client reaches the tables. The store sets its own retries: none for a write, so that a lost answer is told from
	// a refusal. Required.
	Client *dynamodb.Client

	// Tables are where everything is. Required.
	Tables Tables

	// Now is this process's clock, the one that commits take their instants from. It is compared with DynamoDB's;
	// nil is the clock of the machine.
	Now func() time.Time

	// Consumed hears after every call which capacity units it took, by the name of DynamoDB's operation; nil: nobody
	// counts. It may be called by many goroutines at once.
	Consumed func(operation string, readUnits, writeUnits float64)
}

// Store implements [eventlog.Log]. It holds nothing that another process could not do without: where streams end, and
// how far the clocks are apart.
type Store struct {
	client   *dynamodb.Client
	tables   Tables
	now      func() time.Time
	consumed func(operation string, readUnits, writeUnits float64)
	retryer  aws.Retryer // of what may be repeated without a thought
	ends     ends
	clock    clock
}

var _ eventlog.Log = (*Store)(nil)

// New makes a store on tables that exist. It reports every problem of its configuration at once, and calls nobody.
func New(c Config) (*Store, error) {
	var problems []error
	for what, missing := range map[string]bool{"Client": c.Client == nil, "Tables.Log": c.Tables.Log == "",
		"Tables.Claims": c.Tables.Claims == "", "Tables.Views": c.Tables.Views == ""} {
		if missing {
			problems = append(problems, errors.New("store: Config."+what+" is missing"))
		}
	}
	if len(problems) > 0 {
		return nil, errors.Join(problems...)
	}
	s := &Store{client: c.Client, tables: c.Tables, now: c.Now, consumed: c.Consumed}
	if s.now == nil {
		s.now = time.Now
	}
	if s.consumed == nil {
		s.consumed = func(string, float64, float64) {}
	}
	s.retryer = retry.NewStandard(func(o *retry.StandardOptions) {
		o.MaxAttempts = readAttempts
		o.MaxBackoff = readBackoffMost
	})
	return s, nil
}

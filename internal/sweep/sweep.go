// Package sweep has what time must do, as chores. Each goes through all queues, again and again, in slices: it stops in
// good time before its own time ends, and the next run goes on where it stopped, in whichever process. It may be killed
// anywhere, and run by several processes at once: what it does with a queue is done once, by the log's own conditions.
package sweep

import (
	"context"
	"strings"
	"time"

	"github.com/leaselog/leaselog/events"
	"github.com/leaselog/leaselog/internal/broker"
	"github.com/leaselog/leaselog/projections"
)

// Site is what chores work on.
type Site struct {
	Broker *broker.Broker
	Cloud  bool                     // entries and claims go by their age, in DynamoDB
	Views  projections.Store        // nil where none are kept
	Keeps  []projections.Projection // whose views they are
	Claims Claims                   // nil where lapsed claims go by themselves
	// History is the age of what may be dropped, once it is finished; nil: what is older than anything DynamoDB keeps.
	History func() time.Duration
}

// Chore is one thing to do again and again.
type Chore struct {
	Name string // also the folder under functions/ and the resource in template.yaml
	Does string // for people
	// Cloud is how often its function is due, and Embedded how often a server does it on a store of its own; 0: the
	// place has no need of it.
	Cloud, Embedded time.Duration
	// Always says that a server does it all the time, besides.
	Always bool

	queue func(context.Context, *run, *broker.Found) error // with each queue
	whole func(context.Context, *run) error                // or all at once
}

// Word is the chore's name on the command line.
func (c Chore) Word() string { return strings.TrimPrefix(c.Name, prefix) }

const prefix = "sweep-"

// Every is how often the chore is due at a site, 0 for never.
func (c Chore) Every(s Site) time.Duration {
	switch {
	case s.Cloud:
		return c.Cloud
	case c.Name == Views.Name && s.Views == nil:
		return 0
	}
	return c.Embedded
}

// Exhausted moves messages that were received too often to their dead-letter queues.
var Exhausted = Chore{Name: prefix + "exhausted", Does: "moves messages that were received too often to their dead-letter queues",
	Cloud: time.Minute, Embedded: time.Minute, Always: true,
	queue: func(ctx context.Context, r *run, f *broker.Found) error {
		return r.site.Broker.SweepExhausted(ctx, f, &r.sweep)
	}}

// Unfinished finishes changes of settings, purges and deletions that were broken off.
var Unfinished = Chore{Name: prefix + "unfinished", Does: "finishes changes of settings, purges and deletions that were broken off",
	Cloud: time.Minute, Embedded: time.Minute,
	queue: func(ctx context.Context, r *run, f *broker.Found) error {
		return r.site.Broker.SweepUnfinished(ctx, f, &r.sweep)
	}}

// Expired discards messages past their retention.
var Expired = Chore{Name: prefix + "expired", Does: "discards messages past their retention",
	Cloud: 15 * time.Minute, Embedded: time.Minute,
	queue: func(ctx context.Context, r *run, f *broker.Found) error {
		return r.site.Broker.SweepExpired(ctx, f, &r.sweep)
	}}

// Keys replaces data keys after a day, and destroys those of queues that were deleted long ago, with whatever else is left
// of these.
var Keys = Chore{Name: prefix + "keys", Does: "replaces data keys after a day, and destroys those of queues that were deleted long ago, with what is left of these",
	Cloud: time.Hour, Embedded: 10 * time.Minute,
	queue: func(ctx context.Context, r *run, f *broker.Found) error {
		return r.site.Broker.SweepKeys(ctx, f, &r.sweep, r.history())
	}}

// Snapshots writes snapshots, a day after what is in none yet and where it has become long, and drops the history of what
// is finished.
var Snapshots = Chore{Name: prefix + "snapshots", Does: "writes snapshots of long and of daily use, and drops the history of what is finished",
	Cloud: 6 * time.Hour, Embedded: time.Minute,
	queue: func(ctx context.Context, r *run, f *broker.Found) error {
		return r.site.Broker.SweepSnapshots(ctx, f, &r.sweep, r.history())
	}}

// Anchors gives streams that were idle for a day an entry that does not expire. An embedded store keeps the last entry of
// a stream anyway.
var Anchors = Chore{Name: prefix + "anchors", Does: "gives streams that were idle for a day an entry that does not expire",
	Cloud: 6 * time.Hour,
	queue: func(ctx context.Context, r *run, f *broker.Found) error {
		return r.site.Broker.SweepAnchors(ctx, f, &r.sweep)
	}}

// Chores lists all.
func Chores() []Chore {
	return []Chore{Exhausted, Unfinished, Expired, Keys, Snapshots, Anchors, Lapsed, Views, Moves}
}

// Functions lists those that are Lambda functions.
func Functions() (all []Chore) {
	for _, c := range Chores() {
		if c.Cloud > 0 {
			all = append(all, c)
		}
	}
	return all
}

// Find gives a chore by its name or its word.
func Find(name string) (Chore, bool) {
	for _, c := range Chores() {
		if c.Name == name || c.Word() == name {
			return c, true
		}
	}
	return Chore{}, false
}

// historyAge is how long the history of finished messages is kept where nothing else is said. On DynamoDB entries go by
// themselves after 15 days, at some time within two days more: what is older is dropped here for nothing.
const historyAge = 17 * 24 * time.Hour

func (r *run) history() broker.History {
	age := historyAge
	if r.site.History != nil {
		age = r.site.History()
	}
	return broker.History{Before: r.site.Broker.Now() - events.Instant(age.Milliseconds())}
}

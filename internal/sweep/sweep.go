// Package sweep has what time must do where no server ticks. Each chore may run twice, also at once with itself.
package sweep

import (
	"context"
	"time"

	"github.com/leaselog/leaselog/internal/broker"
	"github.com/leaselog/leaselog/projections"
)

// Site is what a chore works on.
type Site struct {
	Broker *broker.Broker
	Views  projections.Store
}

// Chore is one thing to do again and again.
type Chore struct {
	Name string // also the folder under functions/ and the resource in template.yaml
	Run  func(context.Context, Site) error
}

// Unfinished moves what was received too often to dead-letter queues, and finishes changes and deletions that were left
// half done. It is due every minute.
var Unfinished = Chore{"sweep-unfinished", func(ctx context.Context, s Site) error { return s.Broker.Tick(ctx) }}

// historyMillis is how long the history of finished messages is kept. On DynamoDB entries go by themselves after 15 days,
// at some time within two days more: what is older is dropped here for nothing.
const historyMillis = 17 * 24 * 60 * 60 * 1000

// Expired replaces worn data keys, discards messages past their retention, writes snapshots, and destroys the keys of
// queues that were deleted long ago. It is due every few minutes.
var Expired = Chore{"sweep-expired", func(ctx context.Context, s Site) error {
	return s.Broker.Maintain(ctx, broker.History{Before: s.Broker.Now() - historyMillis})
}}

// Moves advances move tasks for as long as there is something to do soon: until no task is due within movesPatience, or
// the time that is left is less than movesMargin. It is due every minute.
var Moves = Chore{"sweep-moves", moves}

const (
	movesPatience = 5 * time.Second
	movesMargin   = 15 * time.Second
)

func moves(ctx context.Context, s Site) error {
	b := s.Broker
	for {
		next, err := b.Moves(ctx)
		wait := time.Duration(next-b.Now()) * time.Millisecond
		if err != nil || wait > movesPatience {
			return err
		}
		if end, bounded := ctx.Deadline(); bounded && time.Until(end)-max(wait, 0) < movesMargin {
			return nil
		}
		if wait <= 0 {
			continue
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(wait):
		}
	}
}

// Chores lists all, for the tests that hold functions/, template.yaml and this list equal.
func Chores() []Chore { return []Chore{Unfinished, Expired, Moves, Views} }

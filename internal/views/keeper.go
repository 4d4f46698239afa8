package views

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/leaselog/leaselog/projections"
)

// Keeper lets a follower work beside a server: it hears where shards have reached, as often as that is told, and makes
// their views now and then.
//
// A shard that was quiet has its views at once. One that is written to all the time has them every [KeeperPause], and all
// together take a twenty-fifth of one core's time, unless they would be more than [KeeperPauseMax] behind: what folding
// costs is paid for each entry, but to make a view and to save it is cheaper the rarer it is.
type Keeper struct {
	Follower *Follower
	Logger   *slog.Logger
	// Viewed hears how long after the first news of a shard its views had them; nil: nobody does.
	Viewed func(lag time.Duration)

	mu    sync.Mutex
	turns map[projections.Shard]*turn
	due   []*turn // those that have something to do, in the order in which they came
	wake  chan struct{}
}

// turn is what is known of a shard that was told of.
type turn struct {
	shard  projections.Shard
	reach  projections.Ends
	due    bool
	since  time.Time // when the first news came that no view has yet; zero: there are none
	after  time.Time // not before
	failed bool      // the last time, which was told
	gone   bool
}

const (
	// KeeperPause is the time between two makings of the same views under load.
	KeeperPause = 250 * time.Millisecond
	// KeeperPauseMax is the longest rest after a making that took long.
	KeeperPauseMax = 5 * time.Second

	restShare = 24 // times as long as work took is rest
	// poisonPause is the time until views are tried again that failed for what they read.
	poisonPause = time.Minute
	// turnsMax is how many shards may be remembered that have nothing to do.
	turnsMax = 4096
)

// NewKeeper makes a keeper. It works while Run does.
func NewKeeper(f *Follower, logger *slog.Logger) *Keeper {
	return &Keeper{Follower: f, Logger: logger, turns: map[projections.Shard]*turn{}, wake: make(chan struct{}, 1)}
}

// Reached says that a shard's log has reached an end. It never waits for the views.
func (k *Keeper) Reached(name projections.Shard, reach projections.Ends) {
	k.mu.Lock()
	t := k.turns[name]
	if t == nil {
		t = &turn{shard: name}
		k.turns[name] = t
	}
	t.reach.Ledger, t.reach.Messages = max(t.reach.Ledger, reach.Ledger), max(t.reach.Messages, reach.Messages)
	if t.since.IsZero() {
		t.since = time.Now()
	}
	news := !t.due
	if news {
		t.due = true
		k.due = append(k.due, t)
	}
	k.mu.Unlock()
	if news {
		select {
		case k.wake <- struct{}{}:
		default:
		}
	}
}

// Forget makes no views of a shard any more, and removes those that are kept.
func (k *Keeper) Forget(ctx context.Context, name projections.Shard) error {
	k.mu.Lock()
	if t := k.turns[name]; t != nil {
		t.gone = true
		delete(k.turns, name)
	}
	k.mu.Unlock()
	return k.Follower.Forget(ctx, name)
}

// Run makes views until ctx ends.
func (k *Keeper) Run(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-k.wake:
		case <-timer.C:
		}
		began := time.Now()
		ready, next := k.ready(began)
		for _, t := range ready {
			if ctx.Err() != nil {
				return
			}
			k.make(ctx, t)
		}
		if len(ready) > 0 {
			rest := time.NewTimer(min(restShare*time.Since(began), KeeperPauseMax))
			select {
			case <-ctx.Done():
			case <-rest.C:
			}
			rest.Stop()
			next = 0 // others may be ready by now
		}
		timer.Reset(next)
	}
}

// ready takes those whose turn it is, and gives how long to wait for the next one.
func (k *Keeper) ready(now time.Time) (ready []*turn, next time.Duration) {
	k.mu.Lock()
	defer k.mu.Unlock()
	next = time.Hour
	left := k.due[:0]
	for _, t := range k.due {
		switch wait := t.after.Sub(now); {
		case t.gone:
		case wait > 0:
			left, next = append(left, t), min(next, wait)
		default:
			t.due = false // before it is read, so that what comes from now on counts anew
			ready = append(ready, t)
		}
	}
	clear(k.due[len(left):])
	k.due = left
	if len(k.turns) > turnsMax {
		for name, t := range k.turns {
			if !t.due && t.after.Before(now) {
				delete(k.turns, name)
			}
		}
	}
	return ready, next
}

// make makes the views of a shard. What fails is tried again.
func (k *Keeper) make(ctx context.Context, t *turn) {
	k.mu.Lock()
	reach, gone, since := t.reach, t.gone, t.since
	t.since = time.Time{}
	k.mu.Unlock()
	if gone {
		return
	}
	err := k.Follower.Wake(ctx, t.shard, reach)
	pause := KeeperPause
	if Poisoned(err) {
		pause = poisonPause
	}
	if err == nil && k.Viewed != nil {
		k.Viewed(time.Since(since))
	}
	k.mu.Lock()
	if err != nil {
		t.since = since
	}
	t.after = time.Now().Add(pause)
	again := err != nil && !t.due && !t.gone
	if again {
		t.due = true
		k.due = append(k.due, t)
	}
	k.mu.Unlock()
	if err != nil && !t.failed && ctx.Err() == nil {
		k.Logger.Warn("views cannot be kept, and are tried again", "queue", t.shard.Queue.String(), "shard", t.shard.Index, "error", err)
	}
	t.failed = err != nil
}

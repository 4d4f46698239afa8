// Package views keeps projections' views up to date with the log.
//
// What wakes it says no more than that a stream has reached a place. Whatever is missing up to there it reads from the
// log, so that wake-ups may come late, twice, in any order, or not at all if a later one or the sweep does.
package views

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/leaselog/leaselog/events"
	"github.com/leaselog/leaselog/internal/eventlog"
	"github.com/leaselog/leaselog/projections"
)

// Follower keeps the views of one projection. Any number of them may work on the same store.
type Follower struct {
	Log        eventlog.Log
	Store      projections.Store
	Projection projections.Projection

	mu     sync.Mutex
	shards map[projections.Shard]*shard
}

const (
	// shardsMax bounds the shards whose folds are in memory.
	shardsMax = 256
	// attemptsMax bounds how often a view is made anew because somebody else has saved one meanwhile.
	attemptsMax = 5
	readBytes   = 4 << 20
)

// shard is the fold of one shard in this process.
type shard struct {
	projections.Shard
	mu      sync.Mutex
	fold    projections.Fold // nil: to be started
	saved   projections.Ends // up to where the kept view reaches, as far as is known here
	version uint64           // of the kept view
	headers recent
}

// Wake brings a shard's view to where reach says the log is, at least. An error that is [Poisoned] would come again.
func (f *Follower) Wake(ctx context.Context, name projections.Shard, reach projections.Ends) error {
	s := f.shard(name)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fold != nil && s.saved.Reach(reach) {
		return nil
	}
	err := projections.ErrChanged
	for try := 0; try < attemptsMax && (errors.Is(err, projections.ErrChanged) || truncated(err)); try++ {
		if err = f.advance(ctx, s, reach); truncated(err) {
			s.fold = nil // a newer snapshot stands
		}
	}
	if err != nil {
		s.fold = nil
		return fmt.Errorf("view %s: %w", name.Key(f.Projection.View), err)
	}
	return nil
}

// CatchUp wakes a shard for all that is in the log now.
func (f *Follower) CatchUp(ctx context.Context, name projections.Shard) error {
	reach, err := Reach(ctx, f.Log, name)
	if err != nil {
		return err
	}
	return f.Wake(ctx, name, reach)
}

// Reach gives where the streams of a shard end.
func Reach(ctx context.Context, log eventlog.Log, name projections.Shard) (reach projections.Ends, err error) {
	ledger, messages := streams(name)
	last, ok, err := log.Last(ctx, ledger)
	if err == nil && ok {
		reach.Ledger = uint64(last.Next())
		last, ok, err = log.Last(ctx, messages)
	}
	if err == nil && ok {
		reach.Messages = events.Position(last.Next())
	}
	return reach, err
}

// Poisoned says whether what was met would be met again by every attempt: the log or the view does not decode, or breaks
// its rules.
func Poisoned(err error) bool {
	return errors.Is(err, eventlog.ErrCorrupt) || truncated(err)
}

func truncated(err error) bool {
	var gone *eventlog.Truncated
	return errors.As(err, &gone)
}

// shard gives a shard's fold. Where there are too many, another one is forgotten, which costs its start.
func (f *Follower) shard(name projections.Shard) *shard {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.shards[name]
	if s == nil {
		if f.shards == nil {
			f.shards = map[projections.Shard]*shard{}
		}
		for any := range f.shards {
			if len(f.shards) < shardsMax {
				break
			}
			delete(f.shards, any)
		}
		s = &shard{Shard: name}
		f.shards[name] = s
	}
	return s
}

// advance reads on, makes the view and saves it.
func (f *Follower) advance(ctx context.Context, s *shard, reach projections.Ends) (err error) {
	if s.fold == nil {
		done, err := f.begin(ctx, s, reach)
		if done || err != nil {
			return err
		}
	}
	data, err := f.made(ctx, s, nil)
	if err != nil {
		return err
	}
	ends := s.fold.Ends()
	switch {
	case !ends.Reach(s.saved):
		return fmt.Errorf("%w: the view is kept for %v, and the log ends at %v", eventlog.ErrCorrupt, s.saved, ends)
	case ends == s.saved:
		return nil
	case len(data) > projections.DataBytesMax:
		return fmt.Errorf("%w: the view has %d bytes", eventlog.ErrCorrupt, len(data))
	}
	err = f.Store.Save(ctx, s.Key(f.Projection.View), data, s.version)
	switch {
	case errors.Is(err, projections.ErrChanged):
		if done, err := f.theirs(ctx, s, reach); done || err != nil {
			return err
		}
	case err == nil:
		s.saved = ends
		s.version++
	}
	return err
}

// theirs learns what another process has saved, and says whether it reaches far enough.
func (f *Follower) theirs(ctx context.Context, s *shard, reach projections.Ends) (done bool, err error) {
	k, _, ends, err := f.kept(ctx, s.Shard)
	s.saved, s.version = ends, k.Version
	return ends.Reach(reach), err
}

// begin starts a fold from the kept view, unless that reaches far enough already. One that the log does not go on from
// any more, or that this program cannot read, is made anew.
func (f *Follower) begin(ctx context.Context, s *shard, reach projections.Ends) (done bool, err error) {
	k, view, ends, err := f.kept(ctx, s.Shard)
	if err != nil && !Poisoned(err) {
		return false, err
	}
	s.saved, s.version = ends, k.Version
	if err == nil && view != nil {
		if ends.Reach(reach) {
			return true, nil
		}
		fold, err := f.start(ctx, s.Shard, view, ends)
		if err == nil {
			s.fold = fold
			err = f.read(ctx, s, nil)
		}
		if !Poisoned(err) {
			return false, err
		}
	}
	s.fold, err = f.start(ctx, s.Shard, nil, projections.Ends{})
	return false, err
}

// kept gives what the store has.
func (f *Follower) kept(ctx context.Context, name projections.Shard) (k projections.Kept, view []byte, ends projections.Ends, err error) {
	k, ok, err := f.Store.Load(ctx, name.Key(f.Projection.View))
	if err == nil && ok {
		if ends, view, err = projections.Unpack(k.Data); err != nil {
			err = fmt.Errorf("%w: %w", eventlog.ErrCorrupt, err)
		}
	}
	return k, view, ends, err
}

// made reads on and gives the view, with its ends. Snapshots that are due are kept before it, since nobody would make
// them if this ended between the two.
func (f *Follower) made(ctx context.Context, s *shard, tell func(entries int)) (data []byte, err error) {
	defer broken(&err)
	if err := f.read(ctx, s, tell); err != nil {
		return nil, err
	}
	view, err := s.fold.View(f.look(ctx, s))
	if err != nil {
		return nil, err
	}
	if keeper, ok := s.fold.(*placed).Fold.(projections.Snapshotter); ok {
		if err := f.snapshots(ctx, s, keeper); err != nil {
			return nil, err
		}
	}
	return projections.Pack(s.fold.Ends(), view), nil
}

func (f *Follower) snapshots(ctx context.Context, s *shard, keeper projections.Snapshotter) error {
	ledger, messages := keeper.Due()
	ofLedger, ofMessages := streams(s.Shard)
	if ledger != nil {
		if err := f.Log.PutSnapshot(ctx, ofLedger, eventlog.Snapshot{Seq: eventlog.Seq(ledger.Seq), Data: ledger.Data}); err != nil {
			return err
		}
	}
	if messages != nil {
		if err := f.Log.PutSnapshot(ctx, ofMessages, eventlog.Snapshot{Seq: eventlog.Seq(messages.Seq), Data: messages.Data}); err != nil {
			return err
		}
	}
	keeper.Stand()
	return nil
}

func streams(s projections.Shard) (ledger, messages eventlog.Stream) {
	return eventlog.Stream(events.LedgerStream(s.Queue, s.Index)), eventlog.Stream(events.MessageStream(s.Queue, s.Index, 0))
}

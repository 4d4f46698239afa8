// Package views keeps the views of projections: it reads the log, lets projections fold it, and stores what they give.
//
// What wakes a [Follower] says no more than that a shard has reached an end. Whatever is missing up to there, and what
// stands behind it, is read from the log, so it does not matter whether wake-ups come twice, late, in another order, or
// not at all if a later one or the sweep does.
package views

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/leaselog/leaselog/events"
	"github.com/leaselog/leaselog/internal/eventlog"
	"github.com/leaselog/leaselog/projections"
)

// Follower keeps the views of some projections, for all of which it reads the log once. Any number of them may work on
// the same store.
type Follower struct {
	Log         eventlog.Log
	Store       projections.Store
	Projections []projections.Projection

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

// shard is what this process knows of one shard: its views, and the state that some of them stand on.
type shard struct {
	projections.Shard
	mu      sync.Mutex
	state   *projections.State // nil: to be started, or not needed
	views   []*view
	headers recent
}

// view is one view of a shard.
type view struct {
	projections.Projection
	fold    *placed          // nil: to be started
	saved   projections.Ends // up to where the kept view reaches, as far as is known here
	version uint64           // of the kept view
	err     error            // why it could not be brought further this time
}

// Wake brings a shard's views to where reach says the log is, at least. An error that is [Poisoned] would come again.
func (f *Follower) Wake(ctx context.Context, name projections.Shard, reach projections.Ends) error {
	s := f.shard(name)
	s.mu.Lock()
	defer s.mu.Unlock()
	behind := slices.DeleteFunc(slices.Clone(s.views), func(v *view) bool { return v.fold != nil && v.saved.Reach(reach) })
	for try := 0; try < attemptsMax && len(behind) > 0; try++ {
		f.advance(ctx, s, behind, reach)
		behind = slices.DeleteFunc(behind, func(v *view) bool { return !errors.Is(v.err, projections.ErrChanged) && !truncated(v.err) })
		if slices.ContainsFunc(behind, func(v *view) bool { return truncated(v.err) }) {
			s.lose() // a newer snapshot stands
		}
	}
	return s.settle()
}

// settle gives what has failed. What may have to do with that begins anew the next time.
func (s *shard) settle() error {
	var errs []error
	for _, v := range s.views {
		if v.err == nil {
			continue
		}
		errs = append(errs, fmt.Errorf("view %s: %w", s.Key(v.View), v.err))
		if v.fold = nil; v.History == 0 && Poisoned(v.err) {
			s.lose()
		}
		v.err = nil
	}
	return errors.Join(errs...)
}

// lose gives up the state, and the folds that stand on it.
func (s *shard) lose() {
	s.state = nil
	for _, v := range s.views {
		if v.History == 0 {
			v.fold = nil
		}
	}
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

// shard gives a shard's folds. Where there are too many, others are forgotten, which costs their start.
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
		s = f.newShard(name)
		f.shards[name] = s
	}
	return s
}

func (f *Follower) newShard(name projections.Shard) *shard {
	s := &shard{Shard: name}
	for _, p := range f.Projections {
		s.views = append(s.views, &view{Projection: p})
	}
	return s
}

// Forget removes the views of a shard of which there will be nothing to see any more.
func (f *Follower) Forget(ctx context.Context, name projections.Shard) error {
	f.mu.Lock()
	delete(f.shards, name)
	f.mu.Unlock()
	var errs []error
	for _, p := range f.Projections {
		errs = append(errs, f.Store.Forget(ctx, name.Key(p.View)))
	}
	return errors.Join(errs...)
}

// Bury forgets the views of a queue that is gone.
func (f *Follower) Bury(ctx context.Context, queue events.QueueID, shards int) error {
	for i := range shards {
		if err := f.Forget(ctx, projections.Shard{Queue: queue, Index: i}); err != nil {
			return err
		}
	}
	return nil
}

// advance reads on for those views that are behind, makes them and saves them. What fails is noted in each.
func (f *Follower) advance(ctx context.Context, s *shard, behind []*view, reach projections.Ends) {
	var open []*view
	for _, v := range behind {
		v.err = nil
		done := false
		if v.fold == nil {
			done, v.err = f.begin(ctx, s, v, reach)
		}
		if !done && v.err == nil {
			open = append(open, v)
		}
	}
	f.read(ctx, s, open, nil)
	for _, v := range open {
		var data []byte
		if v.err == nil {
			data, v.err = f.made(ctx, s, v)
		}
		if v.err == nil {
			v.err = f.save(ctx, s, v, data, reach)
		}
	}
}

func (f *Follower) save(ctx context.Context, s *shard, v *view, data []byte, reach projections.Ends) error {
	ends := v.fold.Ends()
	switch {
	case !ends.Reach(v.saved):
		return fmt.Errorf("%w: the view is kept for %v, and the log ends at %v", eventlog.ErrCorrupt, v.saved, ends)
	case ends == v.saved:
		return nil
	case len(data) > projections.DataBytesMax:
		return fmt.Errorf("%w: the view has %d bytes", eventlog.ErrCorrupt, len(data))
	}
	err := f.Store.Save(ctx, s.Key(v.View), data, v.version)
	switch {
	case errors.Is(err, projections.ErrChanged):
		if done, err := f.theirs(ctx, s, v, reach); done || err != nil {
			return err
		}
	case err == nil:
		v.saved = ends
		v.version++
	}
	return err
}

// theirs learns what another process has saved, and says whether it reaches far enough.
func (f *Follower) theirs(ctx context.Context, s *shard, v *view, reach projections.Ends) (done bool, err error) {
	k, _, ends, err := f.kept(ctx, s, v)
	v.saved, v.version = ends, k.Version
	return ends.Reach(reach), err
}

// begin starts a fold from the kept view, unless that reaches far enough already. One that the log does not go on from
// any more, or that this program cannot read, is made anew.
func (f *Follower) begin(ctx context.Context, s *shard, v *view, reach projections.Ends) (done bool, err error) {
	k, data, ends, err := f.kept(ctx, s, v)
	if err != nil && !Poisoned(err) {
		return false, err
	}
	v.saved, v.version = ends, k.Version
	if err == nil && data != nil {
		if ends.Reach(reach) {
			return true, nil
		}
		if v.fold, err = f.start(ctx, s, v, data, ends); err == nil {
			f.read(ctx, s, []*view{v}, nil)
			err, v.err = v.err, nil
		}
		if !Poisoned(err) {
			return false, err
		}
		v.fold = nil
	}
	v.fold, err = f.start(ctx, s, v, nil, projections.Ends{})
	return false, err
}

// kept gives what the store has.
func (f *Follower) kept(ctx context.Context, s *shard, v *view) (k projections.Kept, data []byte, ends projections.Ends, err error) {
	k, ok, err := f.Store.Load(ctx, s.Key(v.View))
	if err == nil && ok {
		if ends, data, err = projections.Unpack(k.Data); err != nil {
			err = fmt.Errorf("%w: %w", eventlog.ErrCorrupt, err)
		}
	}
	return k, data, ends, err
}

// made gives the view of a fold, with its ends. Snapshots that are due are kept before it, since nobody would make them if
// this ended between the two.
func (f *Follower) made(ctx context.Context, s *shard, v *view) (data []byte, err error) {
	defer broken(&err)
	data, err = v.fold.View(f.look(ctx, s))
	if err != nil {
		return nil, err
	}
	if keeper, ok := v.fold.Fold.(projections.Snapshotter); ok {
		if err := f.snapshots(ctx, s, keeper); err != nil {
			return nil, err
		}
	}
	return projections.Pack(v.fold.Ends(), data), nil
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

package views

import (
	"context"
	"errors"
	"fmt"

	"github.com/leaselog/leaselog/projections"
)

// Make makes a shard's view from the log alone, and keeps nothing. tell, if it is not nil, hears how many entries were
// folded.
func (f *Follower) Make(ctx context.Context, name projections.Shard, tell func(entries int)) (data []byte, err error) {
	s := &shard{Shard: name}
	if s.fold, err = f.start(ctx, name, nil, projections.Ends{}); err == nil {
		data, err = f.made(ctx, s, tell)
	}
	if err != nil {
		return nil, fmt.Errorf("view %s: %w", name.Key(f.Projection.View), err)
	}
	return data, nil
}

// Rebuild makes a shard's view from the log alone and puts it in place of the kept one, whatever that is.
func (f *Follower) Rebuild(ctx context.Context, name projections.Shard, tell func(entries int)) error {
	key := name.Key(f.Projection.View)
	err := projections.ErrChanged
	for try := 0; errors.Is(err, projections.ErrChanged) && try < attemptsMax; try++ {
		// The version first: what was saved after it is not overwritten by what is older.
		k, _, loadErr := f.Store.Load(ctx, key)
		if loadErr != nil {
			return loadErr
		}
		data, makeErr := f.Make(ctx, name, tell)
		if makeErr != nil {
			return makeErr
		}
		err = f.Store.Save(ctx, key, data, k.Version)
	}
	return err
}

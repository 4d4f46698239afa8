package views

import (
	"context"
	"errors"
	"fmt"

	"github.com/leaselog/leaselog/projections"
)

// Make makes a shard's view of a projection from the log alone, and keeps nothing. tell, if it is not nil, hears how many
// entries were read.
func (f *Follower) Make(ctx context.Context, name projections.Shard, p projections.Projection, tell func(entries int)) ([]byte, error) {
	v := &view{Projection: p}
	s := &shard{Shard: name, views: []*view{v}}
	var data []byte
	if v.fold, v.err = f.start(ctx, s, v, nil, projections.Ends{}); v.err == nil {
		f.read(ctx, s, s.views, tell)
	}
	if v.err == nil {
		data, v.err = f.made(ctx, s, v)
	}
	return data, s.settle()
}

// Rebuild makes a shard's view from the log alone and puts it in place of the kept one, whatever that is.
func (f *Follower) Rebuild(ctx context.Context, name projections.Shard, p projections.Projection, tell func(entries int)) error {
	key := name.Key(p.View)
	err := projections.ErrChanged
	for try := 0; errors.Is(err, projections.ErrChanged) && try < attemptsMax; try++ {
		// The version first: what was saved after it is not overwritten by what is older.
		k, _, loadErr := f.Store.Load(ctx, key)
		if loadErr != nil {
			return fmt.Errorf("view %s: %w", key, loadErr)
		}
		data, makeErr := f.Make(ctx, name, p, tell)
		if makeErr != nil {
			return makeErr
		}
		err = f.Store.Save(ctx, key, data, k.Version)
	}
	return err
}

package sweep

import (
	"context"
	"errors"
	"time"

	"github.com/leaselog/leaselog/internal/broker"
)

// WorkTasks counts the move tasks that were running.
const WorkTasks broker.Work = "tasks"

// Moves advances move tasks for as long as there is something to do soon: until no task is due within movesPatience, or
// its time is nearly over.
var Moves = Chore{Name: prefix + "moves", Does: "advances move tasks", Cloud: time.Minute, Embedded: time.Minute, Always: true, whole: moves}

const movesPatience = 5 * time.Second

func moves(ctx context.Context, r *run) error {
	b := r.site.Broker
	running, err := b.RunningMoves(ctx)
	if err != nil {
		return err
	}
	r.sweep.Did(WorkTasks, uint64(len(running)))
	if r.sweep.Dry || len(running) == 0 {
		return nil
	}
	err = r.advance(ctx)
	for _, before := range running {
		now, failed := b.Move(ctx, before.Queue, before.ID)
		if failed == nil {
			r.sweep.Did(broker.WorkMoved, now.Moved-before.Moved)
		} else if !broker.Ignorable(failed) {
			err = errors.Join(err, failed)
		}
	}
	return err
}

func (r *run) advance(ctx context.Context) error {
	b := r.site.Broker
	for {
		next, err := b.Moves(ctx)
		wait := time.Duration(next-b.Now()) * time.Millisecond
		if err != nil || wait > movesPatience {
			return err
		}
		if !r.end.IsZero() && time.Until(r.end)-max(wait, 0) < r.margin {
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

package host

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/leaselog/leaselog/internal/sweep"
)

const (
	// sweepEvery is how often the server looks which sweeps are due.
	sweepEvery = 5 * time.Second
	// sweepTimeout is what one sweep takes of the others' time; it goes on where it stopped.
	sweepTimeout = 30 * time.Second
)

// sweep does the chores that are due. Where other processes work on the same log, one of them does.
func (h *Host) sweep(ctx context.Context) error {
	var errs []error
	for _, c := range sweep.Chores() {
		if c.Name == sweep.Moves.Name {
			continue // it has a ticker of its own
		}
		stands, err := c.Stands(ctx, h.Sweeps)
		if err == nil && stands.IsDue(h.Broker) {
			err = h.sweepOnce(ctx, c)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

func (h *Host) sweepOnce(ctx context.Context, c sweep.Chore) error {
	ctx, cancel := context.WithTimeout(ctx, sweepTimeout)
	defer cancel()
	r, err := c.Run(ctx, h.Sweeps)
	if r.Total() > 0 {
		h.Logger.LogAttrs(ctx, slog.LevelDebug, "swept", slog.Any("run", r))
	}
	return err
}

package sweep

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/leaselog/leaselog/internal/broker"
)

// Report says what a run did.
type Report struct {
	Sweep  string                 `json:"sweep"`
	Dry    bool                   `json:"dry_run"`
	Queues int                    `json:"queues"` // that it looked at, deleted ones among them
	Done   map[broker.Work]uint64 `json:"done"`   // or what would be
	// Through says that all queues were gone through, by this run and those before it that were broken off.
	Through bool `json:"through"`
}

// LogValue implements [slog.LogValuer].
func (r Report) LogValue() slog.Value {
	attrs := []slog.Attr{slog.String("sweep", r.Sweep), slog.Int("queues", r.Queues), slog.Bool("through", r.Through)}
	for _, w := range slices.Sorted(maps.Keys(r.Done)) {
		attrs = append(attrs, slog.Uint64(string(w), r.Done[w]))
	}
	return slog.GroupValue(attrs...)
}

// Total is how much was done.
func (r Report) Total() (n uint64) {
	for _, d := range r.Done {
		n += d
	}
	return n
}

// run is one run of a chore.
type run struct {
	chore    Chore
	site     Site
	sweep    broker.Sweep
	hand     bool          // it goes through all queues, whatever the bookmark says
	progress func(n int)   // hears how many queues were looked at; may be nil
	end      time.Time     // when there is no time left; zero: whenever
	margin   time.Duration // what is kept of the time to stop in

	passes  uint64 // at its beginning
	after   string
	busy    bool // it has looked at a queue
	queues  int
	through bool
	failed  failures
}

const (
	// slice is how many queues are gone through between two saves of the bookmark.
	slice = 100
	// marginMost bounds the part of its time, a quarter, before whose beginning a run stops taking up queues. A queue
	// that takes longer is broken off in the midst of it.
	marginMost = 20 * time.Second
)

// Run goes through queues from where the last run stopped, until it has gone through all or its time is nearly over. The
// error is that of the queues that failed, which does not keep the others from their turn.
func (c Chore) Run(ctx context.Context, s Site) (Report, error) {
	r := &run{chore: c, site: s}
	return r.do(ctx)
}

// ByHand goes through all queues from the first on. A dry one changes nothing, and says what would be done.
func (c Chore) ByHand(ctx context.Context, s Site, dry bool, progress func(queues int)) (Report, error) {
	r := &run{chore: c, site: s, sweep: broker.Sweep{Dry: dry}, hand: true, progress: progress}
	return r.do(ctx)
}

func (r *run) do(ctx context.Context) (Report, error) {
	if end, bounded := ctx.Deadline(); bounded {
		r.end, r.margin = end, min(marginMost, time.Until(end)/4)
	}
	b, err := r.site.bookmark(ctx, r.chore)
	if err != nil {
		return r.report(), err
	}
	if r.passes = b.Passes; !r.hand {
		r.after = b.After
	}
	if r.chore.whole != nil {
		err = r.chore.whole(ctx, r)
		r.through = err == nil && ctx.Err() == nil
	} else {
		err = r.walk(ctx)
	}
	if r.through && !r.sweep.Dry {
		r.failed.add(r.save(ctx))
	}
	return r.report(), errors.Join(err, r.failed.err())
}

func (r *run) report() Report {
	if r.sweep.Done == nil {
		r.sweep.Done = map[broker.Work]uint64{}
	}
	return Report{r.chore.Word(), r.sweep.Dry, r.queues, r.sweep.Done, r.through}
}

// walk goes through the queues, a slice at a time.
func (r *run) walk(ctx context.Context) error {
	for !r.through {
		claims, err := r.site.Broker.Log.Claims(ctx, broker.QueuePrefix, r.after, slice)
		if err != nil {
			return fmt.Errorf("list the queues: %w", err)
		}
		for _, c := range claims {
			if r.late() || ctx.Err() != nil {
				r.keep(ctx)
				return ctx.Err()
			}
			f, err := broker.ReadFound(c)
			if err == nil {
				err = r.visit(ctx, f)
			}
			if errors.Is(err, errOver) {
				r.keep(ctx)
				return nil
			}
			r.failed.add(err)
			r.after = c.Key
			r.queues++
		}
		if r.progress != nil {
			r.progress(len(claims))
		}
		if r.through = len(claims) < slice; !r.through {
			r.keep(ctx)
		}
	}
	return nil
}

// keep saves the bookmark, of a run that has one. The run goes on where that fails, since it only spares work.
func (r *run) keep(ctx context.Context) {
	if !r.hand && r.after != "" {
		r.failed.add(r.save(ctx))
	}
}

// late says whether no further queue is to be taken up.
func (r *run) late() bool { return !r.end.IsZero() && time.Until(r.end) < r.margin }

// errOver says that a queue took the rest of the time. The next run begins with it, and has all its time for it.
var errOver = errors.New("the time was over in the midst of a queue")

// visit does the chore with a queue. One that takes all the time of a run from its beginning is left for the next pass, so
// that the others have their turn.
func (r *run) visit(ctx context.Context, f *broker.Found) error {
	first := !r.busy
	r.busy = true
	if r.end.IsZero() {
		return told(r.chore.queue(ctx, r, f), f)
	}
	within, cancel := context.WithDeadline(ctx, r.end.Add(-r.margin/2))
	defer cancel()
	err := told(r.chore.queue(within, r, f), f)
	if err != nil && within.Err() != nil && ctx.Err() == nil && !first {
		return errOver
	}
	return err
}

// told is an error with the queue that it is of, and nil for one that was deleted meanwhile.
func told(err error, f *broker.Found) error {
	if err == nil || broker.Ignorable(err) {
		return nil
	}
	return fmt.Errorf("queue %v: %w", f.ID, err)
}

// failures are the errors of single queues, of which the first are told.
type failures struct {
	first []error
	more  int
}

// failuresMax is how many are told.
const failuresMax = 10

func (f *failures) add(err error) {
	switch {
	case err == nil:
	case len(f.first) < failuresMax:
		f.first = append(f.first, err)
	default:
		f.more++
	}
}

func (f *failures) err() error {
	if f.more > 0 {
		return errors.Join(append(f.first, fmt.Errorf("and %d queues more", f.more))...)
	}
	return errors.Join(f.first...)
}

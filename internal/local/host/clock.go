package host

import (
	"sync/atomic"
	"time"

	"github.com/leaselog/leaselog/events"
)

// clock is the wall clock at the start plus monotonic time, so that a clock that is set back does not give leases a
// second life. The monotonic clock stands still while a machine is suspended: the wall clock, looked at now and then,
// moves this one forward, so that leases lapse meanwhile.
type clock struct {
	start time.Time // with its monotonic reading
	ahead atomic.Int64
	wall  func() int64
}

// clockDrift is how far the wall clock must be ahead before it counts, in milliseconds: less is the clock being slewed.
const clockDrift = 1_000

func newClock() *clock {
	return &clock{start: time.Now(), wall: func() int64 { return time.Now().UnixMilli() }}
}

func (c *clock) now() events.Instant {
	return events.Instant(c.start.UnixMilli() + time.Since(c.start).Milliseconds() + c.ahead.Load())
}

// compare moves the clock forward where the wall clock is clearly ahead of it.
func (c *clock) compare() {
	if ahead := c.wall() - int64(c.now()); ahead > clockDrift {
		c.ahead.Add(ahead)
	}
}

package sim

import (
	"math/rand/v2"

	"github.com/leaselog/leaselog/events"
	"github.com/leaselog/leaselog/internal/queue"
)

// plan is what a seed draws before it begins.
type plan struct {
	Hosts     int
	Exclusive bool // the one broker knows that nobody else writes
	Shards    int  // of a standard queue
	Limits    queue.Limits
	Faults    float64 // how many of the store's calls fail
	Crashes   bool
	Maintains bool // old history is dropped, and time passes faster
	Keys      bool // the keys are out of reach now and then
	Clocks    clocks
	Busy      int // commands at once
	Cache     int // bytes of decoded blocks
	Specs     []spec
}

// clocks says how far the brokers' clocks are from the truth, and by how much they step.
type clocks string

const (
	right clocks = "right"
	loose clocks = "within 1 s" // what the design must bear
	wrong clocks = "up to 20 s" // what a host refuses: leases may end early, nothing else may break
)

// slack is by how much two clocks may differ, in milliseconds.
func (c clocks) slack() events.Instant {
	return map[clocks]events.Instant{right: 0, loose: 2_000, wrong: 40_000}[c]
}

// spec is how the queues of one name are made.
type spec struct {
	Settings   events.Settings
	DeadLetter int // the name of its dead-letter queue, by index, or -1
	Receives   uint32
}

func one[T any](r *rand.Rand, of ...T) T { return of[r.IntN(len(of))] }

func chance(r *rand.Rand, p float64) bool { return r.Float64() < p }

func draw(r *rand.Rand) *plan {
	p := &plan{
		Hosts:     one(r, 1, 1, 2, 3),
		Shards:    1 + r.IntN(4),
		Faults:    one(r, 0, 0, 0.02, 0.1, 0.3),
		Crashes:   chance(r, 0.5),
		Maintains: chance(r, 0.25),
		Keys:      chance(r, 0.2),
		Clocks:    one(r, right, right, right, loose, loose, wrong),
		Busy:      1 + r.IntN(10),
		Cache:     one(r, 1, 2_000, 1<<20),
		Limits: queue.Limits{InFlight: one(r, 1, 2, 5, 1000), LookAhead: one(r, 1, 2, 5, 1000), Passed: one(r, 1, 2, 1000),
			Delayed: one(r, 1, 3, 1000)},
	}
	p.Exclusive = p.Hosts == 1 && chance(r, 0.5)
	for i, n := 0, one(r, 1, 2, 2, 3); i < n; i++ {
		p.Specs = append(p.Specs, drawSpec(r))
		p.Specs[i].DeadLetter = -1
		// Chains lead to the name before, which is of the same kind and there already.
		if i > 0 && chance(r, 0.8) {
			p.Specs[i].DeadLetter, p.Specs[i].Receives = i-1, one[uint32](r, 1, 1, 2, 3)
			p.Specs[i].Settings.Fifo = p.Specs[i-1].Settings.Fifo
			p.Specs[i].Settings.DelaySeconds = 0
		}
	}
	return p
}

func drawSpec(r *rand.Rand) spec {
	s := events.Settings{
		Fifo:             chance(r, 0.5),
		LeaseSeconds:     one[uint32](r, 1, 5, 30),
		RetentionSeconds: one[uint32](r, 20, 60, 3600, 86400),
		MaxBytes:         1024,
		KeyReuseSeconds:  one[uint32](r, 0, 60, 300),
		WaitSeconds:      one[uint32](r, 0, 0, 1, 5),
		Delivery:         one(r, events.OnePerGroup, events.AsManyAsFit),
		DedupScope:       one(r, events.DedupQueue, events.DedupGroup),
		DedupSeconds:     one[uint32](r, 5, 60, 300),
		ContentDedup:     chance(r, 0.3),
		DelaySeconds:     one[uint32](r, 0, 0, 0, 2),
	}
	return spec{Settings: s}
}

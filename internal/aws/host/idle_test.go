package host

import (
	"fmt"
	"sync"

	leaselog "github.com/leaselog/leaselog/events"
	"github.com/leaselog/leaselog/internal/broker"
)

const (
	pollSeconds = 20
	inFlight    = 10_000
)

// waiter is a warm process that receives from a queue in which nothing is.
type waiter struct {
	*process
	meter  *meter
	ask    func(wait int) response
	shards float64
	used   usage
}

func (c *cloud) waiter(shards int) *waiter {
	c.env[envShards] = fmt.Sprint(shards)
	s := c.story(fmt.Sprint("idle-", shards))
	w := &waiter{meter: new(meter), shards: float64(shards)}
	w.process = s.process(endpoints()["receive-messages"], map[string]string{"AWS_ENDPOINT_URL": s.metered(w.meter), envLogLevel: "INFO"})
	w.ask = func(wait int) response {
		e := s.event("receive-messages", "TOKEN", s.token, "orders", "idle-"+fmt.Sprint(shards))
		s.body(&e, map[string]any{"wait_time_seconds": wait})
		return w.process.ask(e)
	}
	return w
}

// empty is what a receive takes that finds nothing.
func (w *waiter) empty(wait int) usage {
	w.meter.taken()
	w.out.Reset()
	if a := w.ask(wait); a.Body != `{"messages":[]}` {
		w.Errorf("%d %s", a.StatusCode, a.Body)
	}
	u := w.meter.taken()
	u.invocations, u.logged = 1, float64(w.out.Len()+platformBytes+3*lineExtraBytes)
	u.seconds = max(float64(wait), u.calls*callSeconds) + invokeSeconds
	return u
}

// idle measures receives that find nothing, at once and after the longest poll, of a queue with one shard and with four;
// and, while the polls wait, what a process that is started reads of a queue with many messages in flight.
func idle(c *cloud, memory float64) (columns []column) {
	defer func(shards string) { c.env[envShards] = shards }(c.env[envShards])
	var all sync.WaitGroup
	waiters := []*waiter{c.waiter(1), c.waiter(4)}
	for _, w := range waiters {
		w.empty(0)
		u := w.empty(0)
		if over(u.reads, 2*w.shards) || u.writes > 0 {
			c.Errorf("a receive of nothing from %v shards: %v read units, at most two for each are promised", w.shards, u.reads)
		}
		columns = append(columns, column{fmt.Sprintf("at once, shards: %v", w.shards), u.bill(usage{}, memory), priceSQS})
	}
	for _, w := range waiters {
		all.Go(func() { w.used = w.empty(pollSeconds) })
	}
	c.env[envShards] = "1"
	cold(c)
	all.Wait()
	for _, w := range waiters {
		looks := w.used.calls / 2 // at both streams of a shard
		sure := w.shards + 1      // of one shard at the end; where there are several, all were asked before
		if w.shards == 1 {
			sure = 1
		}
		if over(w.used.reads, looks+sure) || looks < 20 {
			c.Errorf("%v looks of a long poll: %v read units, at most one for each and %v more are promised", looks, w.used.reads, sure)
		}
		columns = append(columns, column{fmt.Sprintf("after %d s, shards: %v", pollSeconds, w.shards), w.used.bill(usage{}, memory), priceSQS})
	}
	return columns
}

// cold prints what each function reads in its first invocation while many messages are in flight.
func cold(c *cloud) {
	l := &passage{name: "cold", size: 100, batch: 1}
	l.begin(c, "crowded")
	d := c.deployment()
	found, err := d.Broker.Find(c.Context(), broker.Ref{Account: "local", Name: l.queue})
	c.must(err)
	lease := uint32(3600)
	for range inFlight / 10 {
		var ten []broker.Outgoing
		for range 10 {
			ten = append(ten, broker.Outgoing{Message: leaselog.Message{Body: []byte(random(100))}})
		}
		_, err := d.Broker.Send(c.Context(), found.ID, ten)
		c.must(err)
		got, err := d.Broker.Receive(c.Context(), broker.Receive{Queue: found.ID, Max: 10, LeaseSeconds: &lease, WaitSeconds: new(uint32)})
		c.must(err)
		if len(got) != 10 {
			c.Fatalf("%d messages received", len(got))
		}
	}
	clear(l.warm)
	clear(l.meters)
	l.live()
	for name, u := range l.taken() {
		c.Logf("cold, with %d messages in flight: %s takes %.0f read units and %.0f calls, %.0f of them to KMS", inFlight, name, u.reads+u.claimReads, u.calls, u.kms)
		if most := 500.0; u.reads > most {
			c.Errorf("%s: at most %v are promised", name, most)
		}
	}
}

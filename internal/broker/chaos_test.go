package broker

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leaselog/leaselog/events"
	"github.com/leaselog/leaselog/internal/eventlog/eventlogtest"
	"github.com/leaselog/leaselog/internal/fault"
)

// chaos is what clients do who never give up, on a store that fails all the time, and the account of it.
type chaos struct {
	*world
	q, dead events.QueueID
	rand    *rand.Rand

	mu    sync.Mutex
	lives map[string]*life
	order map[string][]string // by group, first deliveries
}

// life is what is known of one message.
type life struct {
	id    events.MessageID
	until events.Instant // while it is leased
	acked bool           // and the answer said so
}

// TestChaos lets every sixth call fail, in every way, with one broker or two, and checks the promises: nothing lost,
// nothing delivered after its ack, no two leases at a time, first deliveries of a group in the order of sending.
func TestChaos(t *testing.T) {
	secret, seeds := openKeys(t), uint64(4)
	if testing.Short() {
		seeds = 1
	}
	for _, k := range kinds {
		for _, brokers := range []int{1, 2} {
			for seed := range seeds {
				t.Run(fmt.Sprintf("%s, %d brokers, seed %d", k.name, brokers, seed), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						runIn(t, secret, func(w *world) {
							c := &chaos{world: w, rand: rand.New(rand.NewPCG(seed, 1)), lives: map[string]*life{}, order: map[string][]string{}}
							c.run(k, brokers)
						}, onShards(k.shards), func(c *Config) { c.Exclusive = brokers == 1 })
					})
				})
			}
		}
	}
}

func (c *chaos) run(k kind, brokers int) {
	long := func(q *CreateQueue) {
		if q.Settings.DedupSeconds > 0 {
			q.Settings.DedupSeconds = 86_400
		}
	}
	c.dead = c.create("dead", k.fifo, long)
	c.q = c.create("q", k.fifo, long, deadLetter(c.dead, 3))
	all := []*Broker{c.b}
	for len(all) < brokers {
		all = append(all, c.another())
	}
	c.log.Plan(c.plan)
	var senders, others sync.WaitGroup
	stop := make(chan struct{})
	for i := range 6 {
		senders.Go(func() { c.sender(all[i%brokers], i, k.fifo) })
		others.Go(func() { c.receiver(all[i%brokers], c.q, stop) })
	}
	for i := range brokers {
		others.Go(func() {
			time.Sleep(time.Minute) // until then move tasks bring back what is there
			c.receiver(all[i], c.dead, stop)
		})
		others.Go(func() { c.ticker(all[i], stop) })
		others.Go(func() { c.mover(all[i], c.dead, stop) })
	}
	senders.Wait()
	time.Sleep(5 * time.Minute)
	c.log.Plan(nil)
	c.log.Land()
	time.Sleep(5 * time.Minute)
	close(stop)
	others.Wait()
	c.verify(k)
}

func (c *chaos) plan(call eventlogtest.Call) eventlogtest.Fault {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch n := c.rand.IntN(100); {
	case !call.Op.Writes() && n < 3:
		return eventlogtest.Before
	case call.Op != eventlogtest.OpCommit:
	case n < 16:
		return []eventlogtest.Fault{eventlogtest.Refuse, eventlogtest.Before, eventlogtest.After, eventlogtest.Late}[n/4]
	case n < 20:
		go c.log.Land()
	}
	return eventlogtest.Pass
}

func (c *chaos) chance(n int) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.rand.IntN(n)
}

// sender repeats a message until it is taken. In a FIFO queue it keeps its id, elsewhere every attempt is its own.
func (c *chaos) sender(b *Broker, i int, fifo bool) {
	for n := range 30 {
		for attempt := 0; ; attempt++ {
			body := fmt.Sprintf("%d-%d", i, n)
			if !fifo {
				body += fmt.Sprintf(" (%d)", attempt)
			}
			sent, err := b.Send(c.ctx, c.q, out(fmt.Sprintf("g%d:%s", i, body)))
			if err == nil {
				err = sent[0].Err
			}
			if err == nil {
				c.took(body, sent[0].ID)
				break
			}
			c.expect(err, fault.Unavailable, fault.Unconfirmed)
			time.Sleep(100 * time.Millisecond)
		}
		time.Sleep(time.Duration(c.chance(200)) * time.Millisecond)
	}
}

func (c *chaos) took(body string, id events.MessageID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	l := c.life(body)
	if l.id != (events.MessageID{}) && l.id != id {
		c.t.Errorf("%s was sent as %v and delivered as %v", body, id, l.id)
	}
	l.id = id
}

func (c *chaos) life(body string) *life {
	if c.lives[body] == nil {
		c.lives[body] = &life{}
	}
	return c.lives[body]
}

func (c *chaos) expect(err error, codes ...fault.Code) {
	for _, code := range codes {
		if fault.Is(err, code) {
			return
		}
	}
	if !errors.Is(err, eventlogtest.ErrInjected) {
		c.t.Errorf("the answer %v", err)
	}
}

func (c *chaos) receiver(b *Broker, q events.QueueID, stop chan struct{}) {
	for {
		select {
		case <-stop:
			return
		default:
		}
		found, err := b.Receive(c.ctx, Receive{Queue: q, Max: 1 + c.chance(4), LeaseSeconds: seconds(5), WaitSeconds: seconds(uint32(c.chance(4)))})
		if err != nil {
			c.expect(err, fault.Unavailable, fault.Unconfirmed)
			time.Sleep(100 * time.Millisecond)
		}
		for _, d := range found {
			c.delivered(d, b.Now())
		}
		time.Sleep(time.Duration(c.chance(100)) * time.Millisecond)
		for _, d := range found {
			if c.chance(4) > 0 {
				c.finish(b, q, d)
			}
		}
	}
}

func (c *chaos) delivered(d Delivery, now events.Instant) {
	c.mu.Lock()
	defer c.mu.Unlock()
	body := string(d.Message.Body)
	l := c.life(body)
	switch {
	case l.acked:
		c.t.Errorf("%s comes after its ack", body)
	case l.until > now:
		c.t.Errorf("%s is leased until %d, and again at %d", body, l.until, now)
	case l.id != (events.MessageID{}) && l.id != d.ID:
		c.t.Errorf("%s was sent as %v and is delivered as %v", body, l.id, d.ID)
	}
	if l.id, l.until = d.ID, d.Visible; d.Receives == 1 && d.Origin == nil {
		c.order[d.Message.Group] = append(c.order[d.Message.Group], body)
	}
}

// finish acks until the answer is certain.
func (c *chaos) finish(b *Broker, q events.QueueID, d Delivery) {
	for {
		results, err := b.Ack(c.ctx, q, []string{d.Receipt})
		if err == nil {
			err = results[0]
		}
		if err == nil {
			c.mu.Lock()
			c.life(string(d.Message.Body)).acked = true
			c.mu.Unlock()
			return
		}
		if c.expect(err, fault.Unavailable, fault.Unconfirmed, fault.LeaseEnded); fault.Is(err, fault.LeaseEnded) {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
}

func (c *chaos) ticker(b *Broker, stop chan struct{}) {
	for n := 0; ; n++ {
		select {
		case <-stop:
			return
		case <-time.After(500 * time.Millisecond):
		}
		err := b.Tick(c.ctx)
		if n%20 == 19 {
			err = errors.Join(err, maintain(c.ctx, b, History{Before: b.Now()}))
		}
		if err != nil {
			c.expect(err, fault.Unavailable, fault.Unconfirmed)
		}
	}
}

func (c *chaos) verify(k kind) {
	c.t.Helper()
	for body, l := range c.lives {
		if !l.acked && l.until == 0 {
			c.t.Errorf("%s was lost", body)
		}
	}
	c.wantDepth(c.q, 0, 0, 0)
	c.wantDepth(c.dead, 0, 0, 0)
	if !k.fifo {
		return
	}
	for group, got := range c.order {
		for i := 1; i < len(got); i++ {
			var a, b, x int
			fmt.Sscanf(got[i-1], "%d-%d", &x, &a)
			fmt.Sscanf(got[i], "%d-%d", &x, &b)
			if b <= a {
				c.t.Errorf("group %s: %s after %s", group, got[i], got[i-1])
			}
		}
	}
}

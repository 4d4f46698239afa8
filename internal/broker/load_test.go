package broker

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/leaselog/leaselog/events"
	"github.com/leaselog/leaselog/internal/fault"
)

// load is what many goroutines do to one queue with the real clock, and the account of it.
type load struct {
	*world
	q, dead events.QueueID
	fifo    bool
	ctx     context.Context

	mu   sync.Mutex
	sent map[string]bool // not acked yet
	held map[string]bool // being worked on
}

// TestManyAtOnce lets 64 goroutines do everything at once, and then finds every message that was sent and not acked,
// once.
func TestManyAtOnce(t *testing.T) {
	for _, k := range kinds {
		t.Run(k.name, func(t *testing.T) {
			w := newWorld(t, openKeys(t), onShards(k.shards))
			l := &load{world: w, fifo: k.fifo, sent: map[string]bool{}, held: map[string]bool{}}
			l.dead = w.create("dead", k.fifo)
			l.q = w.create("q", k.fifo, deadLetter(l.dead, 1000))
			ctx, stop := context.WithTimeout(w.ctx, time.Second)
			defer stop()
			l.ctx = ctx
			var work sync.WaitGroup
			for i := range 64 {
				work.Go(func() {
					for n := 0; ctx.Err() == nil; n++ {
						l.step(fmt.Sprintf("g%d:%d-%d", rand.IntN(10), i, n))
					}
				})
			}
			work.Wait()
			l.account()
			w.end()
		})
	}
}

func (l *load) step(text string) {
	switch n := rand.IntN(100); {
	case n < 40:
		l.sendOne(text)
	case n < 80:
		l.work()
	case n < 84:
		l.leaver()
	case n < 88:
		l.check(l.peek())
	case n < 92:
		_, err := l.b.Describe(l.world.ctx, l.q)
		l.check(err)
	case n < 94:
		l.check(l.b.Tick(l.world.ctx))
	case n < 96:
		_, err := l.b.Update(l.world.ctx, UpdateQueue{Queue: l.q, MaxBytes: seconds(uint32(1024 + rand.IntN(9)))})
		l.check(err)
	case n < 97:
		l.check(maintain(l.world.ctx, l.b, History{}))
	case n < 99:
		l.otherQueue(text)
	default:
		_, _, err := l.b.List(l.world.ctx, ListQueues{Account: "a", Limit: 10})
		l.check(err)
	}
}

func (l *load) check(err error) {
	if err != nil && !errors.Is(err, context.DeadlineExceeded) {
		l.t.Error(err)
	}
}

func (l *load) sendOne(text string) {
	m := out(text)
	l.mu.Lock()
	l.sent[string(m[0].Message.Body)] = true // before the answer, since another may receive it first
	l.mu.Unlock()
	l.sendBy(l.b, l.q, m...)
}

// work receives, and acks most of it.
func (l *load) work() {
	found, err := l.b.Receive(l.ctx, Receive{Queue: l.q, Max: 1 + rand.IntN(5), WaitSeconds: seconds(uint32(rand.IntN(2)))})
	if err != nil {
		if !fault.Is(err, fault.Unconfirmed) || l.ctx.Err() == nil {
			l.t.Error(err)
		}
		return
	}
	l.mu.Lock()
	for _, d := range found {
		m := string(d.Message.Body)
		if l.held[m] {
			l.t.Errorf("%s is leased twice", m)
		}
		l.held[m] = true
	}
	l.mu.Unlock()
	for _, d := range found {
		ack := rand.IntN(10) > 0
		l.mu.Lock()
		delete(l.held, string(d.Message.Body))
		if ack {
			delete(l.sent, string(d.Message.Body))
		}
		l.mu.Unlock()
		if ack {
			l.ack(l.q, d)
		} else {
			l.release(l.q, d)
		}
	}
}

// leaver waits for messages and leaves soon.
func (l *load) leaver() {
	ctx, cancel := context.WithTimeout(l.world.ctx, time.Duration(rand.IntN(500))*time.Microsecond)
	defer cancel()
	found, err := l.b.Receive(ctx, Receive{Queue: l.q, Max: 1, WaitSeconds: seconds(5)})
	if err == nil {
		for _, d := range found {
			l.release(l.q, d)
		}
	}
}

func (l *load) peek() error {
	page, err := l.b.Peek(l.world.ctx, Peek{Queue: l.q, Limit: 20})
	for _, r := range page.Rows {
		if r.Message == nil || r.ID == (events.MessageID{}) {
			l.t.Errorf("a row without its message: %+v", r)
		}
	}
	return err
}

// otherQueue lives for a moment, with polls that wait when it is deleted.
func (l *load) otherQueue(name string) {
	q, err := l.b.Create(l.world.ctx, CreateQueue{Account: "b", Name: name, Settings: settings(l.fifo)})
	if err != nil {
		l.t.Error(err)
		return
	}
	var told atomic.Int32
	var polls sync.WaitGroup
	for range 3 {
		polls.Go(func() {
			if _, err := l.b.Receive(l.world.ctx, Receive{Queue: q.ID, Max: 1, WaitSeconds: seconds(20)}); fault.Is(err, fault.NotFound) {
				told.Add(1)
			}
		})
	}
	_, err = l.b.Purge(l.world.ctx, q.ID)
	l.check(err)
	l.check(l.b.Delete(l.world.ctx, Ref{Account: "b", ID: q.ID}))
	polls.Wait()
	if told.Load() != 3 {
		l.t.Errorf("%d of 3 polls heard of the deletion", told.Load())
	}
}

// account finds what is left.
func (l *load) account() {
	left := map[string]int{}
	deadline := time.Now().Add(3 * time.Second) // what leavers took is given back by then
	for time.Now().Before(deadline) && len(left) < len(l.sent) {
		found := l.receiveBy(l.b, Receive{Queue: l.q, Max: 10, WaitSeconds: seconds(1)})
		for _, d := range found {
			left[string(d.Message.Body)]++
		}
		if len(found) > 0 {
			l.ack(l.q, found...)
		}
	}
	for m, n := range left {
		if n != 1 || !l.sent[m] {
			l.t.Errorf("%s came %d times at the end, sent and not acked %v", m, n, l.sent[m])
		}
	}
	if len(left) != len(l.sent) {
		l.t.Errorf("%d of %d messages are left", len(left), len(l.sent))
	}
	l.wantDepth(l.q, 0, 0, 0)
}

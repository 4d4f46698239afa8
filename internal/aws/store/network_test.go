package store

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/leaselog/leaselog/events"
	"github.com/leaselog/leaselog/internal/broker"
	"github.com/leaselog/leaselog/internal/eventlog"
	"github.com/leaselog/leaselog/internal/eventlog/eventlogtest"
)

// badNetwork lets one call in eight fail, before it took effect or after.
type badNetwork struct{ next http.RoundTripper }

func (b badNetwork) RoundTrip(r *http.Request) (*http.Response, error) {
	faults := []func(*http.Request, http.RoundTripper) (*http.Response, error){
		answerLost, neverSent, answers(500, "InternalServerError", ""), answers(400, "ThrottlingException", "")}
	if n := rand.IntN(8 * len(faults)); n < len(faults) {
		return faults[n](r, b.next)
	}
	return b.next.RoundTrip(r)
}

const leaseSeconds = 3

// promises is what clients were answered, and so what must hold.
type promises struct {
	*testing.T
	mu       sync.Mutex
	sent     map[events.MessageID]bool
	acked    map[events.MessageID]bool
	leases   map[events.MessageID]events.Instant // when the newest lapses
	failures int
}

// failed counts an answer that promises nothing.
func (p *promises) failed() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.failures++
}

func (p *promises) send(b *broker.Broker, q events.QueueID, n int) {
	for i := range n {
		answers, err := b.Send(p.Context(), q, []broker.Outgoing{message([]byte("body"), false, fmt.Sprint(i))})
		if err != nil || answers[0].Err != nil {
			p.failed()
			continue
		}
		p.mu.Lock()
		p.sent[answers[0].ID] = true
		p.mu.Unlock()
	}
}

// receive goes on until nothing is sent any more and all that was sent is acked.
func (p *promises) receive(b *broker.Broker, q events.QueueID, over *atomic.Bool) {
	for deadline := time.Now().Add(2 * time.Minute); !over.Load() || !p.kept(); {
		if time.Now().After(deadline) {
			p.Errorf("%d of %d messages are acked in two minutes", len(p.acked), len(p.sent))
			return
		}
		wait, lease := uint32(1), uint32(leaseSeconds)
		found, err := b.Receive(p.Context(), broker.Receive{Queue: q, Max: 5, WaitSeconds: &wait, LeaseSeconds: &lease})
		if err != nil {
			p.failed()
			continue
		}
		for _, m := range found {
			p.leased(m)
		}
		for _, m := range found {
			if answers, err := b.Ack(p.Context(), q, []string{m.Receipt}); err != nil || answers[0] != nil {
				p.failed()
				continue
			}
			p.mu.Lock()
			p.acked[m.ID] = true
			p.mu.Unlock()
		}
	}
}

// leased holds a delivery to what was promised before.
func (p *promises) leased(m broker.Delivery) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.acked[m.ID] {
		p.Errorf("%v is delivered after its ack", m.ID)
	}
	if begins := m.Visible - leaseSeconds*1000; p.leases[m.ID] > begins {
		p.Errorf("%v is leased until %d, and again from %d on", m.ID, p.leases[m.ID], begins)
	}
	p.leases[m.ID] = max(p.leases[m.ID], m.Visible)
}

func (p *promises) kept() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for id := range p.sent {
		if !p.acked[id] {
			return false
		}
	}
	return true
}

// Two brokers on networks that lose one call in eight keep every promise that they gave an answer for.
func TestBrokersOnBadNetworks(t *testing.T) {
	d := startDatabase(t)
	good, tables := brokers(t, d, 2, 1, nil)
	q := newQueue(t, good[0], false)
	bad := d.through(func(next http.RoundTripper) http.RoundTripper { return badNetwork{next} })
	p := &promises{T: t, sent: map[events.MessageID]bool{}, acked: map[events.MessageID]bool{}, leases: map[events.MessageID]events.Instant{}}
	var sending, receiving sync.WaitGroup
	var over atomic.Bool
	for _, b := range brokersOn(t, d, tables, good[0], bad, bad) {
		for range 2 {
			sending.Go(func() { p.send(b, q, 60) })
			receiving.Go(func() { p.receive(b, q, &over) })
		}
	}
	sending.Wait()
	over.Store(true)
	receiving.Wait()
	t.Logf("%d messages sent and acked, %d answers promised nothing", len(p.sent), p.failures)
	if len(p.sent) == 0 {
		t.Error("nothing was sent")
	}
	good[0].Close()
	for i := range 2 {
		if err := eventlogtest.Check(t.Context(), d.openOn(t, tables), eventlog.Stream(events.MessageStream(q, i, 0)), eventlog.Stream(events.LedgerStream(q, i))); err != nil {
			t.Error(err)
		}
	}
}

// brokersOn starts brokers like one that runs, each on a store of its own.
func brokersOn(t *testing.T, d database, tables Tables, like *broker.Broker, edits ...func(*Config)) (all []*broker.Broker) {
	t.Helper()
	for _, edit := range edits {
		c := like.Config
		c.Log = d.openOn(t, tables, edit)
		b, err := broker.New(c)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(b.Close)
		all = append(all, b)
	}
	return all
}

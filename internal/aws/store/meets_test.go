package store

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/http"
	"testing"

	"github.com/leaselog/leaselog/events"
	"github.com/leaselog/leaselog/internal/broker"
	"github.com/leaselog/leaselog/internal/fault"
)

// meeting is what a call meets on the network.
type meeting = func(*http.Request, http.RoundTripper) (*http.Response, error)

// TestBrokerMeets lets each command of a broker meet each fault of a write, alone and under an idempotency key. Where
// DynamoDB has certainly done nothing the caller is told so, and asks again; where it does not say, the broker finds out
// by itself. Either way the command took effect once.
func TestBrokerMeets(t *testing.T) {
	d := startDatabase(t)
	n := &network{}
	all, _ := brokers(t, d, 1, 1, nil, d.through(func(next http.RoundTripper) http.RoundTripper {
		n.next = next
		return n
	}))
	for _, f := range []struct {
		name string
		plan []meeting
		told bool
	}{
		{"nothing", nil, false},
		{"a lost answer", []meeting{answerLost}, false},
		{"two lost answers", []meeting{answerLost, answerLost}, false},
		{"nobody listening", []meeting{neverSent, neverSent}, false},
		{"500", []meeting{answers(500, "InternalServerError", "")}, false},
		{"itself in progress", []meeting{answers(400, "TransactionInProgressException", "")}, false},
		{"a lost answer, then throttling", []meeting{answerLost, answers(400, "ThrottlingException", "")}, false},
		{"throttling", []meeting{answers(400, "ThrottlingException", "")}, true},
		{"throughput exceeded", []meeting{answers(400, "ProvisionedThroughputExceededException", "")}, true},
		{"another transaction", []meeting{answers(400, "TransactionConflictException", "")}, true},
		{"a cancelled transaction", []meeting{cancelled("TransactionConflict", "None")}, true},
		{"a throttled transaction", []meeting{cancelled("None", "ThrottlingError")}, true},
	} {
		for _, keyed := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, keyed %v", f.name, keyed), func(t *testing.T) {
				m := meets{T: t, Broker: all[0], network: n, plan: f.plan, told: f.told, keyed: keyed}
				m.life()
			})
		}
	}
}

type meets struct {
	*testing.T
	*broker.Broker
	*network
	plan        []meeting
	told, keyed bool
	commands    int
}

// life is that of a message, each command of which meets the fault.
func (m *meets) life() {
	q, err := m.Create(m.Context(), broker.CreateQueue{Account: "a", Name: "q" + rand.Text(), Settings: events.Settings{
		LeaseSeconds: 30, RetentionSeconds: 3600, MaxBytes: 1024, KeyReuseSeconds: 300}})
	if err != nil {
		m.Fatal(err)
	}
	none := uint32(0)
	var found []broker.Delivery
	single := func(answers []error, err error) error {
		if err == nil {
			err = answers[0]
		}
		return err
	}
	m.does("send", func(ctx context.Context) error {
		_, err := m.Send(ctx, q.ID, []broker.Outgoing{message([]byte("body"), false, "")})
		return err
	})
	m.wants(q.ID, broker.Counts{Available: 1})
	m.does("receive", func(ctx context.Context) (err error) {
		found, err = m.Receive(ctx, broker.Receive{Queue: q.ID, Max: 10, WaitSeconds: &none})
		return err
	})
	if len(found) != 1 || found[0].Receives != 1 {
		m.Fatalf("received: %+v", found)
	}
	m.wants(q.ID, broker.Counts{InFlight: 1})
	m.does("extend", func(ctx context.Context) error {
		return single(m.Extend(ctx, q.ID, []broker.Extend{{Receipt: found[0].Receipt, Seconds: 60}}))
	})
	m.does("ack", func(ctx context.Context) error { return single(m.Ack(ctx, q.ID, receiptsOf(found))) })
	m.wants(q.ID, broker.Counts{})
}

// does a command whose next writes meet the fault.
func (m *meets) does(what string, do func(context.Context) error) {
	m.Helper()
	ctx := m.Context()
	if m.commands++; m.keyed {
		ctx = broker.With(ctx, broker.Once{Account: "a", Key: fmt.Sprint(m.Name(), m.commands), Print: []byte("p")})
	}
	m.meets(m.plan...)
	err := do(ctx)
	if left := len(m.network.plan); left > 0 {
		m.Errorf("%s met only %d of %d faults", what, len(m.plan)-left, len(m.plan))
	}
	if m.told {
		if !fault.Is(err, fault.Unavailable) {
			m.Errorf("%s: %v, want to be told that nothing was done", what, err)
		}
		err = do(ctx)
	}
	if err != nil {
		m.Errorf("%s: %v", what, err)
	}
}

func (m *meets) wants(q events.QueueID, want broker.Counts) {
	m.Helper()
	if about, err := m.Describe(m.Context(), q); err != nil || about.Depth.Counts != want {
		m.Errorf("the depth is %+v, %v; want %+v", about.Depth, err, want)
	}
}

package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"
)

// TestKill holds promises 1, 2 and 4 against the operating system: the server is killed with SIGKILL at random moments
// under load and started again on the same data, and every acknowledged send and ack is accounted for. LEASELOG_KILLS
// sets the number of kills; `make crash` does 200.
func TestKill(t *testing.T) {
	kills := 8
	if s := os.Getenv("LEASELOG_KILLS"); s != "" {
		n, err := strconv.Atoi(s)
		if err != nil {
			t.Fatal(err)
		}
		kills = n
	}
	seed := rand.Uint64()
	chance := rand.New(rand.NewPCG(seed, 0))
	t.Logf("seed %d, %d kills", seed, kills)
	s := newServer(t)
	s.start(t)
	l := newLedger()
	for _, q := range []string{"plain", "ordered.fifo"} {
		s.must(t, "POST", "/v1/queues", map[string]any{"name": q, "visibility_timeout_seconds": 2})
	}
	ctx, stop := context.WithCancel(t.Context())
	var workers sync.WaitGroup
	for w := range 4 {
		workers.Go(func() { sendPlain(ctx, s, l, w) })
		workers.Go(func() { sendOrdered(ctx, s, l, w) })
		workers.Go(func() { consume(ctx, s, l, "plain") })
		workers.Go(func() { consume(ctx, s, l, "ordered.fifo") })
	}
	for k := range kills {
		<-time.After(time.Duration(50+chance.IntN(450)) * time.Millisecond)
		s.kill(t)
		if k%max(1, kills/40) == 0 { // it reads all that there is, which grows
			s.check(t)
			s.sameViews(t)
		}
		s.start(t)
	}
	<-time.After(200 * time.Millisecond)
	stop()
	workers.Wait()
	drain(t.Context(), s, l)
	s.stop(t)
	l.account(t)
	s.check(t)
	s.sameViews(t)
}

// sendPlain sends messages to the standard queue. What was not acknowledged may have arrived or not; it is not sent
// again.
func sendPlain(ctx context.Context, s *server, l *ledger, worker int) {
	for n := 0; ctx.Err() == nil; n++ {
		body := fmt.Sprintf("plain %d %d", worker, n)
		if s.call(ctx, "POST", "/v1/queues/plain/messages", map[string]any{"body": body}, nil) != nil {
			pause(ctx)
			continue
		}
		l.sent(body)
	}
}

// sendOrdered sends messages of one group, each as often as it takes under one deduplication id.
func sendOrdered(ctx context.Context, s *server, l *ledger, worker int) {
	for n := 0; ctx.Err() == nil; n++ {
		body := fmt.Sprintf("ordered %d %d", worker, n)
		m := map[string]any{"body": body, "message_group_id": strconv.Itoa(worker), "message_deduplication_id": body}
		for ctx.Err() == nil {
			if s.call(ctx, "POST", "/v1/queues/ordered.fifo/messages", m, nil) == nil {
				l.sent(body)
				break
			}
			pause(ctx)
		}
	}
}

// pause leaves the machine to others while the server is away.
func pause(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-time.After(2 * time.Millisecond):
	}
}

type received struct {
	Messages []struct {
		Body    string `json:"body"`
		Receipt string `json:"receipt_handle"`
	} `json:"messages"`
}

// consume receives and acks. A part of the messages is left to lapse, as if their worker had died.
func consume(ctx context.Context, s *server, l *ledger, queue string) {
	for ctx.Err() == nil {
		takeSome(ctx, s, l, queue, func() bool { return rand.IntN(20) == 0 })
	}
}

// takeSome receives once, and acks what is not left out. It says how many messages came.
func takeSome(ctx context.Context, s *server, l *ledger, queue string, leave func() bool) int {
	var got received
	began := l.now()
	if s.call(ctx, "POST", "/v1/queues/"+queue+"/messages/receive", map[string]any{"max_messages": 5, "wait_time_seconds": 1}, &got) != nil {
		pause(ctx)
		return 0
	}
	for _, m := range got.Messages {
		l.received(m.Body, began)
		if leave() {
			continue
		}
		l.acking(m.Body)
		if s.call(ctx, "DELETE", "/v1/queues/"+queue+"/messages?receipt_handle="+m.Receipt, nil, nil) == nil {
			l.acked(m.Body)
		}
	}
	return len(got.Messages)
}

// drain takes everything that is left, until nothing has come for longer than a lease.
func drain(ctx context.Context, s *server, l *ledger) {
	var workers sync.WaitGroup
	for _, queue := range []string{"plain", "plain", "plain", "ordered.fifo", "ordered.fifo", "ordered.fifo", "ordered.fifo"} {
		workers.Go(func() {
			for quiet := 0; quiet < 4 && ctx.Err() == nil; quiet++ {
				for takeSome(ctx, s, l, queue, func() bool { return false }) > 0 {
					quiet = 0
				}
			}
		})
	}
	workers.Wait()
}

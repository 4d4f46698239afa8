package store

import (
	"context"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/leaselog/leaselog/internal/api/rest"
	"github.com/leaselog/leaselog/internal/auth"
	"github.com/leaselog/leaselog/internal/client"
)

// throttling refuses a fifth of the writes, and lets half of those take effect first where late is true.
type throttling struct {
	next  http.RoundTripper
	late  bool
	over  atomic.Bool
	calls atomic.Int64
	met   atomic.Int64
}

func (th *throttling) RoundTrip(r *http.Request) (*http.Response, error) {
	th.calls.Add(1)
	_, operation, _ := strings.Cut(r.Header.Get("X-Amz-Target"), ".")
	if operation == "Query" || operation == "GetItem" || th.over.Load() || mathrand.N(5) != 0 {
		return th.next.RoundTrip(r)
	}
	th.met.Add(1)
	if th.late && mathrand.N(2) == 0 {
		resp, err := th.next.RoundTrip(r)
		if err != nil {
			return nil, err
		}
		resp.Body.Close()
	} else if r.Body != nil {
		r.Body.Close()
	}
	if operation == "TransactWriteItems" && mathrand.N(2) == 0 {
		return cancelled("None", "ThrottlingError")(r, th.next)
	}
	return answers(400, []string{"ThrottlingException", "ProvisionedThroughputExceededException"}[mathrand.N(2)], "")(r, th.next)
}

// shop is servers on one table set whose writes are throttled, and clients that send to and receive from them.
type shop struct {
	*testing.T
	*witness
	throttling
	client   *client.Client
	requests atomic.Int64
	statuses sync.Map
	sold     atomic.Int64
}

const (
	shopMessages = 2000
	shopLease    = 3 // seconds
	shopQueue    = "q"
)

// TestThrottled is case G3, its times divided by ten: a table that throttles gives no duplicates inside a lease and loses
// nothing, also where it has applied what it says it refused; clients see nothing but errors that they may repeat.
func TestThrottled(t *testing.T) {
	d := startDatabase(t)
	for _, late := range []bool{false, true} {
		t.Run(fmt.Sprint("applied all the same: ", late), func(t *testing.T) {
			t.Parallel() // most of it is waiting
			openShop(t, d, late).run()
		})
	}
}

func openShop(t *testing.T, d database, late bool) *shop {
	s := &shop{T: t, witness: newWitness()}
	s.late = late
	s.over.Store(true)
	servers, _ := brokers(t, d, 4, 2, nil, d.through(func(next http.RoundTripper) http.RoundTripper {
		s.next = next
		return &s.throttling
	}))
	var handlers []http.Handler
	for _, b := range servers {
		h, err := rest.New(rest.Config{Broker: b, Auth: auth.Development{}, Secret: make([]byte, 16),
			Failed: func(status int, code string) { s.statuses.Store(fmt.Sprint(status, " ", code), status) }})
		if err != nil {
			t.Fatal(err)
		}
		handlers = append(handlers, h)
	}
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		handlers[s.requests.Add(1)%int64(len(handlers))].ServeHTTP(w, r)
	}))
	t.Cleanup(web.Close)
	var err error
	if s.client, err = client.New(client.Config{Endpoint: web.URL, Token: "any", Wait: soon}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.client.CreateQueue(t.Context(), client.CreateQueue{Name: shopQueue}); err != nil {
		t.Fatal(err)
	}
	return s
}

// soon is a tenth of a pause.
func soon(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d / 10):
		return nil
	}
}

func (s *shop) run() {
	s.over.Store(false)
	var senders, consumers sync.WaitGroup
	began, sending := time.Now(), atomic.Bool{}
	sending.Store(true)
	for i := range 8 {
		senders.Go(func() { s.sender(i) })
		consumers.Go(func() {
			for time.Since(began) < 2*time.Minute && (sending.Load() || s.left() > 0) && !s.Failed() {
				s.consume()
			}
		})
	}
	senders.Wait()
	sending.Store(false)
	consumers.Wait()
	s.Logf("%d messages in %v, %d writes refused", len(s.sent), time.Since(began).Round(time.Millisecond), s.met.Load())
	if perRequest := float64(s.calls.Load()) / float64(s.requests.Load()); perRequest > 15 {
		s.Errorf("%.0f calls to DynamoDB for each request: somebody spins", perRequest)
	}
	s.over.Store(true)
	for until := time.Now().Add(2 * shopLease * time.Second); time.Now().Before(until); {
		s.consume() // nothing that was deleted returns for two leases
	}
	s.judge(s)
	if s.met.Load() < 100 {
		s.Errorf("only %d writes were refused", s.met.Load())
	}
	for status := range s.statuses.Range {
		switch text := status.(string); text {
		case "503 UNAVAILABLE", "409 QUEUE_RECEIPT_HANDLE_EXPIRED":
		default:
			s.Errorf("a client was answered %s", text)
		}
	}
}

// sender sends until all are sent; every second one under keys, so that its calls are repeated.
func (s *shop) sender(n int) {
	for i := 0; s.sold.Load() < shopMessages && !s.Failed(); i++ {
		key := ""
		if n%2 == 0 {
			key = fmt.Sprint("key-", n, "-", i)
		}
		sent, err := s.client.Send(s.Context(), shopQueue, client.Outgoing{Body: "goods"}, key)
		if err != nil {
			s.transient("send", err)
			s.doubts(1)
			continue
		}
		s.sends(s, sent.MessageID)
		s.sold.Add(1)
	}
}

// consume works on up to ten messages, holding them by extensions, and deletes them.
func (s *shop) consume() {
	length, wait := shopLease, 1
	found, err := s.client.Receive(s.Context(), shopQueue, client.Receive{MaxMessages: 10, VisibilityTimeoutSeconds: &length, WaitTimeSeconds: &wait})
	if err != nil {
		s.transient("receive", err)
		return
	}
	held := make(map[string]*lease, len(found))
	for _, m := range found {
		end := m.VisibleAt.UnixMilli()
		held[m.ReceiptHandle] = &lease{m.ID, uint32(m.ReceiveCount), end - shopLease*1000, end}
		s.delivers(held[m.ReceiptHandle])
	}
	ready := time.After(100*time.Millisecond + mathrand.N(400*time.Millisecond))
	for working := len(held) > 0; working; {
		select {
		case <-ready:
			working = false
		case <-time.After(200 * time.Millisecond):
			began := time.Now().UnixMilli()
			s.settle("extend", held, func(receipts []string) ([]client.Result, error) {
				return s.client.ExtendBatch(s.Context(), shopQueue, receipts, shopLease)
			}, func(_ string, l *lease, done, _ bool) {
				if done {
					s.extends(l, began+shopLease*1000)
				}
			})
		}
	}
	for range 20 {
		if len(held) == 0 {
			return
		}
		s.settle("delete", held, func(receipts []string) ([]client.Result, error) {
			return s.client.AckBatch(s.Context(), shopQueue, receipts)
		}, func(receipt string, l *lease, done, maybe bool) {
			if s.acks(s, l, done, maybe); done {
				delete(held, receipt)
			}
		})
	}
}

// settle makes a call about leases. Those that have ended are held no more.
func (s *shop) settle(what string, held map[string]*lease, call func([]string) ([]client.Result, error), each func(receipt string, l *lease, done, maybe bool)) {
	var receipts []string
	for receipt := range held {
		receipts = append(receipts, receipt)
	}
	if len(receipts) == 0 {
		return
	}
	results, err := call(receipts)
	if err != nil {
		s.transient(what, err)
		results = slices.Repeat([]client.Result{{Code: "UNAVAILABLE"}}, len(receipts))
	}
	for i, r := range results {
		each(receipts[i], held[receipts[i]], r.Code == "", r.Code == "UNAVAILABLE")
		if r.Code != "" && r.Code != "UNAVAILABLE" {
			delete(held, receipts[i])
		}
	}
}

// transient demands that an error is one that a client may repeat.
func (s *shop) transient(what string, err error) {
	var e *client.Error
	if !errors.As(err, &e) || e.Status != 503 && e.Status != 429 {
		s.Errorf("%s: %v", what, err)
	}
}

package rest

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/leaselog/leaselog/events"
	"github.com/leaselog/leaselog/internal/api"
	"github.com/leaselog/leaselog/internal/auth"
	"github.com/leaselog/leaselog/internal/broker"
)

// still is a broker that answers at once and keeps nothing: what is measured is the dialect.
type still struct {
	fake
	queue *broker.Queue
	sent  []broker.Sent
	got   []broker.Delivery
}

func (s *still) Find(context.Context, broker.Ref) (*broker.Queue, error) { return s.queue, nil }

func (s *still) Send(_ context.Context, _ events.QueueID, m []broker.Outgoing) ([]broker.Sent, error) {
	return s.sent[:len(m)], nil
}

func (s *still) Receive(context.Context, broker.Receive) ([]broker.Delivery, error) {
	return s.got, nil
}

func (s *still) Ack(_ context.Context, _ events.QueueID, r []string) ([]error, error) {
	return make([]error, len(r)), nil
}

// sink is a ResponseWriter that forgets.
type sink struct{ h http.Header }

func (s *sink) Header() http.Header         { return s.h }
func (s *sink) Write(b []byte) (int, error) { return len(b), nil }
func (s *sink) WriteHeader(int)             {}

// again is a body that can be sent many times.
type again struct{ strings.Reader }

func (*again) Close() error { return nil }

func quiet(b *testing.B) (http.Handler, *still) {
	s := &still{queue: &broker.Queue{Name: "q", Account: "local"}, sent: make([]broker.Sent, 10)}
	for range 10 {
		s.got = append(s.got, broker.Delivery{Receipt: strings.Repeat("0123456789abcdef", 9), Receives: 1, Enqueued: now, Visible: now,
			Message: &events.Message{Body: []byte(strings.Repeat("x", 1024))}})
	}
	h, err := New(Config{Broker: s, Auth: auth.Development{}, Secret: secret})
	if err != nil {
		b.Fatal(err)
	}
	return h, s
}

func measure(b *testing.B, h http.Handler, method, target, body string) {
	u, err := url.Parse(target)
	if err != nil {
		b.Fatal(err)
	}
	in := new(again)
	r := &http.Request{Method: method, URL: u, Header: http.Header{"Authorization": {"Bearer x"}, "Content-Type": {"application/json"}},
		Body: io.ReadCloser(in), ContentLength: int64(len(body))}
	w := &sink{http.Header{}}
	b.ReportAllocs()
	for b.Loop() {
		in.Reset(body)
		clear(w.h)
		h.ServeHTTP(w, r)
	}
}

const queueURL = "/v1/queues/0198a0c0-0000-7000-8000-000000000000/messages"

func BenchmarkSend(b *testing.B) {
	h, _ := quiet(b)
	measure(b, h, "POST", queueURL, `{"body":"`+strings.Repeat("x", 1024)+`"}`)
}

// BenchmarkSendTold is BenchmarkSend for a host that listens; what it does with what it hears is its own cost.
func BenchmarkSendTold(b *testing.B) {
	h, _ := quiet(b)
	h.(*handler).Served = func(*api.Served) {}
	measure(b, h, "POST", queueURL, `{"body":"`+strings.Repeat("x", 1024)+`"}`)
}

func BenchmarkSendBatch(b *testing.B) {
	h, _ := quiet(b)
	var entries []string
	for i := range 10 {
		entries = append(entries, `{"id":"`+string(rune('a'+i))+`","body":"`+strings.Repeat("x", 1024)+`"}`)
	}
	measure(b, h, "POST", queueURL+"/batch", `{"entries":[`+strings.Join(entries, ",")+`]}`)
}

func BenchmarkReceive(b *testing.B) {
	h, s := quiet(b)
	s.got = s.got[:1]
	measure(b, h, "POST", queueURL+"/receive", `{"max_messages":1,"wait_time_seconds":0}`)
}

func BenchmarkReceiveTen(b *testing.B) {
	h, _ := quiet(b)
	measure(b, h, "POST", queueURL+"/receive", `{"max_messages":10,"wait_time_seconds":0}`)
}

func BenchmarkDelete(b *testing.B) {
	h, _ := quiet(b)
	measure(b, h, "DELETE", queueURL+"?receipt_handle="+strings.Repeat("0123456789abcdef", 9), "")
}

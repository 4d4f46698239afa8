//go:build linux

package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"
)

// The empty server: the same routes and shapes of answers in the plainest Go, with nothing behind them but a stack in
// memory per queue. It is the yardstick for how fast any server written so could be on this machine.

// emptySpec runs this very program as the empty server.
func emptySpec(token string) spec {
	argv := func(string) []string {
		self, err := os.Executable()
		if err != nil {
			self = os.Args[0]
		}
		return []string{self, "empty", "-addr", "127.0.0.1:0"}
	}
	return spec{name: "empty", argv: argv, token: token}
}

func serveEmpty(args []string) error {
	f := flag.NewFlagSet("bench empty", flag.ExitOnError)
	addr := f.String("addr", "127.0.0.1:0", "where to listen")
	f.Parse(args)
	l, err := net.Listen("tcp", *addr)
	if err != nil {
		return err
	}
	fmt.Printf("listening on http://%s\n", l.Addr())
	return http.Serve(l, newEmptyServer())
}

type emptyServer struct {
	mu     sync.RWMutex
	queues map[string]*emptyQueue
	made   int
}

func newEmptyServer() http.Handler {
	s := &emptyServer{queues: map[string]*emptyQueue{}}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/queues", s.create)
	mux.HandleFunc("DELETE /v1/queues/{q}", s.remove)
	mux.HandleFunc("POST /v1/queues/{q}/messages", s.send)
	mux.HandleFunc("POST /v1/queues/{q}/messages/batch", s.sendBatch)
	mux.HandleFunc("POST /v1/queues/{q}/messages/receive", s.receive)
	mux.HandleFunc("DELETE /v1/queues/{q}/messages", s.ack)
	mux.HandleFunc("POST /v1/queues/{q}/messages/delete-batch", s.ackBatch)
	return mux
}

// emptyQueue hands out the latest message first, because that is the cheapest.
type emptyQueue struct {
	mu      sync.Mutex
	stack   []emptyMessage
	waiting int
	wake    chan struct{}
}

type emptyMessage struct{ body, group string }

// push adds a message. One with a delay is dropped: it would come after the measurement.
func (q *emptyQueue) push(m emptySend) {
	if m.DelaySeconds > 0 {
		return
	}
	q.mu.Lock()
	q.stack = append(q.stack, emptyMessage{m.Body, m.Group})
	if q.waiting > 0 {
		select {
		case q.wake <- struct{}{}:
		default:
		}
	}
	q.mu.Unlock()
}

func (q *emptyQueue) pop(ctx context.Context, most int, wait time.Duration) []emptyMessage {
	got := q.take(most)
	if len(got) > 0 || wait == 0 {
		return got
	}
	q.mu.Lock()
	q.waiting++
	q.mu.Unlock()
	defer func() { q.mu.Lock(); q.waiting--; q.mu.Unlock() }()
	end := time.NewTimer(wait)
	defer end.Stop()
	for {
		if got := q.take(most); len(got) > 0 {
			return got
		}
		select {
		case <-q.wake:
		case <-end.C:
			return nil
		case <-ctx.Done():
			return nil
		}
	}
}

func (q *emptyQueue) take(most int) []emptyMessage {
	q.mu.Lock()
	defer q.mu.Unlock()
	n := len(q.stack) - min(most, len(q.stack))
	got := append([]emptyMessage(nil), q.stack[n:]...)
	clear(q.stack[n:])
	q.stack = q.stack[:n]
	return got
}

// The shapes of requests and answers, as in section 4 of the API's description.
type (
	emptySend struct {
		ID            string `json:"id"`
		Body          string `json:"body"`
		Group         string `json:"message_group_id"`
		Deduplication string `json:"message_deduplication_id"`
		DelaySeconds  int    `json:"delay_seconds"`
	}
	emptySends   struct{ Entries []emptySend }
	emptyReceive struct {
		Max  int `json:"max_messages"`
		Wait int `json:"wait_time_seconds"`
	}
	emptyAcks struct {
		Entries []struct {
			ID      string `json:"id"`
			Receipt string `json:"receipt_handle"`
		}
	}
	emptyResult struct {
		ID        string `json:"id,omitempty"`
		MessageID string `json:"message_id,omitempty"`
		Duplicate *bool  `json:"duplicate,omitempty"`
	}
	emptyDelivery struct {
		ID       string    `json:"id"`
		Receipt  string    `json:"receipt_handle"`
		Body     string    `json:"body"`
		Receives int       `json:"receive_count"`
		Group    string    `json:"message_group_id,omitempty"`
		Enqueued time.Time `json:"enqueued_at"`
		Visible  time.Time `json:"visible_at"`
	}
	emptyQueueRef struct {
		ID string `json:"id"`
	}
	emptyCreated struct {
		Queue emptyQueueRef `json:"queue"`
	}
	emptySent struct {
		Result emptyResult `json:"result"`
	}
	emptyResults struct {
		Results []emptyResult `json:"results"`
	}
	emptyDelivered struct {
		Messages []emptyDelivery `json:"messages"`
	}
)

const emptyID = "01920f3e-5b7a-7cc4-9d21-3f0a6be85d10"

var (
	emptyReceipt = strings.Repeat("01920f3e5b7a7cc4", 8)
	notDuplicate = new(bool)
)

func (s *emptyServer) create(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.made++
	id := fmt.Sprintf("00000000-0000-7000-8000-%012d", s.made)
	s.queues[id] = &emptyQueue{wake: make(chan struct{}, 1024)}
	s.mu.Unlock()
	answer(w, http.StatusCreated, emptyCreated{emptyQueueRef{id}})
}

func (s *emptyServer) remove(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	delete(s.queues, r.PathValue("q"))
	s.mu.Unlock()
	answer(w, http.StatusNoContent, nil)
}

func (s *emptyServer) send(w http.ResponseWriter, r *http.Request) {
	var in emptySend
	if q := s.open(w, r, &in); q != nil {
		q.push(in)
		answer(w, http.StatusOK, emptySent{emptyResult{MessageID: emptyID, Duplicate: notDuplicate}})
	}
}

func (s *emptyServer) sendBatch(w http.ResponseWriter, r *http.Request) {
	var in emptySends
	if q := s.open(w, r, &in); q != nil {
		out := make([]emptyResult, 0, len(in.Entries))
		for _, e := range in.Entries {
			q.push(e)
			out = append(out, emptyResult{e.ID, emptyID, notDuplicate})
		}
		answer(w, http.StatusOK, emptyResults{out})
	}
}

func (s *emptyServer) receive(w http.ResponseWriter, r *http.Request) {
	var in emptyReceive
	if q := s.open(w, r, &in); q != nil {
		got := q.pop(r.Context(), max(1, in.Max), time.Duration(in.Wait)*time.Second)
		now := time.Now().UTC()
		out := make([]emptyDelivery, 0, len(got))
		for _, m := range got {
			out = append(out, emptyDelivery{emptyID, emptyReceipt, m.body, 1, m.group, now, now.Add(30 * time.Second)})
		}
		answer(w, http.StatusOK, emptyDelivered{out})
	}
}

func (s *emptyServer) ack(w http.ResponseWriter, r *http.Request) {
	if r.URL.Query().Get("receipt_handle") == "" {
		http.Error(w, "receipt_handle is missing", http.StatusBadRequest)
		return
	}
	answer(w, http.StatusNoContent, nil)
}

func (s *emptyServer) ackBatch(w http.ResponseWriter, r *http.Request) {
	var in emptyAcks
	if q := s.open(w, r, &in); q != nil {
		out := make([]emptyResult, 0, len(in.Entries))
		for _, e := range in.Entries {
			out = append(out, emptyResult{ID: e.ID})
		}
		answer(w, http.StatusOK, emptyResults{out})
	}
}

// open finds the queue and reads the body into in; when it cannot, it has answered and gives nil.
func (s *emptyServer) open(w http.ResponseWriter, r *http.Request, in any) *emptyQueue {
	s.mu.RLock()
	q := s.queues[r.PathValue("q")]
	s.mu.RUnlock()
	if q == nil {
		http.Error(w, "no such queue", http.StatusNotFound)
		return nil
	}
	if err := json.NewDecoder(r.Body).Decode(in); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return nil
	}
	return q
}

func answer(w http.ResponseWriter, status int, v any) {
	w.Header().Set("X-Request-Id", emptyID)
	if v == nil {
		w.WriteHeader(status)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(v)
}

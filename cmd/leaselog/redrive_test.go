package main

import (
	"fmt"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// move is a move task as the API shows it.
type move struct {
	ID      string    `json:"id"`
	State   string    `json:"state"`
	Total   int       `json:"total"`
	Moved   int       `json:"moved"`
	Failed  int       `json:"failed"`
	Waiting int       `json:"waiting"`
	Started time.Time `json:"started_at"`
	Ended   time.Time `json:"ended_at"`
}

// moved asks for a move task.
func (s *server) moved(t *testing.T, method, path string, body any) move {
	t.Helper()
	var a struct{ Move move }
	if err := s.call(t.Context(), method, "/x/v1/queues/"+path, body, &a); err != nil {
		t.Fatal(err)
	}
	return a.Move
}

// until looks at a task until it is as it should be.
func (s *server) until(t *testing.T, queue string, m move, is func(move) bool) move {
	t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); ; <-time.After(5 * time.Millisecond) {
		now := s.moved(t, "GET", queue+"/moves/"+m.ID, nil)
		if is(now) {
			return now
		}
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain; the task is %+v", now)
		}
	}
}

type peeked struct {
	ID    string `json:"id"`
	Body  string `json:"body"`
	Group string `json:"message_group_id"`
	From  *struct {
		Reason string `json:"reason"`
	} `json:"moved_from"`
}

// look gives every message of a queue, in the order of their places.
func (s *server) look(t *testing.T, queue string) (all []peeked) {
	t.Helper()
	for marker := ""; ; {
		var page struct {
			Messages []peeked
			Meta     struct {
				Marker string
				More   bool `json:"has_more"`
			}
		}
		if err := s.call(t.Context(), "GET", "/v1/queues/"+queue+"/messages?limit=100&marker="+url.QueryEscape(marker), nil, &page); err != nil {
			t.Fatal(err)
		}
		all = append(all, page.Messages...)
		if marker = page.Meta.Marker; !page.Meta.More {
			return all
		}
	}
}

// fill sends messages to a queue, ten at a time and in their order inside each of several groups.
func (s *server) fill(t *testing.T, queue, name string, n, groups int) {
	t.Helper()
	var senders sync.WaitGroup
	for g := range groups {
		senders.Go(func() {
			for i := 0; i < n/groups; i += 10 {
				var entries []map[string]any
				for k := i; k < min(i+10, n/groups); k++ {
					body := fmt.Sprintf("%s %d %06d", name, g, k)
					e := map[string]any{"id": strconv.Itoa(k), "body": body}
					if strings.HasSuffix(queue, ".fifo") {
						e["message_group_id"], e["message_deduplication_id"] = strconv.Itoa(g), body
					}
					entries = append(entries, e)
				}
				var a struct{ Results []struct{ Error string } }
				if err := s.call(t.Context(), "POST", "/v1/queues/"+queue+"/messages/batch", map[string]any{"entries": entries}, &a); err != nil || a.Results[0].Error != "" {
					t.Error(err, a)
				}
			}
		})
	}
	senders.Wait()
}

// place notes where each message is, and that it is nowhere else.
type places map[string]string

func (p places) add(t *testing.T, queue string, all []peeked) {
	t.Helper()
	for _, m := range all {
		if other, twice := p[m.Body]; twice {
			t.Errorf("%s is in %s and in %s", m.Body, other, queue)
		}
		p[m.Body] = queue
	}
}

func redriven(all []peeked) (n int) {
	for _, m := range all {
		if m.From != nil && m.From.Reason == "redrive" {
			n++
		}
	}
	return n
}

// TestRedrive brings 2,000 messages back from a dead-letter queue to two sources (case G6): some are leased all the while,
// others arrive; it is cancelled on the way, started again, killed with the server, and started once more.
func TestRedrive(t *testing.T) {
	const each, late = 1_000, 60
	s := newServer(t)
	s.start(t)
	s.must(t, "POST", "/v1/queues", map[string]any{"name": "dead"})
	for _, q := range []string{"a", "b"} {
		s.must(t, "POST", "/v1/queues", map[string]any{"name": q, "redrive_policy": map[string]any{"dead_letter_queue": "dead", "max_receive_count": 1}})
		s.fill(t, q, q, each, 5)
		for left := each; left > 0; {
			var got received
			if err := s.call(t.Context(), "POST", "/v1/queues/"+q+"/messages/receive", map[string]any{"max_messages": 10, "visibility_timeout_seconds": 0}, &got); err != nil {
				t.Fatal(err)
			}
			left -= len(got.Messages)
		}
	}
	for deadline := time.Now().Add(time.Minute); len(s.look(t, "dead")) < 2*each; <-time.After(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the dead letters do not arrive")
		}
	}
	var held received
	for len(held.Messages) < 50 {
		var got received
		if err := s.call(t.Context(), "POST", "/v1/queues/dead/messages/receive", map[string]any{"max_messages": 10, "visibility_timeout_seconds": 3600}, &got); err != nil {
			t.Fatal(err)
		}
		held.Messages = append(held.Messages, got.Messages...)
	}
	var arriving sync.WaitGroup
	arriving.Go(func() { // 20 a second, which have no source
		for i := range late {
			// While the server is away it is open what arrives, and nothing is sent again.
			s.call(t.Context(), "POST", "/v1/queues/dead/messages", map[string]any{"body": fmt.Sprint("late ", i)}, nil)
			<-time.After(50 * time.Millisecond)
		}
	})
	start := map[string]any{"rate_per_second": 400}
	first := s.moved(t, "POST", "dead/moves", start)
	s.until(t, "dead", first, func(m move) bool { return m.Moved >= 700 })
	first = s.moved(t, "POST", "dead/moves/"+first.ID+"/cancel", nil)
	if n := redriven(s.look(t, "a")) + redriven(s.look(t, "b")); first.State != "cancelled" || n != first.Moved {
		t.Errorf("%d arrived, of a task that is %+v", n, first)
	}
	second := s.moved(t, "POST", "dead/moves", start)
	s.until(t, "dead", second, func(m move) bool { return first.Moved+m.Moved >= 1_400 })
	s.kill(t)
	s.start(t)
	if err := s.call(t.Context(), "POST", "/x/v1/queues/dead/moves", start, nil); err == nil {
		t.Error("the killed task does not go on, and another one began")
	}
	second = s.moved(t, "POST", "dead/moves/"+second.ID+"/cancel", nil)
	arriving.Wait()
	third := s.moved(t, "POST", "dead/moves", nil)
	third = s.until(t, "dead", third, func(m move) bool { return m.Waiting == 50 && first.Moved+second.Moved+m.Moved == 2*each-50 })
	if third.State != "running" || third.Failed == 0 {
		t.Errorf("while 50 are leased the task is %+v", third)
	}
	for i, m := range held.Messages {
		if path := "/v1/queues/dead/messages"; i < 25 {
			s.must(t, "DELETE", path+"?receipt_handle="+m.Receipt, nil)
		} else {
			s.must(t, "POST", path+"/visibility", map[string]any{"receipt_handle": m.Receipt, "visibility_timeout_seconds": 0})
		}
	}
	third = s.until(t, "dead", third, func(m move) bool { return m.State == "completed" })
	a, b, dead := s.look(t, "a"), s.look(t, "b"), s.look(t, "dead")
	where := places{}
	where.add(t, "a", a)
	where.add(t, "b", b)
	if n := first.Moved + second.Moved + third.Moved; n != 2*each-25 || n != len(where) || n != redriven(a)+redriven(b) {
		t.Errorf("%d were moved and %d arrived, of %d that were not acked", n, len(where), 2*each-25)
	}
	where.add(t, "dead", dead)
	for body, queue := range where {
		if body[0] != queue[0] && queue != "dead" || queue == "dead" && body[:4] != "late" {
			t.Errorf("%s is in %s", body, queue)
		}
	}
	if third.Failed != len(dead) || len(dead) < late/2 {
		t.Errorf("%d had no source, and %d are left", third.Failed, len(dead))
	}
	s.stop(t)
	s.check(t)
	s.sameViews(t)
}

// TestRedriveMany moves many messages, of a standard and of a FIFO queue: the task is cancelled half-way, another one is
// killed with the server on the way, and the rest is moved after a restart. LEASELOG_REDRIVE sets how many, a tenth of
// them FIFO.
func TestRedriveMany(t *testing.T) {
	n := 20_000
	if s := os.Getenv("LEASELOG_REDRIVE"); s != "" {
		var err error
		if n, err = strconv.Atoi(s); err != nil {
			t.Fatal(err)
		}
	}
	s := newServer(t)
	s.start(t)
	for suffix, n := range map[string]int{"": n, ".fifo": n / 10} {
		from, to := "from"+suffix, "to"+suffix
		for _, q := range []string{from, to} {
			s.must(t, "POST", "/v1/queues", map[string]any{"name": q})
		}
		s.fill(t, from, "x", n, 20)
		start := map[string]any{"target": to, "rate_per_second": n / 2}
		first := s.moved(t, "POST", from+"/moves", start)
		s.until(t, from, first, func(m move) bool { return m.Moved >= n/2 || m.State != "running" })
		first = s.moved(t, "POST", from+"/moves/"+first.ID+"/cancel", nil)
		if first.State != "cancelled" {
			t.Fatalf("%s: %+v", from, first)
		}
		second := s.moved(t, "POST", from+"/moves", start)
		s.until(t, from, second, func(m move) bool { return first.Moved+m.Moved >= 3*n/4 || m.State != "running" })
		s.kill(t)
		s.start(t)
		second = s.until(t, from, second, func(m move) bool { return m.State != "running" })
		if first.Moved+second.Moved != n || second.State != "completed" || second.Total != n-first.Moved {
			t.Errorf("%s: %+v, then %+v", from, first, second)
		}
		arrived := s.look(t, to)
		where := places{}
		where.add(t, to, arrived)
		where.add(t, from, s.look(t, from))
		if len(arrived) != n || len(where) != n {
			t.Errorf("%s: %d arrived, %d are anywhere", from, len(arrived), len(where))
		}
		last := map[string]string{}
		for _, m := range arrived {
			if suffix != "" && m.Body <= last[m.Group] {
				t.Fatalf("%s: %s after %s", from, m.Body, last[m.Group])
			}
			last[m.Group] = m.Body
		}
		back := s.moved(t, "POST", to+"/moves", map[string]any{"target": from})
		back = s.until(t, to, back, func(m move) bool { return m.State != "running" })
		took := back.Ended.Sub(back.Started)
		if t.Logf("%s: %d were cancelled at %d, and killed; back in %v, %.0f a second", from, n, first.Moved, took, float64(n)/took.Seconds()); back.Moved != n {
			t.Errorf("%s: back again: %+v", from, back)
		}
	}
	s.stop(t)
	s.check(t)
	s.sameViews(t)
}

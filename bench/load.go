//go:build linux

package main

import (
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// load is a fresh queue on a server, the connections of its workers, and the account of its messages.
type load struct {
	srv    *server
	led    *ledger
	path   paths
	conns  []*conn
	size   int
	delay  int           // seconds given with each message; 0: none
	limit  time.Duration // for sending or receiving everything
	quiet  time.Duration // when nothing came for so long, the rest counts as lost
	next   atomic.Int64  // the id of the next message
	fails  failures
	lastAt atomic.Int64 // when a message last came, in clock()
	// firstID is added to the ids in bodies, for a load that shares its queue with another.
	firstID int
}

// paths are the routes of a queue.
type paths struct{ queue, send, sendBatch, receive, ack, ackBatch string }

// The defaults of a load's limit and quiet.
const (
	phaseLimit = time.Minute
	quietTime  = 10 * time.Second
)

// leaseSeconds is longer than any phase: what comes back within it was delivered twice.
const leaseSeconds = 3600

var epoch = time.Now()

// clock is monotonic time in nanoseconds, never 0.
func clock() int64 { return int64(time.Since(epoch)) + 1 }

// newLoad makes a queue, a FIFO one when there are groups, and dials. Messages is how many can be accounted for.
func newLoad(s *server, clients, messages, groups, size int) (*load, error) {
	l := &load{srv: s, led: newLedger(messages, groups, s.ordered), size: size, limit: phaseLimit, quiet: quietTime}
	for range clients {
		l.conns = append(l.conns, dial(s))
	}
	name := fmt.Sprintf("bench-%d", time.Now().UnixNano())
	if groups > 0 {
		name += ".fifo"
	}
	c := l.conns[0]
	c.body = fmt.Appendf(c.body[:0], `{"name":%q,"visibility_timeout_seconds":%d}`, name, leaseSeconds)
	err := c.call("POST", "/v1/queues", 201)
	var id string
	if err == nil {
		id, err = parseCreated(c.resp)
	}
	if err != nil {
		l.hangUp()
		return nil, err
	}
	q := "/v1/queues/" + id
	m := q + "/messages"
	l.path = paths{q, m, m + "/batch", m + "/receive", m + "?receipt_handle=", m + "/delete-batch"}
	return l, nil
}

func (l *load) hangUp() {
	for _, c := range l.conns {
		c.close()
	}
}

// redial replaces the connections after the server was restarted.
func (l *load) redial(s *server) {
	l.srv = s
	for i := range l.conns {
		l.conns[i].close()
		l.conns[i] = dial(s)
	}
}

// close removes the queue, so that no backlog disturbs what comes after.
func (l *load) close() {
	c := dial(l.srv)
	c.call("DELETE", l.path.queue, 204)
	c.close()
	l.hangUp()
}

// crew runs f on the first n connections, all at once.
func (l *load) crew(n int, f func(w int, c *conn)) {
	var wg sync.WaitGroup
	for w, c := range l.conns[:n] {
		wg.Go(func() { f(w, c) })
	}
	wg.Wait()
}

// errs lists the errors of the load; each workload's last phase carries the account's as well.
func (l *load) errs(drained bool) []string { return append(l.fails.list(), l.led.verify(drained)...) }

// sender is a worker's way through the groups: with W senders, the w-th owns the groups w, w+W, w+2W and so on.
type sender struct {
	l              *load
	c              *conn
	group, of, own int
	ids            []int
}

// sender gives nil when there are fewer groups than workers and none is left.
func (l *load) sender(c *conn, w, of int) *sender {
	if n := len(l.led.groups); n > 0 && w >= n {
		return nil
	}
	return &sender{l: l, c: c, group: w, own: w, of: of}
}

// send sends the messages [from, to): one alone by the single route, more as a batch. Due is the instant in their
// bodies.
func (s *sender) send(from, to int, due int64) error {
	c, l := s.c, s.l
	s.ids = s.ids[:0]
	c.body = c.body[:0]
	batch := to-from > 1
	if batch {
		c.body = append(c.body, `{"entries":[`...)
	}
	for id := from; id < to; id++ {
		if id > from {
			c.body = append(c.body, ',')
		}
		s.append(id, batch, due)
		s.ids = append(s.ids, id)
	}
	if err := s.post(batch); err != nil {
		return err
	}
	for _, id := range s.ids {
		l.led.wasSent(id)
	}
	return nil
}

func (s *sender) post(batch bool) error {
	c, l := s.c, s.l
	if !batch {
		if err := c.call("POST", l.path.send, 200); err != nil {
			return err
		}
		return parseSent(c.resp)
	}
	c.body = append(c.body, "]}"...)
	if err := c.call("POST", l.path.sendBatch, 200); err != nil {
		return err
	}
	return parseResults(c.resp, len(s.ids))
}

// append adds one message to the request's body.
func (s *sender) append(id int, batch bool, due int64) {
	h := header{id: s.l.firstID + id, group: -1, at: int(due)}
	b := append(s.c.body, '{')
	if batch {
		b = append(strconv.AppendInt(append(b, `"id":"`...), int64(id), 10), `",`...)
	}
	var name string
	if groups := s.l.led.groups; len(groups) > 0 {
		g := &groups[s.group]
		g.sent++
		name, h.group, h.seq = g.name, s.group, g.sent
		if s.group += s.of; s.group >= len(groups) {
			s.group = s.own
		}
	}
	b = append(appendBody(append(b, `"body":"`...), h, s.l.size), '"')
	if name != "" {
		b = append(append(b, `,"message_group_id":"`...), name...)
		b = strconv.AppendInt(append(b, `","message_deduplication_id":"`...), int64(id), 10)
		b = append(b, '"')
	}
	if s.l.delay > 0 {
		b = strconv.AppendInt(append(b, `,"delay_seconds":`...), int64(s.l.delay), 10)
	}
	s.c.body = append(b, '}')
}

// sendAll sends the next count messages in batches of k with the given number of workers.
func (l *load) sendAll(m *meter, count, k, workers int) {
	to := l.next.Load() + int64(count)
	end := time.Now().Add(l.limit)
	l.crew(workers, func(w int, c *conn) {
		s := l.sender(c, w, workers)
		for s != nil && !l.fails.tooMany() {
			from := l.next.Add(int64(k)) - int64(k)
			if from >= to {
				return
			}
			began := time.Now()
			if began.After(end) {
				l.fails.add(fmt.Errorf("sending took longer than %v", l.limit))
				return
			}
			if err := s.send(int(from), int(min(from+int64(k), to)), 0); err != nil {
				l.fails.add(err)
			}
			m.lat.add(time.Since(began))
		}
	})
	m.stop()
	l.next.Store(to)
}

// take is one receive and the ack of what came. Latencies go to m, of the receive only when something came.
func (l *load) take(c *conn, most, wait int, m *meter) int {
	began := clock()
	if err := l.receive(c, most, wait); err != nil {
		l.fails.add(err)
		return 0
	}
	now := clock()
	if len(c.got) == 0 {
		m.empty.Add(1)
		return 0
	}
	m.lat.add(time.Duration(now - began))
	l.lastAt.Store(now)
	n := len(c.got)
	if err := l.ack(c, most > 1); err != nil {
		l.fails.add(err)
	}
	m.lat2.add(time.Duration(clock() - now))
	return n
}

// receive leaves what came in c.got and in the account.
func (l *load) receive(c *conn, most, wait int) error {
	c.body = strconv.AppendInt(append(c.body[:0], `{"max_messages":`...), int64(most), 10)
	if wait > 0 {
		c.body = strconv.AppendInt(append(c.body, `,"wait_time_seconds":`...), int64(wait), 10)
	}
	c.body = append(c.body, '}')
	c.got = c.got[:0]
	err := c.call("POST", l.path.receive, 200)
	if err == nil {
		c.got, err = parseMessages(c.resp, c.got)
	}
	if err == nil && len(c.got) > most {
		err = errors.New("more messages than asked for")
	}
	for _, d := range c.got {
		l.led.wasGot(readHeader(d.body))
	}
	return err
}

// ack acknowledges c.got. The receipts lie in the answer's buffer, which is overwritten only after they were sent.
func (l *load) ack(c *conn, batch bool) error {
	ids := make([]int, 0, 10)
	for _, d := range c.got {
		ids = append(ids, readHeader(d.body).id)
	}
	var err error
	c.body = c.body[:0]
	if batch {
		c.body = append(c.body, `{"entries":[`...)
		for i, d := range c.got {
			if i > 0 {
				c.body = append(c.body, ',')
			}
			c.body = append(strconv.AppendInt(append(c.body, `{"id":"`...), int64(i), 10), `","receipt_handle":"`...)
			c.body = append(append(c.body, d.receipt...), `"}`...)
		}
		c.body = append(c.body, "]}"...)
		if err = c.call("POST", l.path.ackBatch, 200); err == nil {
			err = parseResults(c.resp, len(ids))
		}
	} else {
		err = c.call("DELETE", l.path.ack+string(c.got[0].receipt), 204)
	}
	if err == nil {
		for _, id := range ids {
			l.led.wasAcked(id)
		}
	}
	return err
}

// wait is the seconds of a receive's long poll while a queue is emptied. Where clients that take tens may hold all
// groups of a FIFO queue, asking again and again would be a load of its own.
func (l *load) wait() int {
	if n := len(l.led.groups); n > 0 && n < 10*len(l.conns) {
		return 1
	}
	return 0
}

// drain receives and acks until everything sent is acked, or nothing has come for a while.
func (l *load) drain(m *meter, most, workers int) {
	l.lastAt.Store(clock())
	end := clock() + int64(l.limit)
	all := l.led.sent.Load()
	l.crew(workers, func(w int, c *conn) {
		for l.led.got.Load() < all && !l.fails.tooMany() {
			now := clock()
			if now > l.lastAt.Load()+int64(l.quiet) {
				return // what is missing is counted as lost
			}
			if now > end {
				l.fails.add(fmt.Errorf("receiving took longer than %v", l.limit))
				return
			}
			if l.take(c, most, l.wait(), m) == 0 {
				time.Sleep(time.Millisecond) // the others hold the last ones
			} else if l.led.acked.Load() >= all {
				m.stop()
			}
		}
	})
	m.stop()
}

// checkEmpty sees to it that nothing is left to be delivered.
func (l *load) checkEmpty() {
	c := l.conns[0]
	if err := l.receive(c, 10, 0); err != nil {
		l.fails.add(err)
	} else if len(c.got) > 0 {
		l.fails.add(fmt.Errorf("%d messages are delivered after everything was acked", len(c.got)))
	}
}

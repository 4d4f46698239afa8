//go:build linux

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// workload is something that is run on both servers in turns.
type workload struct {
	name string
	run  func(b *bench, s *server) ([]phase, error)
}

// The FIFO queues of the speed part have so many groups that 64 clients find free ones even by tens.
const speedGroups = 1000

// Names of workloads and phases, by which the rows find their figures.
const (
	single, batch, fifoSingle, fifoBatch, manyQueues, lone = "single", "batch", "fifo", "fifo-batch", "queues", "lone"

	sending, taking, cycling = "send", "receive+ack", "send+receive+ack"
)

var workloads = []workload{
	{single, func(b *bench, s *server) ([]phase, error) { return b.sendThenTake(s, single, b.o.n, 1, 0) }},
	{batch, func(b *bench, s *server) ([]phase, error) { return b.sendThenTake(s, batch, 3*b.o.n, 10, 0) }},
	{manyQueues, (*bench).manyQueues},
	{lone, (*bench).loneSender},
	{fifoSingle, func(b *bench, s *server) ([]phase, error) {
		return b.sendThenTake(s, fifoSingle, b.o.n, 1, speedGroups)
	}},
	{fifoBatch, func(b *bench, s *server) ([]phase, error) {
		return b.sendThenTake(s, fifoBatch, 3*b.o.n, 10, speedGroups)
	}},
}

func workloadNames() []string {
	var names []string
	for _, w := range workloads {
		names = append(names, w.name)
	}
	return names
}

// works says whether a workload was selected.
func (o *options) works(name string) bool {
	return o.workloads == "" || slices.Contains(strings.Split(o.workloads, ","), name)
}

// speed runs every selected workload on one server, then on the other, and all that again: what changes on the machine in the
// meantime meets both.
func (b *bench) speed(empty, ours *server) error {
	for _, s := range []*server{empty, ours} { // a first run warms up and is not counted
		if _, err := b.sendThenTake(s, "warm-up", max(1, b.o.n/4), 1, 0); err != nil {
			return err
		}
	}
	for run := 1; run <= b.o.runs; run++ {
		for _, w := range workloads {
			if !b.o.works(w.name) {
				continue
			}
			for _, s := range []*server{empty, ours} {
				phases, err := w.run(b, s)
				if err != nil {
					return fmt.Errorf("%s on %s: %w", w.name, s.name, err)
				}
				for _, p := range phases {
					p.Run = run
					b.record(p)
				}
				time.Sleep(100 * time.Millisecond) // what a server does after its answers is not the next one's
			}
		}
	}
	b.rows = append(b.rows, b.speedRows(empty.name, ours.name)...)
	return nil
}

// sendThenTake sends n messages by k and then receives and acks them by k.
func (b *bench) sendThenTake(s *server, name string, n, k, groups int) ([]phase, error) {
	l, err := newLoad(s, b.o.clients, n, groups, b.o.size)
	if err != nil {
		return nil, err
	}
	defer l.close()
	m := startMeter(s)
	l.sendAll(m, n, k, b.o.clients)
	p1 := m.phase(name, sending, l.led.sent.Load())
	p1.Errors = l.fails.list()

	m = startMeter(s)
	l.drain(m, k, b.o.clients)
	p2 := m.phase(name, taking, l.led.acked.Load())
	l.checkEmpty()
	p2.Errors = l.errs(true)
	p1.Clients, p2.Clients = b.o.clients, b.o.clients
	return []phase{p1, p2}, nil
}

// manyQueues has a few clients on each of many queues; each sends one message, receives one and acks it.
func (b *bench) manyQueues(s *server) ([]phase, error) {
	const each = 4
	n := max(each, b.o.n/2/b.o.queues)
	var loads []*load
	for range b.o.queues {
		l, err := newLoad(s, each, n, 0, b.o.size)
		if err != nil {
			return nil, err
		}
		defer l.close()
		loads = append(loads, l)
	}
	m := startMeter(s)
	var wg sync.WaitGroup
	for _, l := range loads {
		wg.Go(func() { l.crew(each, func(w int, c *conn) { l.cycle(m, c, w, n) }) })
	}
	wg.Wait()
	m.stop()
	var acked int64
	var errs []string
	for _, l := range loads {
		l.checkEmpty()
		acked += l.led.acked.Load()
		errs = append(errs, l.errs(true)...)
	}
	p := m.phase(manyQueues, cycling, acked)
	p.Clients, p.Errors = each*b.o.queues, errs
	return []phase{p}, nil
}

// cycle sends a message, then takes one, until n were sent. As many are on the queue as clients look for one; still,
// an empty answer is allowed and asked again.
func (l *load) cycle(m *meter, c *conn, w, n int) {
	s := l.sender(c, w, len(l.conns))
	for !l.fails.tooMany() {
		id := int(l.next.Add(1)) - 1
		if id >= n {
			return
		}
		if err := s.send(id, id+1, 0); err != nil {
			l.fails.add(err)
			continue
		}
		for end := clock() + int64(l.quiet); l.take(c, 1, 0, m) == 0; {
			if l.fails.tooMany() || clock() > end {
				break // it is counted as lost
			}
		}
	}
}

// loneSender is one client alone, beside what the disk needs for a synced append of the same size at the same time. A
// fraction of a second says nothing while the server still works off what the workload before has left.
func (b *bench) loneSender(s *server) ([]phase, error) {
	settle(s)
	l, err := newLoad(s, 1, b.o.lone, 0, b.o.size)
	if err != nil {
		return nil, err
	}
	defer l.close()
	var disk hist
	if err := syncedAppends(s.dir, b.o.size, b.o.lone/4+1, &disk); err != nil {
		return nil, err
	}
	m := startMeter(s)
	l.sendAll(m, b.o.lone, 1, 1)
	p := m.phase(lone, sending, l.led.sent.Load())
	if err := syncedAppends(s.dir, b.o.size, b.o.lone/4+1, &disk); err != nil {
		return nil, err
	}
	l.drain(startMeter(s), 10, 1)
	l.checkEmpty()
	p.Clients, p.Errors = 1, l.errs(true)
	d := disk.latency()
	p.Extra = map[string]float64{"fdatasync_p50_ms": d.P50, "fdatasync_p99_ms": d.P99}
	return []phase{p}, nil
}

// syncedAppends measures appends with fdatasync to a new file in dir.
func syncedAppends(dir string, size, n int, h *hist) error {
	f, err := os.Create(filepath.Join(dir, "fdatasync"))
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	defer f.Close()
	for range n {
		began := time.Now()
		if _, err := f.Write(filler[:size]); err != nil {
			return err
		}
		if err := syscall.Fdatasync(int(f.Fd())); err != nil {
			return err
		}
		h.add(time.Since(began))
	}
	return nil
}

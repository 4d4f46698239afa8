//go:build linux

package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// phase is what one measurement found.
type phase struct {
	Server, Workload, Name string
	Run                    int // from 1; 0: not repeated
	Clients                int
	Messages               int64
	Seconds                float64
	PerSecond              float64
	ServerMicros           float64 // server CPU per message
	ServerCores            float64
	ClientCores            float64
	ForeignCores           float64 // neither server nor client: above 0.2 the run was disturbed
	ResidentMB, HighMB     float64
	Latency                *latency           // of the call, or of what the workload's comment says
	AckLatency             *latency           `json:",omitempty"`
	EmptyAnswers           int64              `json:",omitempty"`
	Extra                  map[string]float64 `json:",omitempty"`
	Errors                 []string           `json:",omitempty"`
}

// meter measures one phase.
type meter struct {
	srv       *server
	lat, lat2 hist
	empty     atomic.Int64
	begin     usage
	end       usage
	once      sync.Once
}

func startMeter(s *server) *meter { return &meter{srv: s, begin: sample(s.pid)} }

// stop ends the measurement; the first call counts. Whoever finishes the last message calls it, so that workers that
// still hang in a long poll do not lengthen the phase.
func (m *meter) stop() { m.once.Do(func() { m.end = sample(m.srv.pid) }) }

// phase sums up.
func (m *meter) phase(workload, name string, messages int64) phase {
	m.stop()
	secs := m.end.at.Sub(m.begin.at).Seconds()
	cpu := m.end.server - m.begin.server
	p := phase{Server: m.srv.name, Workload: workload, Name: name, Messages: messages, Seconds: secs,
		PerSecond: float64(messages) / secs, ServerCores: cpu.Seconds() / secs,
		ClientCores: (m.end.client - m.begin.client).Seconds() / secs, Latency: m.lat.latency(), AckLatency: m.lat2.latency(),
		EmptyAnswers: m.empty.Load()}
	if messages > 0 {
		p.ServerMicros = float64(cpu.Nanoseconds()) / 1e3 / float64(messages)
	}
	p.ForeignCores = max(0, (m.end.machine-m.begin.machine).Seconds()/secs-p.ServerCores-p.ClientCores)
	p.ResidentMB, p.HighMB = resident(m.srv.pid)
	return p
}

// print writes one line with the raw figures.
func (p *phase) print(out io.Writer) {
	fmt.Fprintf(out, "%2d %-9s %-26s %8.0f/s", p.Run, p.Server, p.Workload+" "+p.Name, p.PerSecond)
	if p.Latency != nil {
		fmt.Fprintf(out, "  p50 %7.3f p99 %8.3f ms", p.Latency.P50, p.Latency.P99)
	} else {
		fmt.Fprintf(out, "  %28s", "")
	}
	fmt.Fprintf(out, "  cpu %6.1f us/msg  cores srv %.2f cli %.2f other %.2f  rss %4.0f MB", p.ServerMicros, p.ServerCores,
		p.ClientCores, p.ForeignCores, p.ResidentMB)
	if len(p.Errors) > 0 {
		fmt.Fprintf(out, "  ERRORS: %.300s", strings.Join(p.Errors, "; "))
	}
	fmt.Fprintln(out)
}

// settle waits until a server does nothing of its own, at most ten seconds.
func settle(s *server) {
	const look, work = 100 * time.Millisecond, 2 * time.Millisecond
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); {
		before := sample(s.pid)
		time.Sleep(look)
		if sample(s.pid).server-before.server < work {
			return
		}
	}
}

// failures keeps the first few errors of many workers, and their number.
type failures struct {
	mu    sync.Mutex
	first []string
	count atomic.Int64
}

// add notes an error and slows its worker down, so that a dead server does not get a million calls.
func (f *failures) add(err error) {
	f.count.Add(1)
	f.mu.Lock()
	if s := err.Error(); len(f.first) < 3 && !slices.Contains(f.first, s) {
		f.first = append(f.first, s)
	}
	f.mu.Unlock()
	time.Sleep(10 * time.Millisecond)
}

// tooMany says that going on makes no sense.
func (f *failures) tooMany() bool { return f.count.Load() >= 20 }

func (f *failures) list() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	if n := f.count.Load(); n > int64(len(f.first)) {
		return append([]string{fmt.Sprintf("%d errors", n)}, f.first...)
	}
	return f.first
}

// median of the values that f takes from the phases; 0 without any.
func median(ps []phase, f func(*phase) float64) float64 {
	v := make([]float64, len(ps))
	for i := range ps {
		v[i] = f(&ps[i])
	}
	return middle(v)
}

func middle(v []float64) float64 {
	if len(v) == 0 {
		return 0
	}
	v = slices.Sorted(slices.Values(v))
	return (v[(len(v)-1)/2] + v[len(v)/2]) / 2
}

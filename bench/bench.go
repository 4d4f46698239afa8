//go:build linux

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// bench is one invocation: the two programs, the servers that run now, and what was found.
type bench struct {
	o     *options
	empty spec
	ours  spec
	tmp   string
	out   io.Writer
	raw   io.Writer

	mu      sync.Mutex
	servers []*server
	started int
	seen    map[key][]phase
	foreign []float64 // cores that neither server nor client used, of each phase
	rows    []row
	broken  []string // what made a run no result
}

// key is where a phase's repetitions are collected.
type key struct{ server, workload, phase string }

func (b *bench) run() error {
	b.seen = map[key][]phase{}
	b.printMachine()
	if err := b.runBeside(); err != nil {
		return err
	}
	for _, p := range []struct {
		name string
		f    func() error
	}{{"depth", b.depth}, {"delayed", b.delayed}} {
		if b.o.selects(p.name) {
			if err := p.f(); err != nil {
				return fmt.Errorf("%s: %w", p.name, err)
			}
		}
	}
	return b.report()
}

// runBeside runs the parts for which both servers stand side by side from beginning to end.
func (b *bench) runBeside() error {
	if !b.o.selects("speed") && !b.o.selects("e2e") && !b.o.selects("idle") {
		return nil
	}
	empty, err := b.start(b.empty)
	if err != nil {
		return err
	}
	defer empty.stop()
	ours, err := b.start(b.ours)
	if err != nil {
		return err
	}
	defer ours.stop()
	for _, p := range []struct {
		name string
		f    func(empty, ours *server) error
	}{{"speed", b.speed}, {"e2e", b.e2e}, {"idle", b.idle}} {
		if b.o.selects(p.name) {
			if err := p.f(empty, ours); err != nil {
				return errors.Join(fmt.Errorf("%s: %w", p.name, err), ours.died())
			}
		}
	}
	return nil
}

// start runs a server with a data directory of its own.
func (b *bench) start(sp spec) (*server, error) {
	b.mu.Lock()
	b.started++
	dir := filepath.Join(b.tmp, sp.name+"-"+strconv.Itoa(b.started))
	b.mu.Unlock()
	return b.startIn(sp, dir)
}

func (b *bench) startIn(sp spec, dir string) (*server, error) {
	s, err := startServer(sp, dir)
	if err != nil {
		return nil, err
	}
	b.mu.Lock()
	b.servers = append(b.servers, s)
	b.mu.Unlock()
	return s, nil
}

func (b *bench) stopAll() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, s := range b.servers {
		s.stop()
	}
	b.servers = nil
}

// record keeps a phase, prints its raw figures and appends them to the file. A phase with errors is reported and left
// out of the medians.
func (b *bench) record(p phase) {
	p.print(b.out)
	b.write("phase", p)
	b.foreign = append(b.foreign, p.ForeignCores)
	if len(p.Errors) > 0 {
		b.broken = append(b.broken, fmt.Sprintf("%s, %s %s, run %d: %s", p.Server, p.Workload, p.Name, p.Run,
			strings.Join(p.Errors, "; ")))
		return
	}
	k := key{p.Server, p.Workload, p.Name}
	b.seen[k] = append(b.seen[k], p)
}

// write appends one JSON line. A full disk must not end a measurement, so the error is only shown.
func (b *bench) write(kind string, v any) {
	line, err := json.Marshal(map[string]any{kind: v})
	if err == nil {
		_, err = b.raw.Write(append(line, '\n'))
	}
	if err != nil {
		fmt.Fprintln(b.out, "raw figures:", err)
	}
}

// report prints the table and what went wrong.
func (b *bench) report() error {
	fmt.Fprintln(b.out)
	printTable(b.out, b.rows)
	for _, r := range b.rows {
		b.write("result", r)
	}
	fmt.Fprintf(b.out, "Ratios are of medians over %d runs, beside them those of neighbouring runs. ", b.o.runs)
	fmt.Fprintf(b.out, "Other processes used %.2f cores in the median; above 0.2 the run is disturbed.\n", middle(b.foreign))
	for _, s := range b.broken {
		fmt.Fprintln(b.out, "NO RESULT:", s)
	}
	if len(b.broken) > 0 {
		return fmt.Errorf("%d phases had errors and are no result", len(b.broken))
	}
	if n := missed(b.rows); n > 0 && b.o.strict {
		return fmt.Errorf("%d bounds missed", n)
	}
	return nil
}

// printMachine says on what the figures were taken.
func (b *bench) printMachine() {
	m := struct {
		When, CPU, Kernel, Go, Disk string
		Cores                       int
		Options                     string
	}{time.Now().UTC().Format(time.RFC3339), cpuModel(), kernel(), runtime.Version(), fileSystem(b.tmp), runtime.NumCPU(),
		fmt.Sprintf("%+v", *b.o)}
	b.write("machine", m)
	fmt.Fprintf(b.out, "%s, %d cores, Linux %s, %s, data on %s\n", m.CPU, m.Cores, m.Kernel, m.Go, m.Disk)
	if m.Disk == "tmpfs" {
		fmt.Fprintln(b.out, "WARNING: a tmpfs syncs nothing, so what is called durable here is not; give -dir on a real disk")
	}
}

func cpuModel() string {
	b, _ := os.ReadFile("/proc/cpuinfo")
	for line := range strings.Lines(string(b)) {
		if k, v, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(k) == "model name" {
			return strings.TrimSpace(v)
		}
	}
	return runtime.GOARCH
}

func kernel() string {
	b, _ := os.ReadFile("/proc/sys/kernel/osrelease")
	return strings.TrimSpace(string(b))
}

func fileSystem(dir string) string {
	var s syscall.Statfs_t
	if err := syscall.Statfs(dir, &s); err != nil {
		return "an unknown file system"
	}
	names := map[int64]string{0x01021994: "tmpfs", 0xef53: "ext4", 0x58465342: "xfs", 0x9123683e: "btrfs", 0x794c7630: "overlayfs"}
	if n, ok := names[int64(s.Type)]; ok {
		return n
	}
	return fmt.Sprintf("file system %#x", s.Type)
}

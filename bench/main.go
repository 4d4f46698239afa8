//go:build linux

// Command bench measures a leaselog server over its native REST API beside an empty net/http server.
//
//	go run ./bench                        speed, e2e and idle, about four minutes
//	go run ./bench -run speed -workloads queues -runs 1   one workload, once
//	go run ./bench -run depth,delayed     backlogs, about five minutes
//	go run ./bench -run all -strict       everything; exit status 1 where a bound is missed
//
// Both servers are child processes on the same cores as this client, which is why the client is built to cost little.
// Absolute rates depend on the machine, so what is judged are ratios to the empty server, taken in turns. Every message
// is accounted for: what was acknowledged comes back exactly once, in order within its group, or the run is no result.
// The raw figures of every run go to a file of JSON lines.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// options are the command line. Tests set them directly.
type options struct {
	run        string        // comma-separated parts
	server     string        // the program under test; empty: built from ./cmd/leaselog
	serverArgs string        // more arguments for its serve command, separated by blanks
	workloads  string        // comma-separated; empty: all
	token      string        // bearer token
	dir        string        // where data directories and result files go
	json       string        // file of raw figures
	strict     bool          // exit status 1 where a bound is missed
	runs       int           // repetitions, of which the median counts
	n          int           // messages per run sent one by one; batches send three times as many
	clients    int           // connections of the closed loops
	size       int           // bytes of a body
	queues     int           // queues of the many-queues workload, with 4 clients each
	lone       int           // messages of the lone sender
	rate       int           // messages a second that e2e offers
	e2eTime    time.Duration // length of an e2e run
	polls      int           // idle long polls
	idleTime   time.Duration // how long they are watched
	shallow    int           // the lesser depth
	depth      int           // the greater depth
	groups     int           // groups of the FIFO queue at depth
	slice      time.Duration // length of one measurement at a depth
	delayed    int           // delayed messages that a shard takes
}

// parts are what -run selects, in the order in which they run.
var parts = []string{"speed", "e2e", "idle", "depth", "delayed"}

func parseFlags(args []string) (*options, error) {
	o := &options{}
	f := flag.NewFlagSet("bench", flag.ContinueOnError)
	f.StringVar(&o.run, "run", "speed,e2e,idle", "parts: "+strings.Join(parts, ", ")+" or all")
	f.StringVar(&o.workloads, "workloads", "", "speed: "+strings.Join(workloadNames(), ", ")+" (default all)")
	f.StringVar(&o.server, "server", "", "program under test (default: built from ./cmd/leaselog)")
	f.StringVar(&o.serverArgs, "server-args", "", "more arguments for its serve command")
	f.StringVar(&o.token, "token", tokenDefault(), "bearer token (default $BASALTIC_ACCESS_TOKEN)")
	f.StringVar(&o.dir, "dir", "bench/results", "where data directories and results go; a real disk")
	f.StringVar(&o.json, "json", "", "file of raw figures, appended to (default: a new one in -dir)")
	f.BoolVar(&o.strict, "strict", false, "exit status 1 where a bound is missed")
	f.IntVar(&o.runs, "runs", 5, "repetitions, of which the median counts")
	f.IntVar(&o.n, "n", 20000, "messages of a run; batches send three times as many")
	f.IntVar(&o.clients, "c", 64, "clients")
	f.IntVar(&o.size, "size", 1024, "bytes of a body")
	f.IntVar(&o.queues, "queues", 16, "queues at once")
	f.IntVar(&o.lone, "lone", 1000, "messages of the lone sender")
	f.IntVar(&o.rate, "rate", 1000, "e2e: messages a second")
	f.DurationVar(&o.e2eTime, "e2e-time", 4*time.Second, "e2e: length of a run")
	f.IntVar(&o.polls, "polls", 1000, "idle: long polls")
	f.DurationVar(&o.idleTime, "idle-time", 10*time.Second, "idle: how long they are watched, at most 15s")
	f.IntVar(&o.shallow, "shallow", 1000, "depth: the lesser depth")
	f.IntVar(&o.depth, "depth", 1_000_000, "depth: the greater depth")
	f.IntVar(&o.groups, "groups", 100, "depth: groups of the FIFO queue")
	f.DurationVar(&o.slice, "slice", 3*time.Second, "depth: length of one measurement")
	f.IntVar(&o.delayed, "delayed", 100_000, "delayed: messages that a shard takes")
	if err := f.Parse(args); err != nil {
		return nil, err
	}
	if f.NArg() > 0 {
		return nil, fmt.Errorf("unexpected argument %q", f.Arg(0))
	}
	return o, o.check()
}

func tokenDefault() string {
	if t := os.Getenv("BASALTIC_ACCESS_TOKEN"); t != "" {
		return t
	}
	return "bench"
}

func (o *options) check() error {
	for _, p := range strings.Split(o.run, ",") {
		if p != "all" && !slices.Contains(parts, p) {
			return fmt.Errorf("-run takes %s or all, not %q", strings.Join(parts, ", "), p)
		}
	}
	for _, w := range strings.Split(o.workloads, ",") {
		if names := workloadNames(); w != "" && !slices.Contains(names, w) {
			return fmt.Errorf("-workloads takes %s, not %q", strings.Join(names, ", "), w)
		}
	}
	if o.workloads != "" && !o.selects("speed") {
		return fmt.Errorf("-workloads is for -run speed, not for %s", o.run)
	}
	if o.size < headerBytes || o.size > sizeMax {
		return fmt.Errorf("-size must be %d to %d, not %d", headerBytes, sizeMax, o.size)
	}
	if o.idleTime > 15*time.Second {
		return fmt.Errorf("-idle-time must be at most 15s, since a long poll ends after 20, not %v", o.idleTime)
	}
	for _, n := range []int{o.runs, o.n, o.clients, o.queues, o.lone, o.rate, o.polls, o.shallow, o.depth, o.groups, o.delayed} {
		if n < 1 {
			return fmt.Errorf("numbers of runs, messages, clients, queues, polls and groups must be at least 1, not %d", n)
		}
	}
	return nil
}

func (o *options) selects(part string) bool {
	chosen := strings.Split(o.run, ",")
	return slices.Contains(chosen, "all") || slices.Contains(chosen, part)
}

func main() {
	if len(os.Args) > 1 && os.Args[1] == "empty" {
		exit(serveEmpty(os.Args[2:]))
	}
	o, err := parseFlags(os.Args[1:])
	if err == flag.ErrHelp {
		os.Exit(2)
	}
	if err == nil {
		err = run(o, os.Stdout)
	}
	exit(err)
}

func exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// run measures the selected parts. The error is for what could not be measured, or with -strict for a missed bound.
func run(o *options, out io.Writer) error {
	if err := os.MkdirAll(o.dir, 0o755); err != nil {
		return err
	}
	tmp, err := os.MkdirTemp(o.dir, "data-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	ours, err := leaselog(o, tmp)
	if err != nil {
		return err
	}
	if o.json == "" {
		o.json = filepath.Join(o.dir, time.Now().Format("20060102-150405")+".jsonl")
	}
	raw, err := os.OpenFile(o.json, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer raw.Close()
	b := &bench{o: o, empty: emptySpec(o.token), ours: ours, tmp: tmp, out: out, raw: raw}
	defer b.stopAll()
	b.stopOnSignal()
	fmt.Fprintf(out, "raw figures: %s\n", o.json)
	return b.run()
}

// stopOnSignal keeps an interrupted run from leaving servers and data behind.
func (b *bench) stopOnSignal() {
	c := make(chan os.Signal, 1)
	signal.Notify(c, os.Interrupt, syscall.SIGTERM)
	go func() {
		<-c
		b.stopAll()
		os.RemoveAll(b.tmp)
		os.Exit(130)
	}()
}

//go:build linux

package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestMain lets the test binary be the empty server too, as the program itself is.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "empty" {
		exit(serveEmpty(os.Args[2:]))
	}
	os.Exit(m.Run())
}

// small are options with which everything runs within a second or two.
func small(t *testing.T) *options {
	o, err := parseFlags(nil)
	if err != nil {
		t.Fatal(err)
	}
	o.run, o.dir, o.runs = "all", t.TempDir(), 1
	o.n, o.clients, o.queues, o.lone = 120, 8, 3, 20
	o.rate, o.e2eTime = 500, 200*time.Millisecond
	o.polls, o.idleTime = 20, 200*time.Millisecond
	o.shallow, o.depth, o.groups, o.slice, o.delayed = 100, 1000, 10, 100*time.Millisecond, 100
	return o
}

// newTestBench measures the empty server beside another of its kind.
func newTestBench(t *testing.T) (*bench, *bytes.Buffer, *bytes.Buffer) {
	o := small(t)
	var out, raw bytes.Buffer
	ours := emptySpec("test")
	ours.name = "leaselog"
	b := &bench{o: o, empty: emptySpec("test"), ours: ours, tmp: o.dir, out: &out, raw: &raw}
	t.Cleanup(b.stopAll)
	return b, &out, &raw
}

func TestEveryWorkload(t *testing.T) {
	b, out, raw := newTestBench(t)
	if err := b.run(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, want := range []string{"send 1, 8 clients", "receive by 10 + ack", "3 queues, 4 clients each", "FIFO send 1",
		"server CPU a send", "lone sender p50", "long poll, p50 at 500/s", "20 idle long polls",
		"standard: receive + ack at 100 and at 1000", "FIFO: receive + ack at 100 and at 1000", "send beside 100 delayed"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the table lacks %q", want)
		}
	}
	for _, r := range b.rows {
		if r.Verdict == noResult {
			t.Errorf("no result: %+v", r)
		}
	}
	// The empty server knows no limit, which must show.
	if r := b.rows[len(b.rows)-1]; r.Verdict != bad || r.Ours != "accepted" {
		t.Errorf("the refusal's row is %+v", r)
	}
	if t.Failed() {
		t.Log(out)
	}
	checkRaw(t, raw)
}

func checkRaw(t *testing.T, raw *bytes.Buffer) {
	kinds := map[string]int{}
	for line := range strings.Lines(raw.String()) {
		var v map[string]json.RawMessage
		if err := json.Unmarshal([]byte(line), &v); err != nil {
			t.Fatalf("%v in %q", err, line)
		}
		for k := range v {
			kinds[k]++
		}
	}
	if kinds["machine"] != 1 || kinds["phase"] < 30 || kinds["result"] < 20 {
		t.Errorf("raw figures hold %v", kinds)
	}
}

// A load must notice messages that are lost, come twice or were never sent.
func TestFaultsAreNoResult(t *testing.T) {
	b, _, _ := newTestBench(t)
	s, err := b.start(b.empty)
	if err != nil {
		t.Fatal(err)
	}
	l, err := newLoad(s, 1, 10, 0, 1024)
	if err != nil {
		t.Fatal(err)
	}
	defer l.close()
	l.sendAll(startMeter(s), 3, 1, 1)
	if err := l.receive(l.conns[0], 1, 0); err != nil { // taken away and never acked
		t.Fatal(err)
	}
	l.quiet = 50 * time.Millisecond
	l.led.state[1].Store(0) // as if 1 had not been sent, then sent again under the same id
	if err := l.sender(l.conns[0], 0, 1).send(1, 2, 0); err != nil {
		t.Fatal(err)
	}
	l.drain(startMeter(s), 1, 1)
	got := strings.Join(l.errs(true), "; ")
	if !strings.Contains(got, "1 delivered twice") || !strings.Contains(got, "1 received but not acked") {
		t.Errorf("found %q", got)
	}
}

func TestErrorsOfTheServerAreTold(t *testing.T) {
	b, _, _ := newTestBench(t)
	s, err := b.start(b.empty)
	if err != nil {
		t.Fatal(err)
	}
	l, err := newLoad(s, 1, 100, 0, 1024)
	if err != nil {
		t.Fatal(err)
	}
	defer l.hangUp()
	l.path.send = "/v1/queues/none/messages"
	l.sendAll(startMeter(s), 2, 1, 1)
	if got := strings.Join(l.errs(true), "; "); !strings.Contains(got, "HTTP 404 no such queue") {
		t.Errorf("found %q", got)
	}
}

func TestServerThatDoesNotStart(t *testing.T) {
	sp := spec{name: "broken", argv: func(string) []string { return []string{"/bin/sh", "-c", "echo no disk >&2; exit 3"} }}
	_, err := startServer(sp, filepath.Join(t.TempDir(), "broken"))
	if err == nil || !strings.Contains(err.Error(), "exit status 3") || !strings.Contains(err.Error(), "no disk") {
		t.Errorf("the error is %v", err)
	}
}

func TestFlags(t *testing.T) {
	for _, args := range [][]string{{"-run", "quick"}, {"-size", "10"}, {"-runs", "0"}, {"-idle-time", "20s"}, {"stray"}} {
		if _, err := parseFlags(args); err == nil {
			t.Errorf("%v is accepted", args)
		}
	}
	o, err := parseFlags([]string{"-run", "depth,e2e"})
	if err != nil || !o.selects("depth") || !o.selects("e2e") || o.selects("speed") {
		t.Errorf("depth,e2e: %v", err)
	}
}

func TestOnlySelectedWorkloads(t *testing.T) {
	o, err := parseFlags([]string{"-workloads", "queues"})
	if err != nil {
		t.Fatal(err)
	}
	rows := (&bench{o: o}).speedRows("empty", "leaselog")
	if len(rows) != 1 || !strings.HasPrefix(rows[0].What, "16 queues") {
		t.Errorf("rows of one workload: %+v", rows)
	}
	if _, err := parseFlags([]string{"-workloads", "queue"}); err == nil || !strings.Contains(err.Error(), "single, batch, queues") {
		t.Errorf("an unknown workload: %v", err)
	}
	if _, err := parseFlags([]string{"-run", "idle", "-workloads", "queues"}); err == nil || !strings.Contains(err.Error(), "for -run speed") {
		t.Errorf("workloads without speed: %v", err)
	}
}

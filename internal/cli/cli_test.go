package cli

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/leaselog/leaselog/internal/local/host"
)

// server is a real server in this process.
type server struct {
	url  string
	stop func() error
}

func startServer(data string) (*server, error) {
	h, err := host.Open(host.Config{Listen: "127.0.0.1:0", Data: data})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- h.Run(ctx) }()
	return &server{url: "http://" + h.Address(), stop: func() error {
		cancel()
		return <-done
	}}, nil
}

// TestScripts runs testdata/script: commands against a real server, mistakes included.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: filepath.Join("testdata", "script"),
		Setup: func(e *testscript.Env) error {
			e.Vars = append(e.Vars, "NO_COLOR=1", "LEASELOG_ENDPOINT=http://127.0.0.1:1", "SOURCE_DATE_EPOCH=1800000000")
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"server": serverCommand,
			"exit":   exitCommand,
			"grab":   grabCommand,
			"await":  awaitCommand,
			"damage": damageCommand,
			"flip":   flipCommand,
		},
		RequireExplicitExec: true,
		UpdateScripts:       os.Getenv("UPDATE") != "",
	})
}

// serverCommand is "server [start|stop]": the server keeps its data in $WORK/data.
func serverCommand(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) == 1 && args[0] == "stop" {
		s, _ := servers.LoadAndDelete(ts.Getenv("WORK"))
		ts.Check(s.(*server).stop())
		return
	}
	s, err := startServer(ts.MkAbs("data"))
	ts.Check(err)
	ts.Setenv("LEASELOG_ENDPOINT", s.url)
	servers.Store(ts.Getenv("WORK"), s)
	ts.Defer(func() {
		if s, ok := servers.LoadAndDelete(ts.Getenv("WORK")); ok {
			_ = s.(*server).stop()
		}
	})
}

// exitCommand is "exit STATUS leaselog ARG…": it checks the exact exit status, and the output can be asked for after.
func exitCommand(ts *testscript.TestScript, neg bool, args []string) {
	err := ts.Exec(args[1], args[2:]...)
	got := 0
	if err != nil {
		got = exitStatus(err)
	}
	if fmt.Sprint(got) != args[0] {
		ts.Fatalf("exit status %d, want %s", got, args[0])
	}
}

// exitStatus reads "exit status 3".
func exitStatus(err error) (n int) {
	if _, scan := fmt.Sscanf(err.Error(), "exit status %d", &n); scan != nil {
		return -1
	}
	return n
}

// grabCommand is "grab VARIABLE PREFIX": the rest of the line of the last output that begins with the prefix.
func grabCommand(ts *testscript.TestScript, neg bool, args []string) {
	for line := range strings.Lines(ts.ReadFile("stdout")) {
		if rest, ok := strings.CutPrefix(line, args[1]); ok {
			ts.Setenv(args[0], strings.TrimSpace(rest))
			return
		}
	}
	ts.Fatalf("no line begins with %q", args[1])
}

// awaitCommand is "await FILE TEXT": it waits until a file holds a text, which a program in the background writes.
func awaitCommand(ts *testscript.TestScript, neg bool, args []string) {
	deadline := time.After(20 * time.Second)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		text, _ := os.ReadFile(ts.MkAbs(args[0]))
		if strings.Contains(string(text), args[1]) {
			return
		}
		select {
		case <-tick.C:
		case <-deadline:
			ts.Fatalf("%s does not come to hold %q", args[0], args[1])
		}
	}
}

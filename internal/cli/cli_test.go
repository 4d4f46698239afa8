package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// server is "leaselog serve" in this process, and so under the race detector.
type server struct {
	url  string
	said *said
	end  context.CancelFunc
	exit chan int
}

// said is what a server says, on either output.
type said struct {
	mu    sync.Mutex
	text  strings.Builder
	ready chan string // gets the URL
}

func (s *said) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, after, ok := strings.Cut(string(b), "ready at "); ok {
		url, _, _ := strings.Cut(after, "\n")
		s.ready <- url
	}
	return s.text.Write(b)
}

func (s *said) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

func startServer(flags ...string) (*server, error) {
	s := &server{said: &said{ready: make(chan string, 1)}, exit: make(chan int, 1)}
	ctx, end := context.WithCancel(context.Background())
	s.end = end
	p := Program{Version: "test", Stdin: strings.NewReader(""), Stdout: s.said, Stderr: s.said}
	go func() { s.exit <- p.Run(ctx, append([]string{"serve"}, flags...)) }()
	select {
	case s.url = <-s.said.ready:
		return s, nil
	case status := <-s.exit:
		end()
		return nil, fmt.Errorf("the server did not start: exit status %d\n%s", status, s.said)
	}
}

func (s *server) stop() error {
	s.end()
	if status := <-s.exit; status != 0 {
		return fmt.Errorf("the server ended with exit status %d\n%s", status, s.said)
	}
	return nil
}

// TestScripts runs testdata/script: commands against a real server, mistakes included. The files end in .txtar. Beside
// testscript's own commands they have:
//
//	server start [FLAG…]       starts the server, on the data directory $WORK/data unless --data names another one, and
//	                           points the commands at it; in a script it always has the same port
//	server stop                ends it as a supervisor does; its output is the next stdout
//	exit STATUS PROGRAM ARG…   runs a program and demands its exit status
//	capture NAME REGEXP        keeps the first group of a match in the last stdout as $NAME
//	await FILE [TEXT]          waits until a file is there and holds a text
//	until TEXT COMMAND [ARG…]  runs a command again and again until its standard output holds a text
//	call STATUS METHOD PATH [BODY]  makes a request with the bearer token $TOKEN and demands its status
//	exchange STATUS            exchanges the key pair in the environment and keeps the token as $TOKEN
//	damage DIR, flip DIR       spoil a stopped store
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: filepath.Join("testdata", "script"),
		Setup: func(e *testscript.Env) error {
			e.Vars = append(e.Vars, "NO_COLOR=1", "LEASELOG_ENDPOINT=http://127.0.0.1:1", "SOURCE_DATE_EPOCH=1800000000")
			s := &scripted{listen: "127.0.0.1:0"}
			e.Values[serverKey{}] = s
			e.Defer(func() { _ = s.stop() })
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"server":   serverCommand,
			"exit":     exitCommand,
			"capture":  captureCommand,
			"await":    awaitCommand,
			"until":    untilCommand,
			"call":     callCommand,
			"exchange": exchangeCommand,
			"damage":   damageCommand,
			"flip":     flipCommand,
		},
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		UpdateScripts:       os.Getenv("UPDATE") != "",
	})
}

type serverKey struct{}

// scripted is the server of a script, if it runs.
type scripted struct {
	*server
	listen string
}

func (s *scripted) stop() error {
	if s.server == nil {
		return nil
	}
	running := s.server
	s.server = nil
	return running.stop()
}

func serverCommand(ts *testscript.TestScript, _ bool, args []string) {
	s := ts.Value(serverKey{}).(*scripted)
	if args[0] == "stop" {
		running := s.server
		ts.Check(s.stop())
		fmt.Fprint(ts.Stdout(), running.said)
		return
	}
	data, listen, flags := "data", s.listen, args[1:]
	for i := 0; i+1 < len(flags); i++ {
		switch flags[i] {
		case "--data":
			data = flags[i+1]
		case "--listen":
			listen = flags[i+1]
		}
	}
	var err error
	s.server, err = startServer(append(slices.Clone(flags), "--data", ts.MkAbs(data), "--listen", listen)...)
	ts.Check(err)
	_, s.listen, _ = strings.Cut(s.url, "://")
	ts.Setenv("LEASELOG_ENDPOINT", s.url)
}

func exitCommand(ts *testscript.TestScript, _ bool, args []string) {
	err := ts.Exec(args[1], args[2:]...)
	got := 0
	if e, is := errors.AsType[*exec.ExitError](err); is {
		got = e.ExitCode()
	} else {
		ts.Check(err)
	}
	if strconv.Itoa(got) != args[0] {
		ts.Fatalf("exit status %d, want %s", got, args[0])
	}
}

func captureCommand(ts *testscript.TestScript, _ bool, args []string) {
	m := regexp.MustCompile("(?m)" + args[1]).FindStringSubmatch(ts.ReadFile("stdout"))
	if m == nil {
		ts.Fatalf("nothing matches %s", args[1])
	}
	ts.Setenv(args[0], m[1])
}

func callCommand(ts *testscript.TestScript, _ bool, args []string) {
	body := ""
	if len(args) > 3 {
		body = args[3]
	}
	answer(ts, args[0], args[1], args[2], body, func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+ts.Getenv("TOKEN")) })
}

func exchangeCommand(ts *testscript.TestScript, _ bool, args []string) {
	text := answer(ts, args[0], "POST", "/v1/oauth/token", "grant_type=client_credentials", func(r *http.Request) {
		r.SetBasicAuth(ts.Getenv("BASALTIC_ACCESS_KEY_ID"), ts.Getenv("BASALTIC_SECRET_ACCESS_KEY"))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	})
	if m := regexp.MustCompile(`"access_token":"([^"]+)"`).FindStringSubmatch(text); m != nil {
		ts.Setenv("TOKEN", m[1])
	}
}

// answer makes a request, prints its answer and demands its status.
func answer(ts *testscript.TestScript, status, method, path, body string, prepare func(*http.Request)) string {
	r, err := http.NewRequest(method, ts.Getenv("LEASELOG_ENDPOINT")+path, strings.NewReader(body))
	ts.Check(err)
	prepare(r)
	a, err := http.DefaultClient.Do(r)
	ts.Check(err)
	defer a.Body.Close()
	text, err := io.ReadAll(a.Body)
	ts.Check(err)
	if strconv.Itoa(a.StatusCode) != status {
		ts.Fatalf("%s %s: %d %s, want %s", method, path, a.StatusCode, text, status)
	}
	fmt.Fprintf(ts.Stdout(), "%s", text)
	return string(text)
}

func awaitCommand(ts *testscript.TestScript, neg bool, args []string) {
	deadline := time.After(20 * time.Second)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		if len(args) == 1 {
			if _, err := os.Stat(ts.MkAbs(args[0])); err == nil {
				return
			}
		} else if text, _ := os.ReadFile(ts.MkAbs(args[0])); strings.Contains(string(text), args[1]) {
			return
		}
		select {
		case <-tick.C:
		case <-deadline:
			ts.Fatalf("waited in vain for %q", args)
		}
	}
}

func untilCommand(ts *testscript.TestScript, neg bool, args []string) {
	deadline := time.After(20 * time.Second)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		ts.Check(ts.Exec(args[1], args[2:]...))
		if strings.Contains(ts.ReadFile("stdout"), args[0]) {
			return
		}
		select {
		case <-tick.C:
		case <-deadline:
			ts.Fatalf("waited in vain for %q", args)
		}
	}
}

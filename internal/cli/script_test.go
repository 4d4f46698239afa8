package cli

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// TestMain lets scripts run the program by its name.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"leaselog": func() {
		p := Program{Version: "test", Stdout: os.Stdout, Stderr: os.Stderr}
		os.Exit(p.Run(context.Background(), os.Args[1:]))
	}})
}

// TestScripts runs the files of testdata. Beside testscript's own commands they have:
//
//	serve args…                starts the server on a free port and waits until it is ready: $URL is where
//	stop [-9]                  ends it, as a supervisor does or as a crash would; its output is the next stdout
//	capture NAME regexp        keeps the first group of a match in the last stdout as $NAME
//	status N cmd args…         runs a command and demands its exit status
//	call N METHOD path [body]  makes a request with the bearer token $TOKEN and demands its status
//	exchange N                 exchanges $KEY and $SECRET, demands a status, and keeps the token as $TOKEN
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata",
		Setup: func(e *testscript.Env) error {
			s := new(server)
			e.Values[serverKey{}] = s
			e.Defer(func() { s.end(syscall.SIGKILL) })
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"serve": serve, "stop": stop, "capture": capture, "status": exits, "call": call, "exchange": exchange,
		},
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
	})
}

type serverKey struct{}

// server is the one that a script has started.
type server struct {
	cmd  *exec.Cmd
	out  strings.Builder
	done chan struct{} // closed when it has ended and its output was read
}

func of(ts *testscript.TestScript) *server { return ts.Value(serverKey{}).(*server) }

func serve(ts *testscript.TestScript, _ bool, args []string) {
	s := of(ts)
	program := filepath.Join(filepath.SplitList(ts.Getenv("PATH"))[0], "leaselog")
	s.cmd = exec.Command(program, append([]string{"serve", "--listen", "127.0.0.1:0"}, args...)...)
	s.cmd.Dir = ts.Getenv("WORK")
	out, err := s.cmd.StdoutPipe()
	ts.Check(err)
	s.cmd.Stderr = s.cmd.Stdout
	ts.Check(s.cmd.Start())
	s.out.Reset()
	s.done = make(chan struct{})
	ready := make(chan string, 1)
	go s.follow(out, ready)
	url, ok := <-ready
	if !ok {
		ts.Fatalf("the server did not start:\n%s", s.out.String())
	}
	ts.Setenv("URL", url)
}

// follow reads what the server says, and tells where it is.
func (s *server) follow(out io.Reader, ready chan<- string) {
	defer close(s.done)
	defer s.cmd.Wait()
	defer close(ready)
	for lines := bufio.NewScanner(out); lines.Scan(); {
		s.out.WriteString(lines.Text() + "\n")
		if _, url, ok := strings.Cut(lines.Text(), "ready at "); ok {
			ready <- url
		}
	}
}

func (s *server) end(sig os.Signal) {
	if s.cmd != nil {
		s.cmd.Process.Signal(sig)
		<-s.done
		s.cmd = nil
	}
}

func stop(ts *testscript.TestScript, _ bool, args []string) {
	s, sig := of(ts), os.Signal(syscall.SIGTERM)
	if len(args) == 1 && args[0] == "-9" {
		sig = syscall.SIGKILL
	}
	s.end(sig)
	io.WriteString(ts.Stdout(), s.out.String())
}

func capture(ts *testscript.TestScript, _ bool, args []string) {
	m := regexp.MustCompile(args[1]).FindStringSubmatch(ts.ReadFile("stdout"))
	if m == nil {
		ts.Fatalf("nothing matches %s", args[1])
	}
	ts.Setenv(args[0], m[1])
}

func exits(ts *testscript.TestScript, _ bool, args []string) {
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

func call(ts *testscript.TestScript, _ bool, args []string) {
	body := ""
	if len(args) > 3 {
		body = args[3]
	}
	answer(ts, args[0], args[1], args[2], body, func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+ts.Getenv("TOKEN")) })
}

func exchange(ts *testscript.TestScript, _ bool, args []string) {
	text := answer(ts, args[0], "POST", "/v1/oauth/token", "grant_type=client_credentials", func(r *http.Request) {
		r.SetBasicAuth(ts.Getenv("KEY"), ts.Getenv("SECRET"))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	})
	if m := regexp.MustCompile(`"access_token":"([^"]+)"`).FindStringSubmatch(text); m != nil {
		ts.Setenv("TOKEN", m[1])
	}
}

// answer makes a request, prints its answer and demands its status.
func answer(ts *testscript.TestScript, status, method, path, body string, prepare func(*http.Request)) string {
	r, err := http.NewRequest(method, ts.Getenv("URL")+path, strings.NewReader(body))
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
	ts.Stdout().Write(text)
	return string(text)
}

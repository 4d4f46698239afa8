package accept

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

const (
	startTimeout = 30 * time.Second
	stopTimeout  = 20 * time.Second
)

var address = regexp.MustCompile(`http://127\.0\.0\.1:\d+`)

// server is a running leaselog.
type server struct {
	url    string
	cmd    *exec.Cmd
	ended  chan struct{} // closed when the process has ended, with err
	err    error
	output *output
}

// start runs the server on a free port and waits for the line that says which. env is nil for that of this process.
func start(t *testing.T, bin string, env []string, flags ...string) *server {
	t.Helper()
	s := &server{ended: make(chan struct{}), output: &output{url: make(chan string, 1)}}
	s.cmd = exec.Command(bin, append([]string{"serve", "--listen", "127.0.0.1:0"}, flags...)...)
	s.cmd.Env = env
	s.cmd.WaitDelay = time.Second // what a killed server has started may hold its output open
	s.cmd.Stdout, s.cmd.Stderr = s.output, &s.output.log
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		s.err = s.cmd.Wait()
		close(s.ended)
	}()
	t.Cleanup(func() { s.kill() })
	select {
	case s.url = <-s.output.url:
	case <-s.ended:
		t.Fatalf("the server ended before it printed its address: %v\n%s", s.err, s.log())
	case <-time.After(startTimeout):
		t.Fatalf("the server printed no address in %v:\n%s", startTimeout, s.log())
	}
	return s
}

// ends is a subtest of how the server stops, and shows what it printed if anything before has failed.
func (s *server) ends(t *testing.T) {
	t.Helper()
	t.Run("the server stops when told", s.stop)
	if t.Failed() {
		t.Logf("the server printed:\n%s", s.log())
	}
}

// stop asks the process to end, as a supervisor does, and demands that it ends well.
func (s *server) stop(t *testing.T) {
	s.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-s.ended:
		if s.err != nil {
			t.Errorf("after SIGTERM the server ended with %v", s.err)
		}
	case <-time.After(stopTimeout):
		s.kill()
		t.Errorf("the server did not end within %v of SIGTERM", stopTimeout)
	}
}

// kill leaves no process behind, whatever happened before.
func (s *server) kill() {
	s.cmd.Process.Kill()
	<-s.ended
}

func (s *server) log() string { return s.output.log.String() }

// output keeps what the server prints and tells the first address in a whole line of its standard output.
type output struct {
	log  buffer
	mu   sync.Mutex
	text string
	told bool
	url  chan string
}

func (o *output) Write(p []byte) (int, error) {
	o.log.Write(p)
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.told {
		return len(p), nil
	}
	o.text += string(p)
	if u := address.FindString(o.text[:strings.LastIndex(o.text, "\n")+1]); u != "" {
		o.told = true
		o.url <- u
	}
	return len(p), nil
}

// buffer is a bytes.Buffer for two writers.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// TestServer starts and stops a stand-in, so that a failed acceptance run is the server's fault and not the runner's.
func TestServer(t *testing.T) {
	bin := filepath.Join(t.TempDir(), "leaselog")
	script := `#!/usr/bin/env python3
import signal, sys
signal.signal(signal.SIGTERM, lambda *_: sys.exit(print("bye", flush=True)))
print("starts", file=sys.stderr, flush=True)
print("listens on http://127.0.0.1:12", end="", flush=True)
print("34", flush=True)
while True:
    signal.pause()
`
	if err := os.WriteFile(bin, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	s := start(t, bin, nil)
	if s.url != "http://127.0.0.1:1234" {
		t.Errorf("address is %q", s.url)
	}
	s.stop(t)
	for _, want := range []string{"starts", "listens", "bye"} {
		if !strings.Contains(s.log(), want) {
			t.Errorf("%q is missing from the log %q", want, s.log())
		}
	}
}

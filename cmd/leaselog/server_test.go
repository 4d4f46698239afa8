package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
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

// server is the real program as a process of its own, on a data directory that outlives it.
type server struct {
	bin, data string
	client    *http.Client
	logs      lockedBuffer

	mu   sync.Mutex
	url  string
	cmd  *exec.Cmd
	done chan error
}

func newServer(t *testing.T) *server {
	t.Helper()
	dir := t.TempDir()
	s := &server{bin: filepath.Join(dir, "leaselog"), data: filepath.Join(dir, "data"),
		client: &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: 64}}}
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", s.bin, ".").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	t.Cleanup(func() {
		if s.cmd != nil {
			s.cmd.Process.Kill()
			<-s.done
		}
		if t.Failed() {
			t.Logf("the server said:\n%s", s.logs.String())
		}
	})
	return s
}

var address = regexp.MustCompile(`http://127\.0\.0\.1:\d+`)

// start runs the program and waits until it has printed its address.
func (s *server) start(t *testing.T, args ...string) {
	t.Helper()
	cmd := exec.Command(s.bin, append([]string{"serve", "--listen", "127.0.0.1:0", "--data", s.data}, args...)...)
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = &s.logs
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReader(stdout)
	line, err := lines.ReadString('\n')
	url := address.FindString(line)
	if err != nil || url == "" {
		cmd.Wait()
		t.Fatalf("the server did not start: %q, %v\n%s", line, err, s.logs.String())
	}
	done := make(chan error, 1)
	go func() {
		io.Copy(io.Discard, lines)
		done <- cmd.Wait()
	}()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cmd, s.done, s.url = cmd, done, url
}

// kill ends the process as a power cut would.
func (s *server) kill(t *testing.T) {
	t.Helper()
	s.end(t, os.Kill)
}

// stop asks the process to end, and checks that it does so well.
func (s *server) stop(t *testing.T) {
	t.Helper()
	if err := s.end(t, syscall.SIGTERM); err != nil {
		t.Errorf("the server did not stop well: %v", err)
	}
}

func (s *server) end(t *testing.T, sig os.Signal) error {
	t.Helper()
	if err := s.cmd.Process.Signal(sig); err != nil {
		t.Fatal(err)
	}
	err := <-s.done
	s.cmd = nil
	return err
}

// check verifies the store of a server that was stopped or killed, from its raw entries.
func (s *server) check(t *testing.T) {
	t.Helper()
	if out, err := exec.CommandContext(t.Context(), s.bin, "check", s.data).CombinedOutput(); err != nil {
		t.Errorf("leaselog check: %v\n%s", err, out)
	} else {
		t.Logf("%s", out)
	}
}

// call makes a request. Its error is nil for a success of the API alone.
func (s *server) call(ctx context.Context, method, path string, body, into any) error {
	s.mu.Lock()
	url := s.url
	s.mu.Unlock()
	var in io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return err
		}
		in = bytes.NewReader(text)
	}
	req, err := http.NewRequestWithContext(ctx, method, url+path, in)
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer test")
	req.Header.Set("Content-Type", "application/json")
	resp, err := s.client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	if resp.StatusCode/100 != 2 {
		return fmt.Errorf("%s %s: %d %s", method, path, resp.StatusCode, strings.TrimSpace(string(text)))
	}
	if into == nil || len(text) == 0 {
		return nil
	}
	return json.Unmarshal(text, into)
}

// must is call for what cannot fail.
func (s *server) must(t *testing.T, method, path string, body any) {
	t.Helper()
	if err := s.call(t.Context(), method, path, body, nil); err != nil {
		t.Fatal(err)
	}
}

// lockedBuffer may be read while a process still writes to it.
type lockedBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write implements io.Writer.
func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

package main

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// damages are what may happen to a data directory while no server runs on it. A tail is what the newest files hold: of
// it alone may something be lost.
var damages = []struct {
	name   string
	damage func(dir string) error
}{
	{"nothing", func(string) error { return nil }},
	{"newest log cut by 1 byte", cut(1)},
	{"newest log cut by 7 bytes", cut(7)},
	{"newest log cut by 4096 bytes", cut(4096)},
	{"100 random bytes behind the newest log", behind},
	{"last 4 KB of the newest log zeroed", zero},
	{"newest manifest removed", remove("store/MANIFEST-*")},
	{"manifest's marker removed", remove("store/marker.manifest.*")},
	{"newest log removed", remove("store/*.log")},
	{"newest table removed", remove("store/*.sst")},
	{"newest table cut in half", halve("store/*.sst")},
	{"newest manifest cut in half", halve("store/MANIFEST-*")},
	{"our marker removed", remove("store/LEASELOG")},
	{"key removed", remove("key")},
	{"store removed", func(dir string) error { return os.RemoveAll(filepath.Join(dir, "store")) }},
	{"key cut in half", halve("key")},
	{"everything but the markers removed", func(dir string) error {
		for _, pattern := range []string{"store/*.log", "store/*.sst", "store/MANIFEST-*", "store/marker.*", "store/OPTIONS-*"} {
			for {
				if err := remove(pattern)(dir); err != nil {
					break
				}
			}
		}
		return nil
	}},
}

// newest finds the file of a kind that was numbered last.
func newest(dir, pattern string) (string, error) {
	all, err := filepath.Glob(filepath.Join(dir, pattern))
	if err != nil || len(all) == 0 {
		return "", fmt.Errorf("there is no %s: %v", pattern, err)
	}
	slices.Sort(all)
	return all[len(all)-1], nil
}

func remove(pattern string) func(string) error {
	return func(dir string) error {
		file, err := newest(dir, pattern)
		if err != nil {
			return err
		}
		return os.Remove(file)
	}
}

// rewrite gives the newest file of a kind another content. The end of what was written counts as the end of a log, which may
// have been made longer beforehand.
func rewrite(pattern string, edit func([]byte) []byte) func(string) error {
	return func(dir string) error {
		file, err := newest(dir, pattern)
		if err != nil {
			return err
		}
		content, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		return os.WriteFile(file, edit(bytes.TrimRight(content, "\x00")), 0o600)
	}
}

func cut(n int) func(string) error {
	return rewrite("store/*.log", func(b []byte) []byte { return b[:max(0, len(b)-n)] })
}

func halve(pattern string) func(string) error {
	return rewrite(pattern, func(b []byte) []byte { return b[:len(b)/2] })
}

var behind = rewrite("store/*.log", func(b []byte) []byte {
	for range 100 {
		b = append(b, byte(rand.Uint32()))
	}
	return b
})

var zero = rewrite("store/*.log", func(b []byte) []byte {
	clear(b[max(0, len(b)-4096):])
	return b
})

// TestDamage holds G9: on a damaged copy of a directory the server starts with a warning and has lost at most the damaged
// tail, or it refuses with a sentence and a status; it never starts empty, and what it takes afterwards is received.
func TestDamage(t *testing.T) {
	s := newServer(t)
	ids := populate(t, s)
	os.Remove(filepath.Join(s.data, "admin.sock")) // a killed server leaves it, and it cannot be copied
	for _, d := range damages {
		t.Run(d.name, func(t *testing.T) {
			c := &server{bin: s.bin, client: s.client, data: filepath.Join(t.TempDir(), "data")}
			if err := os.CopyFS(c.data, os.DirFS(s.data)); err != nil {
				t.Fatal(err)
			}
			if err := os.Chmod(filepath.Join(c.data, "key"), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := d.damage(c.data); err != nil {
				t.Fatal(err)
			}
			judgeDamage(t, c, ids, d.name)
		})
	}
}

// populate fills a directory: some tables from a clean stop, then a log from a kill. It gives the ids that were
// answered, oldest first.
func populate(t *testing.T, s *server) (ids []string) {
	s.start(t)
	s.must(t, "POST", "/v1/queues", map[string]any{"name": "q"})
	send := func(n int) {
		for range n {
			ids = append(ids, sendOne(t, s))
		}
	}
	send(100)
	s.stop(t)
	s.start(t)
	send(100)
	s.kill(t)
	return ids
}

func sendOne(t *testing.T, s *server) string {
	t.Helper()
	var got struct {
		Result struct {
			ID string `json:"message_id"`
		}
	}
	if err := s.call(t.Context(), "POST", "/v1/queues/q/messages", map[string]string{"body": strings.Repeat("x", 500)}, &got); err != nil {
		t.Fatal(err)
	}
	return got.Result.ID
}

// judgeDamage starts the program on a damaged directory and decides whether it behaved.
func judgeDamage(t *testing.T, s *server, ids []string, what string) {
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	refusal, started := s.tryStart(ctx, t)
	if !started {
		if !strings.Contains(refusal, s.data) || strings.Contains(refusal, "panic") || strings.Contains(refusal, "goroutine ") {
			t.Errorf("the refusal is no clear text: %s", refusal)
		}
		if what == "nothing" {
			t.Errorf("refused: %s", refusal)
		}
		t.Logf("refused: %s", strings.ReplaceAll(strings.TrimSpace(refusal), s.data, "DATA"))
		return
	}
	if what == "store removed" { // as when a volume is not mounted
		if s.must(t, "POST", "/v1/queues", map[string]any{"name": "q"}); !s.warned("level=WARN") {
			t.Error("started empty in silence")
		}
		s.stop(t)
		return
	}
	fresh := sendOne(t, s)
	if slices.Contains(ids, fresh) {
		t.Errorf("the id %s was given out twice", fresh)
	}
	got := receiveAll(t, s)
	if !slices.Contains(got, fresh) {
		t.Error("a send was answered 200 and cannot be received")
	}
	got = slices.DeleteFunc(got, func(id string) bool { return id == fresh })
	lost := len(ids) - len(got)
	s.stop(t)
	warned := s.warned("level=WARN", "level=ERROR")
	switch {
	case !slices.Equal(got, ids[:len(got)]):
		t.Errorf("what is left is not the older part: %d of %d", len(got), len(ids))
	case lost > 20: // 4 KB are seven of them
		t.Errorf("%d of %d messages were lost, warned: %t", lost, len(ids), warned)
	case lost > 0 && !warned:
		t.Errorf("%d messages were lost in silence", lost)
	}
	t.Logf("started, lost %d, warned: %t", lost, warned)
}

// tryStart is start for a program that may refuse: it gives what it said then.
func (s *server) tryStart(ctx context.Context, t *testing.T) (refusal string, started bool) {
	t.Helper()
	probe := exec.CommandContext(ctx, s.bin, "serve", "--listen", "127.0.0.1:0", "--data", s.data)
	var out bytes.Buffer
	up := make(chan struct{})
	probe.Stdout, probe.Stderr = &signalled{text: &out, seen: up}, &s.logs
	if err := probe.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- probe.Wait() }()
	select {
	case <-up:
		s.cmd, s.done = probe, ended
		s.url = address.FindString(out.String())
		return "", true
	case err := <-ended:
		if err == nil {
			t.Errorf("the program ended with status 0: %s", s.logs.String())
		}
		return s.logs.String(), false
	}
}

// receiveAll leases everything, oldest first.
func receiveAll(t *testing.T, s *server) (ids []string) {
	t.Helper()
	for {
		var got struct{ Messages []struct{ ID string } }
		if err := s.call(t.Context(), "POST", "/v1/queues/q/messages/receive", map[string]int{"max_messages": 10, "visibility_timeout_seconds": 600}, &got); err != nil {
			t.Fatal(err)
		}
		if len(got.Messages) == 0 {
			return ids
		}
		for _, m := range got.Messages {
			ids = append(ids, m.ID)
		}
	}
}

// signalled tells when the program has printed where it listens. It is read after that alone.
type signalled struct {
	text *bytes.Buffer
	seen chan struct{}
}

// Write keeps what comes before the address is seen.
func (s *signalled) Write(p []byte) (int, error) {
	if s.seen == nil {
		return len(p), nil
	}
	s.text.Write(p)
	if address.Match(s.text.Bytes()) {
		close(s.seen)
		s.seen = nil
	}
	return len(p), nil
}

// warned says whether the log holds one of these words, which may still be on their way through the pipe.
func (s *server) warned(words ...string) bool {
	for range 200 {
		for _, w := range words {
			if strings.Contains(s.logs.String(), w) {
				return true
			}
		}
		<-time.After(5 * time.Millisecond)
	}
	return false
}

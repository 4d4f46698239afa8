//go:build linux

package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"time"
)

// spec is a program that can be started as a server.
type spec struct {
	name    string
	argv    func(data string) []string
	token   string
	durable bool // keeps messages over a restart
	ordered bool // keeps the order of FIFO groups
}

// server is a running child.
type server struct {
	spec
	addr    string // host:port
	pid     int
	dir     string
	begun   time.Time // when the process was started
	cmd     *exec.Cmd
	log     *os.File
	exited  chan struct{}
	stopped sync.Once
}

// startSecondsMax is generous, since a server may have to read a long log before it listens.
const startSecondsMax = 120

// listening is how a server says where it listens: the first such URL on its standard output.
var listening = regexp.MustCompile(`http://(127\.0\.0\.1:\d+)`)

// leaselog is the server under test, built first unless -server names one.
func leaselog(o *options, tmp string) (spec, error) {
	bin := o.server
	if bin == "" {
		bin = filepath.Join(tmp, "leaselog")
		build := exec.Command("go", "build", "-o", bin, "./cmd/leaselog")
		if out, err := build.CombinedOutput(); err != nil {
			return spec{}, fmt.Errorf("building ./cmd/leaselog (run from the repository's root, or give -server): %w\n%s", err, out)
		}
	}
	bin, err := filepath.Abs(bin)
	if err != nil {
		return spec{}, err
	}
	argv := func(data string) []string {
		return append([]string{bin, "serve", "--listen", "127.0.0.1:0", "--data", data}, strings.Fields(o.serverArgs)...)
	}
	return spec{name: "leaselog", argv: argv, token: o.token, durable: true, ordered: true}, nil
}

// startServer starts sp with its data in dir and waits until it says where it listens.
func startServer(sp spec, dir string) (*server, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	log, err := os.OpenFile(filepath.Join(dir, "log"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	argv := sp.argv(filepath.Join(dir, "data"))
	s := &server{spec: sp, dir: dir, log: log, cmd: exec.Command(argv[0], argv[1:]...), exited: make(chan struct{})}
	s.cmd.Stderr = log
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	s.begun = time.Now()
	if err := s.cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting %s: %w", sp.name, err)
	}
	s.pid = s.cmd.Process.Pid
	found := make(chan string, 1)
	go s.watch(out, found)
	select {
	case s.addr = <-found:
		return s, nil
	case <-s.exited:
		return nil, fmt.Errorf("%s ended before it listened: %v\n%s", sp.name, s.cmd.ProcessState, s.tail())
	case <-time.After(startSecondsMax * time.Second):
		s.stop()
		return nil, fmt.Errorf("%s printed no http://127.0.0.1:PORT within %d s\n%s", sp.name, startSecondsMax, s.tail())
	}
}

// watch reads the child's output to its end, so that the child never blocks on a full pipe.
func (s *server) watch(out io.Reader, found chan<- string) {
	r := bufio.NewReader(out)
	for told := false; ; {
		line, err := r.ReadBytes('\n')
		s.log.Write(line)
		if m := listening.FindSubmatch(line); m != nil && !told {
			told = true
			found <- string(m[1])
		}
		if err != nil {
			break
		}
	}
	s.cmd.Wait()
	s.log.Close()
	close(s.exited)
}

// stop ends the child as an operator would, and forcibly when that takes longer than 20 s.
func (s *server) stop() {
	s.stopped.Do(func() {
		s.cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-s.exited:
		case <-time.After(20 * time.Second):
			s.cmd.Process.Kill()
			<-s.exited
		}
	})
}

// died is an error with the end of the log when the child has ended by itself.
func (s *server) died() error {
	select {
	case <-s.exited:
		return fmt.Errorf("%s has ended: %v\n%s", s.name, s.cmd.ProcessState, s.tail())
	default:
		return nil
	}
}

// tail is the end of the child's log.
func (s *server) tail() string {
	b, _ := os.ReadFile(filepath.Join(s.dir, "log"))
	lines := bytes.Split(bytes.TrimSpace(b), []byte("\n"))
	return string(bytes.Join(lines[max(0, len(lines)-15):], []byte("\n")))
}

// diskMB is the size of the data directory.
func (s *server) diskMB() float64 {
	var n int64
	filepath.WalkDir(s.dir, func(_ string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			if i, err := d.Info(); err == nil {
				n += i.Size()
			}
		}
		return nil // files that a compaction removes meanwhile count as nothing
	})
	return float64(n) / 1e6
}

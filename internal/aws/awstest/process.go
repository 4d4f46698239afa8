package awstest

import (
	"bytes"
	"fmt"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"
)

const outputMax = 64 << 10 // bytes of a process's output that are kept, the newest

// Process is a program that runs until it is stopped.
type Process struct {
	name   string
	cmd    *exec.Cmd
	done   chan struct{} // closed when it has ended, with err
	err    error
	output tail
}

// begin starts the command by way of start and keeps what it prints.
func begin(name string, cmd *exec.Cmd, start func(*exec.Cmd) error) (*Process, error) {
	p := &Process{name: name, cmd: cmd, done: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = &p.output, &p.output
	cmd.WaitDelay = time.Second // what it has started may hold its output open
	if err := start(cmd); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	go func() {
		p.err = cmd.Wait()
		close(p.done)
	}()
	return p, nil
}

// Output is the end of what the process has printed so far.
func (p *Process) Output() string { return p.output.String() }

// Stop asks the process to end, and ends it where it does not within seconds.
func (p *Process) Stop() error {
	p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.done:
		return nil
	case <-time.After(stopTimeout):
		p.kill()
		return fmt.Errorf("%s did not end within %v of SIGTERM:\n%s", p.name, stopTimeout, p.Output())
	}
}

func (p *Process) kill() {
	p.cmd.Process.Kill()
	<-p.done
}

func (p *Process) ended() <-chan struct{} { return p.done }

// output runs the command by way of start and gives what it printed, standard error only in the error.
func output(cmd *exec.Cmd, start func(*exec.Cmd) error) (string, error) {
	var out, complaint bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &complaint
	cmd.WaitDelay = time.Second
	err := start(cmd)
	if err == nil {
		err = cmd.Wait()
	}
	if err != nil {
		return out.String(), fmt.Errorf("%s: %w\n%s%s", strings.Join(cmd.Args, " "), err, complaint.String(), out.String())
	}
	return out.String(), nil
}

// tail keeps the end of what is written to it.
type tail struct {
	mu sync.Mutex
	b  []byte
}

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.b = append(t.b, p...)
	if over := len(t.b) - outputMax; over > 0 {
		t.b = append(t.b[:0], t.b[over:]...)
	}
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.b)
}

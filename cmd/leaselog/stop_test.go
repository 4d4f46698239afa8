package main

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A server that is asked to end waits for a request that is under way, and ends at once when it is asked again.
func TestAskedTwice(t *testing.T) {
	s := newServer(t)
	s.start(t)
	conn, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_, err = fmt.Fprint(conn, "POST /v1/queues HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer any\r\nExpect: 100-continue\r\nContent-Length: 100\r\n\r\n")
	if err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(conn).ReadString('\n'); err != nil || !strings.Contains(line, "100 Continue") {
		t.Fatalf("the server does not wait for the body: %q, %v", line, err)
	}
	ask := func() {
		if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
			t.Fatal(err)
		}
	}
	ask()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case err = <-s.done:
		case <-tick.C:
			if strings.Contains(s.logs.String(), "msg=stopping") {
				ask() // again and again: one that comes at the very instant of the first is taken for the same
			}
			continue
		}
		break
	}
	s.cmd = nil
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGTERM {
		t.Errorf("it was asked twice and ended with %v", err)
	}
}

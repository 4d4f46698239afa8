package awstest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// box is a part of this machine with a network, processes and a scratch folder of its own. Whatever ran in it is gone
// when it ends, and it ends with the process that made it, however that ends: its first process waits for the other
// end of a pipe.
type box struct {
	dir   string // the scratch folder: memory, seen in the box only
	first *exec.Cmd
	stdin io.Closer
}

// firstScript reaps what loses its parent, as the first process of any system must; bash does that by itself.
const firstScript = `set -e
mount --make-rprivate /
mount -t proc proc /proc
mount -t tmpfs -o mode=0755 tmpfs "$1"
ip link set lo up
echo ready
read -r _ || true`

// newBox needs root.
func newBox(dir string) (*box, error) {
	if os.Geteuid() != 0 {
		return nil, errors.New("neither a Docker engine that can pull images nor root: start Docker, or run this as root on Debian")
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	b := &box{dir: dir, first: exec.Command("bash", "-c", firstScript, "box", dir)}
	b.first.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: unix.CLONE_NEWNET | unix.CLONE_NEWPID | unix.CLONE_NEWNS,
		Setsid:     true, // Ctrl-C is for the tests, which then close the box
	}
	var complaint strings.Builder
	b.first.Stderr = &complaint
	stdin, err1 := b.first.StdinPipe()
	stdout, err2 := b.first.StdoutPipe()
	if err := errors.Join(err1, err2); err != nil {
		return nil, err
	}
	b.stdin = stdin
	if err := b.first.Start(); err != nil {
		return nil, fmt.Errorf("a network of its own: %w", err)
	}
	if line, _ := bufio.NewReader(stdout).ReadString('\n'); line != "ready\n" {
		b.close()
		return nil, fmt.Errorf("a network of its own: %s", complaint.String())
	}
	return b, nil
}

// close ends every process of the box and waits until they are gone.
func (b *box) close() error {
	b.stdin.Close()
	b.first.Process.Kill()
	b.first.Wait() // killed: its state says no more
	return nil
}

// start begins a command in the box. It is a child of this process like any other.
func (b *box) start(cmd *exec.Cmd) error {
	return b.enter(unix.CLONE_NEWNET|unix.CLONE_NEWPID|unix.CLONE_NEWNS, cmd.Start)
}

// dial connects to a server in the box.
func (b *box) dial(ctx context.Context, port int) (conn net.Conn, err error) {
	err = b.enter(unix.CLONE_NEWNET, func() error {
		conn, err = (&net.Dialer{}).DialContext(ctx, "tcp4", fmt.Sprintf("127.0.0.1:%d", port))
		return err
	})
	return conn, err
}

// enter calls f on a thread that is in these namespaces of the box. Sockets and processes that f makes stay there; the
// thread is thrown away.
func (b *box) enter(namespaces int, f func() error) error {
	fd, err := unix.PidfdOpen(b.first.Process.Pid, 0)
	if err != nil {
		return fmt.Errorf("enter the box: %w", err)
	}
	defer unix.Close(fd)
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends with the goroutine
		if err := errors.Join(unix.Unshare(unix.CLONE_FS), unix.Setns(fd, namespaces)); err != nil {
			done <- fmt.Errorf("enter the box: %w", err)
			return
		}
		done <- f()
	}()
	return <-done
}

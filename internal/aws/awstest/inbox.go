package awstest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// inbox is the place for a machine whose Docker engine does not run or pulls nothing: a box of its own.
type inbox struct {
	box   *box
	ports []net.Listener
	stack int // LocalStack's port
}

// bridge is the address of the box in the network of its containers, unless the engine is told otherwise.
const bridge = "172.17.0.1"

func newInbox(dir string) (*inbox, error) {
	b, err := newBox(dir)
	if err != nil {
		return nil, err
	}
	return &inbox{box: b}, nil
}

func (i *inbox) start(cmd *exec.Cmd) error { return i.box.start(cmd) }

// port listens outside and passes connections on to the same port inside, so that a URL means the same on both sides.
func (i *inbox) port(ctx context.Context) (int, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp4", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	i.ports = append(i.ports, l)
	port := l.Addr().(*net.TCPAddr).Port
	go func() {
		for {
			outer, err := l.Accept()
			if err != nil {
				return // closed
			}
			go i.pass(outer.(*net.TCPConn), port)
		}
	}()
	return port, nil
}

// pass joins a connection with one into the box. It lasts as long as both ends, and the box.
func (i *inbox) pass(outer *net.TCPConn, port int) {
	defer outer.Close()
	conn, err := i.box.dial(context.Background(), port)
	if err != nil {
		return // nobody listens there yet, or any more
	}
	inner := conn.(*net.TCPConn)
	defer inner.Close()
	back := make(chan struct{})
	go func() {
		io.Copy(outer, inner)
		outer.CloseWrite()
		close(back)
	}()
	io.Copy(inner, outer)
	inner.CloseWrite()
	<-back
}

func (i *inbox) localstack(ctx context.Context, a *AWS) error {
	if a.stack != nil {
		a.stack.kill()
	}
	if _, err := a.script(ctx, installTimeout, "localstack/install.sh"); err != nil {
		return err
	}
	if i.stack == 0 {
		var err error
		if i.stack, err = i.port(ctx); err != nil {
			return err
		}
	}
	var err error
	dir := filepath.Join(i.box.dir, "localstack")
	// Its backends are processes too, which end with it in a box inside the box.
	cmd := exec.Command("bash", "-c", `rm -rf "$1" && mkdir "$1" && exec unshare --pid --fork --kill-child --mount-proc "$0" "$1" "$2"`,
		filepath.Join(a.root, "localstack/start.sh"), dir, fmt.Sprint(i.stack))
	if a.stack, err = begin("LocalStack", cmd, i.start); err != nil {
		return err
	}
	a.Endpoint = fmt.Sprintf("http://127.0.0.1:%d", i.stack)
	a.ContainerEndpoint = fmt.Sprintf("http://%s:%d", bridge, i.stack)
	return await(ctx, a.Endpoint+"/_localstack/health", a.stack)
}

// containers starts an engine that knows one image, the one that SAM looks for.
func (i *inbox) containers(ctx context.Context, a *AWS) error {
	python, err := a.script(ctx, installTimeout, "scripts/sam/install.sh")
	if err != nil {
		return err
	}
	engine, err := begin("dockerd", exec.Command(filepath.Join(a.root, "scripts/sam/docker.sh"), i.box.dir), i.start)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	for {
		cmd := exec.CommandContext(ctx, filepath.Join(a.root, "scripts/sam/image.sh"), strings.TrimSpace(python))
		cmd.Env = append(environment(), i.samEnv()...)
		_, err := output(cmd, i.start)
		if err == nil {
			return nil
		}
		select {
		case <-engine.ended():
			return fmt.Errorf("dockerd ended: %s", engine.Output())
		case <-ctx.Done():
			return errors.Join(err, fmt.Errorf("dockerd does not answer: %s", engine.Output()))
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func (i *inbox) samOptions() []string { return []string{"--skip-pull-image"} }

func (i *inbox) samEnv() []string {
	return []string{"DOCKER_HOST=unix://" + i.box.dir + "/docker.sock"}
}

func (i *inbox) close() error {
	for _, l := range i.ports {
		l.Close()
	}
	return i.box.close()
}

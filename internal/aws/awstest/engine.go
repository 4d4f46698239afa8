package awstest

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"net"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

const (
	localstackImage = "localstack/localstack:4.14.0"
	answerTimeout   = 5 * time.Second  // for an engine that runs
	pullableTimeout = 20 * time.Second // for a registry that can be reached
)

// engine is the place for a machine with a Docker engine that can pull images: the official ones, in a network of
// their own.
type engine struct {
	network string    // its name; LocalStack's container has it too
	sweeper *exec.Cmd // removes what was made when its standard input ends, which this process's end does too
	stdin   io.Closer
	stack   int // LocalStack's port on this machine
}

// choose prefers the user's Docker engine. It asks and does not wait: an engine that hangs is none.
func (a *AWS) choose(ctx context.Context) (place, error) {
	if pullable(ctx) {
		return newEngine(ctx)
	}
	dir, err := cache()
	if err != nil {
		return nil, err
	}
	return newInbox(dir + "/run")
}

func pullable(ctx context.Context) bool {
	if _, err := docker(ctx, answerTimeout, "version"); err != nil {
		return false
	}
	if _, err := docker(ctx, answerTimeout, "image", "inspect", localstackImage); err == nil {
		return true
	}
	_, err := docker(ctx, pullableTimeout, "manifest", "inspect", localstackImage)
	return err == nil
}

// docker runs the client and gives what it printed.
func docker(ctx context.Context, timeout time.Duration, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	out, err := output(exec.CommandContext(ctx, "docker", args...), (*exec.Cmd).Start)
	return strings.TrimSpace(out), err
}

// sweepScript also removes the functions' containers, which are in the network.
const sweepScript = `cat >/dev/null
docker ps -aq --filter "network=$1" | xargs -r docker rm -f
docker network rm "$1"`

func newEngine(ctx context.Context) (*engine, error) {
	e := &engine{network: "leaselog-" + strings.ToLower(rand.Text()[:8])}
	e.sweeper = exec.Command("sh", "-c", sweepScript, "sweep", e.network)
	e.sweeper.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // Ctrl-C is for the tests, which then close this
	var err error
	if e.stdin, err = e.sweeper.StdinPipe(); err != nil {
		return nil, err
	}
	if err := e.sweeper.Start(); err != nil {
		return nil, err
	}
	if _, err := docker(ctx, answerTimeout, "network", "create", e.network); err != nil {
		return nil, fmt.Errorf("%w, %v", err, e.close())
	}
	return e, nil
}

func (e *engine) start(cmd *exec.Cmd) error { return cmd.Start() }

// port finds one that is free now; who needs it takes it at once.
func (e *engine) port(ctx context.Context) (int, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp4", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	return l.Addr().(*net.TCPAddr).Port, l.Close()
}

func (e *engine) localstack(ctx context.Context, a *AWS) error {
	if e.stack != 0 {
		if _, err := docker(ctx, stopTimeout, "rm", "-f", e.network); err != nil {
			return err
		}
	} else if port, err := e.port(ctx); err != nil {
		return err
	} else {
		e.stack = port
	}
	if _, err := docker(ctx, installTimeout, "pull", "-q", localstackImage); err != nil {
		if _, missing := docker(ctx, answerTimeout, "image", "inspect", localstackImage); missing != nil {
			return err
		}
	}
	// Attached: its output is LocalStack's. It runs functions in containers, for which it needs the engine.
	cmd := exec.Command("docker", "run", "--rm", "--name", e.network, "--network", e.network,
		"--publish", fmt.Sprintf("127.0.0.1:%d:4566", e.stack), "--volume", "/var/run/docker.sock:/var/run/docker.sock",
		"--env", "LAMBDA_DOCKER_NETWORK="+e.network, "--env", "DISABLE_EVENTS=1", "--env", "SKIP_SSL_CERT_DOWNLOAD=1",
		"--env", "ENABLE_CONFIG_UPDATES=1", localstackImage)
	var err error
	if a.stack, err = begin("LocalStack", cmd, e.start); err != nil {
		return err
	}
	a.Endpoint = fmt.Sprintf("http://127.0.0.1:%d", e.stack)
	a.ContainerEndpoint = fmt.Sprintf("http://%s:4566", e.network)
	return await(ctx, a.Endpoint+"/_localstack/health", a.stack)
}

// containers has nothing to do: SAM pulls its image.
func (e *engine) containers(context.Context, *AWS) error { return nil }

func (e *engine) samOptions() []string { return []string{"--docker-network", e.network} }

func (e *engine) samEnv() []string { return nil }

func (e *engine) close() error {
	e.stdin.Close()
	return e.sweeper.Wait()
}

// Package awstest runs AWS on this machine, for tests and for a look by hand: LocalStack with what infra/ makes in it,
// and SAM's containers for the functions.
//
// Where a Docker engine answers and can pull images, the official ones run in it. Elsewhere, on Linux as root, LocalStack
// is a process and the Docker engine is started too, in a network of their own. Either way servers are reached on this
// machine's loopback only, and nothing is left when the process that called Start ends, however it ends.
package awstest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

const (
	// Region is where everything is said to be.
	Region = "eu-west-1"

	installTimeout = 15 * time.Minute // a compilation of dynoxide, or a pull of the images
	startTimeout   = 2 * time.Minute
	deployTimeout  = 3 * time.Minute
	stopTimeout    = 20 * time.Second
)

// Config says what shall run.
type Config struct {
	// Containers asks for a Docker engine with SAM's image, which functions need. LocalStack alone does without.
	Containers bool
	// Progress is told what is installed and started. Nobody by default.
	Progress io.Writer
}

// AWS is a LocalStack that runs, and what runs beside it.
type AWS struct {
	// Endpoint is LocalStack's URL for programs of this machine.
	Endpoint string
	// ContainerEndpoint is the same LocalStack's for functions in containers.
	ContainerEndpoint string

	config Config
	root   string // of the repository
	place  place
	stack  *Process // nil where LocalStack is a container
}

// place is where servers run: in a box, or in the user's Docker engine with this machine around it.
type place interface {
	// start begins a command where the servers are.
	start(*exec.Cmd) error
	// port reserves a port of this machine's loopback that leads to the same port there.
	port(context.Context) (int, error)
	// localstack starts LocalStack and sets its endpoints. It is called again after a reset.
	localstack(context.Context, *AWS) error
	// containers makes an engine ready for SAM, and says which options of SAM it needs.
	containers(context.Context, *AWS) error
	samOptions() []string
	samEnv() []string
	close() error
}

// Start installs what is missing, which takes minutes the first time, and starts LocalStack. The caller must Close it.
func Start(ctx context.Context, c Config) (*AWS, error) {
	if c.Progress == nil {
		c.Progress = io.Discard
	}
	root, err := repository()
	if err != nil {
		return nil, err
	}
	a := &AWS{config: c, root: root}
	if a.place, err = a.choose(ctx); err != nil {
		return nil, err
	}
	if err := a.begin(ctx); err != nil {
		return nil, errors.Join(err, a.Close())
	}
	return a, nil
}

func (a *AWS) begin(ctx context.Context) error {
	if a.config.Containers {
		if err := a.timed("containers", func() error { return a.place.containers(ctx, a) }); err != nil {
			return err
		}
	}
	return a.timed("LocalStack", func() error { return a.place.localstack(ctx, a) })
}

// New starts an AWS for a test and closes it at the test's end.
func New(t testing.TB, c Config) *AWS {
	t.Helper()
	a, err := Start(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() && a.stack != nil {
			t.Logf("LocalStack said at the end:\n%s", a.stack.Output())
		}
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	})
	return a
}

// Begin starts a command beside LocalStack and the containers, which have a network of their own; what listens here is
// not reached from there. LocalStack has the same URL there. The caller waits for the command.
func (a *AWS) Begin(cmd *exec.Cmd) error { return a.place.start(cmd) }

// Close stops all that was started.
func (a *AWS) Close() error { return a.place.close() }

// Reset gives an empty LocalStack under the same endpoints.
func (a *AWS) Reset(ctx context.Context) error { return a.place.localstack(ctx, a) }

// Env is the environment of a program of this machine that shall use this AWS: the SDKs read it.
func (a *AWS) Env() []string { return append(environment(), "AWS_ENDPOINT_URL="+a.Endpoint) }

// environment is this process's without its AWS, and with credentials that LocalStack takes.
func environment() []string {
	kept := slices.DeleteFunc(os.Environ(), func(v string) bool {
		return strings.HasPrefix(v, "AWS_") || strings.HasPrefix(v, "SAM_") || strings.HasPrefix(v, "LEASELOG_")
	})
	return append(kept, "AWS_REGION="+Region, "AWS_DEFAULT_REGION="+Region, "AWS_ACCESS_KEY_ID=test",
		"AWS_SECRET_ACCESS_KEY=test", "AWS_EC2_METADATA_DISABLED=true", "AWS_CONFIG_FILE="+os.DevNull,
		"AWS_SHARED_CREDENTIALS_FILE="+os.DevNull, "SAM_CLI_TELEMETRY=0", "SAM_CLI_POLL_DELAY=0.2")
}

// await asks a URL until it answers sensibly or the process that should answer has ended.
func await(ctx context.Context, url string, p *Process) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	client := &http.Client{Timeout: 5 * time.Second}
	for {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return err
		}
		if res, err := client.Do(req); err == nil {
			res.Body.Close()
			if res.StatusCode < http.StatusInternalServerError {
				return nil
			}
		}
		select {
		case <-p.ended():
			return fmt.Errorf("%s ended before it answered:\n%s", p.name, p.Output())
		case <-ctx.Done():
			return fmt.Errorf("%s does not answer at %s: %w\n%s", p.name, url, ctx.Err(), p.Output())
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// script runs one of the repository's and gives what it printed.
func (a *AWS) script(ctx context.Context, timeout time.Duration, name string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	return output(exec.CommandContext(ctx, filepath.Join(a.root, name), args...), (*exec.Cmd).Start)
}

// repository is the folder with go.mod, at or above the working directory.
func repository() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		up := filepath.Dir(dir)
		if up == dir {
			return "", errors.New("run this inside the repository")
		}
		dir = up
	}
}

func cache() (string, error) {
	dir := os.Getenv("XDG_CACHE_HOME")
	if dir == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return "", err
		}
		dir = filepath.Join(home, ".cache")
	}
	return filepath.Join(dir, "leaselog"), nil
}

// timed tells how long a step took.
func (a *AWS) timed(step string, f func() error) error {
	begin := time.Now()
	if err := f(); err != nil {
		return fmt.Errorf("%s: %w", step, err)
	}
	fmt.Fprintf(a.config.Progress, "%s: %v\n", step, time.Since(begin).Round(time.Millisecond))
	return nil
}

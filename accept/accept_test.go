// Package accept lets the vendors' own clients judge the program that users get: built by make, started as a user
// starts it, on loopback, with an empty data folder.
package accept

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

const (
	smokeTimeout = 5 * time.Minute // a program takes up to a minute, most of it waiting for leases and delays
	shared       = "../../shared/accept"
	runs         = "8" // at once: they wait more than they work
)

// TestMain lets the runs wait side by side on a machine of few cores. What they need is installed and built before,
// in turn, since compilers beside them would disturb their clocks.
func TestMain(m *testing.M) {
	flag.Parse()
	flag.Set("test.parallel", runs)
	os.Exit(m.Run())
}

// client is an acceptance program of a vendor's client.
type client struct {
	command []string
	checks  int               // it makes no fewer
	refused map[string]string // checks that must fail in development mode, and why
}

const development = "development mode takes any credentials"

// TestBasalticPython runs the acceptance program with basaltic-sdk-python. Each of its checks is a subtest.
func TestBasalticPython(t *testing.T) { python(t).accept(t) }

// TestBasalticRust runs the acceptance program with basaltic-sdk-rust.
func TestBasalticRust(t *testing.T) { rust(t).accept(t) }

func python(t *testing.T) client {
	return client{command: []string{virtualenv(t, "requirements.txt"), program(t, "basaltic_smoke.py")}, checks: 153,
		refused: map[string]string{
			"wrong bearer token is 401":         development,
			"wrong key pair fails the exchange": development,
		}}
}

func rust(t *testing.T) client {
	return client{command: []string{crate(t, program(t, "basaltic-rust"))}, checks: 41,
		refused: map[string]string{"wrong bearer token is 401 UNAUTHORIZED": development}}
}

// accept runs the program in both modes of the server. With real keys everything must pass.
func (c client) accept(t *testing.T) {
	bin := build(t)
	t.Parallel()
	t.Run("development mode", func(t *testing.T) {
		t.Parallel()
		s := start(t, bin, nil, "--data", t.TempDir())
		c.run(t, s.url, "local", c.refused, "BASALTIC_ACCESS_KEY_ID=dev", "BASALTIC_SECRET_ACCESS_KEY=dev")
		s.ends(t)
	})
	t.Run("real keys", func(t *testing.T) {
		t.Parallel()
		data := t.TempDir()
		key := createKey(t, bin, nil, "--data", data)
		s := start(t, bin, nil, "--data", data)
		c.run(t, s.url, "local", nil, key...)
		s.ends(t)
	})
}

// run lets the program judge whatever answers at the URL.
func (c client) run(t *testing.T, url, region string, refused map[string]string, credentials ...string) {
	t.Helper()
	output := c.smoke(t, append(credentials,
		"BASALTIC_ENDPOINT_URL_QUEUE="+url,
		"BASALTIC_ENDPOINT_URL_IAM="+url,
		"BASALTIC_REGION="+region,
		"SMOKE_STRICT=1",
		"SMOKE_CRN_ACCOUNT=local",
		"NO_PROXY=127.0.0.1",
		"PYTHONUNBUFFERED=1",
		"PYTHONDONTWRITEBYTECODE=1",
		"PYTHONUTF8=1",
	))
	for _, r := range judge(output, refused, c.checks) {
		t.Run(r.name, func(t *testing.T) {
			if r.problem != "" {
				t.Error(r.problem)
			}
			if r.note != "" {
				t.Log(r.note)
			}
		})
	}
	if t.Failed() {
		t.Logf("the program printed:\n%s", output)
	}
}

// smoke runs the acceptance program and gives what it printed. Its exit status says no more than its lines.
func (c client) smoke(t *testing.T, env []string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), smokeTimeout)
	defer cancel()
	var out bytes.Buffer
	cmd := exec.CommandContext(ctx, c.command[0], c.command[1:]...)
	cmd.Stdout, cmd.Stderr = &out, &out
	cmd.Env = append(without("BASALTIC_", "SMOKE_"), env...)
	var exit *exec.ExitError
	if err := cmd.Run(); ctx.Err() != nil {
		t.Errorf("the acceptance program was stopped after %v", smokeTimeout)
	} else if err != nil && !errors.As(err, &exit) {
		t.Errorf("the acceptance program: %v", err)
	}
	return out.String()
}

// createKey makes an access key as a user does, and gives what the command says to export. env is nil for that of this
// process.
func createKey(t *testing.T, bin string, environ []string, flags ...string) (env []string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), bin, append([]string{"keys", "create"}, flags...)...)
	if cmd.Env = environ; environ == nil {
		cmd.Env = without("BASALTIC_", "LEASELOG_")
	}
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%q: %v", cmd.Args, err)
	}
	for line := range strings.Lines(string(out)) {
		v, ok := strings.CutPrefix(strings.TrimSpace(line), "export ")
		if !ok {
			t.Fatalf("%q prints a line that is no export", cmd.Args)
		}
		env = append(env, v)
	}
	return env
}

// build makes the program, once, as the Makefile makes it for users.
func build(t *testing.T) string {
	t.Helper()
	bin, err := filepath.Abs("../bin/leaselog")
	if err != nil {
		t.Fatal(err)
	}
	if out, err := made(); err != nil {
		t.Fatalf("make build: %v\n%s", err, out)
	}
	return bin
}

var made = sync.OnceValues(func() ([]byte, error) {
	cmd := exec.Command("make", "-C", "..", "build")
	cmd.Env = without("MAKE", "MFLAGS") // a make that runs this test must not lend its jobs
	return cmd.CombinedOutput()
})

// program prefers what is beside the checkout, which is newer than the copy when they differ.
func program(t *testing.T, name string) string {
	t.Helper()
	newer := filepath.Join(shared, name)
	if _, err := os.Stat(newer); err == nil {
		t.Logf("runs %s", newer)
		return newer
	}
	return name
}

// without gives the environment less the variables that begin so.
func without(prefixes ...string) []string {
	var env []string
	for _, v := range os.Environ() {
		keep := true
		for _, p := range prefixes {
			keep = keep && !strings.HasPrefix(v, p)
		}
		if keep {
			env = append(env, v)
		}
	}
	return env
}

// Package accept lets the vendors' own clients judge the program that users get: built by make, started as a user
// starts it, on loopback, with an empty data folder.
package accept

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const (
	smokeTimeout = 5 * time.Minute // the program takes about a minute, most of it waiting for leases and delays
	shared       = "../../shared/accept/basaltic_smoke.py"
)

// TestBasalticPython runs the acceptance program with basaltic-sdk-python. Each of its checks is a subtest.
func TestBasalticPython(t *testing.T) {
	python := virtualenv(t, "requirements.txt")
	s := start(t, build(t))
	output := smoke(t, python, s.url)
	for _, r := range judge(output, pending, early) {
		t.Run(r.name, func(t *testing.T) {
			if r.problem != "" {
				t.Error(r.problem)
			}
			if r.note != "" {
				t.Log(r.note)
			}
		})
	}
	t.Run("the server stops when told", s.stop)
	if t.Failed() {
		t.Logf("the program printed:\n%s\nthe server printed:\n%s", output, s.log())
	}
}

// build makes the program as the Makefile makes it for users.
func build(t *testing.T) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "make", "-C", "..", "build")
	cmd.Env = without("MAKE", "MFLAGS") // a make that runs this test must not lend its jobs
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("make build: %v\n%s", err, out)
	}
	bin, err := filepath.Abs("../bin/leaselog")
	if err != nil {
		t.Fatal(err)
	}
	return bin
}

// smoke runs the acceptance program and gives what it printed. Its exit status says no more than its lines.
func smoke(t *testing.T, python, url string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), smokeTimeout)
	defer cancel()
	var out bytes.Buffer
	cmd := exec.CommandContext(ctx, python, program(t))
	cmd.Stdout, cmd.Stderr = &out, &out
	cmd.Env = append(without("BASALTIC_", "SMOKE_"),
		"BASALTIC_ENDPOINT_URL_QUEUE="+url,
		"BASALTIC_ENDPOINT_URL_IAM="+url,
		"BASALTIC_ACCESS_KEY_ID=dev",
		"BASALTIC_SECRET_ACCESS_KEY=dev",
		"BASALTIC_REGION=local",
		"SMOKE_CRN_ACCOUNT=local",
		"NO_PROXY=127.0.0.1",
		"PYTHONUNBUFFERED=1",
		"PYTHONDONTWRITEBYTECODE=1",
		"PYTHONUTF8=1",
	)
	var exit *exec.ExitError
	if err := cmd.Run(); ctx.Err() != nil {
		t.Errorf("the acceptance program was stopped after %v", smokeTimeout)
	} else if err != nil && !errors.As(err, &exit) {
		t.Errorf("the acceptance program: %v", err)
	}
	return out.String()
}

// program prefers the file beside the checkout, which is newer than the copy when they differ.
func program(t *testing.T) string {
	t.Helper()
	if _, err := os.Stat(shared); err == nil {
		t.Logf("runs %s", shared)
		return shared
	}
	return "basaltic_smoke.py"
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

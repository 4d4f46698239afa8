package accept

import (
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

const (
	cache          = "../.cache"
	installTimeout = 5 * time.Minute
)

// virtualenv gives a Python that has what a requirements file pins. It is kept between runs under a name made of all
// that it depends on, and appears under that name only when it is whole.
func virtualenv(t *testing.T, requirements string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), installTimeout)
	defer cancel()
	dir := filepath.Join(cache, "accept-"+venvKey(ctx, t, requirements))
	python := filepath.Join(dir, "bin", "python")
	if _, err := os.Stat(python); err == nil {
		return python
	}
	if err := os.MkdirAll(cache, 0o755); err != nil {
		t.Fatal(err)
	}
	fresh, err := os.MkdirTemp(cache, "accept-new-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(fresh)
	install(ctx, t, fresh, requirements)
	if err := os.Rename(fresh, dir); err != nil && !os.IsExist(err) { // exists: another run was faster
		t.Fatal(err)
	}
	return python
}

// venvKey names the requirements and the Python that meets them.
func venvKey(ctx context.Context, t *testing.T, requirements string) string {
	t.Helper()
	const which = "import sys, venv, ensurepip; assert sys.version_info >= (3, 11); print(sys.version, sys.executable)"
	python, err := exec.CommandContext(ctx, "python3", "-c", which).CombinedOutput()
	if err != nil {
		t.Fatalf("install Python 3.11 or newer with venv and pip (python3, python3-venv): %v\n%s", err, python)
	}
	pins, err := os.ReadFile(requirements)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%x", sha256.Sum256(append(pins, python...)))[:12]
}

func install(ctx context.Context, t *testing.T, dir, requirements string) {
	t.Helper()
	for _, args := range [][]string{
		{"python3", "-m", "venv", dir},
		{filepath.Join(dir, "bin", "python"), "-m", "pip", "install", "--quiet", "--no-input", "--disable-pip-version-check",
			"--require-hashes", "-r", requirements},
	} {
		if out, err := exec.CommandContext(ctx, args[0], args[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%q: %v: the Python package registry must be reachable once, or %s be kept\n%s", args, err, cache, out)
		}
	}
}

package accept

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const (
	needRust     = "install Rust 1.89 or newer with cargo (by rustup) and a C compiler such as gcc"
	crateTimeout = 8 * time.Minute // about a minute and a half on two cores
)

// crate gives the program that cargo builds from a crate, with the versions of its Cargo.lock. It is kept between runs
// in a folder named after all that it depends on; cargo puts it there when it is whole, and goes on where it was
// interrupted.
func crate(t *testing.T, dir string) string {
	t.Helper()
	target, err := filepath.Abs(filepath.Join(cache, filepath.Base(dir)+"-"+crateKey(t, dir)))
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(target, "debug", "basaltic-smoke")
	if _, err := os.Stat(program); err == nil {
		return program
	}
	ctx, cancel := context.WithTimeout(t.Context(), crateTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, "cargo", "build", "--locked", "--quiet", "--manifest-path", filepath.Join(dir, "Cargo.toml"))
	cmd.Env = append(without("CARGO_BUILD_TARGET"), "CARGO_TARGET_DIR="+target, "CARGO_PROFILE_DEV_DEBUG=false", "CARGO_INCREMENTAL=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%q: %v: %s; the Rust package registry must be reachable once, or %s be kept\n%s", cmd.Args, err, needRust, cache, out)
	}
	return program
}

// crateKey names a crate's files and the cargo that builds them.
func crateKey(t *testing.T, dir string) string {
	t.Helper()
	version, err := exec.CommandContext(t.Context(), "cargo", "--version", "--verbose").CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", needRust, err, version)
	}
	sum := sha256.New()
	fmt.Fprintf(sum, "%q", version)
	crate := os.DirFS(dir)
	err = fs.WalkDir(crate, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || strings.HasPrefix(path, "target/") {
			return err
		}
		text, err := fs.ReadFile(crate, path)
		fmt.Fprintf(sum, "%q%q", path, text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%x", sum.Sum(nil))[:12]
}

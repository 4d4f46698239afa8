//go:build !race

package cli

import (
	"context"
	"os"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// TestMain makes the test binary the program itself where a script, or a shell in docs/cli.md, calls leaselog.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"leaselog": func() {
			p := Program{Version: "test", Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr}
			os.Exit(p.Run(context.Background(), os.Args[1:]))
		},
	})
}

// Command leaselog is the server and its command line.
package main

import (
	"context"
	"os"

	"github.com/leaselog/leaselog/internal/cli"
)

var version = "unknown" // set when it is built

func main() {
	p := cli.Program{Version: version, Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr}
	os.Exit(p.Run(context.Background(), os.Args[1:]))
}

// Command gotest runs `go test` and says in plain words how it went.
//
// Arguments are those of go test; "--" begins those of another run. Each package gets a line, each failure its whole
// output, the slowest tests are named, and the last line counts all tests of all runs, subtests too: "12 passed, 0
// failed". It exits with 1 when anything failed, did not build, or when no test ran at all, so that an empty run is never
// taken for a good one.
package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
)

func main() {
	r := newReport(os.Stdout)
	for _, args := range split(os.Args[1:]) {
		if err := run(r, args); err != nil {
			r.broken(fmt.Sprintf("go test %q: %v", args, err))
		}
	}
	if !r.close() {
		os.Exit(1)
	}
}

// split cuts the arguments at each "--".
func split(args []string) [][]string {
	runs := [][]string{nil}
	for _, a := range args {
		if a == "--" {
			runs = append(runs, nil)
			continue
		}
		last := len(runs) - 1
		runs[last] = append(runs[last], a)
	}
	return runs
}

// run feeds one go test to the report. It gives an error only when go test failed for a reason that no event told.
func run(r *report, args []string) error {
	cmd := exec.Command("go", append([]string{"test", "-json"}, args...)...)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	before := r.failed
	read(r, out)
	if err := cmd.Wait(); err != nil && r.failed == before {
		return err
	}
	return nil
}

// read takes lines of any length, since a failing test may print a large value on one line.
func read(r *report, out io.Reader) {
	b := bufio.NewReader(out)
	for {
		line, err := b.ReadBytes('\n')
		if len(line) > 0 {
			r.line(line)
		}
		if err != nil {
			return
		}
	}
}

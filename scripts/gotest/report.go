package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

// event is a line of `go test -json`, see `go doc test2json` and `go help buildjson`.
type event struct {
	Action      string
	Package     string
	Test        string
	Output      string
	ImportPath  string
	FailedBuild string
	Elapsed     float64
}

// key names a test; Test is empty for what a package prints outside of its tests.
type key struct{ pkg, test string }

// report folds events into counts. It keeps the output of what still runs and prints it only where something failed.
type report struct {
	w                       io.Writer
	passed, failed, skipped int
	output                  map[key]*strings.Builder
	running                 map[key]bool
	builds                  map[string]*strings.Builder // compiler output by import path
	tests                   map[string]int              // tests that ended, by package
	failures                map[string]int              // tests that failed, by package
	times                   map[key]float64             // seconds that each took which is no subtest
}

func newReport(w io.Writer) *report {
	return &report{
		w:        w,
		output:   map[key]*strings.Builder{},
		running:  map[key]bool{},
		builds:   map[string]*strings.Builder{},
		tests:    map[string]int{},
		failures: map[string]int{},
		times:    map[key]float64{},
	}
}

// line takes one line of go test's standard output; what is no event is shown as it is.
func (r *report) line(b []byte) {
	var e event
	if err := json.Unmarshal(b, &e); err != nil || e.Action == "" {
		r.w.Write(b)
		return
	}
	k := key{e.Package, e.Test}
	switch e.Action {
	case "run":
		r.running[k] = true
	case "output":
		add(r.output, k, e.Output)
	case "build-output":
		add(r.builds, e.ImportPath, e.Output)
	case "pass", "fail", "skip":
		if e.Test == "" {
			r.packageEnded(e)
			return
		}
		r.testEnded(k, e.Action)
		if !strings.Contains(e.Test, "/") {
			r.times[k] += e.Elapsed
		}
	}
}

func add[K comparable](m map[K]*strings.Builder, k K, s string) {
	if m[k] == nil {
		m[k] = new(strings.Builder)
	}
	m[k].WriteString(s)
}

func (r *report) testEnded(k key, action string) {
	delete(r.running, k)
	r.tests[k.pkg]++
	switch action {
	case "pass":
		r.passed++
	case "skip":
		r.skipped++
		r.show("SKIP", k)
	case "fail":
		r.failed++
		r.failures[k.pkg]++
		r.show("FAIL", k)
	}
	delete(r.output, k)
}

// show prints all that a test printed.
func (r *report) show(verdict string, k key) {
	fmt.Fprintf(r.w, "\n%s %s %s\n", verdict, k.pkg, k.test)
	if b := r.output[k]; b != nil {
		io.WriteString(r.w, b.String())
	}
}

// packageEnded prints a package's line. A package may fail without a failed test: it did not build, ran out of time,
// exited, or raced outside of its tests. That counts as one failure, so that the last line never hides it.
func (r *report) packageEnded(e event) {
	r.abandon(e.Package)
	k := key{e.Package, ""}
	switch {
	case e.Action == "fail" && e.FailedBuild != "":
		r.broken("FAIL " + e.Package + " did not build")
		if b := r.builds[e.FailedBuild]; b != nil {
			io.WriteString(r.w, b.String())
		}
	case e.Action == "fail":
		if r.failures[e.Package] == 0 {
			r.failed++
		}
		r.show("FAIL", k)
	case r.tests[e.Package] > 0:
		fmt.Fprintf(r.w, "ok   %s  %d tests  %.1fs\n", e.Package, r.tests[e.Package], e.Elapsed)
	}
	delete(r.output, k)
	delete(r.tests, e.Package)
	delete(r.failures, e.Package)
}

// abandon counts the tests of a package that began and never ended as failed: the process died under them.
func (r *report) abandon(pkg string) {
	left := slices.SortedFunc(maps.Keys(r.running), func(a, b key) int { return strings.Compare(a.test, b.test) })
	for _, k := range left {
		if k.pkg == pkg {
			r.testEnded(k, "fail")
		}
	}
}

// broken counts a failure that belongs to no test.
func (r *report) broken(why string) {
	r.failed++
	fmt.Fprintf(r.w, "\n%s\n", why)
}

const (
	slowest   = 15 // tests are named
	slowStart = 2  // seconds, from which on a test is worth a word
)

// slow names the tests that took longest, since nobody looks for them until all of them together are too slow.
func (r *report) slow() {
	all := slices.SortedFunc(maps.Keys(r.times), func(a, b key) int { return cmp.Compare(r.times[b], r.times[a]) })
	for i, k := range all[:min(len(all), slowest)] {
		if r.times[k] < slowStart {
			return
		}
		if i == 0 {
			fmt.Fprintln(r.w, "\nslowest tests")
		}
		fmt.Fprintf(r.w, "%6.1fs  %s  %s\n", r.times[k], k.pkg, k.test)
	}
}

// close prints the count as the last line, alone, and tells whether the run was good.
func (r *report) close() bool {
	r.slow()
	ran := r.passed+r.failed > 0
	if !ran {
		fmt.Fprintln(r.w, "\nno test ran: name packages that have tests, or a -run that matches some")
	}
	line := fmt.Sprintf("%d passed, %d failed", r.passed, r.failed)
	if r.skipped > 0 {
		line += fmt.Sprintf(", %d skipped", r.skipped)
	}
	fmt.Fprintln(r.w, line)
	return ran && r.failed == 0
}

package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestReport runs go test for real on small modules, because what counts is how its events look today.
func TestReport(t *testing.T) {
	const pass, fail = "func TestA(t *testing.T) { t.Run(\"sub\", func(t *testing.T) {}) }", "func TestB(t *testing.T) { t.Error(\"wrong sum\") }"
	for _, c := range []struct {
		name, body, last string
		good             bool
		shows            []string
	}{
		{"all pass", pass, "2 passed, 0 failed", true, []string{"2 tests"}},
		{"one fails", pass + "\n" + fail, "2 passed, 1 failed", false, []string{"FAIL example.test/m TestB", "wrong sum"}},
		{"none there", "", "0 passed, 0 failed", false, []string{"no test ran"}},
		{"no build", "func TestA(t *testing.T) { undefinedName() }", "0 passed, 1 failed", false, []string{"did not build", "undefined: undefinedName"}},
		{"panic", "func TestA(t *testing.T) { panic(\"dropped\") }", "0 passed, 1 failed", false, []string{"panic: dropped"}},
		{"exit", "func TestA(t *testing.T) { os.Exit(3) }", "0 passed, 1 failed", false, []string{"FAIL example.test/m TestA"}},
		{"outside of tests", "func TestMain(m *testing.M) { m.Run(); os.Exit(1) }\n" + pass, "2 passed, 1 failed", false, []string{"FAIL example.test/m"}},
		{"skip", pass + "\nfunc TestC(t *testing.T) { t.SkipNow() }", "2 passed, 0 failed, 1 skipped", true, []string{"SKIP example.test/m TestC"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Chdir(module(t, c.body))
			var out strings.Builder
			r := newReport(&out)
			if err := run(r, []string{"./..."}); err != nil {
				r.broken(err.Error())
			}
			if good := r.close(); good != c.good {
				t.Errorf("good is %v, want %v", good, c.good)
			}
			if !strings.HasSuffix(out.String(), "\n"+c.last+"\n") && out.String() != c.last+"\n" {
				t.Errorf("the last line should be %q", c.last)
			}
			for _, s := range c.shows {
				if !strings.Contains(out.String(), s) {
					t.Errorf("%q is missing", s)
				}
			}
			if t.Failed() {
				t.Log(out.String())
			}
		})
	}
}

// TestUnreported holds that a go test which fails before its first event is a failure.
func TestUnreported(t *testing.T) {
	t.Chdir(module(t, ""))
	var out strings.Builder
	if err := run(newReport(&out), []string{"-count=many"}); err == nil {
		t.Error("a refused flag should give an error")
	}
}

// TestLongLine holds that a line longer than any buffer is read whole.
func TestLongLine(t *testing.T) {
	var out strings.Builder
	r := newReport(&out)
	long, _ := json.Marshal(event{Action: "output", Package: "p", Test: "T", Output: strings.Repeat("x", 1<<20)})
	read(r, strings.NewReader(string(long)+"\n{\"Action\":\"fail\",\"Package\":\"p\",\"Test\":\"T\"}\n"))
	if r.failed != 1 || out.Len() < 1<<20 {
		t.Errorf("%d failed, %d bytes shown", r.failed, out.Len())
	}
}

// TestSlow holds that the slowest tests are named, the slowest first, and neither the quick ones nor subtests.
func TestSlow(t *testing.T) {
	var out strings.Builder
	r := newReport(&out)
	for name, seconds := range map[string]float64{"TestA": 3, "TestB": 70.25, "TestB/sub": 70, "TestC": 0.1} {
		text, _ := json.Marshal(event{Action: "pass", Package: "p", Test: name, Elapsed: seconds})
		r.line(text)
	}
	r.close()
	if want := "\nslowest tests\n  70.2s  p  TestB\n   3.0s  p  TestA\n4 passed, 0 failed\n"; out.String() != want {
		t.Errorf("it says\n%s\nwant\n%s", out.String(), want)
	}
}

func TestSplit(t *testing.T) {
	if got := split([]string{"-race", "./...", "--", "./sim"}); len(got) != 2 || len(got[0]) != 2 || got[1][0] != "./sim" {
		t.Errorf("split gives %q", got)
	}
}

// module writes a module with one test file.
func module(t *testing.T, body string) string {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":    "module example.test/m\n\ngo 1.26\n",
		"m.go":      "package m\n",
		"m_test.go": "package m\n\nimport (\n\t\"os\"\n\t\"testing\"\n)\n\nvar _, _ = os.Exit, testing.Short\n\n" + body + "\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

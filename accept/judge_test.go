package accept

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// result is what became of one check: problem is empty where all is well.
type result struct{ name, problem, note string }

var (
	verdict = regexp.MustCompile(`^(PASS|FAIL|SOFT) (.+?) *$`)
	summary = regexp.MustCompile(`(?m)^\S+: \d+ passed, \d+ failed, \d+ soft$`)
)

// judge reads the program's lines, of which there must be no fewer checks than given. The checks of the list must fail,
// so that the list cannot rot; all others must pass, also those that the program calls soft.
func judge(output string, refused map[string]string, checks int) (results []result) {
	counts, seen := map[string]int{}, map[string]bool{}
	for line := range strings.Lines(output) {
		if m := verdict.FindStringSubmatch(strings.TrimRight(line, "\n")); m != nil {
			counts[m[1]]++
			r := one(m[1] == "PASS", m[2], refused)
			seen[r.name] = true
			results = append(results, r)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(refused)) {
		if !seen[name] {
			results = append(results, result{name: name, problem: "was not reported: is it still in the program?"})
		}
	}
	want := fmt.Sprintf(": %d passed, %d failed, %d soft", counts["PASS"], counts["FAIL"], counts["SOFT"])
	end := result{name: "the program ran to its end"}
	if got := summary.FindString(output); !strings.HasSuffix(got, want) {
		end.problem = fmt.Sprintf("its last line is %q, want one that ends with %q", got, want)
	} else if n := counts["PASS"] + counts["FAIL"] + counts["SOFT"]; n < checks {
		end.problem = fmt.Sprintf("it made %d checks, want %d or more", n, checks)
	}
	return append(results, end)
}

// one judges a line. A failed check's detail follows its name, so a name is known by what the list has.
func one(passed bool, text string, refused map[string]string) result {
	for name, reason := range refused {
		switch {
		case text != name && !strings.HasPrefix(text, name+" "):
		case passed:
			return result{name: name, problem: "passes, but must fail: " + reason}
		default:
			return result{name: name, note: "must fail: " + reason}
		}
	}
	if passed {
		return result{name: text}
	}
	return result{name: short(text), problem: text}
}

// short cuts a line so that it can name a subtest.
func short(text string) string {
	if r := []rune(text); len(r) > 60 {
		return string(r[:60])
	}
	return text
}

func TestJudge(t *testing.T) {
	list := map[string]string{"bad token is 401": "any is taken", "bad key is 401": "any is taken"}
	const fails = "FAIL bad token is 401 x\nFAIL bad key is 401 y\n"
	for _, c := range []struct{ name, output, problems string }{
		{"as listed", fails + "PASS send\nv: 1 passed, 2 failed, 0 soft\n", ""},
		{"one more fails", fails + "FAIL send 500\nv: 0 passed, 3 failed, 0 soft\n", "send 500"},
		{"a soft check fails", fails + "SOFT status 200\nv: 0 passed, 2 failed, 1 soft\n", "status 200"},
		{"a listed one passes", "FAIL bad token is 401 \nPASS bad key is 401\nPASS send\nv: 2 passed, 1 failed, 0 soft\n", "bad key is 401"},
		{"a section ends early", fails + "FAIL section fifo ran to its end 409\nv: 0 passed, 3 failed, 0 soft\n", "section fifo ran to its end 409"},
		{"a listed one is gone", "FAIL bad token is 401 x\nPASS send\nPASS receive\nv: 2 passed, 1 failed, 0 soft\n", "bad key is 401"},
		{"too few checks", fails + "v: 0 passed, 2 failed, 0 soft\n", "the program ran to its end"},
		{"no summary", fails + "PASS send\n", "the program ran to its end"},
		{"a wrong summary", fails + "v: 7 passed, 2 failed, 0 soft\n", "the program ran to its end"},
		{"nothing", "", "bad key is 401, bad token is 401, the program ran to its end"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var problems []string
			for _, r := range judge(c.output, list, 3) {
				if r.problem != "" {
					problems = append(problems, r.name)
				}
			}
			if got := strings.Join(problems, ", "); got != c.problems {
				t.Errorf("problems with %q, want %q", got, c.problems)
			}
		})
	}
}

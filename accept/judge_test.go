package accept

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// late is a check that must fail for now.
type late struct{ section, reason string }

const (
	idempotency = "idempotency keys come with the next issue"
	development = "development mode takes any credentials"
)

// pending lists the checks that must fail. One that passes fails the run, so that the list cannot rot. All others must
// pass, also those that the program calls soft.
var pending = map[string]late{
	"same key replays the create":        {"idempotency", idempotency},
	"same key sends once":                {"idempotency", idempotency},
	"same key with another body refused": {"idempotency", idempotency},
	"wrong bearer token is 401":          {"access", development},
	"wrong key pair fails the exchange":  {"access", development},
}

// early lists the sections that an error may end before their listed checks, with a part of that error: a repeated
// create without idempotency keys is a conflict.
var early = map[string]string{"idempotency": "(HTTP 409, "}

// result is what became of one check: problem is empty where all is well.
type result struct{ name, problem, note string }

var (
	verdict = regexp.MustCompile(`^(PASS|FAIL|SOFT) (.+?) *$`)
	ended   = regexp.MustCompile(`^section (\w+) ran to its end`)
	summary = regexp.MustCompile(`(?m)^\S+: \d+ passed, \d+ failed, \d+ soft$`)
)

// jury holds what was seen so far.
type jury struct {
	pending map[string]late
	early   map[string]string
	seen    map[string]bool
	broken  map[string]bool // sections that an error ended
	results []result
}

// judge reads the program's lines against the list of checks that must fail.
func judge(output string, pending map[string]late, early map[string]string) []result {
	j := &jury{pending: pending, early: early, seen: map[string]bool{}, broken: map[string]bool{}}
	counts := map[string]int{}
	for line := range strings.Lines(output) {
		if m := verdict.FindStringSubmatch(strings.TrimRight(line, "\n")); m != nil {
			counts[m[1]]++
			j.results = append(j.results, j.one(m[1] == "PASS", m[2]))
		}
	}
	j.unreported()
	want := fmt.Sprintf(": %d passed, %d failed, %d soft", counts["PASS"], counts["FAIL"], counts["SOFT"])
	end := result{name: "the program ran to its end"}
	if got := summary.FindString(output); !strings.HasSuffix(got, want) {
		end.problem = fmt.Sprintf("its last line is %q, want one that ends with %q", got, want)
	}
	return append(j.results, end)
}

// one judges a line. A failed check's detail follows its name, so a name is known by what the list has.
func (j *jury) one(passed bool, text string) result {
	name, listed := j.find(text)
	switch {
	case passed && listed:
		return result{name: name, problem: "passes now: take it off the list in judge_test.go (" + j.pending[name].reason + ")"}
	case passed:
		return result{name: text}
	case listed:
		return result{name: name, note: "must fail for now: " + j.pending[name].reason}
	}
	if m := ended.FindStringSubmatch(text); m != nil {
		return j.ended(m[0], m[1], text)
	}
	return result{name: short(text), problem: text}
}

// ended judges a section that did not run to its end. It may, while checks that must fail stand between.
func (j *jury) ended(name, section, text string) result {
	missing, as := j.unseen(section), j.early[section]
	if len(missing) == 0 || as == "" || !strings.Contains(text, as) {
		return result{name: name, problem: text}
	}
	j.broken[section] = true
	return result{name: name, note: fmt.Sprintf("ended at a check that must fail for now, before %q", missing)}
}

func (j *jury) find(text string) (string, bool) {
	for name := range j.pending {
		if text == name || strings.HasPrefix(text, name+" ") {
			j.seen[name] = true
			return name, true
		}
	}
	return "", false
}

// unseen are the listed checks of a section that were not reported.
func (j *jury) unseen(section string) (names []string) {
	for _, name := range slices.Sorted(maps.Keys(j.pending)) {
		if j.pending[name].section == section && !j.seen[name] {
			names = append(names, name)
		}
	}
	return names
}

// unreported judges listed checks that have no line: their section ended before them, or they are gone.
func (j *jury) unreported() {
	for _, name := range slices.Sorted(maps.Keys(j.pending)) {
		l := j.pending[name]
		switch {
		case j.seen[name]:
		case j.broken[l.section]:
			j.results = append(j.results, result{name: name, note: "not reached for now: " + l.reason})
		default:
			j.results = append(j.results, result{name: name, problem: "was not reported: is it still in the program?"})
		}
	}
}

// short cuts a line so that it can name a subtest.
func short(text string) string {
	if r := []rune(text); len(r) > 60 {
		return string(r[:60])
	}
	return text
}

func TestJudge(t *testing.T) {
	list := map[string]late{"key replays": {"keys", "later"}, "key sends once": {"keys", "later"}}
	const fails = "FAIL key replays x\nFAIL key sends once y\n"
	for _, c := range []struct{ name, output, problems string }{
		{"as listed", fails + "PASS send\nv: 1 passed, 2 failed, 0 soft\n", ""},
		{"one more fails", fails + "FAIL send 500\nv: 0 passed, 3 failed, 0 soft\n", "send 500"},
		{"a soft check fails", fails + "SOFT status 200\nv: 0 passed, 2 failed, 1 soft\n", "status 200"},
		{"a listed one passes", "FAIL key replays \nPASS key sends once\nv: 1 passed, 1 failed, 0 soft\n", "key sends once"},
		{"the section ends early", "FAIL section keys ran to its end 409\nv: 0 passed, 1 failed, 0 soft\n", ""},
		{"the section ends otherwise", "FAIL section keys ran to its end 500\nv: 0 passed, 1 failed, 0 soft\n",
			"section keys ran to its end, key replays, key sends once"},
		{"another section ends early", fails + "FAIL section fifo ran to its end 409\nv: 0 passed, 3 failed, 0 soft\n", "section fifo ran to its end"},
		{"the section ends after them", fails + "FAIL section keys ran to its end 409\nv: 0 passed, 3 failed, 0 soft\n", "section keys ran to its end"},
		{"a listed one is gone", "FAIL key replays x\nv: 0 passed, 1 failed, 0 soft\n", "key sends once"},
		{"no summary", fails, "the program ran to its end"},
		{"a wrong summary", fails + "v: 7 passed, 2 failed, 0 soft\n", "the program ran to its end"},
		{"nothing", "", "key replays, key sends once, the program ran to its end"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var problems []string
			for _, r := range judge(c.output, list, map[string]string{"keys": "409"}) {
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

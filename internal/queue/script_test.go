package queue_test

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var rewrite = flag.Bool("rewrite", false, "write what the rules answer into the transcripts; read the difference as behaviour")

// TestTranscripts runs the files in testdata. Each is a conversation with one shard: a paragraph of commands, four
// dashes, and what followed. The verbs are in verbs_test.go.
func TestTranscripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no transcripts: %v", err)
	}
	for _, f := range files {
		t.Run(filepath.Base(f), func(t *testing.T) { runTranscript(t, f) })
	}
}

func runTranscript(t *testing.T, file string) {
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	w := newScript()
	var out []string
	for _, p := range strings.Split(strings.TrimRight(string(data), "\n"), "\n\n") {
		out = append(out, w.paragraph(t, p))
	}
	got := strings.Join(out, "\n\n") + "\n"
	if *rewrite {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if diff := cmp.Diff(strings.Split(string(data), "\n"), strings.Split(got, "\n")); diff != "" {
		t.Errorf("(-file +rules):\n%s", diff)
	}
}

// paragraph runs the commands of a paragraph and gives it with what followed. Lines that begin with # are remarks.
func (s *script) paragraph(t *testing.T, p string) string {
	head, _, found := strings.Cut(p, "\n----")
	var answers []string
	for _, line := range strings.Split(head, "\n") {
		if line != "" && line[0] != '#' {
			found = true
			answers = append(answers, s.run(t, line)...)
			s.ledger.Check()
		}
	}
	if !found {
		return p // remarks alone
	}
	return strings.Join(append([]string{head, "----"}, answers...), "\n")
}

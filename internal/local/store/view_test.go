package store

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/leaselog/leaselog/internal/eventlog"
)

// contentOf sums up every file of a directory.
func contentOf(t *testing.T, dir string) string {
	t.Helper()
	var b strings.Builder
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		text, err := os.ReadFile(filepath.Join(dir, f.Name()))
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, "%s %x\n", f.Name(), sha256.Sum256(text))
	}
	return b.String()
}

func TestViewShowsAllAndChangesNothing(t *testing.T) {
	dir := t.TempDir()
	s := open(t, Config{Dir: dir})
	fill(t, s, "a", 0, 5)
	fill(t, s, "ab", 0, 2)
	if err := s.PutSnapshot(t.Context(), "a", eventlog.Snapshot{Seq: 3, Data: []byte("state")}); err != nil {
		t.Fatal(err)
	}
	if err := s.Drop(t.Context(), "a", 0, 2); err != nil {
		t.Fatal(err)
	}
	c := eventlog.Commit{Writer: newWriter(), Claims: []eventlog.Claim{{Key: "k", Until: eventlog.Forever, Value: []byte("v")}}}
	if err := s.Commit(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenView(Config{Dir: dir, Logger: quiet}); err == nil || !strings.Contains(err.Error(), "stop the server first") {
		t.Errorf("beside a server: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	before := contentOf(t, dir)
	v, err := OpenView(Config{Dir: dir, Logger: quiet})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := described(t, v), "a: [0,2) dropped, 2 3 4, snapshot 3; ab: 0 1; claim k=v"; got != want {
		t.Errorf("shows %s, want %s", got, want)
	}
	if torn := v.Torn(); torn != "" {
		t.Error(torn)
	}
	if err := v.Close(); err != nil {
		t.Error(err)
	}
	if after := contentOf(t, dir); after != before {
		t.Errorf("the directory was\n%sand is\n%s", before, after)
	}
}

// described puts all that a view shows in one line.
func described(t *testing.T, v *View) string {
	t.Helper()
	var parts []string
	for s, err := range v.Streams() {
		if err != nil {
			t.Fatal(err)
		}
		var seqs, items []string
		for d, err := range v.Drops(s) {
			items = append(items, fmt.Sprintf("[%d,%d) dropped", d.From, d.To))
			fatal(t, err)
		}
		for e, err := range v.Entries(s) {
			seqs = append(seqs, fmt.Sprint(e.Seq))
			fatal(t, err)
		}
		items = append(items, strings.Join(seqs, " "))
		for snap, err := range v.Snapshots(s) {
			items = append(items, fmt.Sprintf("snapshot %d", snap.Seq))
			fatal(t, err)
		}
		parts = append(parts, string(s)+": "+strings.Join(items, ", "))
	}
	for c, err := range v.Claims() {
		parts = append(parts, fmt.Sprintf("claim %s=%s", c.Key, c.Value))
		fatal(t, err)
	}
	return strings.Join(parts, "; ")
}

func fatal(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestViewRefuses(t *testing.T) {
	for name, test := range map[string]struct {
		prepare func(t *testing.T, dir string)
		want    string
	}{
		"missing": {func(t *testing.T, dir string) { os.Remove(dir) }, "does not exist"},
		"empty":   {func(t *testing.T, dir string) {}, "holds no store"},
		"foreign": {func(t *testing.T, dir string) { write(t, dir, "thesis.tex", "…") }, "it holds thesis.tex"},
		"emptied": {func(t *testing.T, dir string) {
			open(t, Config{Dir: dir}).Close()
			remove(t, dir, "*.log", "*.sst", "MANIFEST*", "marker*", "OPTIONS*")
		}, "damaged"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			test.prepare(t, dir)
			v, err := OpenView(Config{Dir: dir, Logger: quiet})
			if err == nil {
				v.Close()
				t.Fatal("opened")
			}
			if !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("%q should be one line and say %q", err, test.want)
			}
		})
	}
}

// A value that was changed behind the store's back is an error in its place, and the rest is still shown.
func TestViewGoesOnBehindDamage(t *testing.T) {
	dir := t.TempDir()
	s := open(t, Config{Dir: dir})
	fill(t, s, "a", 0, 3)
	if err := s.current.Load().db.Set(streamKey(nil, kindEntry, "a", 1), []byte("rubbish"), nil); err != nil {
		t.Fatal(err)
	}
	s.Close()
	v, err := OpenView(Config{Dir: dir, Logger: quiet})
	fatal(t, err)
	defer v.Close()
	var got []string
	for e, err := range v.Entries("a") {
		got = append(got, fmt.Sprint(e.Seq, err != nil))
	}
	if s := strings.Join(got, ", "); s != "0 false, 1 true, 2 false" {
		t.Error(s)
	}
}

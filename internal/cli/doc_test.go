package cli

import (
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
)

var update = flag.Bool("update", false, "write the documents anew where what they show has changed")

const (
	docFile   = "../../docs/cli.md"
	docStop   = "<!-- the server is stopped -->"
	docServer = "http://127.0.0.1:8080"
)

// passing are the parts of an output that are others in every run.
var passing = []struct {
	what *regexp.Regexp
	as   string
}{
	{regexp.MustCompile(`[0-9a-f]{100,}`), "RECEIPT"},
	{regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[47][0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}`), "ID"},
	{regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z`), "TIME"},
	{regexp.MustCompile(`LL[A-Z2-7]{26}`), "KEY"},
	{regexp.MustCompile(`llsk_[\w-]{43}`), "SECRET"},
	{regexp.MustCompile(`llst_LL[\w-]+`), "TOKEN"},
	{regexp.MustCompile(`answers in [\d.]+m?s`), "answers in TIME"},
	{regexp.MustCompile(`go1\.\S+ \S+`), "GO"},
	{regexp.MustCompile(`receipt [0-9a-f]{32}…`), "receipt R…"},
	{regexp.MustCompile(`lease [0-9a-f]{16}`), "lease L"},
	{regexp.MustCompile(`wrote \d+ pages`), "wrote N pages"},
	{regexp.MustCompile(`\d+ entries with (\d+) messages and \d+ events`), "N entries with $1 messages"},
	{regexp.MustCompile(`\d+ claims`), "N claims"},
}

func lasting(text string) string {
	for _, p := range passing {
		text = p.what.ReplaceAllString(text, p.as)
	}
	return text
}

// TestDoc runs the console blocks of the documents, one command after another, and compares what they print.
func TestDoc(t *testing.T) {
	for _, file := range []string{docFile, "../../README.md"} {
		t.Run(filepath.Base(file), func(t *testing.T) { testDoc(t, file) })
	}
}

func testDoc(t *testing.T, file string) {
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	d := &documented{t: t, dir: t.TempDir()}
	if d.server, err = startServer("--listen", "127.0.0.1:0", "--data", filepath.Join(d.dir, "data")); err != nil {
		t.Fatal(err)
	}
	defer d.stop()
	got := d.run(string(text))
	if diff := cmp.Diff(strings.Split(lasting(string(text)), "\n"), strings.Split(lasting(got), "\n")); diff != "" {
		if !*update {
			t.Fatalf("%s shows what is no longer so; go test ./internal/cli -run TestDoc -update writes it anew\n%s", file, diff)
		}
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// documented runs a document.
type documented struct {
	t      *testing.T
	dir    string
	server *server
}

func (d *documented) stop() {
	if d.server == nil {
		return
	}
	if err := d.server.stop(); err != nil {
		d.t.Error(err)
	}
	d.server = nil
}

// run gives the document with the outputs of this run.
func (d *documented) run(text string) string {
	var out strings.Builder
	url, inside := d.server.url, false
	for line := range strings.Lines(text) {
		command, isCommand := strings.CutPrefix(line, "$ ")
		switch {
		case strings.TrimSpace(line) == docStop:
			d.stop()
		case strings.HasPrefix(line, "```"):
			inside = line == "```console\n"
		case inside && isCommand:
			out.WriteString(line)
			out.WriteString(d.command(strings.TrimSpace(command), url))
			continue
		case inside:
			continue // what it printed when it was written
		}
		out.WriteString(line)
	}
	return out.String()
}

func (d *documented) command(line, url string) string {
	cmd := exec.CommandContext(d.t.Context(), "sh", "-c", line)
	cmd.Dir = d.dir
	cmd.Env = append(os.Environ(), "LEASELOG_ENDPOINT="+url, "NO_COLOR=1")
	text, err := cmd.CombinedOutput()
	if _, exited := err.(*exec.ExitError); err != nil && !exited {
		d.t.Fatal(line, err)
	}
	shown := strings.ReplaceAll(string(text), url, docServer)
	if shown != "" && !strings.HasSuffix(shown, "\n") {
		shown += "\n"
	}
	return shown
}

// undocumented are commands whose page is another: the server's own, and those that cobra makes.
var undocumented = []string{"leaselog serve", "leaselog completion"}

// TestDocIsWhole demands an example of every command.
func TestDocIsWhole(t *testing.T) {
	text, err := os.ReadFile(docFile)
	if err != nil {
		t.Fatal(err)
	}
	var look func(*cobra.Command)
	look = func(c *cobra.Command) {
		for _, child := range c.Commands() {
			look(child)
		}
		path := c.CommandPath()
		for _, u := range undocumented {
			if strings.HasPrefix(path, u) {
				return
			}
		}
		if !c.HasSubCommands() && c.RunE != nil && !strings.Contains(string(text), path) {
			t.Errorf("docs/cli.md has no example of %s", path)
		}
	}
	look(Program{options: &options{}}.root())
}

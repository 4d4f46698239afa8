package awstest

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestBox looks at a box from inside.
func TestBox(t *testing.T) {
	b, err := newBox(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.close() })
	out := inBox(t, b, `ip -o link | wc -l; echo $PPID; touch "$0/seen"; ls "$0"; set -- /proc/[0-9]*; echo $#`, b.dir)
	if want := "1\n0\nseen\n2\n"; out != want {
		t.Errorf("the box has links, parent, files and processes %q, want %q", out, want)
	}
	if _, err := os.Stat(filepath.Join(b.dir, "seen")); err == nil {
		t.Error("a file of the box's scratch folder is seen outside")
	}
}

// TestBoxEnds leaves a process behind that nobody waits for.
func TestBoxEnds(t *testing.T) {
	b, err := newBox(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	cmd := exec.Command("bash", "-c", "setsid sleep 600 & disown")
	cmd.Stdout = w
	if err := b.start(cmd); err != nil {
		t.Fatal(err)
	}
	cmd.Wait()
	w.Close()
	b.close()
	if n, err := r.Read(make([]byte, 1)); n != 0 || err == nil {
		t.Errorf("read %d bytes, %v: want the end, since nobody is left to write", n, err)
	}
	if err := b.start(exec.Command("true")); err == nil {
		t.Error("a box that ended takes commands")
	}
}

func inBox(t *testing.T, b *box, script string, args ...string) string {
	t.Helper()
	var out strings.Builder
	cmd := exec.Command("bash", append([]string{"-c", script}, args...)...)
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := b.start(cmd); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Fatalf("%v: %s", err, out.String())
	}
	return out.String()
}

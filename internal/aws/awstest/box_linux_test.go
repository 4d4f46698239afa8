package awstest

import (
	"bufio"
	"io"
	"log"
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

// TestMain is a maker of a box that does not live to close it, where TestBoxEndsWithItsMaker asks for one.
func TestMain(m *testing.M) {
	dir := os.Getenv(makerDir)
	if dir == "" {
		os.Exit(m.Run())
	}
	b, err := newBox(dir)
	if err != nil {
		log.Fatal(err)
	}
	cmd := exec.Command("sleep", "600")
	cmd.Stdout = os.Stdout
	if err := b.start(cmd); err != nil {
		log.Fatal(err)
	}
	os.Stdout.WriteString("ready\n")
	select {}
}

const makerDir = "AWSTEST_MAKER_DIR"

// TestBoxEndsWithItsMaker kills a process that has a box with something in it.
func TestBoxEndsWithItsMaker(t *testing.T) {
	maker := exec.Command(os.Args[0])
	maker.Env = append(os.Environ(), makerDir+"="+t.TempDir())
	out, err := maker.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := maker.Start(); err != nil {
		t.Fatal(err)
	}
	r := bufio.NewReader(out)
	if line, err := r.ReadString('\n'); line != "ready\n" {
		t.Errorf("the maker says %q, %v", line, err)
	}
	maker.Process.Kill()
	if n, err := r.Read(make([]byte, 1)); n != 0 || err != io.EOF {
		t.Errorf("read %d bytes, %v: want the end, since what is in the box ends with its maker", n, err)
	}
	maker.Wait()
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

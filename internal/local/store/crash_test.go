package store

import (
	"bufio"
	"bytes"
	"context"
	"encoding/hex"
	"fmt"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/leaselog/leaselog/internal/eventlog"
)

// childEnv makes the test binary a process that appends to the store in a directory until it is killed.
const childEnv = "LEASELOG_STORE_CHILD"

const childStreams = 4

func TestMain(m *testing.M) {
	if dir := os.Getenv(childEnv); dir != "" {
		child(dir)
	}
	os.Exit(m.Run())
}

// child prints a line for each commit that was acknowledged: stream, seq, writer.
func child(dir string) {
	s, err := Open(Config{Dir: dir, Logger: quiet})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	for i := range childStreams {
		name := childStream(i)
		last, ok, err := s.Last(context.Background(), name)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		next := eventlog.Seq(0)
		if ok {
			next = last.Next()
		}
		var mu sync.Mutex
		for range 4 {
			go func() {
				for {
					mu.Lock()
					childCommit(s, name, &next)
					mu.Unlock()
				}
			}()
		}
	}
	select {}
}

func childCommit(s *Store, name eventlog.Stream, next *eventlog.Seq) {
	c := entry(name, *next, make([]byte, rand.IntN(4000)))
	for i := range c.Writer {
		c.Writer[i] = byte(rand.Uint32())
	}
	if err := s.Commit(context.Background(), c); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Printf("%s %d %x\n", name, *next, c.Writer) // one write, so that no line is torn
	*next++
}

func childStream(i int) eventlog.Stream { return eventlog.Stream(fmt.Sprint("stream", i)) }

// runChild runs a child on dir until it has acknowledged something and a random time is over, kills it, and gives
// what it acknowledged.
func runChild(t *testing.T, dir string) []string {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"="+dir)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var acked []string
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if len(acked) == 0 {
			time.AfterFunc(time.Duration(rand.IntN(200_000))*time.Microsecond, func() { cmd.Process.Kill() })
		}
		acked = append(acked, lines.Text())
	}
	cmd.Wait()
	if len(acked) == 0 || stderr.Len() > 0 {
		t.Fatalf("the child acknowledged %d commits and said %q", len(acked), stderr.String())
	}
	return acked
}

// A process that is killed at any moment loses nothing that it acknowledged. LEASELOG_KILLS is the number of rounds.
func TestKilled(t *testing.T) {
	rounds := 10
	if n, err := strconv.Atoi(os.Getenv("LEASELOG_KILLS")); err == nil {
		rounds = n
	}
	dir := t.TempDir()
	const failedMax = 30
	total, warned, failed := 0, 0, 0
	known := map[string]bool{}
	for range rounds {
		acked := runChild(t, dir)
		total += len(acked)
		for _, line := range acked {
			known[line] = true
		}
		var log bytes.Buffer
		s := open(t, Config{Dir: dir, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		warned += strings.Count(log.String(), "WARN")
		there := map[string]bool{}
		for i := range childStreams {
			for _, e := range readAll(t, s, childStream(i)) {
				there[fmt.Sprintf("%s %d %x", e.Stream, e.Seq, e.Writer)] = true
			}
		}
		for line := range known {
			if !there[line] {
				t.Fatalf("%s was acknowledged and is lost", line)
			}
		}
		// What a failed instance holds, this process holds until it ends: its files above all.
		if rand.IntN(2) == 0 || failed == failedMax {
			s.Close()
		} else {
			failed++
			s.current.Load().fail(fmt.Errorf("for the test")) // the next one finds what a crash leaves
			s.Close()
		}
	}
	t.Logf("%d acknowledged in %d rounds, %d warnings", total, rounds, warned)
}

// What a power cut leaves, at any moment and with any part of what was not synced, opens and has all that was
// acknowledged.
func TestPowerCut(t *testing.T) {
	disk := vfs.NewCrashableMem()
	rng := rand.New(rand.NewPCG(1, 2))
	cut := func() *vfs.MemFS {
		return disk.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: rng.IntN(101), RNG: rng})
	}
	opened := make(chan *Store)
	go func() {
		s, err := Open(Config{Dir: "/var/data", FS: disk, Logger: quiet})
		if err != nil {
			t.Error(err)
		}
		opened <- s
	}()
	var s *Store
	for s == nil { // while the database is created
		openCut(t, cut()).Close()
		select {
		case s = <-opened:
		default:
		}
	}
	defer s.Close()
	all := startSenders(t, s, 4)
	defer all.finish()
	cuts := 15
	if testing.Short() {
		cuts = 3
	}
	for range cuts {
		all.progress(20)
		acked := all.acknowledged()
		after := openCut(t, cut())
		all.checkHas(after, acked)
		after.Close()
	}
}

func openCut(t *testing.T, disk *vfs.MemFS) *Store {
	t.Helper()
	return open(t, Config{Dir: "/var/data", FS: disk})
}

func readAll(t *testing.T, s *Store, name eventlog.Stream) (all []eventlog.Entry) {
	t.Helper()
	for next := eventlog.Seq(0); ; {
		got, err := s.Read(t.Context(), name, next, eventlog.Limits{Entries: 1000, HeadersOnly: true})
		if err != nil {
			t.Fatal(err)
		}
		if len(got) == 0 {
			return all
		}
		all = append(all, got...)
		next = got[len(got)-1].Next()
	}
}

// Damage to what a crash left is met by a warning and the loss of the damaged tail at most, or by a refusal that
// says so. It is never an empty store.
func TestDamaged(t *testing.T) {
	for _, flushed := range []bool{false, true} {
		dir := t.TempDir()
		s := open(t, Config{Dir: dir})
		n := 200
		ws := fill(t, s, "a", 0, n/2)
		if flushed { // so that there are tables, and a log of the second half only
			if err := s.current.Load().db.Flush(); err != nil {
				t.Fatal(err)
			}
		}
		ws = append(ws, fill(t, s, "a", n/2, n/2)...)
		for name, damage := range damages {
			t.Run(fmt.Sprintf("%s flushed=%v", name, flushed), func(t *testing.T) {
				hurt := t.TempDir()
				if err := os.CopyFS(hurt, os.DirFS(dir)); err != nil {
					t.Fatal(err)
				}
				lossMax := damage(t, hurt)
				openDamaged(t, hurt, ws, lossMax)
			})
		}
	}
}

// damages gives for each what may be lost; 0 also allows a refusal. What is done to the end of a log is done to what was
// written of it.
var damages = map[string]func(t *testing.T, dir string) (lossMax int){
	"none":          func(t *testing.T, dir string) int { return 0 },
	"cut 1":         func(t *testing.T, dir string) int { cut(t, newest(t, dir, "*.log"), 1); return 1 },
	"cut 7":         func(t *testing.T, dir string) int { cut(t, newest(t, dir, "*.log"), 7); return 1 },
	"cut 4096":      func(t *testing.T, dir string) int { cut(t, newest(t, dir, "*.log"), 4096); return 5 },
	"random behind": func(t *testing.T, dir string) int { appendRandom(t, newest(t, dir, "*.log"), 100); return 0 },
	"zeroed end":    func(t *testing.T, dir string) int { zeroEnd(t, newest(t, dir, "*.log"), 4096); return 5 },
	"no manifest":   func(t *testing.T, dir string) int { os.Remove(newest(t, dir, "MANIFEST*")); return 0 },
	"no markers":    func(t *testing.T, dir string) int { remove(t, dir, "marker*"); return 0 },
	"no manifest marker": func(t *testing.T, dir string) int {
		remove(t, dir, "marker.manifest*")
		return 0
	},
	"cut manifest":   func(t *testing.T, dir string) int { cut(t, newest(t, dir, "MANIFEST*"), 7); return 0 },
	"no table":       func(t *testing.T, dir string) int { remove(t, dir, "*.sst"); return 0 },
	"flipped in log": func(t *testing.T, dir string) int { flip(t, newest(t, dir, "*.log")); return 0 },
	"empty log":      func(t *testing.T, dir string) int { cut(t, newest(t, dir, "*.log"), 1<<40); return 200 },
	"no log":         func(t *testing.T, dir string) int { remove(t, dir, "*.log"); return 0 },
}

func openDamaged(t *testing.T, dir string, ws []eventlog.Writer, lossMax int) {
	t.Helper()
	var log bytes.Buffer
	s, err := Open(Config{Dir: dir, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Logf("refused: %v", err)
		if text := err.Error(); strings.Contains(text, "\n") || !strings.Contains(text, "damaged") {
			t.Errorf("%q should be one line and say that the directory is damaged", text)
		}
		return
	}
	defer s.Close()
	got := readAll(t, s, "a")
	t.Logf("%d of %d entries; log: %s", len(got), len(ws), log.String())
	for i, e := range got {
		if e.Writer != ws[i] {
			t.Fatalf("entry %d is by %x, not %x", i, e.Writer, ws[i])
		}
	}
	lost := len(ws) - len(got)
	if lost > lossMax {
		t.Errorf("%d entries are lost, %d may be", lost, lossMax)
	}
	if lost > 0 && !strings.Contains(log.String(), "level=WARN") {
		t.Errorf("%d entries are lost without a word", lost)
	}
	fill(t, s, "a", len(got), 1)
}

// newest gives the file that was made last: its number is the highest.
func newest(t *testing.T, dir, pattern string) string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, pattern))
	if err != nil || len(names) == 0 {
		t.Fatal(names, err)
	}
	return slices.Max(names)
}

func cut(t *testing.T, name string, n int64) {
	t.Helper()
	if err := os.Truncate(name, max(0, written(t, name)-n)); err != nil {
		t.Fatal(err)
	}
}

// written gives where the part of a file ends that is not filled ahead.
func written(t *testing.T, name string) int64 {
	t.Helper()
	content, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	for len(content) > 0 && content[len(content)-1] == logFill {
		content = content[:len(content)-1]
	}
	return int64(len(content))
}

func appendRandom(t *testing.T, name string, n int) {
	t.Helper()
	junk := make([]byte, n)
	for i := range junk {
		junk[i] = byte(rand.Uint32())
	}
	change(t, name, written(t, name), junk)
}

func zeroEnd(t *testing.T, name string, n int64) {
	t.Helper()
	change(t, name, max(0, written(t, name)-n), make([]byte, min(n, written(t, name))))
}

func flip(t *testing.T, name string) {
	t.Helper()
	change(t, name, written(t, name)/2, []byte(hex.EncodeToString([]byte("flip"))))
}

func change(t *testing.T, name string, at int64, content []byte) {
	t.Helper()
	f, err := os.OpenFile(name, os.O_RDWR, fs.ModePerm)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteAt(content, at); err != nil {
		t.Fatal(err)
	}
}

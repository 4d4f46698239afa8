package store

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// Commits do not make the log longer one by one, and what it was filled with is taken for neither records nor damage.
func TestLogAhead(t *testing.T) {
	disk := vfs.NewCrashableMem()
	s := open(t, Config{Dir: "/var/data", FS: disk})
	length := func() int64 {
		t.Helper()
		names, err := disk.List("/var/data")
		if err != nil {
			t.Fatal(err)
		}
		var newest string
		for _, name := range names {
			if isLog(name) {
				newest = max(newest, name)
			}
		}
		info, err := disk.Stat("/var/data/" + newest)
		if err != nil {
			t.Fatal(err)
		}
		return info.Size()
	}
	const commits = 600
	lengths := map[int64]bool{}
	for i := range commits {
		fill(t, s, "a", i, 1)
		lengths[length()] = true
		if i%20 != 0 {
			continue
		}
		var log bytes.Buffer
		after := open(t, Config{Dir: "/var/data", FS: disk.CrashClone(vfs.CrashCloneCfg{}), Logger: slog.New(slog.NewTextHandler(&log, nil))})
		if got := len(readAll(t, after, "a")); got != i+1 {
			t.Fatalf("%d of %d entries after a crash", got, i+1)
		}
		if strings.Contains(log.String(), "WARN") {
			t.Errorf("a crash between two commits gives a warning: %s", log.String())
		}
		after.Close()
	}
	for n := range lengths {
		if n%logAhead != 0 {
			t.Errorf("the log had %d bytes, which is no multiple of %d", n, logAhead)
		}
	}
	if len(lengths) > 5 {
		t.Errorf("the log had %d lengths during %d commits", len(lengths), commits)
	}
}

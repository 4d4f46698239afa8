package store

import (
	"context"
	"fmt"
	"os"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/leaselog/leaselog/internal/eventlog"
)

func BenchmarkLone(b *testing.B) {
	dir := b.TempDir()
	s := open(b, Config{Dir: dir})
	data, header := make([]byte, 1024), make([]byte, 100)
	f, _ := os.Create(dir + "/x")
	defer f.Close()
	var disk, commit []time.Duration
	for i := range b.N {
		t := time.Now()
		f.Write(data)
		syscall.Fdatasync(int(f.Fd()))
		disk = append(disk, time.Since(t))
		c := eventlog.Commit{Writer: newWriter(), Appends: []eventlog.Append{{Stream: "q/a/m/0", Seq: eventlog.Seq(i), Width: 1, Header: header, Data: data}}}
		t = time.Now()
		if err := s.Commit(context.Background(), c); err != nil {
			b.Fatal(err)
		}
		commit = append(commit, time.Since(t))
	}
	slices.Sort(disk)
	slices.Sort(commit)
	fmt.Println("disk", disk[len(disk)/2], "commit", commit[len(commit)/2])
}

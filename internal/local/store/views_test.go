package store

import (
	"errors"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/leaselog/leaselog/projections"
	"github.com/leaselog/leaselog/projections/projectionstest"
)

func TestViews(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	s := open(t, Config{Dir: dir})
	projectionstest.RunStore(t, s, func() projections.Store {
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		return open(t, Config{Dir: dir})
	})
}

// TestViewsCostNoSync: views that are saved beside no commit are not waited for, and each version is given once however
// many save at a time.
func TestViewsCostNoSync(t *testing.T) {
	var synced atomic.Int64
	s := open(t, Config{Dir: "data", FS: vfs.NewMem(), Synced: func(commits, _ int, _ time.Duration) { synced.Add(int64(commits)) }})
	var saved atomic.Int64
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for version := range uint64(50) {
				switch err := s.Save(t.Context(), "v", []byte("x"), version); {
				case err == nil:
					saved.Add(1)
				case !errors.Is(err, projections.ErrChanged):
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	k, _, err := s.Load(t.Context(), "v")
	if err != nil || int64(k.Version) != saved.Load() || k.Version == 0 {
		t.Errorf("%d saves were answered, and version %d stands, %v", saved.Load(), k.Version, err)
	}
	if n := synced.Load(); n != 0 {
		t.Errorf("%d commits were synced, and there was none", n)
	}
	all.Go(func() { fill(t, s, "orders", 0, 200) })
	for version := range uint64(200) {
		if err := s.Save(t.Context(), "w", []byte("x"), version); err != nil {
			t.Error(err)
		}
	}
	all.Wait()
	if n := synced.Load(); n != 200 {
		t.Errorf("200 commits were made, and %d counted", n)
	}
}

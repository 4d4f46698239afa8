package store

import (
	"bytes"
	"errors"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/leaselog/leaselog/projections"
)

// TestViews: a view is replaced by whoever has read the last one, and by nobody else; it is kept over a restart.
func TestViews(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	s := open(t, Config{Dir: dir})
	ctx := t.Context()
	const key = "depth/a/0000"
	if _, ok, err := s.Load(ctx, key); ok || err != nil {
		t.Fatalf("before anything was saved: %t, %v", ok, err)
	}
	if err := s.Save(ctx, key, []byte("x"), 1); !errors.Is(err, projections.ErrChanged) {
		t.Errorf("over a version that never was: %v", err)
	}
	large := bytes.Repeat([]byte("x"), projections.DataBytesMax)
	for version, data := range [][]byte{[]byte("a"), {}, large} {
		for late := range 2 { // the second time it is too late
			err := s.Save(ctx, key, data, uint64(version))
			k, ok, loadErr := s.Load(ctx, key)
			if loadErr != nil || !ok || !bytes.Equal(k.Data, data) || k.Version != uint64(version)+1 {
				t.Errorf("kept are %d bytes of version %d, %t, %v; want %d of %d", len(k.Data), k.Version, ok, loadErr, len(data), version+1)
			}
			if late == 0 && err != nil || late == 1 && !errors.Is(err, projections.ErrChanged) {
				t.Error(late, err)
			}
		}
	}
	if err := s.Save(ctx, key, append(large, 'x'), 3); err == nil || errors.Is(err, projections.ErrChanged) {
		t.Errorf("a view that is too large: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = open(t, Config{Dir: dir})
	if k, ok, err := s.Load(ctx, key); err != nil || !ok || !bytes.Equal(k.Data, large) {
		t.Errorf("after a restart: %d bytes, %t, %v", len(k.Data), ok, err)
	}
	for range 2 {
		if err := s.Forget(ctx, key); err != nil {
			t.Error(err)
		}
	}
	if _, ok, err := s.Load(ctx, key); ok || err != nil {
		t.Errorf("a forgotten view: %t, %v", ok, err)
	}
	if err := s.Save(ctx, key, nil, 0); err != nil {
		t.Error(err)
	}
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

// Package projectionstest holds what every store of views must do.
package projectionstest

import (
	"bytes"
	"errors"
	"testing"

	"github.com/leaselog/leaselog/projections"
)

// RunStore holds that a view is replaced by whoever has read the last one, and by nobody else. reopened gives the store
// after its process has ended, or as it is where it has none.
func RunStore(t *testing.T, s projections.Store, reopened func() projections.Store) {
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
	s = reopened()
	if k, ok, err := s.Load(ctx, key); err != nil || !ok || !bytes.Equal(k.Data, large) {
		t.Errorf("after a restart: %d bytes, %t, %v", len(k.Data), ok, err)
	}
	for range 2 {
		if err := s.Forget(ctx, key); err != nil {
			t.Error(err)
		}
	}
	k, ok, err := s.Load(ctx, key)
	if ok || err != nil || k.Data != nil {
		t.Errorf("a forgotten view: %d bytes, %t, %v", len(k.Data), ok, err)
	}
	if err := s.Save(ctx, key, []byte("again"), k.Version); err != nil {
		t.Error(err)
	}
	if k, ok, err := s.Load(ctx, key); !ok || err != nil || string(k.Data) != "again" {
		t.Errorf("a view that came back: %q, %t, %v", k.Data, ok, err)
	}
}

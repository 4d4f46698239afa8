package store

import (
	"testing"
	"testing/synctest"
	"time"
)

// A gate holds up whoever comes while it is shut, and opens by itself where the disk is slow.
func TestGate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g gate
		waited := func() time.Duration {
			began := time.Now()
			g.wait(t.Context())
			return time.Since(began)
		}
		if d := waited(); d != 0 {
			t.Errorf("an open gate was waited for: %v", d)
		}
		for _, c := range []struct{ shut, want time.Duration }{{time.Millisecond, time.Millisecond}, {time.Hour, gatePatience}, {2 * time.Millisecond, 2 * time.Millisecond}} {
			g.close()
			opens := time.AfterFunc(c.shut, g.open)
			if d := waited(); d != c.want {
				t.Errorf("shut for %v: waited %v", c.shut, d)
			}
			opens.Stop()
		}
		time.Sleep(time.Hour)
		if d := waited(); d != 0 {
			t.Errorf("waited %v", d)
		}
	})
}

package broker

import (
	"testing"
	"time"

	"github.com/leaselog/leaselog/internal/eventlog/eventlogtest"
	"github.com/leaselog/leaselog/internal/fault"
)

// A store that keeps silent does not keep the broker from closing.
func TestCloseOnASilentStore(t *testing.T) {
	inWorld(t, func(w *world) {
		q := w.create("q", false)
		w.send(q, "first")
		w.log.Plan(func(c eventlogtest.Call) eventlogtest.Fault {
			if c.Op == eventlogtest.OpCommit {
				return eventlogtest.Before
			}
			return eventlogtest.Pass
		})
		if _, err := w.b.Send(w.ctx, q, out("x")); !fault.Is(err, fault.Unconfirmed) {
			t.Errorf("the send gave %v", err)
		}
		began := time.Now()
		w.b.Close()
		if took := time.Since(began); took > 2*closePatience {
			t.Errorf("closing took %s", took)
		}
	})
}

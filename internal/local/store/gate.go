package store

import (
	"context"
	"sync"
	"time"
)

// gate is shut while a batch is on its way to the disk. Whoever decides what to commit waits before it: what comes
// meanwhile is decided together, and goes into one commit of the next batch instead of several that wait for it.
type gate struct {
	mu   sync.Mutex
	shut chan struct{} // closed when the gate opens; nil while it is open
	slow *time.Timer   // opens it although the batch is not on the disk
}

// gatePatience is how long a gate stays shut. A disk that takes longer is at fault, and the callers have to hear of it
// from their commits.
const gatePatience = 50 * time.Millisecond

func (g *gate) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.shut = make(chan struct{})
	if g.slow == nil {
		g.slow = time.AfterFunc(gatePatience, g.open)
	} else {
		g.slow.Reset(gatePatience)
	}
}

func (g *gate) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.shut != nil {
		close(g.shut)
		g.shut = nil
		g.slow.Stop()
	}
}

func (g *gate) wait(ctx context.Context) {
	g.mu.Lock()
	shut := g.shut
	g.mu.Unlock()
	if shut == nil {
		return
	}
	select {
	case <-shut:
	case <-ctx.Done():
	}
}

// Ready returns when a commit that is decided now would go into the next batch, within 50 ms, or when ctx has ended.
func (s *Store) Ready(ctx context.Context) { s.gate.wait(ctx) }

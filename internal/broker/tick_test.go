package broker

import (
	"errors"
	"testing"
)

// A queue that cannot be finished does not keep the others waiting.
func TestRecoverGoesOn(t *testing.T) {
	inWorld(t, func(w *world) {
		d := w.create("dead", false)
		first, second := w.create("first", false, deadLetter(d, 1)), w.create("second", false, deadLetter(d, 1))
		w.send(second, "x")
		w.receive(second, 1)
		w.restart()
		h, err := w.b.open(w.ctx, first)
		if err != nil {
			t.Fatal(err)
		}
		r := h.runner(0)
		r.stop(errors.New("refused"))
		if err := w.b.Tick(w.ctx); err == nil {
			t.Error("the tick told nothing")
		}
		if h, err := w.b.open(w.ctx, second); err != nil || len(h.started()) != 1 {
			t.Errorf("the second queue was not looked at: %v", err)
		}
	})
}

package sim

import (
	"context"

	"github.com/leaselog/leaselog/internal/broker"
	"github.com/leaselog/leaselog/internal/fault"
)

// startMove moves what is in a queue to another one or back to where it came from, or ends such a move.
func (s *simulation) startMove(l *life, k *known) {
	if s.move != (broker.TaskID{}) && chance(s.rand, 0.2) {
		id := s.move
		s.command(l, "cancel a move of "+k.name.text, func(ctx context.Context) func() {
			m, err := l.broker.CancelMove(ctx, k.id, id)
			return func() {
				s.note("cancel %s: %v", k.name.text, err)
				if err != nil {
					s.may(ctx, err, fault.NotFound)
				} else {
					s.must(m.State != broker.TaskRunning, "a task is cancelled, and is %s", m.State)
				}
			}
		})
		return
	}
	m := broker.StartMove{Queue: k.id, Rate: one[uint32](s.rand, 0, 0, 1, 10), Filter: broker.MoveFilter{Body: one(s.rand, "", "", "[02468]$")}}
	if to := s.pickQueue(); to != nil && chance(s.rand, 0.5) {
		m.Target = &broker.Ref{Account: account, ID: to.id}
	}
	s.command(l, "move from "+k.name.text, func(ctx context.Context) func() {
		t, err := l.broker.StartMove(ctx, m)
		return func() {
			s.note("move from %s: %v", k.name.text, err)
			if err != nil {
				s.may(ctx, err, fault.NotFound, fault.Invalid, fault.Limit, fault.KeyLost)
			} else {
				s.move = t.ID
			}
		}
	})
}

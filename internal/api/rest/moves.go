package rest

import (
	"net/http"

	"github.com/leaselog/leaselog/events"
	"github.com/leaselog/leaselog/internal/auth"
	"github.com/leaselog/leaselog/internal/broker"
	"github.com/leaselog/leaselog/internal/fault"
)

var (
	listMoves    = &operation{name: "list-moves", method: http.MethodGet, path: movesPath, action: auth.ListMoves, run: (*call).listMoves}
	describeMove = &operation{name: "describe-move", method: http.MethodGet, path: movePath, action: auth.DescribeMove, run: (*call).describeMove}
	cancelMove   = &operation{name: "cancel-move", method: http.MethodPost, path: movePath + "/cancel", action: auth.CancelMove, run: (*call).cancelMove}
)

func (c *call) listMoves() error {
	limit, err := c.limit(page{movesDefault, movesMax})
	if err != nil {
		return err
	}
	marker, err := c.param("marker")
	if err != nil {
		return err
	}
	list := "moves " + c.queue.ID.String()
	after, err := c.h.unmark(list, marker)
	if err != nil {
		return err
	}
	tasks, more, err := c.h.Broker.ListMoves(c.context(), broker.ListMoves{Queue: c.queue.ID, After: after, Limit: limit})
	if err != nil {
		return err
	}
	b := append(c.out, `{"moves":[`...)
	for i, m := range tasks {
		if i > 0 {
			b = append(b, ',')
		}
		b = c.appendMove(b, m)
	}
	next := ""
	if more && len(tasks) > 0 {
		next = c.h.mark(list, tasks[len(tasks)-1].ID.String())
	}
	c.out = append(meta(append(b, ']'), limit, next), '}')
	c.json(http.StatusOK)
	return nil
}

func (c *call) describeMove() error {
	id, err := c.moveID()
	if err != nil {
		return err
	}
	m, err := c.h.Broker.Move(c.context(), c.queue.ID, id)
	if err != nil {
		return err
	}
	c.answerMove(http.StatusOK, m)
	return nil
}

// cancelMove is not claimed under an idempotency key: a task that has ended is answered as it is, however often.
func (c *call) cancelMove() error {
	id, err := c.moveID()
	if err != nil {
		return err
	}
	m, err := c.h.Broker.CancelMove(c.once(), c.queue.ID, id)
	if err != nil {
		return err
	}
	c.answerMove(http.StatusOK, m)
	return nil
}

func (c *call) moveID() (broker.TaskID, error) {
	id, ok := events.ParseUUID(c.item)
	if !ok {
		return broker.TaskID{}, fault.New(fault.NotFound, "there is no move task %q of this queue", shorten(c.item))
	}
	return broker.TaskID(id), nil
}

// answerMove answers one task in its envelope.
func (c *call) answerMove(status int, m *broker.MoveTask) {
	c.out = append(c.appendMove(append(c.out, `{"move":`...), m), '}')
	c.json(status)
}

func (c *call) appendMove(b []byte, m *broker.MoveTask) []byte {
	b = uuid(append(b, '{'), "id", m.ID)
	b = uuid(append(b, ','), "queue_id", m.Queue)
	if m.Target != (events.QueueID{}) {
		b = uuid(append(b, `,"target":{`...), "id", m.Target)
		if m.TargetName != "" {
			b = text(append(b, ','), "name", m.TargetName)
		}
		b = append(b, '}')
	}
	b = text(append(b, ','), "state", m.State)
	if m.Rate > 0 {
		b = number(append(b, ','), "rate_per_second", uint64(m.Rate))
	}
	b = appendCounts(append(b, ','), m)
	b = instant(append(b, ','), "started_at", m.Started)
	b = instant(append(b, ','), "updated_at", m.Updated)
	if m.Ended != 0 {
		b = instant(append(b, ','), "ended_at", m.Ended)
	}
	return append(b, '}')
}

// appendCounts writes what a task has come to, or would.
func appendCounts(b []byte, m *broker.MoveTask) []byte {
	b = number(b, "total", m.Total)
	b = number(append(b, ','), "moved", m.Moved)
	b = number(append(b, ','), "skipped", m.Skipped)
	b = number(append(b, ','), "failed", m.Failed)
	b = number(append(b, ','), "waiting", m.Waiting)
	if m.Reason != "" {
		b = text(append(b, ','), "reason", m.Reason)
	}
	return b
}

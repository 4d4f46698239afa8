package rest

import (
	"encoding/hex"
	"net/http"

	"github.com/leaselog/leaselog/events"
	"github.com/leaselog/leaselog/internal/auth"
	"github.com/leaselog/leaselog/internal/broker"
	"github.com/leaselog/leaselog/internal/fault"
)

// listHistory tells what the log knows of a message. It is ours.
var listHistory = &operation{name: "list-history", method: http.MethodGet, path: historyPath, action: auth.ListHistory, run: (*call).listHistory}

func (c *call) listHistory() error {
	id, ok := events.ParseUUID(c.item)
	if !ok {
		return fault.New(fault.NotFound, "there is no message %q in this queue: its id is a UUID", shorten(c.item))
	}
	limit, err := c.limit(page{historyDefault, historyMax})
	if err != nil {
		return err
	}
	marker, err := c.param("marker")
	if err != nil {
		return err
	}
	list := "history " + c.queue.ID.String() + " " + events.MessageID(id).String()
	after, err := c.h.unmark(list, marker)
	if err != nil {
		return err
	}
	life, err := c.h.Broker.Life(c.context(), broker.LifeOf{Queue: c.queue.ID, ID: id, After: after, Limit: limit})
	if err != nil {
		return err
	}
	b := uuid(append(c.out, '{'), "message_id", id)
	b = uuid(append(b, ','), "queue_id", c.queue.ID)
	b = append(b, `,"history":[`...)
	for i := range life.Happenings {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendHappening(b, &life.Happenings[i])
	}
	if b = append(b, ']'); life.Lost {
		b = append(b, `,"beginning_lost":true`...)
	}
	next := ""
	if life.Next != "" {
		next = c.h.mark(list, life.Next)
	}
	c.out = append(meta(b, limit, next), '}')
	c.json(http.StatusOK)
	return nil
}

func appendHappening(b []byte, h *broker.Happening) []byte {
	b = text(append(b, '{'), "event", h.What)
	b = instant(append(b, ','), "at", h.At)
	b = number(append(b, ','), "shard", uint64(h.Shard))
	b = number(append(b, ','), "position", uint64(h.Position))
	if h.Ledger != 0 {
		b = number(append(b, ','), "ledger_position", uint64(h.Ledger))
	}
	if h.Lease != (events.LeaseID{}) {
		b = text(append(b, ','), "lease_id", hex.EncodeToString(h.Lease[:]))
	}
	if h.Until != 0 {
		b = instant(append(b, ','), "visible_at", h.Until)
	}
	if h.Receives != 0 {
		b = number(append(b, ','), "receive_count", uint64(h.Receives))
	}
	switch h.What {
	case broker.WasMoved:
		b = text(append(b, ','), "reason", moveReason(h.Reason))
		b = uuid(append(b, ','), "moved_to", h.Queue)
	case broker.Arrived:
		b = uuid(append(b, ','), "moved_from", h.Queue)
	}
	return append(b, '}')
}

func moveReason(r events.MoveReason) string {
	if r == events.Redriven {
		return "redrive"
	}
	return "received_too_often"
}

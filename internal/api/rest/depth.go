package rest

import (
	"net/http"

	"github.com/leaselog/leaselog/events"
	"github.com/leaselog/leaselog/internal/auth"
	"github.com/leaselog/leaselog/internal/broker"
)

// Depths without a cap are ours.
var (
	describeDepth = &operation{name: "describe-depth", method: http.MethodGet, path: depthPath, action: auth.DescribeDepth, run: (*call).describeDepth}
	listDepths    = &operation{name: "list-depths", method: http.MethodGet, path: depthsPath, access: inAccount, action: auth.ListDepths, shows: auth.DescribeDepth,
		run: (*call).listDepths}
)

// describeDepth counts in the state.
func (c *call) describeDepth() error {
	d, err := c.h.Broker.Depth(c.context(), c.queue.ID)
	if err != nil {
		return err
	}
	c.out = append(c.appendWhole(append(c.out, `{"depth":`...), c.queue, d), '}')
	c.json(http.StatusOK)
	return nil
}

// listDepths reads the views, where there are any.
func (c *call) listDepths() error {
	limit, err := c.limit(page{depthsDefault, depthsMax})
	if err != nil {
		return err
	}
	marker, err := c.param("marker")
	if err != nil {
		return err
	}
	list := "depths " + c.caller.Account
	after, err := c.h.unmark(list, marker)
	if err != nil {
		return err
	}
	queues, more, err := c.seen(after, limit)
	if err != nil {
		return err
	}
	ids := make([]events.QueueID, len(queues))
	for i, q := range queues {
		ids[i] = q.ID
	}
	depths, err := c.h.Broker.KeptDepths(c.context(), ids)
	if err != nil {
		return err
	}
	c.answerPage(pageOf{field: "depths", list: list, limit: limit, more: more, items: len(queues),
		name: func(i int) string { return queues[i].Name },
		item: func(b []byte, i int) []byte {
			if depths[i] == nil {
				return b // deleted meanwhile
			}
			return c.appendWhole(b, queues[i], depths[i])
		}})
	return nil
}

// appendWhole writes a depth with everything that is known of it.
func (c *call) appendWhole(b []byte, q *broker.Queue, d *broker.Depth) []byte {
	b = uuid(append(b, '{'), "queue_id", q.ID)
	b = text(append(b, ','), "queue_name", q.Name)
	b = number(append(b, ','), "available", d.Available)
	b = number(append(b, ','), "in_flight", d.InFlight)
	b = number(append(b, ','), "delayed", d.Delayed)
	if d.Available > 0 {
		b = number(append(b, ','), "oldest_waiting_milliseconds", uint64(d.WaitingMillis))
		b = number(append(b, ','), "oldest_total_milliseconds", uint64(d.TotalMillis))
	}
	return append(appendPlaces(append(b, ','), d), '}')
}

// appendPlaces writes of which instant and of which places of the log a depth is true, and how that is known.
func appendPlaces(b []byte, d *broker.Depth) []byte {
	source := "state"
	if d.Kept {
		source = "view"
	}
	b = text(b, "source", source)
	b = instant(append(b, ','), "as_of", d.At)
	b = append(b, `,"shards":[`...)
	for i, p := range d.Shards {
		if i > 0 {
			b = append(b, ',')
		}
		b = number(append(b, '{'), "ledger", p.Ledger)
		b = number(append(b, ','), "messages", uint64(p.Messages))
		b = instant(append(b, ','), "as_of", p.At)
		b = append(instant(append(b, ','), "log_time", p.High), '}')
	}
	return append(b, ']')
}

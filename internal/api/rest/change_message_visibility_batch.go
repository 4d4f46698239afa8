package rest

import (
	"net/http"

	"github.com/leaselog/leaselog/internal/auth"
	"github.com/leaselog/leaselog/internal/broker"
)

var changeMessageVisibilityBatch = &operation{name: "change-message-visibility-batch", method: http.MethodPost,
	path: messagesPath + "/visibility-batch", action: auth.ChangeMessageVisibilityBatch, run: (*call).changeMessageVisibilityBatch}

func (c *call) changeMessageVisibilityBatch() error {
	body, err := c.read()
	if err != nil {
		return err
	}
	if c.extends, err = batch(&c.scan, body, c.extends, &extendObject); err != nil {
		return err
	}
	outcomes, err := c.extendAll()
	if err != nil {
		return err
	}
	return c.results(len(c.extends), func(b []byte, i int) []byte {
		err := c.extends[i].problem
		if err == nil {
			err, outcomes = outcomes[0], outcomes[1:]
		}
		return c.settled(b, c.extends[i].id, err)
	})
}

// extendAll extends the leases of the entries without a problem, in their order; the outcomes are theirs alone.
func (c *call) extendAll() ([]error, error) {
	items := make([]broker.Extend, 0, len(c.extends))
	for _, e := range c.extends {
		if e.problem == nil {
			items = append(items, broker.Extend{Receipt: e.receipt, Seconds: *e.visibility})
		}
	}
	if len(items) == 0 {
		return nil, nil
	}
	return c.h.Broker.Extend(c.once(), c.queue.ID, items)
}

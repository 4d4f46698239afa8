package rest

import (
	"net/http"

	"github.com/leaselog/leaselog/internal/auth"
)

var deleteMessageBatch = &operation{name: "delete-message-batch", method: http.MethodPost, path: messagesPath + "/delete-batch", action: auth.DeleteMessageBatch,
	run: (*call).deleteMessageBatch}

func (c *call) deleteMessageBatch() error {
	body, err := c.read()
	if err != nil {
		return err
	}
	if c.leases, err = batch(&c.scan, body, c.leases, &leaseObject); err != nil {
		return err
	}
	receipts := make([]string, len(c.leases))
	for i, e := range c.leases {
		receipts[i] = e.receipt
	}
	outcomes, err := c.h.Broker.Ack(c.once(), c.queue.ID, receipts)
	if err != nil {
		return err
	}
	return c.results(len(c.leases), func(b []byte, i int) []byte {
		return c.settled(b, c.leases[i].id, outcomes[i])
	})
}

// settled appends the result of an entry that has no more to say than that it went well.
func (c *call) settled(b []byte, id string, err error) []byte {
	if err != nil {
		return c.failed(b, id, err)
	}
	return append(text(append(b, '{'), "id", id), '}')
}

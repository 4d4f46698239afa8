package rest

import (
	"net/http"

	"github.com/leaselog/leaselog/internal/auth"
)

var deleteMessage = &operation{name: "delete-message", method: http.MethodDelete, path: messagesPath, action: auth.DeleteMessage, run: (*call).deleteMessage}

func (c *call) deleteMessage() error {
	receipt, err := c.param("receipt_handle")
	if err != nil {
		return err
	}
	if receipt == "" {
		return invalid("receipt_handle is missing in the query; send the one that the receive gave")
	}
	outcome, err := c.h.Broker.Ack(c.once(), c.queue.ID, []string{receipt})
	if err != nil {
		return err
	}
	if outcome[0] != nil {
		return outcome[0]
	}
	c.nothing()
	return nil
}

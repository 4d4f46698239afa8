package rest

import (
	"net/http"

	"github.com/leaselog/leaselog/internal/auth"
)

// deleteQueue looks the queue up itself: one that is gone since less than five minutes is deleted again with success,
// because clients repeat a DELETE whose answer was lost (section 9.10).
var deleteQueue = &operation{name: "delete-queue", method: http.MethodDelete, path: queuePath, access: byPath, action: auth.DeleteQueue,
	run: (*call).deleteQueue}

func (c *call) deleteQueue() error {
	ref, err := c.pathRef()
	if err != nil {
		return err
	}
	if err := c.h.Broker.Delete(c.once(), ref); err != nil {
		return err
	}
	c.nothing()
	return nil
}

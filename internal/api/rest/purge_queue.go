package rest

import (
	"net/http"

	"github.com/leaselog/leaselog/internal/auth"
)

var purgeQueue = &operation{name: "purge-queue", method: http.MethodPost, path: queuePath + "/purge", action: auth.PurgeQueue, run: (*call).purgeQueue}

// purgeQueue has no body to read; one that is sent is not looked at.
func (c *call) purgeQueue() error {
	n, err := c.h.Broker.Purge(c.once(), c.queue.ID)
	if err != nil {
		return err
	}
	c.out = append(number(append(c.out, '{'), "messages_deleted", n), '}')
	c.json(http.StatusOK)
	return nil
}

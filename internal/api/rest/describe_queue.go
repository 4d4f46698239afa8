package rest

import (
	"net/http"

	"github.com/leaselog/leaselog/internal/auth"
)

var describeQueue = &operation{name: "describe-queue", method: http.MethodGet, path: queuePath, action: auth.DescribeQueue, run: (*call).describeQueue}

func (c *call) describeQueue() error {
	q, err := c.h.Broker.Describe(c.context(), c.queue.ID)
	if err != nil {
		return err
	}
	c.answerQueue(http.StatusOK, q)
	return nil
}

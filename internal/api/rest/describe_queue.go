package rest

import "net/http"

var describeQueue = &operation{name: "describe-queue", method: http.MethodGet, path: queuePath, run: (*call).describeQueue}

func (c *call) describeQueue() error {
	q, err := c.h.Broker.Describe(c.context(), c.queue.ID)
	if err != nil {
		return err
	}
	c.answerQueue(http.StatusOK, q)
	return nil
}

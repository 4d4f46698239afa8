package rest

import (
	"net/http"

	"github.com/leaselog/leaselog/internal/auth"
	"github.com/leaselog/leaselog/internal/broker"
)

var sendMessageBatch = &operation{name: "send-message-batch", method: http.MethodPost, path: messagesPath + "/batch", action: auth.SendMessageBatch,
	run: (*call).sendMessageBatch}

func (c *call) sendMessageBatch() error {
	body, err := c.read()
	if err != nil {
		return err
	}
	if c.sends, err = batch(&c.scan, body, c.sends, &sendObject); err != nil {
		return err
	}
	sent, err := c.sendAll()
	if err != nil {
		return err
	}
	return c.results(len(c.sends), func(b []byte, i int) []byte {
		if err := c.sends[i].problem; err != nil {
			return c.failed(b, c.sends[i].id, err)
		}
		s := sent[0]
		if sent = sent[1:]; s.Err != nil {
			return c.failed(b, c.sends[i].id, s.Err)
		}
		b = append(text(append(b, '{'), "id", c.sends[i].id), ',')
		return append(sentFields(b, s), '}')
	})
}

// sendAll sends the entries without a problem, in their order; the outcomes are theirs alone.
func (c *call) sendAll() ([]broker.Sent, error) {
	messages := make([]broker.Outgoing, 0, len(c.sends))
	for i := range c.sends {
		out, err := c.sends[i].outgoing(c.queue)
		if err != nil {
			c.sends[i].problem = err
			continue
		}
		messages = append(messages, out)
	}
	if len(messages) == 0 {
		return nil, nil
	}
	return c.h.Broker.Send(c.once(), c.queue.ID, messages)
}

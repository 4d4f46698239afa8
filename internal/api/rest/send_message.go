package rest

import (
	"net/http"
	"strconv"

	"github.com/leaselog/leaselog/internal/auth"
	"github.com/leaselog/leaselog/internal/broker"
)

var sendMessage = &operation{name: "send-message", method: http.MethodPost, path: messagesPath, action: auth.SendMessage, run: (*call).sendMessage}

func (c *call) sendMessage() error {
	body, err := c.read()
	if err != nil {
		return err
	}
	c.sends = append(c.sends[:0], sendEntry{})
	e := &c.sends[0]
	if err := one(&c.scan, body, e, &sendObject); err != nil {
		return err
	}
	if err := e.complete(); err != nil {
		return err
	}
	out, err := e.outgoing(c.queue)
	if err != nil {
		return err
	}
	sent, err := c.h.Broker.Send(c.once(), c.queue.ID, []broker.Outgoing{out})
	if err != nil {
		return err
	}
	if sent[0].Err != nil {
		return sent[0].Err
	}
	c.out = append(sentFields(append(c.out, `{"result":{`...), sent[0]), `}}`...)
	c.json(http.StatusOK)
	return nil
}

// sentFields appends what is said of a message that was taken; duplicate always, also when it is false (section 4.5).
func sentFields(b []byte, s broker.Sent) []byte {
	b = uuid(b, "message_id", s.ID)
	return strconv.AppendBool(append(b, `,"duplicate":`...), s.Duplicate)
}

package rest

import (
	"net/http"

	"github.com/leaselog/leaselog/internal/auth"
	"github.com/leaselog/leaselog/internal/broker"
)

var changeMessageVisibility = &operation{name: "change-message-visibility", method: http.MethodPost,
	path: messagesPath + "/visibility", action: auth.ChangeMessageVisibility, run: (*call).changeMessageVisibility}

func (c *call) changeMessageVisibility() error {
	body, err := c.read()
	if err != nil {
		return err
	}
	c.extends = append(c.extends[:0], extendEntry{})
	e := &c.extends[0]
	if err := one(&c.scan, body, e, &extendObject); err != nil {
		return err
	}
	if err := e.complete(); err != nil {
		return err
	}
	if e.problem != nil {
		return e.problem
	}
	outcome, err := c.h.Broker.Extend(c.once(), c.queue.ID, []broker.Extend{{Receipt: e.receipt, Seconds: *e.visibility}})
	if err != nil {
		return err
	}
	if outcome[0] != nil {
		return outcome[0]
	}
	c.nothing()
	return nil
}

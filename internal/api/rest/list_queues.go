package rest

import (
	"net/http"

	"github.com/leaselog/leaselog/internal/broker"
	"github.com/leaselog/leaselog/internal/fault"
)

var listQueues = &operation{name: "list-queues", method: http.MethodGet, path: queuesPath, access: inAccount,
	run: (*call).listQueues}

func (c *call) listQueues() error {
	limit, err := c.limit(page{listDefault, listMax})
	if err != nil {
		return err
	}
	marker, err := c.param("marker")
	if err != nil {
		return err
	}
	list := "queues " + c.caller.Account
	after, err := c.h.unmark(list, marker)
	if err != nil {
		return err
	}
	queues, more, err := c.page(after, limit)
	if err != nil {
		return err
	}
	next := ""
	if more && len(queues) > 0 {
		next = c.h.mark(list, queues[len(queues)-1].Name)
	}
	c.answerQueues(queues, limit, next)
	return nil
}

// page gives the queues after a name, through the filters (section 5). Either filter names at most one queue.
func (c *call) page(after string, limit int) (queues []*broker.Queue, more bool, err error) {
	name, err := c.param("name")
	if err != nil {
		return nil, false, err
	}
	filter, err := c.param("crn")
	if err != nil {
		return nil, false, err
	}
	if name == "" && filter == "" {
		return c.h.Broker.List(c.context(), broker.ListQueues{Account: c.caller.Account, After: after, Limit: limit})
	}
	if filter != "" {
		of, ok := parseCRN(filter)
		if !ok || !c.h.here(of, c.caller.Account) || of.kind != kindQueue || name != "" && name != of.name {
			return nil, false, nil // never an error, whatever it names
		}
		name = of.name
	}
	if checkName(name) != nil || name <= after {
		return nil, false, nil
	}
	q, err := c.h.Broker.Find(c.context(), broker.Ref{Account: c.caller.Account, Name: name})
	if fault.Is(err, fault.NotFound) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	return []*broker.Queue{q}, false, nil
}

func (c *call) answerQueues(queues []*broker.Queue, limit int, next string) {
	b := append(c.out, `{"queues":[`...)
	for i, q := range queues {
		if i > 0 {
			b = append(b, ',')
		}
		shown := *q
		shown.Depth = nil // lists leave it out (section 4.4)
		b = c.h.appendQueue(b, &shown)
	}
	c.out = append(meta(append(b, ']'), limit, next), '}')
	c.json(http.StatusOK)
}

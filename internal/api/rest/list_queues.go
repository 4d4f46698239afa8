package rest

import (
	"net/http"

	"github.com/leaselog/leaselog/internal/auth"
	"github.com/leaselog/leaselog/internal/broker"
	"github.com/leaselog/leaselog/internal/fault"
)

var listQueues = &operation{name: "list-queues", method: http.MethodGet, path: queuesPath, access: inAccount, action: auth.ListQueues, shows: auth.DescribeQueue,
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
	c.answerQueues(queues, more, limit, list)
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
		return c.seen(after, limit)
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
	if !c.visible(q) {
		return nil, false, nil
	}
	return []*broker.Queue{q}, false, nil
}

// seen gives a page of what the caller may see. It looks on until the page is full and one more was seen, so that
// neither its length nor its marker tells of a queue that is not shown.
func (c *call) seen(after string, limit int) (seen []*broker.Queue, more bool, err error) {
	for {
		queues, more, err := c.h.Broker.List(c.context(), broker.ListQueues{Account: c.caller.Account, After: after, Limit: limit})
		if err != nil || !c.caller.Limited() {
			return queues, more, err
		}
		for _, q := range queues {
			after = q.Name
			if !c.visible(q) {
				continue
			}
			if len(seen) == limit {
				return seen, true, nil
			}
			seen = append(seen, q)
		}
		if !more {
			return seen, false, nil
		}
	}
}

func (c *call) answerQueues(queues []*broker.Queue, more bool, limit int, list string) {
	c.answerPage(pageOf{field: "queues", list: list, limit: limit, more: more, items: len(queues),
		name: func(i int) string { return queues[i].Name },
		item: func(b []byte, i int) []byte {
			shown := *queues[i]
			shown.Depth = nil // lists leave it out (section 4.4)
			return c.h.appendQueue(b, &shown)
		}})
}

// pageOf is a page of a list of queues, or of what is said of each.
type pageOf struct {
	field, list string
	limit       int
	more        bool // there are more than these
	items       int
	name        func(int) string             // the queue's
	item        func(b []byte, i int) []byte // writes one, or nothing
}

// answerPage writes a page. One that would be longer than a host can answer ends earlier: with a thousand queues the
// tags alone may take 80 MB.
func (c *call) answerPage(p pageOf) {
	b := append(append(append(c.out, `{"`...), p.field...), `":[`...)
	next, begin := "", len(b)
	for i := range p.items {
		before := len(b)
		if before > begin {
			b = append(b, ',')
		}
		comma := len(b)
		if b = p.item(b, i); len(b) == comma {
			b = b[:before]
		} else if before > begin && len(b) > answerBytesMax {
			b, p.more = b[:before], true
			break
		}
		next = p.name(i)
	}
	if p.more && next != "" {
		next = c.h.mark(p.list, next)
	} else {
		next = ""
	}
	c.out = append(meta(append(b, ']'), p.limit, next), '}')
	c.json(http.StatusOK)
}

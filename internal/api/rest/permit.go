package rest

import (
	"github.com/leaselog/leaselog/internal/auth"
	"github.com/leaselog/leaselog/internal/broker"
	"github.com/leaselog/leaselog/internal/fault"
)

// allowed finds the queue of an operation and asks whether the caller may do it there: what does not exist for the
// caller is not found, and only then is it asked what is permitted (section 2.3).
func (c *call) allowed() error {
	switch c.op.access {
	case inAccount:
		return c.allowedInAccount()
	case inQueue, byPath:
		return c.allowedInQueue()
	}
	return nil
}

// allowedInAccount refuses what the caller may do nowhere. Where it may, the operation finds out: creating needs the
// name, and a list shows what the caller may see.
func (c *call) allowedInAccount() error {
	if c.caller.Foreign {
		return fault.New(fault.Denied, "these credentials have no right in the account %q", shorten(c.caller.Account))
	}
	if c.caller.MaySomewhere(c.op.action) || c.op.shows != (auth.Action{}) && c.caller.MaySomewhere(c.op.shows) {
		return nil
	}
	return denied(c.op.action, "any queue")
}

func (c *call) allowedInQueue() error {
	ref, err := c.pathRef()
	if err != nil {
		return err
	}
	if c.op.access == byPath && !c.caller.Limited() {
		return nil // the operation looks it up
	}
	q, err := c.h.Broker.Find(c.context(), ref)
	if err == nil {
		c.queue = q
		return c.permit(c.op.action, q)
	}
	// A queue that was deleted by id a moment ago is deleted again with success, for which there is no name to ask
	// about any more. An id does not come back, so nothing can be deleted that way.
	if c.op.access == byPath && fault.Is(err, fault.NotFound) && ref.Name == "" && c.caller.MaySomewhere(c.op.action) {
		return nil
	}
	return err
}

// permit asks for an action on a queue that exists.
func (c *call) permit(a auth.Action, q *broker.Queue) error {
	return c.permitName(a, q.Account, q.Name)
}

// permitName builds no CRN for a caller who may do everything, as most may.
func (c *call) permitName(a auth.Action, account, name string) error {
	if !c.caller.Limited() {
		return nil
	}
	crn := c.h.queueCRN(account, name)
	if c.caller.May(a, crn) {
		return nil
	}
	return denied(a, crn)
}

func denied(a auth.Action, on string) error {
	return fault.New(fault.Denied, "the policies of this access key do not allow %s on %s", a, on)
}

// permitDeadLetter asks whether the caller may send to the queue that is to become a dead letter queue: messages will
// go there in the caller's name (section 2.3). A queue that does not exist is refused where the policy is written.
func (c *call) permitDeadLetter(d *broker.DeadLetter) error {
	if d == nil || !c.caller.Limited() {
		return nil
	}
	q, err := c.h.Broker.Find(c.context(), d.Queue)
	if fault.Is(err, fault.NotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	return c.permit(auth.SendMessage, q)
}

// visible says whether a list shows a queue: to whom may list it or ask for it alone.
func (c *call) visible(q *broker.Queue) bool {
	if !c.caller.Limited() {
		return true
	}
	crn := c.h.queueCRN(q.Account, q.Name)
	return c.caller.May(c.op.action, crn) || c.caller.May(c.op.shows, crn)
}

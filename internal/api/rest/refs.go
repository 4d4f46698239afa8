package rest

import (
	"strings"

	"github.com/leaselog/leaselog/events"
	"github.com/leaselog/leaselog/internal/broker"
	"github.com/leaselog/leaselog/internal/fault"
)

// ref reads a reference to a queue of an account by the platform's rule (section 1): crn: begins a CRN, the canonical
// form of a UUID is an id, anything else is a name. What is missed in one reading is not tried in another. It is not
// ok when no queue of the account can have that reference, which needs no look at the store.
func (h *handler) ref(account, s string) (r broker.Ref, ok bool) {
	r.Account = account
	if strings.HasPrefix(s, crnPrefix) {
		c, ok := parseCRN(s)
		r.Name = c.name
		return r, ok && h.here(c, account) && c.kind == kindQueue && checkName(c.name) == nil
	}
	if id, is := events.ParseUUID(s); is {
		r.ID = id
		return r, r.ID != events.QueueID{} // the zero id would be read as "by name"
	}
	r.Name = s
	return r, checkName(s) == nil
}

// pathRef is the reference in the path.
func (c *call) pathRef() (broker.Ref, error) {
	r, ok := c.h.ref(c.caller.Account, c.ref)
	if !ok || c.caller.Foreign {
		return r, fault.New(fault.NotFound, "there is no queue %q", shorten(c.ref))
	}
	return r, nil
}

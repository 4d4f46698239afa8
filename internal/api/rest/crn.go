package rest

import (
	"strings"

	"github.com/leaselog/leaselog/events"
)

// crnPrefix begins every reference that is a CRN (section 1).
const crnPrefix = "crn:"

// crn is a resource's name for the whole platform: crn:<service>:<region>:<account>:<kind>/<name>.
type crn struct {
	service, region, account, kind, name string
}

// parseCRN reads the form. A name may hold slashes, as a message's does.
func parseCRN(s string) (c crn, ok bool) {
	parts := strings.SplitN(s, ":", 5)
	if len(parts) != 5 || parts[0] != "crn" {
		return c, false
	}
	kind, name, ok := strings.Cut(parts[4], "/")
	return crn{parts[1], parts[2], parts[3], kind, name}, ok && parts[1] != "" && kind != "" && name != ""
}

func (c crn) String() string {
	return crnPrefix + c.service + ":" + c.region + ":" + c.account + ":" + c.kind + "/" + c.name
}

// The kinds of resources of this service. The form of a message's CRN is ours (section 1).
const (
	service     = "queue"
	kindQueue   = "queue"
	kindMessage = "message"
)

// queueCRN names a queue.
func (h *handler) queueCRN(account, name string) string {
	return crn{service, h.Region, account, kindQueue, name}.String()
}

// messageCRN names a message in a queue.
func (h *handler) messageCRN(account, queue string, id events.MessageID) string {
	return crn{service, h.Region, account, kindMessage, queue + "/" + id.String()}.String()
}

// here says whether a CRN is of this service and region and of an account.
func (h *handler) here(c crn, account string) bool {
	return c.service == service && c.region == h.Region && c.account == account
}

package rest

import (
	"encoding/hex"
	"net/http"
	"strings"

	"github.com/leaselog/leaselog/events"
	"github.com/leaselog/leaselog/internal/auth"
	"github.com/leaselog/leaselog/internal/broker"
)

var peekMessages = &operation{name: "peek-messages", method: http.MethodGet, path: messagesPath, action: auth.PeekMessages, run: (*call).peekMessages}

func (c *call) peekMessages() error {
	p, none, err := c.peek()
	if err != nil {
		return err
	}
	var shown broker.Page
	if !none {
		if shown, err = c.h.Broker.Peek(c.context(), p); err != nil {
			return err
		}
	}
	b := append(c.out, `{"messages":[`...)
	for i := range shown.Rows {
		if i > 0 {
			b = append(b, ',')
		}
		b = c.row(b, &shown.Rows[i])
	}
	marker := ""
	if shown.Next != "" {
		marker = c.h.mark(c.peekList(), shown.Next)
	}
	c.out = append(meta(append(b, ']'), p.Limit, marker), '}')
	c.json(http.StatusOK)
	return nil
}

// peekList names what a marker belongs to: this queue.
func (c *call) peekList() string { return "peek " + c.queue.ID.String() }

// peek reads the query. none is true when its crn names a message that cannot be in this queue: an empty page.
func (c *call) peek() (p broker.Peek, none bool, err error) {
	p = broker.Peek{Queue: c.queue.ID, BytesMax: answerBytesMax, Encoded: c.rowBytes}
	if p.Limit, err = c.limit(page{peekDefault, peekMax}); err != nil {
		return p, false, err
	}
	marker, err := c.param("marker")
	if err != nil {
		return p, false, err
	}
	if p.After, err = c.h.unmark(c.peekList(), marker); err != nil {
		return p, false, err
	}
	if p.Visibility, err = c.visibility(); err != nil {
		return p, false, err
	}
	p.ID, none, err = c.messageFilter()
	return p, none, err
}

func (c *call) visibility() (broker.Visibility, error) {
	s, err := c.param("visibility")
	switch v := broker.Visibility(s); v {
	case "", broker.Available, broker.InFlight, broker.Delayed:
		return v, err
	}
	return "", invalid("visibility must be available, in_flight or delayed, not %q", shorten(s))
}

// messageFilter reads crn. One of another place names no message here; one that is no CRN is an error.
func (c *call) messageFilter() (id events.MessageID, none bool, err error) {
	s, err := c.param("crn")
	if s == "" || err != nil {
		return id, false, err
	}
	name, ok := parseCRN(s)
	if !ok {
		return id, false, invalid("crn must be %s, not %q", c.h.messageCRN(c.queue.Account, c.queue.Name, id), shorten(s))
	}
	queue, message, _ := strings.Cut(name.name, "/")
	id, ok = events.ParseUUID(message)
	return id, !ok || !c.h.here(name, c.queue.Account) || name.kind != kindMessage || queue != c.queue.Name, nil
}

func (c *call) rowBytes(r *broker.Row) int {
	if r.Message == nil {
		return rowBytes
	}
	return messageBytes(r.Message, peekMax)
}

// row appends a Message (section 4.7). A message that cannot be opened now is shown without what is inside it.
func (c *call) row(b []byte, r *broker.Row) []byte {
	b = uuid(append(b, '{'), "id", r.ID)
	b = text(append(b, ','), "crn", c.h.messageCRN(c.queue.Account, c.queue.Name, r.ID))
	b = uuid(append(b, ','), "queue_id", c.queue.ID)
	if m := r.Message; m != nil {
		b = quoteBody(append(b, `,"body":`...), m.Body)
		b = attributes(b, m.Attributes)
		b = number(append(b, ','), "body_bytes", uint64(len(m.Body)))
		if m.Group != "" {
			b = text(append(b, ','), "message_group_id", m.Group)
		}
	}
	b = text(append(b, ','), "visibility", r.Visibility)
	b = number(append(b, ','), "receive_count", uint64(r.Receives))
	b = instant(append(b, ','), "enqueued_at", r.Enqueued)
	b = instant(append(b, ','), "visible_at", r.Visible)
	b = instant(append(b, ','), "expires_at", r.Expires)
	if r.FirstReceived == 0 {
		b = append(b, `,"first_received_at":null`...)
	} else {
		b = instant(append(b, ','), "first_received_at", r.FirstReceived)
	}
	if r.Origin != nil {
		b = appendOrigin(b, r.Origin)
	}
	return append(b, '}')
}

// appendOrigin writes where a moved message came from, which is ours.
func appendOrigin(b []byte, o *events.Origin) []byte {
	b = uuid(append(b, `,"moved_from":{`...), "queue_id", o.Queue)
	b = text(append(b, ','), "reason", moveReason(o.Reason))
	b = number(append(b, ','), "receive_count", uint64(o.Receives))
	if o.Lease != (events.LeaseID{}) {
		b = text(append(b, ','), "lease_id", hex.EncodeToString(o.Lease[:]))
	}
	return append(b, '}')
}

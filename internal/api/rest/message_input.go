package rest

import (
	"github.com/leaselog/leaselog/events"
	"github.com/leaselog/leaselog/internal/broker"
)

// sendEntry is a message as it is sent, alone or in a batch (section 4.5).
type sendEntry struct {
	id        string // in a batch
	message   events.Message
	delay     *uint32
	attribute attributeInput // the one being read
	// problem is what is wrong with this entry alone. Wrong types and missing fields are errors of the request.
	problem error
}

// attributeInput is {type, value}.
type attributeInput struct {
	kind  string
	value []byte
}

var sendObject = object[sendEntry]{fields: map[string]func(*scan, *sendEntry) error{
	"id":   func(s *scan, e *sendEntry) error { return s.text("id", &e.id) },
	"body": func(s *scan, e *sendEntry) error { return s.bytes("body", &e.message.Body) },
	"delay_seconds": func(s *scan, e *sendEntry) error {
		return s.whole(delaySpan, &e.delay, &e.problem)
	},
	"message_group_id": func(s *scan, e *sendEntry) error {
		return e.identifier(s, "message_group_id", &e.message.Group)
	},
	"message_deduplication_id": func(s *scan, e *sendEntry) error {
		return e.identifier(s, "message_deduplication_id", &e.message.Dedup)
	},
	"attributes": func(s *scan, e *sendEntry) error { return e.attributes(s) },
}}

var attributeObject = object[attributeInput]{fields: map[string]func(*scan, *attributeInput) error{
	"type":  func(s *scan, a *attributeInput) error { return s.text("type", &a.kind) },
	"value": func(s *scan, a *attributeInput) error { return s.bytes("value", &a.value) },
}}

func (e *sendEntry) entryID() string { return e.id }

// complete says what an entry lacks.
func (e *sendEntry) complete() error {
	if e.message.Body == nil {
		return invalid("body is missing; send a string, which may be empty")
	}
	return nil
}

func (e *sendEntry) identifier(s *scan, what string, into *string) error {
	if err := s.text(what, into); err != nil {
		return err
	}
	if err := checkID(what, *into); err != nil {
		first(&e.problem, err)
	}
	return nil
}

// attributes reads a map from names to {type, value}.
func (e *sendEntry) attributes(s *scan) error {
	if err := s.enter('{', "attributes"); err != nil {
		return err
	}
	for s.dec.PeekKind() != '}' {
		raw, err := s.member()
		if err != nil {
			return err
		}
		name := string(raw)
		e.attribute = attributeInput{}
		if err := members(s, "an attribute", &e.attribute, &attributeObject); err != nil {
			return within("attribute "+shorten(name), err)
		}
		if err := e.add(name); err != nil {
			return err
		}
	}
	return s.leave()
}

// add checks the attribute that was read and adds it. Its type word is one of three, so no memory is spent on it.
func (e *sendEntry) add(name string) error {
	a := events.Attribute{Name: name, Value: e.attribute.value}
	if e.attribute.kind == "" || a.Value == nil {
		return invalid("attribute %q must have a type and a value", shorten(name))
	}
	switch e.attribute.kind {
	case "String":
		a.Type = "String"
	case "Binary":
		a.Type = "Binary"
	case "Number":
		a.Type = "Number"
		if !decimal(string(a.Value)) {
			first(&e.problem, invalid("attribute %q has type Number, so its value must be a decimal number such as \"12.5\"", shorten(name)))
		}
	default:
		first(&e.problem, invalid("attribute %q must have type String, Number or Binary, not %q", shorten(name), shorten(e.attribute.kind)))
	}
	if err := checkText("an attribute's name", name, 1, attributeNameMax); err != nil {
		first(&e.problem, err)
	}
	e.message.Attributes = append(e.message.Attributes, a)
	return nil
}

// outgoing holds the message to the queue's kind (sections 4.5 and 9.4). Its size is the broker's business, since the
// limit in force is known only where the message is written.
func (e *sendEntry) outgoing(q *broker.Queue) (broker.Outgoing, error) {
	if e.problem != nil {
		return broker.Outgoing{}, e.problem
	}
	fifo := q.Settings.Fifo
	var err error
	switch {
	case fifo && e.message.Group == "":
		err = invalid("message_group_id is missing; a FIFO queue needs one of 1 to %d characters", groupMax)
	case fifo && e.message.Dedup == "" && !q.Settings.ContentDedup:
		err = invalid("message_deduplication_id is missing; this FIFO queue does not derive it from the body")
	case fifo && e.delay != nil && *e.delay > 0:
		err = invalid("delay_seconds must be 0 or absent on a FIFO queue, not %d", *e.delay)
	case !fifo && e.message.Group != "":
		err = invalid("message_group_id is for FIFO queues only; leave it out")
	case !fifo && e.message.Dedup != "":
		err = invalid("message_deduplication_id is for FIFO queues only; leave it out")
	}
	return broker.Outgoing{Message: e.message, DelaySeconds: e.delay}, err
}

package rest

import (
	"maps"

	"github.com/leaselog/leaselog/internal/broker"
)

// queueInput is what a create or an update says of a queue, in either dialect (sections 3, 4.1 and 4.2). nil is absent.
type queueInput struct {
	name, kind                                        *string
	lease, retention, maxBytes, delay, wait, keyReuse *uint32
	contentDedup                                      *bool
	tags                                              map[string]string

	redrive      *redriveInput
	redriveNull  bool // redrive_policy is there and null
	clearRedrive *bool

	kmsKey, kmsKeyID *string
	kmsNull          bool // kms_key is there and null
	clearKey         *bool

	problem error // the first number out of its range
}

// redriveInput is section 4.3.
type redriveInput struct {
	queue, queueID *string
	receives       *uint32
	problem        error
}

type queueFields = map[string]func(*scan, *queueInput) error

// sharedFields are those of a create and of an update.
var sharedFields = queueFields{
	"visibility_timeout_seconds":        func(s *scan, in *queueInput) error { return s.whole(visibilitySpan, &in.lease, &in.problem) },
	"message_retention_seconds":         func(s *scan, in *queueInput) error { return s.whole(retentionSpan, &in.retention, &in.problem) },
	"max_message_bytes":                 func(s *scan, in *queueInput) error { return s.whole(maxBytesSpan, &in.maxBytes, &in.problem) },
	"delay_seconds":                     func(s *scan, in *queueInput) error { return s.whole(delaySpan, &in.delay, &in.problem) },
	"receive_wait_time_seconds":         func(s *scan, in *queueInput) error { return s.whole(waitSpan, &in.wait, &in.problem) },
	"kms_data_key_reuse_period_seconds": func(s *scan, in *queueInput) error { return s.whole(keyReuseSpan, &in.keyReuse, &in.problem) },
	"name":                              func(s *scan, in *queueInput) error { return s.optional("name", &in.name) },
	"content_based_deduplication": func(s *scan, in *queueInput) error {
		return s.flag("content_based_deduplication", &in.contentDedup)
	},
	"kms_key":        func(s *scan, in *queueInput) error { return s.optional("kms_key", &in.kmsKey) },
	"kms_key_id":     func(s *scan, in *queueInput) error { return s.optional("kms_key_id", &in.kmsKeyID) },
	"redrive_policy": func(s *scan, in *queueInput) error { return in.readRedrive(s) },
	"tags":           func(s *scan, in *queueInput) error { return in.readTags(s) },
}

// createObject does not know kind: the name alone decides it (section 4.1).
var createObject = object[queueInput]{fields: sharedFields}

var updateObject = object[queueInput]{
	fields: both(sharedFields, queueFields{
		"kind": func(s *scan, in *queueInput) error { return s.optional("kind", &in.kind) },
		"clear_redrive_policy": func(s *scan, in *queueInput) error {
			return s.flag("clear_redrive_policy", &in.clearRedrive)
		},
		"clear_kms_key": func(s *scan, in *queueInput) error { return s.flag("clear_kms_key", &in.clearKey) },
	}),
	// Here a null removes (section 3).
	nulls: map[string]func(*queueInput){
		"redrive_policy": func(in *queueInput) { in.redriveNull = true },
		"kms_key":        func(in *queueInput) { in.kmsNull = true },
	},
}

func both(a, b queueFields) queueFields {
	all := maps.Clone(a)
	maps.Copy(all, b)
	return all
}

var redriveObject = object[redriveInput]{fields: map[string]func(*scan, *redriveInput) error{
	"dead_letter_queue":    func(s *scan, in *redriveInput) error { return s.optional("dead_letter_queue", &in.queue) },
	"dead_letter_queue_id": func(s *scan, in *redriveInput) error { return s.optional("dead_letter_queue_id", &in.queueID) },
	"max_receive_count":    func(s *scan, in *redriveInput) error { return s.whole(receivesSpan, &in.receives, &in.problem) },
}}

// optional reads a string of which it matters whether it was there.
func (s *scan) optional(what string, into **string) error {
	var t string
	err := s.text(what, &t)
	*into = &t
	return err
}

func (in *queueInput) readRedrive(s *scan) error {
	in.redrive = new(redriveInput)
	if err := members(s, "redrive_policy", in.redrive, &redriveObject); err != nil {
		return err
	}
	first(&in.problem, in.redrive.problem)
	if in.redrive.receives == nil && in.redrive.problem == nil {
		first(&in.problem, invalid("redrive_policy.max_receive_count is missing; send %s", receivesSpan))
	}
	return nil
}

// readTags reads the whole map, which an empty one empties.
func (in *queueInput) readTags(s *scan) error {
	if err := s.enter('{', "tags"); err != nil {
		return err
	}
	in.tags = map[string]string{}
	for s.dec.PeekKind() != '}' {
		raw, err := s.member()
		if err != nil {
			return err
		}
		key, value := string(raw), ""
		if err := s.text("the tag "+shorten(key), &value); err != nil {
			return err
		}
		if err := checkText("a tag's key", key, 1, tagKeyMax); err != nil {
			first(&in.problem, err)
		}
		if err := checkText("the value of the tag "+shorten(key), value, 0, tagValueMax); err != nil {
			first(&in.problem, err)
		}
		in.tags[key] = value
	}
	if len(in.tags) > tagsMax {
		first(&in.problem, invalid("tags must be at most %d, not %d", tagsMax, len(in.tags)))
	}
	return s.leave()
}

// suits holds the input to the queue's kind.
func (in *queueInput) suits(fifo bool) error {
	if fifo && in.delay != nil && *in.delay > 0 {
		return invalid("delay_seconds must be 0 or absent on a FIFO queue, not %d", *in.delay)
	}
	return nil
}

// deadLetter resolves the policy's queue for a queue of an account. That it exists and is of the same kind is judged
// where the policy is written.
func (c *call) deadLetter(in *redriveInput, self broker.Ref) (*broker.DeadLetter, error) {
	target, err := c.deadLetterRef(in)
	if err != nil {
		return nil, err
	}
	if target.Name != "" && target.Name == self.Name || target.Name == "" && target.ID == self.ID {
		return nil, invalid("a queue cannot be its own dead letter queue")
	}
	return &broker.DeadLetter{Queue: target, Receives: *in.receives}, nil
}

// deadLetterRef reads either dialect's field, or both when they name the same queue.
func (c *call) deadLetterRef(in *redriveInput) (byRef broker.Ref, err error) {
	if in.queue == nil && in.queueID == nil {
		return byRef, invalid("redrive_policy.dead_letter_queue is missing; name a queue by id, CRN or name")
	}
	var byID broker.Ref
	if in.queueID != nil {
		var ok bool
		if byID, ok = c.h.ref(c.caller.Account, *in.queueID); !ok || byID.Name != "" {
			return byID, invalid("redrive_policy.dead_letter_queue_id must be a UUID, not %q", shorten(*in.queueID))
		}
	}
	if in.queue == nil {
		return byID, nil
	}
	byRef, ok := c.h.ref(c.caller.Account, *in.queue)
	if !ok {
		return byRef, invalid("redrive_policy.dead_letter_queue must be the id, CRN or name of a queue in this account and in region %s, not %q",
			c.h.Region, shorten(*in.queue))
	}
	if in.queueID == nil {
		return byRef, nil
	}
	return byRef, c.same(byRef, byID)
}

// same looks a queue up to see whether a reference means an id.
func (c *call) same(ref, id broker.Ref) error {
	if ref.Name == "" && ref.ID == id.ID {
		return nil
	}
	q, err := c.h.Broker.Find(c.context(), ref)
	if err != nil || q.ID != id.ID {
		return invalid("dead_letter_queue and dead_letter_queue_id must name the same queue; send one of them")
	}
	return nil
}

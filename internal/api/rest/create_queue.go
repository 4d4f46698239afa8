package rest

import (
	"net/http"

	"github.com/leaselog/leaselog/events"
	"github.com/leaselog/leaselog/internal/auth"
	"github.com/leaselog/leaselog/internal/broker"
)

var createQueue = &operation{name: "create-queue", method: http.MethodPost, path: queuesPath, access: inAccount, action: auth.CreateQueue,
	run: (*call).createQueue}

func (c *call) createQueue() error {
	body, err := c.read()
	if err != nil {
		return err
	}
	var in queueInput
	if err := one(&c.scan, body, &in, &createObject); err != nil {
		return err
	}
	wanted, err := c.wanted(&in)
	if err != nil {
		return err
	}
	q, err := c.h.Broker.Create(c.once(), wanted)
	if err != nil {
		return err
	}
	c.answerQueue(http.StatusCreated, withDepth(q))
	return nil
}

// withDepth shows a new queue as empty where the broker did not count.
func withDepth(q *broker.Queue) *broker.Queue {
	if q.Depth != nil {
		return q
	}
	counted := *q
	counted.Depth = new(broker.Depth)
	return &counted
}

// wanted checks the input and gives the queue that it asks for.
func (c *call) wanted(in *queueInput) (w broker.CreateQueue, err error) {
	if in.name == nil {
		return w, invalid("name is missing; a queue needs one")
	}
	if err := checkName(*in.name); err != nil {
		return w, err
	}
	if err := c.permitName(auth.CreateQueue, c.caller.Account, *in.name); err != nil {
		return w, err
	}
	if in.problem != nil {
		return w, in.problem
	}
	fifo := isFifo(*in.name)
	if err := in.suits(fifo); err != nil {
		return w, err
	}
	if in.contentDedup != nil && *in.contentDedup && !fifo {
		return w, invalid("content_based_deduplication is for FIFO queues, whose names end in %s", fifoSuffix)
	}
	key, err := c.wrappingKey(in)
	if err != nil {
		return w, err
	}
	w = broker.CreateQueue{Account: c.caller.Account, Name: *in.name, Settings: in.settings(fifo), Tags: in.tags}
	if key != nil {
		w.Key = *key
	}
	if in.redrive != nil {
		w.DeadLetter, err = c.deadLetter(in.redrive, broker.Ref{Name: *in.name})
	}
	if err != nil {
		return w, err
	}
	return w, c.permitDeadLetter(w.DeadLetter)
}

// settings fills in the defaults of section 4.1. A FIFO queue hands out one message of a group at a time and
// remembers ids over all its groups (sections 9.3 and 9.4).
func (in *queueInput) settings(fifo bool) events.Settings {
	s := events.Settings{
		Fifo:             fifo,
		LeaseSeconds:     or(in.lease, visibilityDefault),
		RetentionSeconds: or(in.retention, retentionDefault),
		MaxBytes:         or(in.maxBytes, maxBytesDefault),
		DelaySeconds:     or(in.delay, 0),
		WaitSeconds:      or(in.wait, 0),
		KeyReuseSeconds:  or(in.keyReuse, keyReuseDefault),
	}
	if fifo {
		s.Delivery, s.DedupScope, s.DedupSeconds = events.OnePerGroup, events.DedupQueue, dedupSeconds
		s.ContentDedup = in.contentDedup != nil && *in.contentDedup
	}
	return s
}

func or(value *uint32, otherwise uint32) uint32 {
	if value == nil {
		return otherwise
	}
	return *value
}

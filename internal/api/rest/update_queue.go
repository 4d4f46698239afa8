package rest

import (
	"net/http"

	"github.com/leaselog/leaselog/internal/auth"
	"github.com/leaselog/leaselog/internal/broker"
)

var updateQueue = &operation{name: "update-queue", method: http.MethodPatch, path: queuePath, action: auth.UpdateQueue, run: (*call).updateQueue}

func (c *call) updateQueue() error {
	body, err := c.read()
	if err != nil {
		return err
	}
	var in queueInput
	if err := one(&c.scan, body, &in, &updateObject); err != nil {
		return err
	}
	change, err := c.change(&in)
	if err != nil {
		return err
	}
	q, err := c.h.Broker.Update(c.once(), change)
	if err != nil {
		return err
	}
	c.answerQueue(http.StatusOK, q)
	return nil
}

// change checks the input against the queue and gives what is to be changed. Whether it changes anything is the
// broker's to find.
func (c *call) change(in *queueInput) (u broker.UpdateQueue, err error) {
	if in.problem != nil {
		return u, in.problem
	}
	if err := c.immutable(in); err != nil {
		return u, err
	}
	if err := in.suits(c.queue.Settings.Fifo); err != nil {
		return u, err
	}
	key, err := c.wrappingKey(in)
	if err != nil {
		return u, err
	}
	u = broker.UpdateQueue{
		Queue: c.queue.ID, LeaseSeconds: in.lease, RetentionSeconds: in.retention, MaxBytes: in.maxBytes,
		DelaySeconds: in.delay, WaitSeconds: in.wait, KeyReuseSeconds: in.keyReuse, Key: key,
	}
	if in.tags != nil {
		u.Tags = &in.tags
	}
	if u.RemoveDeadLetter, err = in.removesRedrive(); err == nil && in.redrive != nil {
		u.DeadLetter, err = c.deadLetter(in.redrive, broker.Ref{ID: c.queue.ID, Name: c.queue.Name})
	}
	if err != nil {
		return u, err
	}
	return u, c.permitDeadLetter(u.DeadLetter)
}

// immutable refuses what cannot be changed; the value that it has already is no change (section 4.2).
func (c *call) immutable(in *queueInput) error {
	q := c.queue
	switch {
	case in.name != nil && *in.name != q.Name:
		return invalid("name cannot be changed; it is %q", q.Name)
	case in.kind != nil && *in.kind != kind(q):
		return invalid("kind cannot be changed; it is %q", kind(q))
	case in.contentDedup != nil && *in.contentDedup != q.Settings.ContentDedup:
		return invalid("content_based_deduplication cannot be changed; it is %t", q.Settings.ContentDedup)
	}
	return nil
}

// removesRedrive tells the two dialects apart (section 3): a body that holds clear_redrive_policy is read by the
// documents' rule, where a null policy is an absent one; otherwise null removes, as the SDKs have it.
func (in *queueInput) removesRedrive() (bool, error) {
	if in.clearRedrive == nil {
		return in.redriveNull, nil
	}
	if *in.clearRedrive && in.redrive != nil {
		return false, invalid("clear_redrive_policy must not be true beside a redrive_policy")
	}
	return *in.clearRedrive, nil
}

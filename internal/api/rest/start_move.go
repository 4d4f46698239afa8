package rest

import (
	"net/http"

	"github.com/leaselog/leaselog/events"
	"github.com/leaselog/leaselog/internal/auth"
	"github.com/leaselog/leaselog/internal/broker"
)

var startMove = &operation{name: "start-move", method: http.MethodPost, path: movesPath, action: auth.StartMove, run: (*call).startMove}

// startMove has no field that must be there: without any, everything goes back to where it came from.
func (c *call) startMove() error {
	body, err := c.read()
	if err != nil {
		return err
	}
	var in moveInput
	if !empty(body) {
		if err := one(&c.scan, body, &in, &moveObject); err != nil {
			return err
		}
	}
	s, err := c.moveAsked(&in)
	if err != nil {
		return err
	}
	if in.dryRun != nil && *in.dryRun {
		m, err := c.h.Broker.PreviewMove(c.context(), s)
		if err != nil {
			return err
		}
		c.out = append(appendCounts(append(c.out, `{"preview":{`...), m), "}}"...)
		c.json(http.StatusOK)
		return nil
	}
	m, err := c.h.Broker.StartMove(c.once(), s)
	if err != nil {
		return err
	}
	c.answerMove(http.StatusCreated, m)
	return nil
}

// moveInput is what is asked for. nil is absent.
type moveInput struct {
	target, source, group, body *string
	rate, age                   *uint32
	attributes                  []broker.Match
	dryRun                      *bool
	problem                     error
}

var moveObject = object[moveInput]{fields: map[string]func(*scan, *moveInput) error{
	"target":             func(s *scan, in *moveInput) error { return s.optional("target", &in.target) },
	"rate_per_second":    func(s *scan, in *moveInput) error { return s.whole(rateSpan, &in.rate, &in.problem) },
	"older_than_seconds": func(s *scan, in *moveInput) error { return s.whole(ageSpan, &in.age, &in.problem) },
	"source":             func(s *scan, in *moveInput) error { return s.optional("source", &in.source) },
	"message_group_id":   func(s *scan, in *moveInput) error { return s.optional("message_group_id", &in.group) },
	"attributes":         func(s *scan, in *moveInput) error { return in.readAttributes(s) },
	"body_matches":       func(s *scan, in *moveInput) error { return s.optional("body_matches", &in.body) },
	"dry_run":            func(s *scan, in *moveInput) error { return s.flag("dry_run", &in.dryRun) },
}}

// readAttributes reads the values that attributes must have, by name.
func (in *moveInput) readAttributes(s *scan) error {
	if err := s.enter('{', "attributes"); err != nil {
		return err
	}
	for s.dec.PeekKind() != '}' {
		raw, err := s.member()
		if err != nil {
			return err
		}
		m := broker.Match{Name: string(raw)}
		if err := s.text("the attribute "+shorten(m.Name), &m.Value); err != nil {
			return err
		}
		in.attributes = append(in.attributes, m)
	}
	if len(in.attributes) > broker.AttributesMax {
		first(&in.problem, invalid("attributes must be at most %d, not %d", broker.AttributesMax, len(in.attributes)))
	}
	return s.leave()
}

// moveAsked checks the input. A caller that may start the move must also be allowed to send to where messages go.
func (c *call) moveAsked(in *moveInput) (s broker.StartMove, err error) {
	if in.problem != nil {
		return s, in.problem
	}
	s = broker.StartMove{Queue: c.queue.ID, Rate: orZero(in.rate), Filter: broker.MoveFilter{OlderThanSeconds: orZero(in.age), Group: orZero(in.group),
		Attributes: in.attributes, Body: orZero(in.body)}}
	if err := checkText("body_matches", s.Filter.Body, 0, broker.BodyPatternMax); err != nil {
		return s, err
	}
	if err := checkText("message_group_id", s.Filter.Group, 0, groupMax); err != nil {
		return s, err
	}
	if in.source != nil {
		if s.Filter.Source, err = c.sourceAsked(*in.source); err != nil {
			return s, err
		}
	}
	if in.target != nil {
		target, ok := c.h.ref(c.caller.Account, *in.target)
		if !ok {
			return s, invalid("target must be the id, CRN or name of a queue in this account and in region %s, not %q", c.h.Region, shorten(*in.target))
		}
		s.Target = &target
	}
	return s, c.permitTargets(s.Target)
}

// sourceAsked gives the id of the queue that messages came from, which may be gone if it is named by its id.
func (c *call) sourceAsked(text string) (id events.QueueID, err error) {
	ref, ok := c.h.ref(c.caller.Account, text)
	if ok && ref.Name == "" {
		return ref.ID, nil
	}
	if ok {
		q, err := c.h.Broker.Find(c.context(), ref)
		if err == nil {
			return q.ID, nil
		}
	}
	return id, invalid("source must be the id, CRN or name of a queue in this account, or the id of one that is gone, not %q", shorten(text))
}

// permitTargets asks whether the caller may send to the target, or to every queue whose dead letter queue this is: as
// with a redrive policy, messages go there in the caller's name.
func (c *call) permitTargets(target *broker.Ref) error {
	if target != nil {
		return c.permitDeadLetter(&broker.DeadLetter{Queue: *target})
	}
	if !c.caller.Limited() {
		return nil
	}
	q, err := c.h.Broker.Describe(c.context(), c.queue.ID) // as it is found, it may not know its latest sources
	if err != nil {
		return err
	}
	for _, id := range q.Sources {
		if err := c.permitDeadLetter(&broker.DeadLetter{Queue: broker.Ref{Account: c.queue.Account, ID: id}}); err != nil {
			return err
		}
	}
	return nil
}

// orZero gives what is there, or the zero value.
func orZero[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}

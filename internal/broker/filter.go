package broker

import (
	"bytes"
	"context"
	"regexp"
	"slices"

	"github.com/leaselog/leaselog/events"
	"github.com/leaselog/leaselog/internal/envelope"
	"github.com/leaselog/leaselog/internal/fault"
)

// MoveFilter says which messages a move task takes: those to which everything that is set applies.
type MoveFilter struct {
	// OlderThanSeconds is the age, counted from the first enqueueing to the start of the task, that a message has at least.
	OlderThanSeconds uint32 `cbor:"-"`
	// Before is set from it.
	Before     events.Instant `cbor:"1,keyasint,omitempty"`
	Source     events.QueueID `cbor:"2,keyasint,omitzero"` // the queue it was moved here from
	Group      string         `cbor:"3,keyasint,omitempty"`
	Attributes []Match        `cbor:"4,keyasint,omitempty"`
	Body       string         `cbor:"5,keyasint,omitempty"` // a regular expression (RE2) that matches somewhere in the body
}

// Match names an attribute and the value that it must have.
type Match struct {
	Name  string `cbor:"1,keyasint"`
	Value string `cbor:"2,keyasint"`
}

// BodyPatternMax and AttributesMax bound a filter, which is kept beside the task.
const (
	BodyPatternMax = 1_000
	AttributesMax  = 10
)

// filter is a MoveFilter that is ready.
type filter struct {
	MoveFilter
	body *regexp.Regexp
}

func (f MoveFilter) compile() (c filter, err error) {
	c.MoveFilter = f
	if f.Body == "" {
		return c, nil
	}
	if c.body, err = regexp.Compile(f.Body); err != nil {
		return c, fault.New(fault.Invalid, "the expression for the body is not one of RE2: %v", err)
	}
	return c, nil
}

// matches says whether the i-th message of a block passes.
func (f *filter) matches(h *events.Header, i int, m *events.Message) bool {
	origin := h.Origin(i)
	switch {
	case f.Before != 0 && h.Enqueued(i) > f.Before:
		return false
	case f.Source != events.QueueID{} && (origin == nil || origin.Queue != f.Source):
		return false
	case f.Group != "" && m.Group != f.Group:
		return false
	case f.body != nil && !f.body.Match(m.Body):
		return false
	}
	return !slices.ContainsFunc(f.Attributes, func(want Match) bool {
		return !slices.ContainsFunc(m.Attributes, func(a events.Attribute) bool {
			return a.Name == want.Name && bytes.Equal(a.Value, []byte(want.Value))
		})
	})
}

// sealFilter keeps a filter as messages are kept: it may name a group, or what stands in a body.
func (h *handle) sealFilter(ctx context.Context, t *task, f MoveFilter) (err error) {
	t.Key = h.keys.Current()
	t.Filter, err = h.keys.Seal(ctx, h.broker.Now(), h.record.Load().Settings.KeyReuseSeconds, t.place(), t.Key, nil, events.EncodeRecord(f))
	return err
}

// openFilter gives the filter of a task. Faults: KeyLost.
func (h *handle) openFilter(ctx context.Context, t *task) (f filter, err error) {
	plain, err := h.keys.Open(ctx, h.broker.Now(), h.record.Load().Settings.KeyReuseSeconds, t.place(), t.Key, nil, t.Filter)
	if err != nil {
		return f, err
	}
	var kept MoveFilter
	if err := events.DecodeRecord(plain, &kept); err != nil {
		return f, err
	}
	return kept.compile()
}

func (t *task) place() envelope.Place { return envelope.Place{Stream: t.key()} }

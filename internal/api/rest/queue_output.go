package rest

import (
	"maps"
	"slices"
	"strconv"

	"github.com/leaselog/leaselog/events"
	"github.com/leaselog/leaselog/internal/broker"
)

// answerQueue answers one queue in its envelope.
func (c *call) answerQueue(status int, q *broker.Queue) {
	b := append(c.out, `{"queue":`...)
	c.out = append(c.h.appendQueue(b, q), '}')
	c.json(status)
}

// appendQueue writes a Queue (section 4.4). kms_key and kms_key_id are there on a customer's key only.
func (h *handler) appendQueue(b []byte, q *broker.Queue) []byte {
	b = uuid(append(b, '{'), "id", q.ID)
	b = text(append(b, ','), "crn", h.queueCRN(q.Account, q.Name))
	b = text(append(b, ','), "name", q.Name)
	b = text(append(b, ','), "kind", kind(q))
	b = appendSettings(append(b, ','), &q.Settings)
	if q.Settings.DeadLetter != nil {
		b = h.appendRedrive(append(b, ','), q)
	}
	if q.Settings.Fifo {
		b = append(b, `,"content_based_deduplication":`...)
		b = strconv.AppendBool(b, q.Settings.ContentDedup)
	}
	if q.Key.ID != "" {
		b = h.appendKey(append(b, ','), q)
	}
	b = appendTags(b, q.Tags)
	if q.Depth != nil {
		b = appendDepth(append(b, ','), q.Depth)
	}
	b = instant(append(b, ','), "created_at", q.Created)
	return append(instant(append(b, ','), "updated_at", q.Updated), '}')
}

func kind(q *broker.Queue) string {
	if q.Settings.Fifo {
		return "fifo"
	}
	return "standard"
}

// appendSettings writes all six, always.
func appendSettings(b []byte, s *events.Settings) []byte {
	b = number(append(b, `"attributes":{`...), visibilitySpan.name, uint64(s.LeaseSeconds))
	b = number(append(b, ','), retentionSpan.name, uint64(s.RetentionSeconds))
	b = number(append(b, ','), maxBytesSpan.name, uint64(s.MaxBytes))
	b = number(append(b, ','), delaySpan.name, uint64(s.DelaySeconds))
	b = number(append(b, ','), waitSpan.name, uint64(s.WaitSeconds))
	return append(number(append(b, ','), keyReuseSpan.name, uint64(s.KeyReuseSeconds)), '}')
}

// appendRedrive writes the policy with both dialects' words. The target of a policy may be gone: then it has no name,
// and its id stands in the CRN, which is shown but leads nowhere.
func (h *handler) appendRedrive(b []byte, q *broker.Queue) []byte {
	policy := q.Settings.DeadLetter
	name := q.DeadLetterName
	if name == "" {
		name = policy.Queue.String()
	}
	b = uuid(append(b, `"redrive_policy":{"dead_letter_queue":{`...), "id", policy.Queue)
	b = text(append(b, ','), "crn", h.queueCRN(q.Account, name))
	if q.DeadLetterName != "" {
		b = text(append(b, ','), "name", q.DeadLetterName)
	}
	b = uuid(append(b, `},`...), "dead_letter_queue_id", policy.Queue)
	return append(number(append(b, ','), receivesSpan.name, uint64(policy.Receives)), '}')
}

// appendTags writes the tags by their keys' order, so that equal queues have equal answers; none is no field.
func appendTags(b []byte, tags map[string]string) []byte {
	if len(tags) == 0 {
		return b
	}
	b = append(b, `,"tags":{`...)
	for i, key := range slices.Sorted(maps.Keys(tags)) {
		if i > 0 {
			b = append(b, ',')
		}
		b = quote(append(quote(b, key), ':'), tags[key])
	}
	return append(b, '}')
}

// appendDepth writes the counts, which are exact up to where each stops, and, which is ours, for what they are true.
func appendDepth(b []byte, d *broker.Depth) []byte {
	b = number(append(b, `"depth":{`...), "approximate_available", min(d.Available, depthMax))
	b = number(append(b, ','), "approximate_in_flight", min(d.InFlight, depthMax))
	b = number(append(b, ','), "approximate_delayed", min(d.Delayed, depthMax))
	b = append(b, `,"counts_capped":`...)
	b = strconv.AppendBool(b, max(d.Available, d.InFlight, d.Delayed) > depthMax)
	if len(d.Shards) > 0 { // not in an answer that is repeated
		b = appendPlaces(append(b, ','), d)
	}
	return append(b, '}')
}

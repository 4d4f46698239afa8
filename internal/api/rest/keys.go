package rest

import (
	"strings"

	"github.com/leaselog/leaselog/events"
	"github.com/leaselog/leaselog/internal/broker"
)

const (
	serviceKeys = "kms"
	kindKey     = "key"
	// keyNameMax is the longest alias of a KMS key.
	keyNameMax = 256
)

// wrappingKey gives the reference to the customer's key that was asked for, in either dialect (section 3): empty for the
// platform's key, nil where nothing was said.
func (c *call) wrappingKey(in *queueInput) (*string, error) {
	clear, named := in.clearKey != nil && *in.clearKey, in.kmsKey != nil || in.kmsKeyID != nil
	switch {
	case clear && named:
		return nil, invalid("clear_kms_key must not be true beside kms_key or kms_key_id")
	case in.kmsNull && in.kmsKeyID != nil:
		return nil, invalid("kms_key must not be null beside kms_key_id")
	case clear || in.kmsNull:
		return new(string), nil
	case !named:
		return nil, nil
	case in.kmsKeyID == nil:
		return c.keyRef(*in.kmsKey)
	}
	id, ok := events.ParseUUID(*in.kmsKeyID)
	if !ok {
		return nil, invalid("kms_key_id must be a UUID, not %q", shorten(*in.kmsKeyID))
	}
	ref := events.QueueID(id).String()
	if in.kmsKey == nil {
		return &ref, nil
	}
	return &ref, c.sameKey(*in.kmsKey, ref)
}

// keyRef reads a reference by the rule for queues: a CRN stands for its name, the canonical form of a UUID is an id,
// anything else a name. Whether there is such a key is for those who keep the keys to say.
func (c *call) keyRef(s string) (*string, error) {
	name := s
	if strings.HasPrefix(s, crnPrefix) {
		r, ok := parseCRN(s)
		if name = r.name; !ok || r.service != serviceKeys || r.kind != kindKey || r.region != c.h.Region || r.account != c.caller.Account {
			return nil, invalid("kms_key must be the id, CRN or name of a key in this account and in region %s, not %q", c.h.Region, shorten(s))
		}
	} else if id, ok := events.ParseUUID(s); ok {
		name = events.QueueID(id).String()
	}
	return &name, checkText("kms_key", name, 1, keyNameMax)
}

// sameKey holds both fields to one key.
func (c *call) sameKey(reference, id string) error {
	ref, err := c.keyRef(reference)
	if err != nil || *ref == id {
		return err
	}
	known := broker.Key{ID: *ref}
	if _, ok := events.ParseUUID(*ref); !ok {
		if known, err = c.h.Broker.ResolveKey(c.context(), *ref); err != nil {
			return err
		}
	}
	if known.ID != id {
		return invalid("kms_key and kms_key_id must name the same key; send one of them")
	}
	return nil
}

// appendKey writes both dialects' fields of a queue on a customer's key (section 4.4), with the name that the key had
// when it was chosen.
func (h *handler) appendKey(b []byte, q *broker.Queue) []byte {
	name := q.Key.Name
	if name == "" {
		name = q.Key.ID
	}
	b = text(append(b, `"kms_key":{`...), "id", q.Key.ID)
	b = text(append(b, ','), "crn", crn{serviceKeys, h.Region, q.Account, kindKey, name}.String())
	if q.Key.Name != "" {
		b = text(append(b, ','), "name", q.Key.Name)
	}
	return text(append(b, `},`...), "kms_key_id", q.Key.ID)
}

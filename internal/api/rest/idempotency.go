package rest

import (
	"context"
	"crypto/sha256"
	"net/http"
	"strings"
	"unicode/utf8"

	"github.com/leaselog/leaselog/events"
	"github.com/leaselog/leaselog/internal/broker"
	"github.com/leaselog/leaselog/internal/fault"
)

// counted runs the operation of a request that may have to count once (section 8, and section 2.2 for nonces): the
// claims ride with the broker's command. What is refused before there is a command is remembered by the broker too.
func (c *call) counted() (err error) {
	if c.key, err = c.idempotencyKey(); err != nil {
		return err
	}
	if c.op.access == revocation && c.caller.Nonce.Key != "" {
		if err := c.h.Auth.Once(c.context(), c.caller.Nonce); err != nil {
			return err
		}
	}
	if c.key == "" {
		return c.op.run(c)
	}
	place := c.caller.Account + "\x00" + c.key
	if _, running := c.h.running.LoadOrStore(place, true); running {
		return fault.New(fault.KeyInUse, "the first request with this Idempotency-Key is still running; try again when it has ended")
	}
	defer c.h.running.Delete(place)
	if err = c.op.run(c); err != nil && !c.reached && !c.torn { // a torn body is no request yet: the whole one has another print
		if first := c.h.Broker.Refused(c.once(), err); first != nil {
			err = first
		}
	}
	return err
}

// once gives the context of a command that changes something.
func (c *call) once() context.Context {
	c.reached = true
	if c.key == "" && c.caller.Nonce.Key == "" {
		return c.context()
	}
	o := broker.Once{Account: c.caller.Account, Key: c.key, Nonce: c.caller.Nonce.Key, NonceUntil: events.Instant(c.caller.Nonce.Until)}
	if c.key != "" {
		o.Print = c.print()
	}
	return broker.With(c.context(), o)
}

// print tells one request from another: method, path and body.
func (c *call) print() []byte {
	h := sha256.New()
	h.Write([]byte(c.r.Method + "\x00" + c.r.URL.RequestURI() + "\x00"))
	h.Write(c.body)
	return h.Sum(nil)
}

// idempotencyKey gives the request's Idempotency-Key, or "" where there is none. It counts on POST and PATCH and is
// ignored elsewhere, and the token endpoint, whose commands are repeatable, does not know it (section 8). A blank key
// is most likely a variable that was not set, so it is refused and not taken for none.
func (c *call) idempotencyKey() (string, error) {
	values, sent := c.r.Header["Idempotency-Key"]
	repeats := c.r.Method == http.MethodPost || c.r.Method == http.MethodPatch
	if !sent || !repeats || c.op.access == tokens || c.op.access == revocation {
		return "", nil
	}
	if len(values) > 1 {
		return "", invalid("there is more than one Idempotency-Key; send one")
	}
	key := values[0]
	if strings.TrimSpace(key) == "" {
		return "", invalid("Idempotency-Key must not be blank; send 1 to %d characters, or leave it out", idempotencyKeyMax)
	}
	if n := utf8.RuneCountInString(key); n > idempotencyKeyMax {
		return "", invalid("Idempotency-Key must have 1 to %d characters, not %d", idempotencyKeyMax, n)
	}
	return key, nil
}

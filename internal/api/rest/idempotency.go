package rest

import (
	"net/http"
	"strings"
	"unicode/utf8"
)

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

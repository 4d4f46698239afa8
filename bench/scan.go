//go:build linux

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
)

// cursor walks through the JSON of an answer without building values. It knows no types and takes the fields in any
// order; what it cannot read makes it bad, and then everything that follows reads as nothing.
type cursor struct {
	b   []byte
	i   int
	bad bool
}

// next is the first byte of the next token, 0 when there is none.
func (c *cursor) next() byte {
	for ; c.i < len(c.b); c.i++ {
		if ch := c.b[c.i]; ch > ' ' {
			return ch
		}
	}
	c.bad = true
	return 0
}

// text is the value of a string; it aliases the input unless the string has escapes. Another value is skipped.
func (c *cursor) text() []byte {
	if c.next() != '"' {
		c.skip()
		return nil
	}
	start := c.i
	for i := start + 1; ; {
		n := bytes.IndexByte(c.b[i:], '"')
		if n < 0 {
			c.bad = true
			return nil
		}
		i += n + 1
		if bytes.IndexByte(c.b[start+1:i-1], '\\') < 0 {
			c.i = i
			return c.b[start+1 : i-1]
		}
		if !escaped(c.b[start+1 : i-1]) {
			c.i = i
			var s string
			c.bad = c.bad || json.Unmarshal(c.b[start:i], &s) != nil
			return []byte(s)
		}
	}
}

// escaped says whether what follows b is escaped by an odd number of backslashes at its end.
func escaped(b []byte) bool {
	n := 0
	for n < len(b) && b[len(b)-1-n] == '\\' {
		n++
	}
	return n%2 == 1
}

// skip passes over one value.
func (c *cursor) skip() {
	switch c.next() {
	case '"':
		c.text()
	case '{':
		c.object(func([]byte) { c.skip() })
	case '[':
		c.array(c.skip)
	default:
		for c.i < len(c.b) && bytes.IndexByte([]byte(",]} \t\r\n"), c.b[c.i]) < 0 {
			c.i++
		}
	}
}

// object calls f with each key; f must consume the value.
func (c *cursor) object(f func(key []byte)) {
	c.list('{', '}', func() {
		k := c.text()
		if c.next() != ':' {
			c.bad = true
			return
		}
		c.i++
		f(k)
	})
}

// array calls f at each item; f must consume it.
func (c *cursor) array(f func()) { c.list('[', ']', f) }

func (c *cursor) list(open, end byte, f func()) {
	if c.next() != open {
		c.skip()
		return
	}
	c.i++
	for !c.bad {
		switch c.next() {
		case end:
			c.i++
			return
		case ',':
			c.i++
		default:
			before := c.i
			f()
			c.bad = c.bad || c.i == before
		}
	}
}

// delivery is a received message. Both parts are valid until the connection's next call has been answered.
type delivery struct {
	receipt, body []byte
}

// parseMessages appends the messages of a receive answer to ms.
func parseMessages(b []byte, ms []delivery) ([]delivery, error) {
	c := &cursor{b: b}
	found := false
	c.object(func(k []byte) {
		if string(k) != "messages" {
			c.skip()
			return
		}
		found = true
		c.array(func() { ms = append(ms, c.delivery()) })
	})
	if c.bad || !found {
		return nil, fmt.Errorf("not an answer to a receive: %.200s", b)
	}
	return ms, nil
}

func (c *cursor) delivery() (d delivery) {
	c.object(func(k []byte) {
		switch string(k) {
		case "receipt_handle":
			d.receipt = c.text()
		case "body":
			d.body = c.text()
		default:
			c.skip()
		}
	})
	return d
}

// parseSent checks the answer to a single send. A duplicate is an error, since every message here is new.
func parseSent(b []byte) error {
	c := &cursor{b: b}
	var r result
	c.object(func(k []byte) {
		if string(k) == "result" {
			r = c.result()
		} else {
			c.skip()
		}
	})
	if c.bad || !r.id {
		return fmt.Errorf("not an answer to a send: %.200s", b)
	}
	return r.err()
}

// parseResults checks the answer to a batch of n entries, all of which must have been accepted.
func parseResults(b []byte, n int) error {
	c := &cursor{b: b}
	var firstErr error
	found := 0
	c.object(func(k []byte) {
		if string(k) != "results" {
			c.skip()
			return
		}
		c.array(func() {
			r := c.result()
			found++
			firstErr = errors.Join(firstErr, r.err())
		})
	})
	if firstErr == nil && (c.bad || found != n) {
		return fmt.Errorf("%d results for %d entries: %.200s", found, n, b)
	}
	return firstErr
}

// result is the outcome of one message.
type result struct {
	id        bool // a message id was given
	duplicate bool
	code      string
	message   string
}

func (c *cursor) result() (r result) {
	c.object(func(k []byte) {
		switch string(k) {
		case "message_id":
			r.id = len(c.text()) > 0
		case "duplicate":
			r.duplicate = c.next() == 't'
			c.skip()
		case "error":
			r.code = string(c.text())
		case "message":
			r.message = string(c.text())
		default:
			c.skip()
		}
	})
	return r
}

func (r result) err() error {
	switch {
	case r.code != "":
		return fmt.Errorf("refused: %s %s", r.code, r.message)
	case r.duplicate:
		return errors.New("a new message was called a duplicate")
	}
	return nil
}

// parseCreated gives the id of the queue that was created.
func parseCreated(b []byte) (string, error) {
	var a struct{ Queue struct{ ID string } }
	if err := json.Unmarshal(b, &a); err != nil || a.Queue.ID == "" {
		return "", fmt.Errorf("not an answer to the creation of a queue: %.200s", b)
	}
	return a.Queue.ID, nil
}

package rest

import (
	"compress/gzip"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
)

// hintBytesMax bounds how much memory a request gets for a length that it only claims.
const hintBytesMax = 64 << 10

// read gives the request's body. Any content type is read as JSON (section 1). The policy for content codings, the
// same on every route: gzip is decoded, within the limit of a plain body; identity is none; the rest is 415.
func (c *call) read() ([]byte, error) {
	if c.r.ContentLength > bodyBytesMax {
		return nil, tooLong()
	}
	coding := strings.TrimSpace(c.r.Header.Get("Content-Encoding"))
	switch strings.ToLower(coding) {
	case "", "identity":
		err := c.fill(c.r.Body, c.r.ContentLength)
		if errors.Is(err, io.ErrUnexpectedEOF) {
			err = errUnread()
		}
		c.torn = err != nil
		return c.body, err
	case "gzip", "x-gzip":
		err := c.inflate()
		c.torn = err != nil
		return c.body, err
	}
	return nil, unsupported(coding)
}

// inflate decodes gzip. Both sizes are bounded: what is sent, since a coding may say nothing at any length, and what
// comes out of it, since a kilobyte may become a megabyte.
func (c *call) inflate() error {
	in, err := gzip.NewReader(http.MaxBytesReader(c.w, c.r.Body, bodyBytesMax))
	if err == nil {
		err = c.fill(in, 0)
	}
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF), err == io.EOF:
		return invalid("the gzip data ends too early; send the whole of it, or no Content-Encoding")
	case errors.Is(err, gzip.ErrHeader), errors.Is(err, gzip.ErrChecksum):
		return invalid("the body is not gzip, though Content-Encoding says so")
	}
	return err
}

// fill reads everything into body, doubling it up to the limit and never beyond.
func (c *call) fill(in io.Reader, hint int64) error {
	const all = bodyBytesMax + 1 // one more, to see that there is more
	b := slices.Grow(c.body[:0], int(min(max(hint, 0), hintBytesMax))+bytesMin)
	for {
		if len(b) == cap(b) {
			b = append(make([]byte, 0, min(2*cap(b), all)), b...)
		}
		n, err := in.Read(b[len(b):min(cap(b), all)])
		b = b[:len(b)+n]
		c.body = b
		if len(b) > bodyBytesMax {
			return tooLong()
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return unread(err)
		}
	}
}

// bytesMin lets the read that finds the end of the body have room.
const bytesMin = 512

// unread judges an error of reading: the caller's bad gzip, or a body that stopped coming.
func unread(err error) error {
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return tooLong()
	}
	if errors.Is(err, gzip.ErrHeader) || errors.Is(err, gzip.ErrChecksum) || errors.Is(err, io.ErrUnexpectedEOF) {
		return err
	}
	return errUnread()
}

func errUnread() error { return invalid("the body could not be read to its end") }

// unauthenticated judges an error of the authenticator, which reads the body where a signature covers it.
func unauthenticated(err error) error {
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return tooLong()
	}
	return err
}

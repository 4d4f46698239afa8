//go:build linux

package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"time"
)

// conn is one worker's keep-alive connection. Requests are put together by hand and answers are taken apart in place,
// because the client's work is taken from the same cores as the server's. Not safe for concurrent use, except close.
type conn struct {
	c     net.Conn
	r     *bufio.Reader
	addr  string
	head  string    // the header lines that never change
	until time.Time // the socket's deadline
	out   []byte    // request
	body  []byte    // request body, built by the caller
	resp  []byte    // answer's body, valid until the next call
	got   []delivery
}

// callSecondsMax is longer than any long poll.
const callSecondsMax = 60

// dial gives a connection that is made at its first call: one that says nothing for long is closed by the server.
func dial(s *server) *conn {
	head := " HTTP/1.1\r\nHost: " + s.addr + "\r\nAuthorization: Bearer " + s.token + "\r\nAccept: application/json\r\n"
	return &conn{addr: s.addr, head: head}
}

func (c *conn) connect() (err error) {
	if c.c, err = net.DialTimeout("tcp", c.addr, 10*time.Second); err == nil {
		c.r = bufio.NewReaderSize(c.c, 32<<10)
	}
	return err
}

func (c *conn) close() {
	if c.c != nil {
		c.c.Close()
	}
}

// call sends c.body and leaves the answer in c.resp. Any status but want is an error with the server's own words.
func (c *conn) call(method, path string, want int) error {
	c.out = append(append(append(append(c.out[:0], method...), ' '), path...), c.head...)
	if len(c.body) > 0 {
		c.out = append(c.out, "Content-Type: application/json\r\nContent-Length: "...)
		c.out = append(strconv.AppendInt(c.out, int64(len(c.body)), 10), "\r\n"...)
	}
	c.out = append(append(c.out, "\r\n"...), c.body...)
	if c.c == nil {
		if err := c.connect(); err != nil {
			return err
		}
	}
	// Moving a deadline costs a timer operation, so it is moved once in a while and not at every call.
	if now := time.Now(); c.until.Sub(now) < callSecondsMax*time.Second {
		c.until = now.Add(2 * callSecondsMax * time.Second)
		c.c.SetDeadline(c.until)
	}
	if _, err := c.c.Write(c.out); err != nil {
		return fmt.Errorf("%s: %w", method, err)
	}
	status, err := c.answer()
	if err != nil {
		return fmt.Errorf("%s %.80s: reading the answer: %w", method, path, err)
	}
	if status != want {
		return &statusError{method + " " + path, status, string(c.resp)}
	}
	return nil
}

// statusError is an answer with another status than the wanted one.
type statusError struct {
	call   string
	status int
	body   string
}

func (e *statusError) Error() string {
	return fmt.Sprintf("%.100s: HTTP %d %.400s", e.call, e.status, bytes.TrimSpace([]byte(e.body)))
}

// answer reads one HTTP/1.1 answer.
func (c *conn) answer() (status int, err error) {
	h, err := readHead(c.r)
	if err != nil {
		return 0, err
	}
	c.resp, err = readBody(c.r, h, c.resp[:0])
	if err == nil && h.closes {
		err = errors.New("the server closes the connection, which would be measured instead of the call")
	}
	return h.status, err
}

// head is what matters of an answer's first lines.
type head struct {
	status  int
	length  int // -1: not given
	chunked bool
	closes  bool
}

func readHead(r *bufio.Reader) (head, error) {
	h := head{length: -1}
	line, err := r.ReadSlice('\n')
	if err != nil {
		return h, err
	}
	if len(line) < 13 || !bytes.HasPrefix(line, []byte("HTTP/1.1 ")) {
		return h, fmt.Errorf("no HTTP/1.1 status line: %.60q", line)
	}
	h.status = number(line[9:12])
	for {
		if line, err = r.ReadSlice('\n'); err != nil {
			return h, err
		}
		if line = bytes.TrimRight(line, "\r\n"); len(line) == 0 {
			return h, nil
		}
		h.field(line)
	}
}

// field notes a header line; those of other lengths than the three names are not looked at.
func (h *head) field(line []byte) {
	colon := bytes.IndexByte(line, ':')
	if colon < 0 {
		return
	}
	name, value := line[:colon], bytes.TrimSpace(line[colon+1:])
	switch {
	case colon == 14 && bytes.EqualFold(name, []byte("Content-Length")):
		h.length = number(value)
	case colon == 17 && bytes.EqualFold(name, []byte("Transfer-Encoding")):
		h.chunked = bytes.EqualFold(value, []byte("chunked"))
	case colon == 10 && bytes.EqualFold(name, []byte("Connection")):
		h.closes = bytes.EqualFold(value, []byte("close"))
	}
}

// number reads decimal digits; anything else gives -1.
func number(b []byte) int {
	if len(b) == 0 || len(b) > 18 {
		return -1
	}
	n := 0
	for _, c := range b {
		if c < '0' || c > '9' {
			return -1
		}
		n = n*10 + int(c-'0')
	}
	return n
}

// readBody appends the body of an answer to buf.
func readBody(r *bufio.Reader, h head, buf []byte) ([]byte, error) {
	switch {
	case h.status == 204 || h.status == 304:
		return buf, nil
	case h.chunked:
		return readChunks(r, buf)
	case h.length >= 0:
		return readFull(r, buf, h.length)
	}
	return buf, errors.New("neither Content-Length nor chunks")
}

func readFull(r *bufio.Reader, buf []byte, n int) ([]byte, error) {
	at := len(buf)
	if cap(buf) < at+n {
		buf = append(make([]byte, 0, 2*(at+n)), buf...)
	}
	buf = buf[:at+n]
	_, err := io.ReadFull(r, buf[at:])
	return buf, err
}

func readChunks(r *bufio.Reader, buf []byte) ([]byte, error) {
	for {
		line, err := r.ReadSlice('\n')
		if err != nil {
			return buf, err
		}
		size, _, _ := bytes.Cut(bytes.TrimSpace(line), []byte(";"))
		n, err := strconv.ParseUint(string(size), 16, 31)
		if err != nil {
			return buf, fmt.Errorf("bad chunk size: %w", err)
		}
		if buf, err = readFull(r, buf, int(n)); err != nil {
			return buf, err
		}
		if _, err = r.Discard(2); err != nil || n == 0 {
			return buf, err
		}
	}
}

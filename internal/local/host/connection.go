package host

import (
	"context"
	"errors"
	"net"
	"os"
	"sync"
	"time"

	"github.com/leaselog/leaselog/internal/api"
)

// frugalListener gives connections that spare what net/http does for every request and few requests need: it sets five
// deadlines, each a timer, and has a goroutine of its own look whether the caller leaves. Together that is a tenth of the
// server's time.
type frugalListener struct{ net.Listener }

// Accept implements [net.Listener].
func (l frugalListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return newConn(c), nil
}

func newConn(c net.Conn) *conn {
	return &conn{Conn: c, readBy: deadline{to: c.SetReadDeadline}, writeBy: deadline{to: c.SetWriteDeadline}}
}

// attended lets a request on a connection learn that its caller leaves, by [api.Attended].
func attended(ctx context.Context, c net.Conn) context.Context {
	if c, ok := c.(*conn); ok { // with TLS it is none, and net/http looks itself
		return api.WithConnection(ctx, c)
	}
	return ctx
}

type conn struct {
	net.Conn
	readBy, writeBy deadline

	mu       sync.Mutex
	reading  bool // a Read is under way
	looked   bool // the last one was a look, which was answered with nothing
	watching bool // Watch reads
	ahead    [1]byte
	held     bool // Watch has read ahead
}

// Read implements [net.Conn]. One for a single byte is net/http's look whether the caller leaves: it ends at once and
// tells nothing. Two in a row are something else, such as the last byte of a buffer.
func (c *conn) Read(p []byte) (n int, err error) {
	c.mu.Lock()
	switch {
	case len(p) == 1 && (c.watching || !c.looked):
		c.looked = true
		c.mu.Unlock()
		return 0, nil
	case c.held && len(p) > 0:
		p[0], c.held = c.ahead[0], false
		c.mu.Unlock()
		return 1, nil
	}
	c.looked, c.reading = false, true
	c.mu.Unlock()
	n, err = c.read(p)
	c.mu.Lock()
	c.reading = false
	c.mu.Unlock()
	return n, err
}

func (c *conn) read(p []byte) (n int, err error) {
	for {
		if n, err = c.Conn.Read(p); n > 0 || !c.readBy.early(err) {
			return n, err
		}
	}
}

// Write implements [net.Conn].
func (c *conn) Write(p []byte) (n int, err error) {
	for {
		var more int
		more, err = c.Conn.Write(p[n:])
		if n += more; !c.writeBy.early(err) {
			return n, err
		}
	}
}

// SetReadDeadline implements [net.Conn].
func (c *conn) SetReadDeadline(t time.Time) error { return c.readBy.ask(t) }

// SetWriteDeadline implements [net.Conn].
func (c *conn) SetWriteDeadline(t time.Time) error { return c.writeBy.ask(t) }

// SetDeadline implements [net.Conn].
func (c *conn) SetDeadline(t time.Time) error {
	return errors.Join(c.readBy.ask(t), c.writeBy.ask(t))
}

// Watch implements [api.Connection]. It looks by reading a byte ahead, so that it cannot tell of a caller that has sent
// its next request already; nor can net/http.
func (c *conn) Watch(left func()) (stop func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.reading || c.held {
		return func() {}
	}
	c.watching = true
	done := make(chan struct{})
	go func() {
		defer close(done)
		n, err := c.read(c.ahead[:])
		c.mu.Lock()
		c.held = n == 1
		c.mu.Unlock()
		if n == 0 && !errors.Is(err, os.ErrDeadlineExceeded) {
			left()
		}
	}()
	return func() {
		c.readBy.interrupt(done)
		c.mu.Lock()
		c.watching = false
		c.mu.Unlock()
	}
}

// deadline is one that is asked for again and again and set seldom: an earlier one stays set, and whoever meets that is
// told that there is time left. What is asked for holds exactly.
type deadline struct {
	to func(time.Time) error

	mu         sync.Mutex
	asked, set time.Time // zero: none
}

func (d *deadline) ask(t time.Time) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.asked = t
	if !d.set.IsZero() && (t.IsZero() || !t.Before(d.set)) || t.Equal(d.set) {
		return nil
	}
	return d.change()
}

// change sets what is asked for.
func (d *deadline) change() error {
	d.set = d.asked
	return d.to(d.set)
}

// early says whether an error tells of a deadline before the one that is asked for, which is then set.
func (d *deadline) early(err error) bool {
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		return false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return !d.set.Equal(d.asked) && d.change() == nil
}

// interrupt ends what waits until the deadline, and puts it back.
func (d *deadline) interrupt(done <-chan struct{}) {
	d.mu.Lock()
	asked := d.asked
	d.asked = time.Unix(1, 0)
	_ = d.change() // it fails on a closed connection, where nothing waits
	d.mu.Unlock()
	<-done
	d.mu.Lock()
	defer d.mu.Unlock()
	d.asked = asked
	_ = d.change()
}

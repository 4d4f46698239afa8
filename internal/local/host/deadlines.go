package host

import (
	"net"
	"time"
)

// coarseListener gives connections on which a write deadline is set anew only when it has moved by writeSlack. net/http
// sets one for every request, which arms a timer each: about a hundredth of the server's time for nothing.
type coarseListener struct{ net.Listener }

// writeSlack is how much earlier than asked an answer that nobody takes may be given up.
const writeSlack = 30 * time.Second

// Accept implements [net.Listener].
func (l coarseListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &coarseConn{Conn: c}, nil
}

type coarseConn struct {
	net.Conn
	writeBy time.Time // the deadline that is set; only the connection's own goroutine sets it
}

// SetWriteDeadline implements [net.Conn].
func (c *coarseConn) SetWriteDeadline(t time.Time) error {
	if later := t.Sub(c.writeBy); later >= 0 && later < writeSlack {
		return nil
	}
	c.writeBy = t
	return c.Conn.SetWriteDeadline(t)
}

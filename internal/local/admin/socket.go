package admin

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"
)

// socketName is the server's socket in its data directory.
const socketName = "admin.sock"

// Socket is where the server on a data directory takes administration.
func Socket(data string) string { return filepath.Join(data, socketName) }

// Listen makes the socket of a data directory whose store this process holds, in place of one that a crash left. Nobody
// but its owner can connect, at no time: it is made in a directory of its own and moved when its mode is set.
func Listen(data string) (net.Listener, error) {
	nest, err := os.MkdirTemp(data, ".admin") // mode 0700
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(nest)
	made := filepath.Join(nest, "s")
	l, err := net.Listen("unix", made)
	if err != nil {
		return nil, fmt.Errorf("the admin socket: %w", err)
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false) // it moves
	if err := os.Chmod(made, 0o600); err != nil {
		l.Close()
		return nil, err
	}
	if err := os.Rename(made, Socket(data)); err != nil {
		l.Close()
		return nil, err
	}
	return socket{l, Socket(data)}, nil
}

// socket takes its file away when it is closed.
type socket struct {
	net.Listener
	path string
}

// Close ends listening.
func (s socket) Close() error {
	os.Remove(s.path)
	return s.Listener.Close()
}

// requestTimeout bounds a request and its answer: they are small, and the disk is the slowest part.
const requestTimeout = 30 * time.Second

// Server serves a handler on a socket.
func Server(h http.Handler) *http.Server {
	return &http.Server{Handler: h, ReadTimeout: requestTimeout, WriteTimeout: requestTimeout}
}

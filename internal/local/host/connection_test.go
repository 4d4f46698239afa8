package host

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leaselog/leaselog/internal/api"
)

// deadlined notes the deadlines that reach a connection.
type deadlined struct {
	net.Conn
	read, write []time.Time
}

func (d *deadlined) SetReadDeadline(t time.Time) error {
	d.read = append(d.read, t)
	return d.Conn.SetReadDeadline(t)
}

func (d *deadlined) SetWriteDeadline(t time.Time) error {
	d.write = append(d.write, t)
	return d.Conn.SetWriteDeadline(t)
}

// Deadlines are seldom set, and hold to the instant for all that.
func TestDeadlines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		here, there := net.Pipe()
		defer there.Close()
		d := &deadlined{Conn: here}
		c := newConn(d)
		defer c.Close()
		for range 10_000 { // as net/http asks for them, in 100 s
			now := time.Now()
			c.SetReadDeadline(now.Add(5 * time.Minute))
			c.SetReadDeadline(time.Time{})
			c.SetReadDeadline(now.Add(30 * time.Second))
			c.SetWriteDeadline(now.Add(90 * time.Second))
			go there.Write([]byte("request"))
			if _, err := io.ReadFull(c, make([]byte, 7)); err != nil {
				t.Fatal(err)
			}
			go io.ReadFull(there, make([]byte, 6))
			if _, err := c.Write([]byte("answer")); err != nil {
				t.Fatal(err)
			}
			time.Sleep(10 * time.Millisecond)
		}
		if r, w := len(d.read), len(d.write); r > 8 || w > 4 {
			t.Errorf("the deadlines were set %d and %d times", r, w)
		}
		ends := map[string]struct {
			set func(time.Time) error
			do  func([]byte) (int, error)
		}{"read": {c.SetReadDeadline, c.Read}, "write": {c.SetWriteDeadline, c.Write}}
		for name, end := range ends {
			for _, patience := range []time.Duration{time.Hour, time.Second, 2 * time.Minute, -time.Second} {
				began := time.Now()
				end.set(began.Add(patience))
				n, err := end.do([]byte("nobody takes or sends this"))
				if took := time.Since(began); n != 0 || !errors.Is(err, os.ErrDeadlineExceeded) || took != max(0, patience) {
					t.Errorf("%s with %v to go: %d, %v after %v", name, patience, n, err, took)
				}
			}
		}
	})
}

// What is written before an earlier deadline passes is not written again.
func TestWriteGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		here, there := net.Pipe()
		c := newConn(here)
		c.SetWriteDeadline(time.Now().Add(time.Second))
		c.SetWriteDeadline(time.Now().Add(time.Minute))
		got := make(chan string)
		go func() {
			half := make([]byte, 3)
			io.ReadFull(there, half)
			time.Sleep(2 * time.Second)
			rest, _ := io.ReadAll(there)
			got <- string(half) + string(rest)
		}()
		if n, err := c.Write([]byte("answer")); n != 6 || err != nil {
			t.Errorf("%d bytes, %v", n, err)
		}
		c.Close()
		if text := <-got; text != "answer" {
			t.Errorf("the other side has %q", text)
		}
	})
}

// attending serves what says when its caller leaves, and gives the address.
func attending(t *testing.T, h http.HandlerFunc) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{Handler: h, ConnContext: attended, ReadTimeout: requestTimeout, WriteTimeout: responseTimeout, IdleTimeout: idleTimeout}
	go s.Serve(frugalListener{l})
	t.Cleanup(func() { s.Close() })
	return l.Addr().String()
}

// A caller that leaves ends what is attended, and nothing else does: with a body and without, with requests before,
// and with the next request sent already.
func TestAttended(t *testing.T) {
	waits, ended := make(chan struct{}), make(chan error)
	address := attending(t, func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		if r.URL.Path == "/wait" {
			ctx, end := api.Attended(r.Context())
			defer end()
			waits <- struct{}{}
			<-ctx.Done()
			ended <- context.Cause(ctx)
			return
		}
		ctx, end := api.Attended(r.Context())
		time.AfterFunc(5*time.Millisecond, end)
		<-ctx.Done()
		fmt.Fprint(w, r.URL.Path)
	})
	for _, body := range []string{"", "body"} {
		c, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		answers := bufio.NewReader(c)
		say := func(paths ...string) {
			var all strings.Builder
			for _, p := range paths {
				fmt.Fprintf(&all, "POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", p, len(body), body)
			}
			io.WriteString(c, all.String())
		}
		hear := func(path string) {
			t.Helper()
			a, err := http.ReadResponse(answers, nil)
			if err != nil {
				t.Fatal(err)
			}
			if text, err := io.ReadAll(a.Body); string(text) != path || err != nil {
				t.Fatalf("%q, %v; want %s", text, err, path)
			}
		}
		for range 3 {
			say("/1")
			hear("/1")
		}
		say("/2", "/3", "/4", "/5") // in one piece
		for _, path := range []string{"/2", "/3", "/4", "/5"} {
			hear(path)
		}
		say("/6")
		time.AfterFunc(time.Millisecond, func() { say("/7") }) // while the one before is attended
		hear("/6")
		hear("/7")
		say("/wait")
		<-waits
		c.Close()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("it ended with %v", err)
		}
	}
}

// A request whose header fills net/http's buffer but for a byte is read whole.
func TestLastByteOfABuffer(t *testing.T) {
	address := attending(t, func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, len(r.Header.Get("X-Long"))) })
	for _, size := range []int{4094, 4095, 4096, 4097} {
		c, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		begin := "GET / HTTP/1.1\r\nHost: x\r\nX-Long: "
		long := strings.Repeat("x", size-len(begin))
		io.WriteString(c, begin+long) // and the rest once that is in the buffer
		time.AfterFunc(20*time.Millisecond, func() { io.WriteString(c, "y\r\n\r\n") })
		a, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Fatalf("%d bytes: %v", size, err)
		}
		if text, _ := io.ReadAll(a.Body); string(text) != fmt.Sprint(len(long)+1) {
			t.Errorf("%d bytes: the header has %s", size, text)
		}
		c.Close()
	}
}

package host

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// A caller that leaves a long poll is given no lease, over TLS too, and whether its request has a body or not.
func TestDeparture(t *testing.T) {
	dir := t.TempDir()
	cert, pool := certificate(t, dir)
	for name, c := range map[string]Config{"plain": {}, "TLS": {TLSCert: cert, TLSKey: filepath.Join(dir, "key.pem"), Dev: true}} {
		t.Run(name, func(t *testing.T) {
			c.Listen, c.Data = "127.0.0.1:0", filepath.Join(dir, name)
			h, err := Open(c)
			if err != nil {
				t.Fatal(err)
			}
			ctx, stop := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() { ended <- h.Run(ctx) }()
			client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}}
			do := func(path, body string) string {
				t.Helper()
				r, err := http.NewRequest("POST", h.URL()+path, strings.NewReader(body))
				if err != nil {
					t.Fatal(err)
				}
				r.Header.Set("Authorization", "Bearer any")
				a, err := client.Do(r)
				if err != nil {
					t.Fatal(err)
				}
				defer a.Body.Close()
				text, err := io.ReadAll(a.Body)
				if err != nil || a.StatusCode >= 300 {
					t.Fatalf("%s: %s %s, %v", path, a.Status, text, err)
				}
				return string(text)
			}
			do("/v1/queues", `{"name":"waits","receive_wait_time_seconds":20}`)
			for i, body := range []string{"", `{"wait_time_seconds":20}`} {
				poll := func() net.Conn {
					conn, err := net.Dial("tcp", h.Address())
					if c.TLSCert != "" && err == nil {
						conn = tls.Client(conn, &tls.Config{RootCAs: pool, ServerName: "127.0.0.1"})
					}
					if err == nil {
						_, err = fmt.Fprintf(conn, "POST /v1/queues/waits/messages/receive HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer any\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
					}
					if err != nil {
						t.Fatal(err)
					}
					return conn
				}
				leaves := poll()
				until(t, func() bool { return h.Broker.Stats().Polls == 1 })
				leaves.Close()
				until(t, func() bool { return h.Broker.Stats().Polls == 0 })
				do("/v1/queues/waits/messages", `{"body":"text"}`)
				if got := do("/v1/queues/waits/messages/receive", `{"wait_time_seconds":0}`); !strings.Contains(got, `"receive_count":1`) {
					t.Errorf("poll %d, with %q: somebody else has the message: %s", i, body, got)
				}
			}
			client.CloseIdleConnections()
			stop()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		})
	}
}

// until waits for something that comes soon.
func until(t *testing.T, true func() bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(10 * time.Second); !true(); <-tick.C {
		if time.Now().After(end) {
			t.Fatal("it does not come")
		}
	}
}

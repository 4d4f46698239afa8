package host

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/leaselog/leaselog/events"
	"github.com/leaselog/leaselog/internal/broker"
	"github.com/leaselog/leaselog/internal/eventlog/eventlogtest"
	"github.com/leaselog/leaselog/internal/fault"
)

// A store that is silent does not hold up a stop: a sender is told that its message may take effect.
func TestStopWhileStoreIsSilent(t *testing.T) {
	h, err := Open(Config{Listen: "127.0.0.1:0", Data: filepath.Join(t.TempDir(), "data")})
	if err != nil {
		t.Fatal(err)
	}
	h.patience = 200 * time.Millisecond
	silent := eventlogtest.NewFaulty(h.Broker.Log)
	h.Broker.Log = silent
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- h.Run(ctx) }()
	q, err := h.Broker.Create(ctx, broker.CreateQueue{Account: "local", Name: "q", Settings: events.Settings{LeaseSeconds: 30, RetentionSeconds: 3600, MaxBytes: 1024}})
	if err != nil {
		t.Fatal(err)
	}
	asked := make(chan struct{}, 1)
	silent.Plan(func(c eventlogtest.Call) eventlogtest.Fault {
		if c.Op != eventlogtest.OpCommit {
			return eventlogtest.Pass
		}
		select {
		case asked <- struct{}{}:
		default:
		}
		return eventlogtest.Before
	})
	sent := make(chan error, 1)
	go func() {
		_, err := h.Broker.Send(context.Background(), q.ID, []broker.Outgoing{{Message: events.Message{Body: []byte("text")}}})
		sent <- err
	}()
	<-asked
	stop()
	select {
	case err := <-ended:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(time.Minute):
		t.Fatal("the server does not stop")
	}
	if err := <-sent; !fault.Is(err, fault.Unconfirmed) {
		t.Errorf("the sender was told %v", err)
	}
}

// Nor does one whose disk keeps silent when it is to be closed.
func TestStopWhileDiskIsSilent(t *testing.T) {
	h, err := Open(Config{Listen: "127.0.0.1:0", Data: filepath.Join(t.TempDir(), "data")})
	if err != nil {
		t.Fatal(err)
	}
	h.patience = 200 * time.Millisecond
	closes, goOn := h.Backing.Close, make(chan bool)
	closed := make(chan error, 1)
	h.Backing.Close = func() error {
		<-goOn
		closed <- closes()
		return nil
	}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if err := h.Run(ctx); err == nil || !strings.Contains(err.Error(), "the store was not closed") {
		t.Errorf("it ended with %v", err)
	}
	close(goOn)
	if err := <-closed; err != nil {
		t.Error(err)
	}
}

// A stop does not wait for ever for a request that never comes to its end, and says so.
func TestStopWithinARequest(t *testing.T) {
	h, err := Open(Config{Listen: "127.0.0.1:0", Data: filepath.Join(t.TempDir(), "data")})
	if err != nil {
		t.Fatal(err)
	}
	h.patience = 200 * time.Millisecond
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- h.Run(ctx) }()
	conn, err := net.Dial("tcp", h.Address())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_, err = fmt.Fprint(conn, "POST /v1/queues HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer any\r\nExpect: 100-continue\r\nContent-Length: 9\r\n\r\n")
	if err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(conn).ReadString('\n'); err != nil || !strings.Contains(line, "100 Continue") {
		t.Fatalf("the server does not wait for the body: %q, %v", line, err)
	}
	stop()
	if err := <-ended; err == nil || !strings.Contains(err.Error(), "requests were under way for 200ms more") {
		t.Errorf("it ended with %v", err)
	}
}

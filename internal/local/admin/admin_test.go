package admin

import (
	"errors"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/leaselog/leaselog/events"
	"github.com/leaselog/leaselog/internal/auth"
	"github.com/leaselog/leaselog/internal/eventlog"
	"github.com/leaselog/leaselog/internal/fault"
	"github.com/leaselog/leaselog/internal/local/keys"
	"github.com/leaselog/leaselog/projections"
)

// served gives a client of a server on a socket, with a count of the keys that it was told of.
func served(t *testing.T) (c *Client, data string, created *int) {
	t.Helper()
	data = t.TempDir()
	k, err := keys.Open(filepath.Join(data, "key"))
	if err != nil {
		t.Fatal(err)
	}
	log, now := eventlog.NewMemory(), func() events.Instant { return events.Instant(time.Now().UnixMilli()) }
	d, err := Directory(log, k, now)
	if err != nil {
		t.Fatal(err)
	}
	created = new(int)
	s := Server(Handler(d, Views{Log: log, Store: projections.NewMemory(), Projections: projections.Embedded(), Now: now}, func() { *created++ }, nil))
	l, err := Listen(data)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(l) }()
	t.Cleanup(func() {
		s.Shutdown(t.Context())
		s.Close()
		if err := <-ended; err != http.ErrServerClosed {
			t.Error(err)
		}
		if _, err := os.Stat(Socket(data)); !errors.Is(err, fs.ErrNotExist) {
			t.Error("the socket is left behind")
		}
	})
	if c, err = Open(data, false); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c, data, created
}

// TestTheSocketIsPrivate: only its owner may open it, and nothing else is left in the directory.
func TestTheSocketIsPrivate(t *testing.T) {
	_, data, _ := served(t)
	info, err := os.Stat(Socket(data))
	if err != nil || info.Mode().Perm() != 0o600 || info.Mode().Type() != fs.ModeSocket {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	left, err := os.ReadDir(data)
	if err != nil || len(left) != 2 { // and the key file
		t.Errorf("%v, %v", left, err)
	}
}

// TestBothWays does the same through a socket and on a store.
func TestBothWays(t *testing.T) {
	live, _, created := served(t)
	direct, err := Open(filepath.Join(t.TempDir(), "data"), true)
	if err != nil {
		t.Fatal(err)
	}
	defer direct.Close()
	for way, c := range map[string]*Client{"socket": live, "store": direct} {
		t.Run(way, func(t *testing.T) { everything(t, c) })
	}
	if *created != 2 {
		t.Errorf("the server was told of %d keys", *created)
	}
}

func everything(t *testing.T, c *Client) {
	ctx := t.Context()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Error(err)
		}
	}
	a, err := c.CreateAccount(ctx, "acme")
	must(err)
	if _, err := c.CreateAccount(ctx, "acme"); !fault.Is(err, fault.Exists) || !strings.Contains(fault.Of(err).Message, "acme") {
		t.Errorf("a second one: %v", err)
	}
	text := []byte(`{"version":"2024-01-01","statements":[{"effect":"allow","actions":["*"],"resources":["*"]}]}`)
	k, err := c.CreateKey(ctx, auth.NewKey{Account: a.ID, Label: "x", Policies: [][]byte{text}})
	must(err)
	s, err := c.CreateKey(ctx, auth.NewKey{Account: "acme", Kind: auth.Static})
	must(err)
	if k.Secret == "" || k.Token != "" || s.Secret != "" || s.Token == "" || k.Label != "x" || len(k.Policies) != 1 {
		t.Errorf("%+v, %+v", k.Key, s.Key)
	}
	r, err := c.RotateKey(ctx, k.ID, time.Hour)
	must(err)
	if r.Secret == "" || r.Secret == k.Secret || r.FormerUntil == nil {
		t.Errorf("%+v", r.Key)
	}
	off, err := c.EnableKey(ctx, k.ID, false)
	must(err)
	all, err := c.SetPolicies(ctx, k.ID, nil)
	must(err)
	if off.Status != "disabled" || all.Status != "disabled" || len(all.Policies) != 0 {
		t.Errorf("%+v, %+v", off, all)
	}
	list, err := c.Keys(ctx, "acme")
	must(err)
	if len(list) != 2 {
		t.Errorf("%+v", list)
	}
	if _, err := c.Keys(ctx, "no body&x=/"); !fault.Is(err, fault.NotFound) || !strings.Contains(err.Error(), "no body&x=/") {
		t.Errorf("keys of nobody: %v", err)
	}
	disabled, err := c.EnableAccount(ctx, a.ID, false)
	must(err)
	accounts, err := c.Accounts(ctx)
	must(err)
	if len(accounts) != 1 || accounts[0] != disabled {
		t.Errorf("%+v", accounts)
	}
	for _, k := range list {
		must(c.DeleteKey(ctx, k.ID))
	}
	if err := c.DeleteKey(ctx, "a/b"); !fault.Is(err, fault.NotFound) {
		t.Errorf("a strange id: %v", err)
	}
	must(c.DeleteAccount(ctx, "acme"))
}

// TestRequestsAreBounded: what is too much, or no JSON, is refused with a sentence.
func TestRequestsAreBounded(t *testing.T) {
	c, _, _ := served(t)
	_, err := c.CreateAccount(t.Context(), strings.Repeat("a", requestBytesMax))
	if !fault.Is(err, fault.Invalid) {
		t.Errorf("%v", err)
	}
}

// Package host runs leaselog as one program: the embedded store, a key file beside it, the broker, and every HTTP API
// behind one listener.
package host

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/net/netutil"

	"github.com/leaselog/leaselog/events"
	"github.com/leaselog/leaselog/internal/api/rest"
	"github.com/leaselog/leaselog/internal/auth"
	"github.com/leaselog/leaselog/internal/broker"
	"github.com/leaselog/leaselog/internal/local/keys"
	"github.com/leaselog/leaselog/internal/local/store"
)

// Config says how the server runs.
type Config struct {
	Listen string // host:port; port 0 takes a free one
	Data   string // directory of the store and the key file; made where it is missing
	Region string // in resource names; default "local"
	Shards int    // of new standard queues; default 1
	// HistoryAge and HistoryBytes bound what is kept of what is finished; default 24 h and 10 GB.
	HistoryAge   time.Duration
	HistoryBytes uint64
	// Dev keeps development mode on loopback though there are keys: every credential is taken.
	Dev bool
	// TLSCert and TLSKey are PEM files; both or neither.
	TLSCert, TLSKey string
	Logger          *slog.Logger
}

// Host is a server that is open: its store is locked, its address taken.
type Host struct {
	Config
	clock    *clock
	memory   *memory
	store    *store.Store
	broker   *broker.Broker
	listener net.Listener
	server   *http.Server
	chores   sync.WaitGroup
	scheme   auth.Scheme
	open     bool // development mode, for now
	admin    *http.Server
	socket   net.Listener // nil: it could not be made
}

const (
	connectionsMax  = 16_384
	headerBytesMax  = 64 << 10
	headerTimeout   = 10 * time.Second
	requestTimeout  = 60 * time.Second // to read a request whole
	responseTimeout = 90 * time.Second // a long poll takes 20 s of it
	idleTimeout     = 5 * time.Minute
	stopTimeout     = 15 * time.Second

	tickEvery     = 250 * time.Millisecond
	maintainEvery = time.Minute
)

// Open takes the data directory and the address. What is refused is said in one sentence.
func Open(c Config) (_ *Host, err error) {
	c.fill()
	if err := c.checkAccess(); err != nil {
		return nil, err
	}
	h := &Host{Config: c, clock: newClock()}
	defer func() {
		if err != nil {
			h.release()
		}
	}()
	if h.store, err = store.Open(store.Config{Dir: filepath.Join(c.Data, StoreDir), Logger: c.Logger, Now: func() int64 { return int64(h.clock.now()) }}); err != nil {
		return nil, err
	}
	k, err := keys.Open(filepath.Join(c.Data, KeyFile))
	if err != nil {
		return nil, err
	}
	if h.broker, err = broker.New(broker.Config{Log: h.store, Keys: k, ReceiptKey: k.Secret("receipt"), Now: h.clock.now, Rand: rand.Reader,
		Deployment: Deployment, Shards: c.Shards, Exclusive: true, Logger: c.Logger}); err != nil {
		return nil, err
	}
	if err := h.openAccess(k); err != nil {
		return nil, err
	}
	secret := k.Secret("marker")
	api, err := rest.New(rest.Config{Broker: h.broker, Auth: h.scheme, Tokens: h.scheme, Region: c.Region, Secret: secret[:], Logger: c.Logger})
	if err != nil {
		return nil, err
	}
	if h.listener, err = h.listen(); err != nil {
		return nil, fmt.Errorf("cannot listen on %s: %w", c.Listen, err)
	}
	h.server = &http.Server{Handler: api, ReadHeaderTimeout: headerTimeout, ReadTimeout: requestTimeout, WriteTimeout: responseTimeout,
		IdleTimeout: idleTimeout, MaxHeaderBytes: headerBytesMax, ErrorLog: slog.NewLogLogger(c.Logger.Handler(), slog.LevelDebug)}
	return h, nil
}

func (c *Config) fill() {
	if c.Region == "" {
		c.Region = "local"
	}
	if c.HistoryAge == 0 {
		c.HistoryAge = 24 * time.Hour
	}
	if c.HistoryBytes == 0 {
		c.HistoryBytes = 10 << 30
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
}

// Address is where the server listens: host:port.
func (h *Host) Address() string { return h.listener.Addr().String() }

// Run serves until ctx ends. Then waiting polls are answered with nothing, commands that run are finished, and the
// store is closed.
func (h *Host) Run(ctx context.Context) error {
	h.memory = newMemory()
	work, stop := context.WithCancel(context.Background())
	h.chores.Go(func() { h.every(work, tickEvery, h.tick) })
	h.chores.Go(func() { h.every(work, maintainEvery, h.maintain) })
	h.serveAdmin()
	failed := make(chan error, 1)
	go func() { failed <- h.server.Serve(netutil.LimitListener(h.listener, connectionsMax)) }()
	var err error
	select {
	case <-ctx.Done():
	case err = <-failed:
	}
	h.Logger.Info("stopping")
	stop()
	return errors.Join(err, h.close())
}

func (h *Host) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	answered := make(chan error, 1)
	go func() { answered <- h.server.Shutdown(ctx) }()
	h.closeAdmin(ctx)
	h.broker.Close()
	err := <-answered
	h.chores.Wait()
	return errors.Join(err, h.store.Close())
}

// release gives back what Open took before it failed.
func (h *Host) release() {
	if h.socket != nil {
		h.socket.Close()
	}
	if h.store != nil {
		h.store.Close()
	}
}

// every runs a chore again and again, with a pause between.
func (h *Host) every(ctx context.Context, pause time.Duration, chore func(context.Context) error) {
	t := time.NewTimer(pause)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		if err := chore(ctx); err != nil && ctx.Err() == nil {
			h.Logger.Warn("a chore failed and is tried again", "error", err)
		}
		t.Reset(pause)
	}
}

func (h *Host) tick(ctx context.Context) error {
	h.clock.compare()
	h.memory.adjust()
	return h.broker.Tick(ctx)
}

// maintain drops history that is too old, or, while the store is too large, whatever the broker may let go of.
func (h *Host) maintain(ctx context.Context) error {
	age := h.HistoryAge
	if h.store.Size() > h.HistoryBytes {
		age = 0
	}
	return h.broker.Maintain(ctx, broker.History{Before: h.clock.now() - events.Instant(age.Milliseconds())})
}

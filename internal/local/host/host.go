// Package host runs leaselog as one program: the embedded store, a key file beside it, the broker, and every HTTP API
// behind one listener.
package host

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/net/netutil"

	"github.com/leaselog/leaselog/events"
	"github.com/leaselog/leaselog/internal/api/rest"
	"github.com/leaselog/leaselog/internal/auth"
	"github.com/leaselog/leaselog/internal/broker"
	"github.com/leaselog/leaselog/internal/local/keys"
	"github.com/leaselog/leaselog/internal/local/store"
	"github.com/leaselog/leaselog/internal/watch"
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
	// MetricsListen is where /metrics is served, host:port, with /healthz and /readyz beside it, to whoever asks: names
	// of accounts and queues are in it. Empty: on Listen where that is loopback, and nowhere otherwise.
	MetricsListen string
	Traces        string // base URL of an OTLP collector; empty: nothing is traced
	Version       string // of the program, for metrics and traces
	Logger        *slog.Logger
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
	watch    *watch.Watch
	aside    net.Listener // of MetricsListen, or nil
	beside   *http.Server // on aside
	stopping atomic.Bool
	chores   sync.WaitGroup
	scheme   auth.Scheme
	open     bool // development mode, for now
	admin    *http.Server
	socket   net.Listener // nil: it could not be made
}

const (
	connectionsMax  = 16_384
	headerBytesMax  = 64 << 10
	requestTimeout  = 30 * time.Second // to read a request whole
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
	if err := h.openWatch(); err != nil {
		return nil, err
	}
	k, err := openKeys(c)
	if err != nil {
		return nil, err
	}
	if h.store, err = store.Open(store.Config{Dir: filepath.Join(c.Data, StoreDir), Logger: c.Logger, Synced: h.watch.Synced,
		Now: func() int64 { return int64(h.clock.now()) }}); err != nil {
		return nil, err
	}
	if h.broker, err = broker.New(broker.Config{Log: h.store, Keys: k, ReceiptKey: k.Secret("receipt"), Now: h.clock.now, Rand: rand.Reader,
		Deployment: Deployment, Shards: c.Shards, Exclusive: true, Ready: h.store.Ready, Logger: c.Logger, Meter: h.watch}); err != nil {
		return nil, err
	}
	if err := h.openAccess(k); err != nil {
		return nil, err
	}
	secret := k.Secret("marker")
	api, err := rest.New(rest.Config{Broker: h.broker, Auth: h.scheme, Tokens: h.scheme, Region: c.Region, Secret: secret[:], Logger: c.Logger,
		Failed: h.watch.Failed, Served: h.watch.Served})
	if err != nil {
		return nil, err
	}
	if err := h.watch.Look(h.broker, h.store); err != nil {
		return nil, err
	}
	return h, h.listen(api)
}

// openWatch makes what counts and tells. It comes first: store and broker tell it what they do.
func (h *Host) openWatch() (err error) {
	var operations []string
	for _, e := range rest.Endpoints() {
		operations = append(operations, e.Name)
	}
	h.watch, err = watch.New(watch.Config{Version: h.Version, Operations: operations, Traces: h.Traces, Logger: h.Logger})
	return err
}

// listen takes the addresses.
func (h *Host) listen(api http.Handler) (err error) {
	main := &front{api: api, healthy: h.store.Healthy, stopping: &h.stopping}
	if h.listener, err = h.bind(); err != nil {
		return fmt.Errorf("cannot listen on %s: %w", h.Listen, err)
	}
	switch {
	case h.MetricsListen != "":
		if h.aside, err = net.Listen("tcp", h.MetricsListen); err != nil {
			return fmt.Errorf("cannot listen on %s for metrics: %w", h.MetricsListen, err)
		}
		h.beside = h.serving(&front{metrics: h.watch.Metrics(), healthy: h.store.Healthy, stopping: &h.stopping})
	case h.loopback():
		main.metrics = h.watch.Metrics()
	}
	h.server = h.serving(main)
	return nil
}

func (h *Host) serving(handler http.Handler) *http.Server {
	return &http.Server{Handler: handler, ReadTimeout: requestTimeout, WriteTimeout: responseTimeout,
		IdleTimeout: idleTimeout, MaxHeaderBytes: headerBytesMax, ErrorLog: slog.NewLogLogger(h.Logger.Handler(), slog.LevelDebug)}
}

// openKeys opens the key file, and makes one only where there is no store yet: the key comes first, so a store without
// one has lost it, and a new key would start a server that opens nothing of what is there. A key without a store is
// what a first start leaves that was broken off, or what is left where the store's disk is not mounted.
func openKeys(c Config) (*keys.Keys, error) {
	if err := os.MkdirAll(c.Data, 0o700); err != nil {
		return nil, fmt.Errorf("data directory %s cannot be created: %w", c.Data, err)
	}
	key, data := filepath.Join(c.Data, KeyFile), filepath.Join(c.Data, StoreDir)
	_, noKey := os.Lstat(key)
	_, noStore := os.Stat(data)
	switch {
	case errors.Is(noKey, fs.ErrNotExist) && errors.Is(noStore, fs.ErrNotExist) && !empty(c.Data):
		return nil, fmt.Errorf("data directory %s holds something else: name an empty one, or one that does not exist yet", c.Data)
	case errors.Is(noKey, fs.ErrNotExist) && noStore == nil:
		return nil, fmt.Errorf("key file %s is missing, and %s holds a store that only it can open: put the key back, or move the store away to start empty", key, data)
	case noKey == nil && errors.Is(noStore, fs.ErrNotExist):
		c.Logger.Warn("there is a key and no store: the server starts empty; is the right disk mounted?", "key", key, "store", data)
	}
	return keys.Open(key)
}

// empty says whether a directory holds nothing but what the file system itself puts there.
func empty(dir string) bool {
	entries, err := os.ReadDir(dir)
	return err == nil && !slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return e.Name() != "lost+found" })
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
	if h.beside != nil {
		h.chores.Go(func() { h.beside.Serve(h.aside) }) // until close
	}
	failed := make(chan error, 1)
	go func() { failed <- h.server.Serve(netutil.LimitListener(h.listener, connectionsMax)) }()
	var err error
	select {
	case <-ctx.Done():
	case err = <-failed:
	}
	h.stopping.Store(true)
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
	if h.beside != nil { // last, so that it tells how the stop goes
		err = errors.Join(err, h.beside.Close())
	}
	h.chores.Wait()
	if lost := h.watch.Close(ctx); lost != nil {
		h.Logger.Warn("the last traces could not be sent", "error", lost)
	}
	return errors.Join(err, h.store.Close())
}

// MetricsURL is where the metrics are, or empty where they are not served.
func (h *Host) MetricsURL() string {
	switch {
	case h.aside != nil:
		return "http://" + h.aside.Addr().String() + "/metrics"
	case h.loopback():
		return "http://" + h.Address() + "/metrics"
	}
	return ""
}

// release gives back what Open took before it failed.
func (h *Host) release() {
	if h.socket != nil {
		h.socket.Close()
	}
	if h.listener != nil {
		h.listener.Close()
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

// Package host runs leaselog as one program: a backing, which is the embedded store with its key file unless another is
// given, and every HTTP API behind one listener.
package host

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/leaselog/leaselog/internal/api/rest"
	"github.com/leaselog/leaselog/internal/auth"
	"github.com/leaselog/leaselog/internal/watch"
)

// Config says how the server runs.
type Config struct {
	Listen string // host:port; port 0 takes a free one
	// Open opens where everything is kept, and has it tell the watch what it does; nil: the embedded store in Data.
	Open   func(*watch.Watch) (*Backing, error)
	Data   string // directory of the store and the key file; made where it is missing
	Region string // in resource names; default: the backing's
	Shards int    // of new standard queues; default 1, with a shared backing its own
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
	Traces        string // base URL of an OTLP collector for spans; empty: nothing is traced
	Push          string // base URL of an OTLP collector for metrics; empty: they are only scraped
	Version       string // of the program, for metrics and traces
	Logger        *slog.Logger
}

// Host is a server that is open: its backing is opened, its address taken.
type Host struct {
	Config
	*Backing
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
	socket   net.Listener  // nil: it could not be made
	patience time.Duration // how long a stop waits for what runs
}

const (
	connectionsMax  = 16_384
	headerBytesMax  = 64 << 10
	requestTimeout  = 30 * time.Second // to read a request whole
	responseTimeout = 90 * time.Second // a long poll takes 20 s of it
	idleTimeout     = 5 * time.Minute
	stopTimeout     = 15 * time.Second

	tickEvery  = 250 * time.Millisecond
	movesEvery = 50 * time.Millisecond
)

// Open opens the backing and takes the address. What is refused is said in one sentence.
func Open(c Config) (_ *Host, err error) {
	c.fill()
	if err := c.checkAccess(); err != nil {
		return nil, err
	}
	h := &Host{Config: c, patience: stopTimeout}
	defer func() {
		if err != nil {
			h.release()
		}
	}()
	if err := h.openWatch(); err != nil {
		return nil, err
	}
	if c.Open != nil {
		h.Backing, err = c.Open(h.watch)
	} else {
		h.Backing, err = embedded(c, h.watch)
	}
	if err != nil {
		return nil, err
	}
	if h.Config.Region == "" {
		h.Config.Region = h.Backing.Region
	}
	if err := h.openAccess(); err != nil {
		return nil, err
	}
	api, err := rest.New(rest.Config{Broker: h.Broker, Auth: h.scheme, Tokens: h.scheme, Region: h.Config.Region, Secret: h.Secret[:], Logger: c.Logger,
		Failed: h.watch.Failed, Served: h.watch.Served})
	if err != nil {
		return nil, err
	}
	if err := h.watch.Look(h.Broker, h.Disk); err != nil {
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
	h.watch, err = watch.New(watch.Config{Version: h.Version, Operations: operations, Traces: h.Traces, Push: h.Push, Logger: h.Logger})
	return err
}

// listen takes the addresses.
func (h *Host) listen(api http.Handler) (err error) {
	main := &front{api: api, healthy: h.Healthy, stopping: &h.stopping}
	if h.listener, err = h.bind(); err != nil {
		return fmt.Errorf("cannot listen on %s: %w", h.Listen, err)
	}
	switch {
	case h.MetricsListen != "":
		if h.aside, err = net.Listen("tcp", h.MetricsListen); err != nil {
			return fmt.Errorf("cannot listen on %s for metrics: %w", h.MetricsListen, err)
		}
		h.beside = h.serving(&front{metrics: h.watch.Metrics(), healthy: h.Healthy, stopping: &h.stopping})
	case h.loopback():
		main.metrics = h.watch.Metrics()
	}
	h.server = h.serving(main)
	return nil
}

func (h *Host) serving(handler http.Handler) *http.Server {
	return &http.Server{Handler: handler, ConnContext: attended, ReadTimeout: requestTimeout, WriteTimeout: responseTimeout,
		IdleTimeout: idleTimeout, MaxHeaderBytes: headerBytesMax, ErrorLog: slog.NewLogLogger(h.Logger.Handler(), slog.LevelDebug)}
}

func (c *Config) fill() {
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

// Run serves until ctx ends. Then waiting polls are answered with nothing, commands that run are finished, and the store
// is closed, unless it is silent for 15 s.
func (h *Host) Run(ctx context.Context) error {
	tuneCollector()
	if h.Disk != nil {
		addProcessors()
	}
	work, stop := context.WithCancel(context.Background())
	h.chores.Go(func() { h.every(work, tickEvery, h.Tick) })
	h.chores.Go(func() { h.every(work, sweepEvery, h.sweep) })
	h.chores.Go(func() { h.every(work, movesEvery, h.moves) })
	if h.Follow != nil {
		h.chores.Go(func() { h.Follow(work) })
	}
	h.serveAdmin()
	if h.beside != nil {
		h.chores.Go(func() { h.beside.Serve(h.aside) }) // until close
	}
	failed := make(chan error, 1)
	go func() { failed <- h.server.Serve(h.listener) }()
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

// close ends what runs and closes the store. A disk that answers nothing, not even an error, keeps whoever waits for it, and
// would keep this: what is not closed in time is left as a crash leaves it, which loses nothing that was acknowledged.
func (h *Host) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), h.patience)
	defer cancel()
	closed := make(chan error, 1)
	go func() { closed <- h.finish(ctx) }()
	select {
	case err := <-closed:
		return err
	case <-time.After(h.patience + h.patience/3):
		return errors.New("stopped, though the store was not closed: it does not answer")
	}
}

func (h *Host) finish(ctx context.Context) error {
	answered := make(chan error, 1)
	go func() { answered <- h.server.Shutdown(ctx) }()
	h.closeAdmin(ctx)
	inTime := context.AfterFunc(ctx, func() {
		h.Logger.Warn("the store does not confirm what is under way; it is left as a crash leaves it, and may take effect or not")
		h.Broker.Abandon()
	})
	h.Broker.Close()
	inTime()
	err := <-answered
	if errors.Is(err, context.DeadlineExceeded) {
		err = fmt.Errorf("stopped, though requests were under way for %v more", h.patience)
	}
	if h.beside != nil { // last, so that it tells how the stop goes
		err = errors.Join(err, h.beside.Close())
	}
	h.chores.Wait()
	if lost := h.watch.Close(ctx); lost != nil {
		h.Logger.Warn("the last traces or metrics could not be sent", "error", lost)
	}
	return errors.Join(err, h.Backing.Close())
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
	if h.Backing != nil {
		h.Backing.Close()
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

// moves advances move tasks for as long as there is something to do at once.
func (h *Host) moves(ctx context.Context) error {
	for ctx.Err() == nil {
		if next, err := h.Broker.Moves(ctx); err != nil || next > h.Broker.Now() {
			return err
		}
	}
	return nil
}

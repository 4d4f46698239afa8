// Package rest is the native API: Basaltic's queue API, both of its dialects. It translates to the broker and decides
// nothing about messages. One file per operation; sections named in comments are those of the API page.
package rest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"

	"github.com/leaselog/leaselog/events"
	"github.com/leaselog/leaselog/internal/api"
	"github.com/leaselog/leaselog/internal/broker"
)

// Broker is what the dialect needs of a broker; [broker.Broker] is one. Queues and messages that it gives are shared
// and are not changed here. What it is given of a message it may keep.
type Broker interface {
	Create(ctx context.Context, c broker.CreateQueue) (*broker.Queue, error)
	Find(ctx context.Context, r broker.Ref) (*broker.Queue, error)
	Describe(ctx context.Context, id events.QueueID) (*broker.Queue, error)
	Depth(ctx context.Context, id events.QueueID) (*broker.Depth, error)
	KeptDepths(ctx context.Context, ids []events.QueueID) ([]*broker.Depth, error)
	List(ctx context.Context, l broker.ListQueues) (queues []*broker.Queue, more bool, err error)
	Update(ctx context.Context, u broker.UpdateQueue) (*broker.Queue, error)
	Delete(ctx context.Context, r broker.Ref) error
	Purge(ctx context.Context, id events.QueueID) (uint64, error)
	Send(ctx context.Context, id events.QueueID, messages []broker.Outgoing) ([]broker.Sent, error)
	Receive(ctx context.Context, r broker.Receive) ([]broker.Delivery, error)
	Ack(ctx context.Context, id events.QueueID, receipts []string) ([]error, error)
	Extend(ctx context.Context, id events.QueueID, items []broker.Extend) ([]error, error)
	Peek(ctx context.Context, p broker.Peek) (broker.Page, error)
	StartMove(ctx context.Context, s broker.StartMove) (*broker.MoveTask, error)
	PreviewMove(ctx context.Context, s broker.StartMove) (*broker.MoveTask, error)
	Move(ctx context.Context, id events.QueueID, task broker.TaskID) (*broker.MoveTask, error)
	Life(ctx context.Context, q broker.LifeOf) (*broker.Life, error)
	ListMoves(ctx context.Context, l broker.ListMoves) (tasks []*broker.MoveTask, more bool, err error)
	CancelMove(ctx context.Context, id events.QueueID, task broker.TaskID) (*broker.MoveTask, error)
	ResolveKey(ctx context.Context, ref string) (broker.Key, error)
	Refused(ctx context.Context, err error) error
}

var _ Broker = (*broker.Broker)(nil)

// Config says what the dialect works with.
type Config struct {
	Broker Broker
	// Auth says who calls.
	Auth api.Authenticator
	// Tokens serves /v1/oauth; nil: these paths are unknown here.
	Tokens api.Tokens
	// Region stands in every CRN; default "sa-saopaulo-1". The account in a CRN is the one that the queue belongs to.
	Region string
	// Secret signs page markers: at least 16 bytes, the same in every process of the deployment.
	Secret []byte
	// Logger gets every error that is answered: those of ours at level Error, the callers' at Debug. Default: none.
	Logger *slog.Logger
	// Failed, where it is set, is called once for every error that is answered, in an entry of a batch too.
	Failed func(status int, code string)
	// Served, where it is set, is called once for every request when it has been answered.
	Served func(*api.Served)
}

// regionDefault is the platform's (section 1).
const regionDefault = "sa-saopaulo-1"

// secretBytesMin makes a guessed marker hopeless.
const secretBytesMin = 16

// handler serves some or all of the operations.
type handler struct {
	Config
	router api.Router[*operation]
	calls  sync.Pool
	// running holds the idempotency keys whose requests run in this process; others meet in the broker's claims.
	running sync.Map
}

// New makes a handler of every operation and of the contract, for a host that serves them all.
func New(c Config) (http.Handler, error) { return serve(c, append(operations(), contracts()...)) }

// serve makes a handler of some operations, and reports every problem of its configuration at once.
func serve(c Config, operations []*operation) (http.Handler, error) {
	if err := c.complete(); err != nil {
		return nil, err
	}
	h := &handler{Config: c}
	h.calls.New = func() any { return &call{h: h} }
	for _, op := range operations {
		if op.access == tokens && c.Tokens == nil || op.access == revocation && c.Tokens == nil {
			continue
		}
		h.router.Add(op.method, op.path, op)
	}
	return h, nil
}

func (c *Config) complete() error {
	var problems []error
	if c.Broker == nil {
		problems = append(problems, errors.New("rest: Broker is missing"))
	}
	if c.Auth == nil {
		problems = append(problems, errors.New("rest: Auth is missing"))
	}
	if len(c.Secret) < secretBytesMin {
		problems = append(problems, fmt.Errorf("rest: Secret must have at least %d bytes, not %d", secretBytesMin, len(c.Secret)))
	}
	if c.Region == "" {
		c.Region = regionDefault
	}
	if !regionOK(c.Region) {
		problems = append(problems, fmt.Errorf("rest: Region must be words of a-z and 0-9 joined by dashes, not %q", c.Region))
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return errors.Join(problems...)
}

// ServeHTTP answers one request. A panic is answered as an internal error, and its call is not used again.
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c := h.calls.Get().(*call)
	c.begin(w, r)
	defer c.recovered()
	if err := c.run(); err != nil {
		c.fail(err)
	}
	c.told()
	c.end()
	h.calls.Put(c)
}

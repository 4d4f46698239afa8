// Package host runs leaselog in AWS: it opens a deployment, for a server too, and makes Lambda functions of endpoints,
// chores and projections.
package host

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"runtime/debug"
	"sync"
	"time"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-lambda-go/lambda"

	leaselog "github.com/leaselog/leaselog/events"
	"github.com/leaselog/leaselog/internal/api"
	"github.com/leaselog/leaselog/internal/aws/store"
	"github.com/leaselog/leaselog/internal/sweep"
	"github.com/leaselog/leaselog/internal/views"
)

// answerMargin is what an invocation keeps of its time to answer in, whatever its handler waits for.
const answerMargin = 500 * time.Millisecond

// Serve is a function that serves an endpoint behind an HTTP API or a function's URL.
func Serve(e api.Endpoint) { lambda.Start(newFunction(e.Name, os.Getenv, os.Stdout).serving(e)) }

// Tick is a function that does a chore on a schedule. The event is of no interest.
func Tick(c sweep.Chore) { lambda.Start(newFunction(c.Name, os.Getenv, os.Stdout).ticking(c)) }

// function is what the invocations of one process share. The deployment is opened by the first of them, and again by
// the next while that fails.
type function struct {
	name      string
	getenv    func(string) string
	now       func() leaselog.Instant // nil: the clock on the wall
	telemetry *telemetry

	mu         sync.Mutex
	deployment *Deployment
	handler    http.Handler    // of an endpoint
	follower   *views.Follower // of a projection
	tables     *store.Store    // of a function that needs no key
}

func newFunction(name string, getenv func(string) string, out io.Writer) *function {
	return &function{name: name, getenv: getenv, telemetry: newTelemetry(name, getenv, out)}
}

// open gives the deployment.
func (f *function) open(ctx context.Context) (*Deployment, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.deployment != nil {
		return f.deployment, nil
	}
	c, err := FromEnvironment(f.getenv)
	if err != nil {
		return nil, err
	}
	t := f.telemetry
	c.Unattended = true
	c.Now, c.Logger, c.Meter, c.Failed, c.Consumed = f.now, t.logger, t, t.Failed, t.consumed
	if f.deployment, err = Open(ctx, c); err == nil {
		t.traffics = f.deployment.Broker.Traffics
	}
	return f.deployment, err
}

// endpoint gives the handler of an endpoint.
func (f *function) endpoint(ctx context.Context, e api.Endpoint) (http.Handler, error) {
	d, err := f.open(ctx)
	if err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.handler == nil {
		s := d.Services()
		s.Served = f.telemetry.served
		f.handler, err = e.New(s)
	}
	return f.handler, err
}

type invocation = func(context.Context, events.APIGatewayV2HTTPRequest) (events.APIGatewayV2HTTPResponse, error)

// serving answers events by an endpoint. Every failure is an answer in the dialect's form.
func (f *function) serving(e api.Endpoint) invocation {
	return func(ctx context.Context, event events.APIGatewayV2HTTPRequest) (events.APIGatewayV2HTTPResponse, error) {
		ctx, end := f.telemetry.begin(ctx, event.RequestContext.RequestID)
		defer end()
		ctx, cancel := shorter(ctx)
		defer cancel()
		a := newAnswer()
		r, err := request(ctx, &event, e.Encoded)
		if err == nil {
			err = f.answer(a, r, e)
		}
		if err != nil {
			a = newAnswer() // whatever was begun
			e.Fail(a, r, f.telemetry.logger, err)
			f.telemetry.Failed(a.status, "")
		}
		return a.response(), nil
	}
}

// answer lets the endpoint answer. A panic is an error.
func (f *function) answer(w http.ResponseWriter, r *http.Request, e api.Endpoint) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	h, err := f.endpoint(r.Context(), e)
	if err != nil {
		return err
	}
	h.ServeHTTP(w, r)
	return nil
}

// ticking does a chore. Its error is the invocation's, which Lambda counts and alarms tell.
func (f *function) ticking(c sweep.Chore) func(context.Context, json.RawMessage) error {
	return func(ctx context.Context, _ json.RawMessage) error {
		ctx, end := f.telemetry.begin(ctx, "")
		defer end()
		ctx, cancel := shorter(ctx)
		defer cancel()
		d, err := f.open(ctx)
		if err == nil {
			err = c.Run(ctx, sweep.Site{Broker: d.Broker, Views: d.Views})
		}
		if err != nil {
			return fmt.Errorf("%s: %w", c.Name, err)
		}
		f.telemetry.add(sweptThrough, 1)
		return nil
	}
}

// shorter ends before the invocation does.
func shorter(ctx context.Context) (context.Context, context.CancelFunc) {
	end, bounded := ctx.Deadline()
	if !bounded {
		return context.WithCancel(ctx)
	}
	return context.WithDeadline(ctx, end.Add(-answerMargin))
}

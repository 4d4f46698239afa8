// Package api is what the dialects share: the shape of an endpoint, what a host gives it to work with, and a router.
package api

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/leaselog/leaselog/internal/auth"
	"github.com/leaselog/leaselog/internal/broker"
)

// Endpoint is one operation of a dialect. Its handler is the same in a Lambda function and in the server.
type Endpoint struct {
	// Name is also the folder under functions/ and the resource in template.yaml: "send-message".
	Name string
	// Method and Path are its route. {name} in a path stands for one segment.
	Method, Path string
	// New makes the handler, once per process. The error names every problem of the services.
	New func(Services) (http.Handler, error)
	// Encoded gives a path as clients send it from one that a gateway may have decoded; what was not is left as it is.
	Encoded func(path string) string
	// Fail answers a request with an error in the dialect's form, for a host that has no handler (yet). It logs the
	// error as the handler would.
	Fail func(w http.ResponseWriter, r *http.Request, logger *slog.Logger, err error)
}

// Authenticator says who makes a request. A request without good credentials is a fault Unauthorized; any other error
// is a failure of the authenticator and not of the caller.
type Authenticator interface {
	// Authenticate has no effect, because clients repeat a request that was answered 401. It may read the body and put
	// it back.
	Authenticate(r *http.Request) (auth.Caller, error)
	// Once claims a caller's nonce alone, for a request whose effect does not carry it. Faults: Unauthorized when it is
	// taken, which makes the request a replay.
	Once(ctx context.Context, n auth.Nonce) error
}

// Tokens serves the token endpoint, which some hosts do not have.
type Tokens interface {
	// Exchange gives a token for a key pair. The request is not authenticated in any other way.
	Exchange(w http.ResponseWriter, r *http.Request)
	// Revoke makes a token of the caller's account useless, and answers unless it gives an error.
	Revoke(w http.ResponseWriter, r *http.Request, caller auth.Caller) error
}

// Services are what a host gives every endpoint.
type Services struct {
	Broker *broker.Broker
	Auth   Authenticator
	Tokens Tokens // nil: the token endpoint does not exist here
	// Region stands in resource names; empty means the dialect's default.
	Region string
	// Secret is the key under which dialects sign what they hand out and take back, such as page markers: at least 16
	// bytes, the same in every process of the deployment.
	Secret []byte
	Logger *slog.Logger
	// Failed, where it is set, is called once for every error that is answered, with the dialect's own code.
	Failed func(status int, code string)
	// Served, where it is set, is called once for every request when it has been answered.
	Served func(*Served)
}

// Served says how a request went. It is valid during the call that tells of it.
type Served struct {
	Request   *http.Request
	ID        [36]byte      // as in X-Request-Id
	Operation string        // the endpoint's name; empty for a path or method that is none
	Queue     *broker.Queue // nil where the request named none, or none that exists
	Status    int
	Code      string // of the error, in the dialect's words; empty when it went well
	Began     time.Time
	Took      time.Duration
}

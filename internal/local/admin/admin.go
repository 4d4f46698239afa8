// Package admin manages accounts, access keys, views and sweeps of a data directory: through the socket of the server that runs on it,
// or on its store where none runs. Both ways lead to the same handler.
//
// There is no password: who may use the files may manage the keys. The socket has mode 0600, as the key file has.
package admin

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/leaselog/leaselog/events"
	"github.com/leaselog/leaselog/internal/auth"
	"github.com/leaselog/leaselog/internal/broker"
	"github.com/leaselog/leaselog/internal/eventlog"
	"github.com/leaselog/leaselog/internal/fault"
	"github.com/leaselog/leaselog/internal/local/keys"
	"github.com/leaselog/leaselog/internal/sweep"
)

// Directory opens the directory of accounts and keys in a log that this process has for itself.
func Directory(log eventlog.Log, k *keys.Keys, now func() events.Instant) (*auth.Directory, error) {
	return auth.NewDirectory(auth.Config{Log: log, Secret: k.Secret("auth"), Now: now, Rand: rand.Reader,
		HasQueues: func(ctx context.Context, handle string) (bool, error) { return broker.HasQueues(ctx, log, handle) }})
}

// requestBytesMax is room for a key with all the policies that it may have.
const requestBytesMax = 256 << 10

// rotation is the body of a rotate.
type rotation struct {
	GraceMilliseconds int64 `json:"grace_ms"`
}

// named is the body that makes an account.
type named struct {
	Handle string `json:"handle"`
}

// documents is the body that sets policies.
type documents struct {
	Policies [][]byte `json:"policies"`
}

// Handler serves a directory, views, and the sweeps of a server that has a site. created is called after a key was made.
func Handler(d *auth.Directory, v Views, created func(), site *sweep.Site) http.Handler {
	m := http.NewServeMux()
	v.serve(m)
	if site != nil {
		sweeps(m, *site)
	}
	on(m, "POST /accounts", func(r *http.Request, in named) (any, error) { return d.CreateAccount(r.Context(), in.Handle) })
	on(m, "GET /accounts", func(r *http.Request, _ none) (any, error) { return d.Accounts(r.Context()) })
	on(m, "DELETE /accounts/{ref}", func(r *http.Request, _ none) (any, error) {
		return none{}, d.DeleteAccount(r.Context(), r.PathValue("ref"))
	})
	on(m, "POST /keys", func(r *http.Request, in auth.NewKey) (any, error) {
		k, err := d.CreateKey(r.Context(), in)
		if err == nil {
			created()
		}
		return issued(k), err
	})
	on(m, "GET /keys", func(r *http.Request, _ none) (any, error) { return d.Keys(r.Context(), r.FormValue("account")) })
	on(m, "POST /keys/{ref}/rotate", func(r *http.Request, in rotation) (any, error) {
		k, err := d.RotateKey(r.Context(), r.PathValue("ref"), time.Duration(in.GraceMilliseconds)*time.Millisecond)
		return issued(k), err
	})
	on(m, "PUT /keys/{ref}/policies", func(r *http.Request, in documents) (any, error) {
		return d.SetPolicies(r.Context(), r.PathValue("ref"), in.Policies)
	})
	on(m, "DELETE /keys/{ref}", func(r *http.Request, _ none) (any, error) {
		return none{}, d.DeleteKey(r.Context(), r.PathValue("ref"))
	})
	for verb, enable := range map[string]bool{"enable": true, "disable": false} {
		on(m, "POST /accounts/{ref}/"+verb, func(r *http.Request, _ none) (any, error) {
			return d.EnableAccount(r.Context(), r.PathValue("ref"), enable)
		})
		on(m, "POST /keys/{ref}/"+verb, func(r *http.Request, _ none) (any, error) {
			return d.EnableKey(r.Context(), r.PathValue("ref"), enable)
		})
	}
	return m
}

// none is a body that says nothing.
type none struct{}

// issued is a key with its secret, as its one reader is to see it.
type issued auth.Issued

// on serves a route: a JSON body in, where one is expected, and JSON out.
func on[In any](m *http.ServeMux, route string, serve func(*http.Request, In) (any, error)) {
	m.HandleFunc(route, func(w http.ResponseWriter, r *http.Request) {
		var in In
		if _, empty := any(in).(none); !empty {
			text, err := io.ReadAll(http.MaxBytesReader(w, r.Body, requestBytesMax))
			if err == nil {
				err = json.Unmarshal(text, &in)
			}
			if err != nil {
				fail(w, fault.New(fault.Invalid, "the request is larger than %d bytes, or not JSON", requestBytesMax))
				return
			}
		}
		out, err := serve(r, in)
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(requestTimeout)) // what was asked for may have taken long
		if err != nil {
			fail(w, err)
			return
		}
		answer(w, http.StatusOK, out)
	})
}

// failure is an error on the wire. It goes between processes of one user, so it tells the cause too.
type failure struct {
	Code    fault.Code `json:"code"`
	Message string     `json:"message"`
}

func fail(w http.ResponseWriter, err error) {
	f := failure{fault.Internal, err.Error()}
	if known, is := errors.AsType[*fault.Error](err); is {
		f = failure{known.Code, known.Message}
		if known.Code == fault.Unavailable || known.Code == fault.Internal {
			f.Message = known.Error()
		}
	}
	answer(w, http.StatusBadRequest, f)
}

func answer(w http.ResponseWriter, status int, v any) {
	text, err := json.Marshal(v)
	if err != nil {
		status, text = http.StatusInternalServerError, []byte(`{"code":"internal","message":"the answer cannot be written"}`)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	w.Write(text)
}

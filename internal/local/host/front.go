package host

import (
	"net/http"
	"strings"
	"sync/atomic"
)

// front stands before the API: it answers what those who run the server ask, without credentials, and passes on the
// rest. It compares strings and no more, because every request goes through it; a router that cleans paths would
// redirect, which clients do not follow.
type front struct {
	api     http.Handler // nil on the listener for those who run the server alone
	metrics http.Handler // nil: they are elsewhere, or nowhere
	healthy func() error // why the store takes no writes, or nil

	stopping *atomic.Bool
}

// ServeHTTP answers a request.
func (f *front) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.URL.Path == "/healthz":
		f.say(w, r, http.StatusOK, `{"alive":true}`)
	case r.URL.Path == "/readyz":
		f.ready(w, r)
	case r.URL.Path == "/metrics" && f.metrics != nil:
		f.metrics.ServeHTTP(w, r)
	case f.api != nil:
		f.api.ServeHTTP(w, r)
	default:
		http.NotFound(w, r)
	}
}

// ready says whether requests should be sent here. Its reason goes to whoever asks, so it holds no path: the log has
// the whole error.
func (f *front) ready(w http.ResponseWriter, r *http.Request) {
	switch err := f.healthy(); {
	case f.stopping.Load():
		f.say(w, r, http.StatusServiceUnavailable, `{"ready":false,"reason":"the server is stopping"}`)
	case err != nil:
		reason, _, _ := strings.Cut(err.Error(), ":") // such as "the disk is full", which needs no quoting
		f.say(w, r, http.StatusServiceUnavailable, `{"ready":false,"reason":"the store takes no writes: `+reason+`"}`)
	default:
		f.say(w, r, http.StatusOK, `{"ready":true}`)
	}
}

// say answers with JSON that nobody keeps.
func (f *front) say(w http.ResponseWriter, r *http.Request, status int, text string) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		status, text = http.StatusMethodNotAllowed, `{"error":"this path takes GET and HEAD"}`
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	w.Write([]byte(text + "\n"))
}

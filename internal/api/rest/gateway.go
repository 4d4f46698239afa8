package rest

import (
	"log/slog"
	"net/http"
	"net/url"
	"strings"
)

// kindSuffix ends a queue's CRN that was cut at its slash.
const kindSuffix = ":" + kindQueue

// encoded mends a path that a gateway has decoded before it passed it on, as API Gateway does: of all that stands in a
// path only the slash of a queue's CRN then reads as something else, as the end of a segment.
func encoded(path string) string {
	place := queuesPath + "/"
	if strings.HasPrefix(path, extensionPath) {
		place = extensionPath + place
	}
	rest, inQueues := strings.CutPrefix(path, place)
	reference, name, more := strings.Cut(rest, "/")
	if !inQueues || !more {
		return path
	}
	if plain, err := url.PathUnescape(reference); err != nil || !strings.HasPrefix(plain, crnPrefix) || !strings.HasSuffix(plain, kindSuffix) {
		return path
	}
	return place + reference + "%2F" + name
}

// fail answers without a handler.
func fail(w http.ResponseWriter, r *http.Request, logger *slog.Logger, err error) {
	c := &call{h: &handler{Config: Config{Logger: logger}}}
	c.begin(w, r)
	c.fail(err)
}

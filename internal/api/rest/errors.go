package rest

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"unicode/utf8"

	"github.com/leaselog/leaselog/internal/fault"
)

// wire is how an error looks from outside (section 6): status, code and at most one header of its own.
type wire struct {
	status        int
	code          string
	header, value string
}

// wires has every fault's wire error. A test holds it complete.
//
// Unavailable says that nothing was done, so it may be sent again after a second. Unconfirmed may still take effect
// and gives no time at which a repeat would be safe. Limit passes by itself, but not by a client's quick retry, which
// 429 and 503 would bring about; its code ends as the SDKs' quota class wants it.
var wires = map[fault.Code]wire{
	fault.Invalid:      {status: http.StatusBadRequest, code: "INVALID_INPUT"},
	fault.TooLarge:     {status: http.StatusBadRequest, code: "QUEUE_MESSAGE_TOO_LARGE"},
	fault.Unauthorized: {status: http.StatusUnauthorized, code: "UNAUTHORIZED", header: "Www-Authenticate", value: "Bearer"},
	fault.Denied:       {status: http.StatusForbidden, code: "ACCESS_DENIED"},
	fault.NotFound:     {status: http.StatusNotFound, code: "NOT_FOUND"},
	fault.Exists:       {status: http.StatusConflict, code: "QUEUE_ALREADY_EXISTS"},
	fault.ForeignLease: {status: http.StatusBadRequest, code: "INVALID_INPUT"},
	fault.LeaseEnded:   {status: http.StatusConflict, code: "QUEUE_RECEIPT_HANDLE_EXPIRED"},
	fault.KeyMismatch:  {status: http.StatusConflict, code: "IDEMPOTENCY_KEY_MISMATCH"},
	fault.KeyInUse:     {status: http.StatusConflict, code: "IDEMPOTENCY_KEY_IN_USE"},
	fault.Quota:        {status: http.StatusForbidden, code: "QUEUE_QUOTA_EXCEEDED"},
	fault.Limit:        {status: http.StatusForbidden, code: "QUEUE_LIMIT_EXCEEDED"},
	fault.KeyLost:      {status: http.StatusConflict, code: "KMS_KEY_UNAVAILABLE"},
	fault.Unavailable:  {status: http.StatusServiceUnavailable, code: "UNAVAILABLE", header: "Retry-After", value: "1"},
	fault.Unconfirmed:  {status: http.StatusServiceUnavailable, code: "UNAVAILABLE"},
	fault.Internal:     {status: http.StatusInternalServerError, code: "INTERNAL"},
}

// canceled is what logs and metrics say of a request whose caller left before the answer: nobody reads it, and it is no
// fault of the server. The status is the one that proxies have made common for it.
var canceled = wire{status: 499, code: "REQUEST_CANCELED"}

// internalText is all that a user is told of a fault of ours.
const internalText = "something went wrong here; the request id finds it in the server's log"

// refusal is an error of the transport, for which there is no fault: the broker knows no routes and no encodings.
type refusal struct {
	wire
	message string
}

func (r *refusal) Error() string { return r.code + ": " + r.message }

// unrouted refuses a path that is unknown, or known with the methods of allow only.
func unrouted(method, allow string) error {
	if allow == "" {
		return &refusal{wire{status: http.StatusNotFound, code: "NOT_FOUND"}, "there is nothing at this path"}
	}
	return &refusal{wire{status: http.StatusMethodNotAllowed, code: "METHOD_NOT_ALLOWED", header: "Allow", value: allow},
		"this path takes " + allow + ", not " + shorten(method)}
}

// tooLong refuses a body, and closes the connection rather than read the rest of it.
func tooLong() error {
	return &refusal{wire{status: http.StatusRequestEntityTooLarge, code: "REQUEST_TOO_LARGE", header: "Connection", value: "close"},
		"the request's body must have at most 16777216 bytes, also when it is decompressed"}
}

// unsupported refuses a content coding that is not decoded here. The code is that of any bad request.
func unsupported(coding string) error {
	return &refusal{wire{status: http.StatusUnsupportedMediaType, code: "INVALID_INPUT", header: "Accept-Encoding", value: "gzip, identity"},
		"Content-Encoding must be gzip or identity, not " + shorten(coding)}
}

// invalid is the commonest fault.
func invalid(format string, args ...any) error { return fault.New(fault.Invalid, format, args...) }

// fail renders an error as the answer.
func (c *call) fail(err error) {
	w, message := c.judge(err)
	if c.sent {
		return // it broke after the answer had begun; the log has it
	}
	if w.header != "" {
		c.w.Header().Set(w.header, w.value)
	}
	b := append(c.out[:0], `{"error":{"code":"`...)
	b = append(b, w.code...)
	b = quote(append(b, `","message":`...), message)
	b = append(b, `,"request_id":"`...)
	b = append(b, c.id[:]...)
	c.out = append(b, `"}}`...)
	c.served.Code = w.code
	c.json(w.status)
}

// judge finds the wire error of err, logs and counts it. Every error passes here once: one that is the whole answer,
// and one that is the result of an entry.
func (c *call) judge(err error) (w wire, message string) {
	if r, ok := errors.AsType[*refusal](err); ok {
		w, message = r.wire, r.message
	} else {
		w, message = c.judgeFault(err)
	}
	gone := errors.Is(c.r.Context().Err(), context.Canceled) // a host's own deadline is no departure: it still answers
	if gone {
		w = canceled
	}
	level := slog.LevelDebug
	if w.status >= http.StatusInternalServerError && !gone {
		level = slog.LevelError
	}
	if c.h.Logger.Enabled(c.r.Context(), level) {
		c.h.Logger.LogAttrs(c.r.Context(), level, "request failed", slog.String("request", string(c.id[:])),
			slog.String("method", c.r.Method), slog.String("path", c.r.URL.Path),
			slog.Int("status", w.status), slog.String("code", w.code), slog.Any("error", err))
	}
	if c.h.Failed != nil {
		c.h.Failed(w.status, w.code)
	}
	return w, message
}

func (c *call) judgeFault(err error) (wire, string) {
	f := fault.Of(err)
	w, known := wires[f.Code]
	gone := errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
	switch {
	case known && f.Code != fault.Internal:
		return w, f.Message
	case gone: // the caller left or ran out of time: nobody's fault, and what was begun may still take effect
		return wires[fault.Unconfirmed], "the request was given up before it was answered"
	}
	return wires[fault.Internal], internalText
}

// shorten cuts a caller's own words so that a message stays readable.
func shorten(s string) string {
	if len(s) <= echoBytesMax {
		return s
	}
	cut := echoBytesMax
	for cut > 0 && !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut] + "…"
}

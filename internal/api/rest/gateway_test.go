package rest

import (
	"context"
	"errors"
	"log/slog"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/leaselog/leaselog/internal/fault"
)

// TestEncoded: the slash of a queue's CRN is an encoded one again; everything else is left as it is.
func TestEncoded(t *testing.T) {
	const crn = "/v1/queues/crn:queue:sa-saopaulo-1:acme:queue"
	for in, want := range map[string]string{
		crn + "/orders":                                            crn + "%2Forders",
		crn + "/orders/messages":                                   crn + "%2Forders/messages",
		crn + "/orders.fifo/messages/receive":                      crn + "%2Forders.fifo/messages/receive",
		"/v1/queues/crn%3Aqueue%3Ar%3Aa%3Aqueue/orders/purge":      "/v1/queues/crn%3Aqueue%3Ar%3Aa%3Aqueue%2Forders/purge",
		crn + "%2Forders/messages":                                 crn + "%2Forders/messages",
		"/v1/queues/crn%3Aqueue%3Ar%3Aa%3Aqueue%2Forders/messages": "/v1/queues/crn%3Aqueue%3Ar%3Aa%3Aqueue%2Forders/messages",
		crn:                              crn,
		"/v1/queues":                     "/v1/queues",
		"/v1/queues/orders/messages":     "/v1/queues/orders/messages",
		"/v1/queues/a:queue/messages":    "/v1/queues/a:queue/messages",
		"/v1/queues/crn:kms/messages":    "/v1/queues/crn:kms/messages",
		"/v1/queues/%zz:queue/messages":  "/v1/queues/%zz:queue/messages",
		"/v2/queues/crn:queue:queue/abc": "/v2/queues/crn:queue:queue/abc",
	} {
		if got := SendMessage.Encoded(in); got != want {
			t.Errorf("%s: %s, want %s", in, got, want)
		}
	}
}

// TestFail: a host without a handler answers in the dialect's form, and the log has the cause.
func TestFail(t *testing.T) {
	for _, c := range []struct {
		err    error
		status int
		code   string
	}{
		{errors.New("LEASELOG_LOG_TABLE is missing"), 500, "INTERNAL"},
		{fault.New(fault.Unavailable, "try again"), 503, "UNAVAILABLE"},
		{fault.New(fault.KeyLost, "the platform's key is disabled"), 409, "KMS_KEY_UNAVAILABLE"},
	} {
		var log strings.Builder
		w := httptest.NewRecorder()
		SendMessage.Fail(w, httptest.NewRequest("POST", "/v1/queues/q/messages", nil), slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})), c.err)
		body := w.Body.String()
		if w.Code != c.status || !strings.Contains(body, `"code":"`+c.code+`"`) || !strings.Contains(body, `"request_id":"`+w.Header().Get("X-Request-Id")+`"`) {
			t.Errorf("%v: %d %s", c.err, w.Code, body)
		}
		if !strings.Contains(log.String(), c.err.Error()) || c.status == 500 && strings.Contains(body, "TABLE") {
			t.Errorf("%v: answered %s, logged %s", c.err, body, log.String())
		}
	}
}

// TestDeadline: a request whose own time ran out, as in a Lambda function, is answered; one whose caller left is not.
func TestDeadline(t *testing.T) {
	ended, cancel := context.WithTimeout(t.Context(), 0)
	defer cancel()
	w := httptest.NewRecorder()
	SendMessage.Fail(w, httptest.NewRequestWithContext(ended, "POST", "/", nil), slog.New(slog.DiscardHandler), context.DeadlineExceeded)
	if w.Code != 503 || !strings.Contains(w.Body.String(), "UNAVAILABLE") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	left, leave := context.WithCancel(t.Context())
	leave()
	w = httptest.NewRecorder()
	SendMessage.Fail(w, httptest.NewRequestWithContext(left, "POST", "/", nil), slog.New(slog.DiscardHandler), context.Canceled)
	if w.Code != 499 {
		t.Errorf("%d", w.Code)
	}
}

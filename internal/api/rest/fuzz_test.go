package rest

import (
	"encoding/json"
	"net/url"
	"strings"
	"testing"
	"unicode/utf8"
)

// FuzzBodies sends any bytes to every operation that reads a body: no panic, no answer of 500 or more, and what is
// not JSON for the standard library is never taken.
func FuzzBodies(f *testing.F) {
	for _, seed := range []string{`{"body":"x","delay_seconds":1}`, `{"name":"n","tags":{"a":"b"}}`, `{"entries":[{"id":"a","body":"x"}]}`,
		`{"entries":[{"id":"a","receipt_handle":"x","visibility_timeout_seconds":1}]}`, `{"max_messages":1}`, `null`, ``, `[`, "\xff",
		`{"body":"\ud800"}`, `{"redrive_policy":{"dead_letter_queue":"q","max_receive_count":1}}`, `{"redrive_policy":null,"kms_key":null}`,
		`{"body":"x","attributes":{"a":{"type":"Number","value":"1"}}}`, strings.Repeat(`[`, 20000)} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		h := serving(t, new(fake))
		do(t, h, "POST", "/v1/queues", `{"name":"q"}`)
		do(t, h, "POST", "/v1/queues", `{"name":"q.fifo"}`)
		for _, to := range []string{"POST /v1/queues", "PATCH /v1/queues/q", "POST /v1/queues/q/messages", "POST /v1/queues/q.fifo/messages",
			"POST /v1/queues/q/messages/batch", "POST /v1/queues/q/messages/receive", "POST /v1/queues/q/messages/delete-batch",
			"POST /v1/queues/q/messages/visibility", "POST /v1/queues/q/messages/visibility-batch", "POST /v1/oauth/token"} {
			method, path, _ := strings.Cut(to, " ")
			a := do(t, h, method, path, string(body))
			if a.Code >= 500 {
				t.Errorf("%s: %d %s", to, a.Code, a.Body)
			}
			if a.Code < 300 && !empty(body) && !(json.Valid(body) && utf8.Valid(body)) && !strings.Contains(path, "oauth") {
				t.Errorf("%s took what is no JSON", to)
			}
		}
	})
}

// FuzzPaths puts anything in place of a queue and into the query: no panic, no redirect, nothing of 500 or more.
func FuzzPaths(f *testing.F) {
	for _, seed := range []string{"q", "crn:queue:sa-saopaulo-1:local:queue/q", "crn:", "crn::::/", "..", "%", "\x00", "+", strings.Repeat("9", 400),
		"00000000-0000-0000-0000-000000000000", "crn:queue:sa-saopaulo-1:local:message/q/x"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, s string) {
		h := serving(t, new(fake))
		do(t, h, "POST", "/v1/queues", `{"name":"q"}`)
		q := url.QueryEscape(s)
		for _, target := range []string{"/v1/queues/" + url.PathEscape(s), "/v1/queues?marker=" + q, "/v1/queues?limit=" + q,
			"/v1/queues?name=" + q, "/v1/queues?crn=" + q, "/v1/queues/q/messages?marker=" + q, "/v1/queues/q/messages?crn=" + q,
			"/v1/queues/q/messages?visibility=" + q + "&limit=" + q} {
			if a := do(t, h, "GET", target, ""); a.Code >= 500 {
				t.Errorf("%s: %d %s", target, a.Code, a.Body)
			}
		}
		do(t, h, "DELETE", "/v1/queues/q/messages?receipt_handle="+q, "")
	})
}

// FuzzMarkers: a marker gives back its key and nothing that was not made here is taken.
func FuzzMarkers(f *testing.F) {
	f.Add("orders", "x")
	f.Add("", "\xff")
	h := &handler{Config: Config{Secret: secret}}
	f.Fuzz(func(t *testing.T, key, forged string) {
		if key != "" && len(key) < 700 {
			m := h.mark("list", key)
			if got, err := h.unmark("list", m); got != key || err != nil {
				t.Errorf("%q came back as %q, %v", key, got, err)
			}
			if _, err := h.unmark("another", m); err == nil {
				t.Error("taken for another list")
			}
		}
		if got, err := h.unmark("list", forged); err == nil && forged != "" && h.mark("list", got) != forged {
			t.Errorf("a forged marker was taken as %q", got)
		}
	})
}

// FuzzCRNs: what is read as a CRN is written as it was.
func FuzzCRNs(f *testing.F) {
	f.Add("crn:queue:sa-saopaulo-1:local:queue/orders")
	f.Fuzz(func(t *testing.T, s string) {
		if c, ok := parseCRN(s); ok && c.String() != s {
			t.Errorf("%q became %q", s, c)
		}
	})
}

package rest

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/leaselog/leaselog/internal/api"
	"github.com/leaselog/leaselog/internal/auth"
)

// TestEveryRequestIsToldOnce: with its operation, queue, status and code, whoever wrote the answer; and nothing of the
// request before stays in the next.
func TestEveryRequestIsToldOnce(t *testing.T) {
	f := new(fake)
	var told []string
	h, err := New(Config{Broker: f, Auth: auth.Development{}, Tokens: auth.Development{}, Secret: secret, Served: func(s *api.Served) {
		queue := ""
		if s.Queue != nil {
			queue = s.Queue.Name
		}
		if s.Began.IsZero() || s.Took < 0 || !uuidForm.Match(s.ID[:]) || s.Request == nil {
			t.Errorf("%+v", s)
		}
		told = append(told, fmt.Sprintf("%s %q %d %s", s.Operation, queue, s.Status, s.Code))
	}})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		method, target, body, want string
		panics                     bool
	}{
		{"POST", "/v1/queues", `{"name":"q"}`, `create-queue "" 201 `, false},
		{"POST", "/v1/queues/q/messages", `{"body":"x"}`, `send-message "q" 200 `, false},
		{"POST", "/v1/queues/q/messages", `{"body":1}`, `send-message "q" 400 INVALID_INPUT`, false},
		{"POST", "/v1/queues/r/messages", `{"body":"x"}`, `send-message "" 404 NOT_FOUND`, false},
		{"POST", "/v1/queues/q/messages", `{"body":"x"}`, `send-message "q" 500 INTERNAL`, true},
		{"POST", "/v1/queues/q/messages/receive", "", `receive-messages "q" 200 `, false},
		{"POST", "/v1/oauth/revoke", `{"token":"x"}`, `revoke-token "" 204 `, false},
		{"POST", "/v1/oauth/token", `x`, `create-token "" 400 `, false},
		{"GET", "/v1/openapi.yaml", "", `contract "" 200 `, false},
		{"PUT", "/v1/queues", "", ` "" 405 METHOD_NOT_ALLOWED`, false},
		{"GET", "/any/thing", "", ` "" 404 NOT_FOUND`, false},
		{"DELETE", "/v1/queues/q", "", `delete-queue "" 204 `, false},
	} {
		told, f.panics = nil, c.panics
		r := httptest.NewRequest(c.method, c.target, strings.NewReader(c.body))
		r.Header.Set("Authorization", "Bearer x")
		h.ServeHTTP(httptest.NewRecorder(), r)
		if len(told) != 1 || told[0] != c.want {
			t.Errorf("%s %s: told %q, want %q", c.method, c.target, told, c.want)
		}
	}
	told = nil
	h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/v1/queues", nil))
	if len(told) != 1 || told[0] != ` "" 401 UNAUTHORIZED` {
		t.Errorf("without credentials: %q", told)
	}
}

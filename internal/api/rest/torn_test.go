package rest

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// torn is a body that breaks off.
type torn struct {
	io.Reader
	err error
}

func (b *torn) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	if err == io.EOF {
		err = b.err
	}
	return n, err
}

// A body that breaks off is the caller's error, and leaves its Idempotency-Key free for the repeat with the whole body.
func TestTornBody(t *testing.T) {
	for _, cause := range []error{io.ErrUnexpectedEOF, errors.New("i/o timeout")} {
		for _, coding := range []string{"", "gzip"} {
			inReal(t, func(r *real) {
				r.call(http.MethodPost, "/v1/queues", `{"name":"q"}`, 201)
				body := `{"body":"x"}`
				do := func(body io.Reader, coding string) int {
					request := httptest.NewRequest(http.MethodPost, "/v1/queues/q/messages", body)
					request.Header.Set("Authorization", "Bearer test")
					request.Header.Set("Idempotency-Key", "k")
					if coding != "" {
						request.Header.Set("Content-Encoding", coding)
					}
					w := httptest.NewRecorder()
					r.h.ServeHTTP(w, request)
					return w.Code
				}
				part := io.Reader(strings.NewReader(body[:5]))
				if coding == "gzip" {
					part = strings.NewReader("\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03")
				}
				if got := do(&torn{part, cause}, coding); got != http.StatusBadRequest {
					r.t.Errorf("%v %q: a torn body gave %d", cause, coding, got)
				}
				if got := do(strings.NewReader(body), ""); got != http.StatusOK {
					r.t.Errorf("%v %q: the repeat gave %d", cause, coding, got)
				}
			})
		}
	}
}

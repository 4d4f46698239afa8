package keys

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/leaselog/leaselog/internal/fault"
)

// failing is a KMS that answers every call with one error.
func failing(t *testing.T, status int, code string) (*Keys, *atomic.Int32) {
	t.Helper()
	var calls atomic.Int32
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		calls.Add(1)
		w.Header().Set("Content-Type", "application/x-amz-json-1.1")
		w.WriteHeader(status)
		fmt.Fprintf(w, `{"__type":%q,"message":"the plain text of KMS"}`, code)
	}))
	t.Cleanup(s.Close)
	k, err := New(Config{Client: client(s.URL), Key: "platform"})
	if err != nil {
		t.Fatal(err)
	}
	return k, &calls
}

// TestFaults holds each error of KMS to the fault that it must become, for the platform's key and a customer's, and to
// how often it is asked: what may pass is asked again, and not for long; what will not pass is asked once.
func TestFaults(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, c := range []struct {
		status       int
		code         string
		theirs, ours fault.Code
		text         string
		attempts     int32
	}{
		{400, "NotFoundException", fault.Invalid, fault.KeyLost, "does not exist", 1},
		{400, "InvalidArnException", fault.Invalid, fault.KeyLost, "an ARN that KMS cannot read", 1},
		{400, "InvalidAliasNameException", fault.Invalid, fault.KeyLost, "an alias that KMS cannot read", 1},
		{400, "ValidationException", fault.Invalid, fault.KeyLost, "in a way that KMS cannot read", 1},
		{400, "InvalidKeyUsageException", fault.Invalid, fault.KeyLost, "cannot wrap", 1},
		{400, "DisabledException", fault.KeyLost, fault.KeyLost, "is disabled", 1},
		{400, "KMSInvalidStateException", fault.KeyLost, fault.KeyLost, "in a state in which it cannot be used", 1},
		{400, "AccessDeniedException", fault.KeyLost, fault.KeyLost, "may not be used by this service", 1},
		{400, "IncorrectKeyException", fault.KeyLost, fault.KeyLost, "not the one", 1},
		{400, "InvalidCiphertextException", fault.KeyLost, fault.KeyLost, "does not open", 1},
		{400, "InvalidGrantTokenException", fault.KeyLost, fault.KeyLost, "granted by a token", 1},
		{400, "ThrottlingException", fault.Unavailable, fault.Unavailable, "too much to do", attemptsMax},
		{400, "Throttling", fault.Unavailable, fault.Unavailable, "too much to do", attemptsMax},
		{400, "RequestLimitExceeded", fault.Unavailable, fault.Unavailable, "too much to do", attemptsMax},
		{400, "LimitExceededException", fault.Unavailable, fault.Unavailable, "too much to do", attemptsMax},
		{500, "KeyUnavailableException", fault.Unavailable, fault.Unavailable, "does not answer as it should", attemptsMax},
		{503, "DependencyTimeoutException", fault.Unavailable, fault.Unavailable, "does not answer as it should", attemptsMax},
		{500, "KMSInternalException", fault.Unavailable, fault.Unavailable, "does not answer as it should", attemptsMax},
		{500, "InternalFailure", fault.Unavailable, fault.Unavailable, "does not answer as it should", attemptsMax},
		{503, "ServiceUnavailable", fault.Unavailable, fault.Unavailable, "does not answer as it should", attemptsMax},
		{502, "SomethingNew", fault.Unavailable, fault.Unavailable, "does not answer as it should", attemptsMax},
		{400, "SomethingNew", fault.KeyLost, fault.KeyLost, "KMS answers SomethingNew", 1},
	} {
		t.Run(fmt.Sprint(c.code, c.status), func(t *testing.T) {
			t.Parallel()
			k, calls := failing(t, c.status, c.code)
			for ref, want := range map[string]fault.Code{"": c.ours, "orders": c.theirs} {
				calls.Store(0)
				_, _, err := k.Generate(t.Context(), ref, here)
				f := fault.Of(err)
				if f.Code != want || !strings.Contains(f.Message, c.text) || strings.Contains(f.Message, "plain text") || strings.Contains(f.Message, "platform\"") {
					t.Errorf("%q: %v, want %s with %q", ref, err, want, c.text)
				}
				if !strings.Contains(err.Error(), "the plain text of KMS") {
					t.Errorf("the log does not have the cause: %v", err)
				}
				if n := calls.Load(); n != c.attempts {
					t.Errorf("%q: asked %d times, want %d", ref, n, c.attempts)
				}
				if _, err := k.Unwrap(t.Context(), ref, []byte("wrapped"), here); !fault.Is(err, want) {
					t.Errorf("unwrapping with %q: %v, want %s", ref, err, want)
				}
				if _, err := k.Resolve(t.Context(), "orders"); !fault.Is(err, c.theirs) {
					t.Errorf("resolving: %v, want %s", err, c.theirs)
				}
			}
		})
		seen[c.code] = true
	}
	for _, code := range slices.Sorted(maps.Keys(kinds)) {
		if !seen[code] {
			t.Errorf("%s is in the table and has no case", code)
		}
	}
}

// TestNoAnswer: a KMS that takes a call and never answers is given up in time.
func TestNoAnswer(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }))
	defer s.Close()
	defer close(release)
	k, err := New(Config{Client: client(s.URL), Key: "platform"})
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	_, err = k.Unwrap(t.Context(), "", []byte("wrapped"), here)
	if took := time.Since(began); took < callMax || took > callMax+2*time.Second {
		t.Errorf("it took %v", took)
	}
	if f := fault.Of(err); f.Code != fault.Unavailable || !strings.Contains(f.Message, "cannot be reached") {
		t.Errorf("%v", err)
	}
}

// TestShortKey: what is no key of ours is not used as one.
func TestShortKey(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/x-amz-json-1.1")
		fmt.Fprint(w, `{"Plaintext":"c2VjcmV0","KeyId":"k"}`)
	}))
	defer s.Close()
	k, err := New(Config{Client: client(s.URL), Key: "platform"})
	if err != nil {
		t.Fatal(err)
	}
	_, err = k.Unwrap(t.Context(), "", []byte("wrapped"), here)
	if _, is := errors.AsType[*fault.Error](err); err == nil || is || strings.Contains(err.Error(), "secret") {
		t.Errorf("%v", err)
	}
}

package api

import (
	"context"
	"testing"
)

// leaving is a connection whose caller leaves when told to.
type leaving struct{ left func() }

func (l *leaving) Watch(left func()) (stop func()) {
	l.left = left
	return func() { l.left = nil }
}

// TestUnattended holds that a request that does not wait listens to nobody where nobody tells, that one that waits is told
// all the same, and that elsewhere the request's own context counts.
func TestUnattended(t *testing.T) {
	c := new(leaving)
	request, cancel := context.WithCancel(WithConnection(t.Context(), c))
	defer cancel()
	plain := Unattended(request)
	waits, end := Attended(plain)
	defer end()
	cancel()
	if plain.Err() != nil || waits.Err() != nil {
		t.Error("the end of a request's own context reached one that does not listen to it")
	}
	if c.left(); waits.Err() == nil || plain.Err() != nil {
		t.Errorf("a caller has left: %v for who waits, %v for who does not", waits.Err(), plain.Err())
	}
	other, cancel := context.WithCancel(t.Context())
	defer cancel()
	if Unattended(other) != other {
		t.Error("without a connection that tells, the request's own context does not count")
	}
}

package api

import "context"

// Connection tells when its caller leaves, for a host whose requests do not learn it by themselves.
type Connection interface {
	// Watch calls left, at most once, when the caller closes the connection before stop is called. stop returns when
	// left will not be called any more; it must be called before the request is answered.
	Watch(left func()) (stop func())
}

type connectionKey struct{}

// connected is a connection with the context of all its requests.
type connected struct {
	Connection
	ctx context.Context
}

// WithConnection gives the context of a connection's requests.
func WithConnection(ctx context.Context, c Connection) context.Context {
	all := &connected{Connection: c}
	all.ctx = context.WithValue(ctx, connectionKey{}, all)
	return all.ctx
}

// Unattended gives a context for a request that does not wait. Where a request does not learn by itself that its caller
// leaves, there is nothing to listen for, and this is the connection's own context, which costs the request nothing: its
// values are those of the connection.
func Unattended(ctx context.Context) context.Context {
	if c, ok := ctx.Value(connectionKey{}).(*connected); ok {
		return c.ctx
	}
	return ctx
}

// Attended gives a context for a request that waits: it ends when the caller leaves. end must be called before the
// request is answered.
func Attended(ctx context.Context) (_ context.Context, end func()) {
	c, ok := ctx.Value(connectionKey{}).(*connected)
	if !ok {
		return ctx, func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	stop := c.Watch(cancel)
	return ctx, func() {
		stop()
		cancel()
	}
}

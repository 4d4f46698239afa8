package host

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"

	"golang.org/x/net/netutil"

	"github.com/leaselog/leaselog/internal/auth"
	"github.com/leaselog/leaselog/internal/fault"
	"github.com/leaselog/leaselog/internal/local/admin"
	"github.com/leaselog/leaselog/projections"
)

// checkAccess refuses a configuration that contradicts itself.
func (c *Config) checkAccess() error {
	if _, _, err := net.SplitHostPort(c.Listen); err != nil {
		return fault.New(fault.Invalid, "the address to listen on must be host:port, such as 127.0.0.1:8080, not %q", c.Listen)
	}
	if c.Dev && !c.loopback() {
		return fault.New(fault.Invalid, "development mode takes any credentials, so it is for loopback only: listen on 127.0.0.1 instead of %s, or leave --dev out", c.Listen)
	}
	if (c.TLSCert == "") != (c.TLSKey == "") {
		return fault.New(fault.Invalid, "TLS needs both a certificate and its key: give --tls-cert and --tls-key, or neither")
	}
	return nil
}

// loopback says whether only this machine can reach the address.
func (c *Config) loopback() bool {
	host, _, err := net.SplitHostPort(c.Listen)
	if err != nil || host == "localhost" {
		return err == nil
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.IsLoopback()
}

// openAccess decides how callers are known. Without keys the server is in development mode where only this machine can
// reach it, and does not start anywhere else; the first key ends that mode at once. With a shared backing others make
// keys, which this process would not notice: there development mode is only what --dev says.
func (h *Host) openAccess() error {
	has, err := h.Directory.HasKeys(context.Background())
	if err != nil {
		return err
	}
	verifier := &auth.Verifier{Directory: h.Directory, Region: h.Config.Region, Logger: h.Logger}
	created := func() {}
	switch {
	case h.Dev:
		h.scheme, h.open = auth.Development{}, true
		created = func() { h.Logger.Warn("a key was made, but the server stays in development mode, as --dev says") }
	case has:
		h.scheme = verifier
	case h.Shared:
		h.scheme = verifier
		h.Logger.Warn("there are no access keys yet, so nobody can use this server", "make one", h.Manage)
	case h.loopback():
		opening := auth.NewOpening(verifier)
		h.scheme, h.open = opening, true
		created = func() {
			if opening.Close() {
				h.Logger.Info("the first access key was made: from now on credentials are verified")
			}
		}
	default:
		return fmt.Errorf("there are no access keys yet, so anybody who reaches %s could use this server; make one first: %s", h.Listen, h.Manage)
	}
	if h.Shared {
		return nil // keys are managed in the backing, by any process
	}
	return h.openAdmin(created)
}

// openAdmin makes the socket for leaselog keys, accounts, views and sweep. The server is useful without it too, as on a file
// system that has no sockets.
func (h *Host) openAdmin(created func()) (err error) {
	v := admin.Views{Log: h.Broker.Log, Store: h.Sweeps.Views, Projections: projections.Embedded(), Now: h.Broker.Now}
	h.admin = admin.Server(admin.Handler(h.Directory, v, created, &h.Sweeps))
	if h.socket, err = admin.Listen(h.Data); err != nil {
		h.socket = nil
		h.Logger.Warn("access keys cannot be managed while the server runs; stop it to do so", "error", err)
	}
	return nil
}

func (h *Host) serveAdmin() {
	if h.socket == nil {
		return
	}
	h.chores.Go(func() {
		if err := h.admin.Serve(h.socket); !errors.Is(err, http.ErrServerClosed) {
			h.Logger.Warn("the admin socket has closed", "error", err)
		}
	})
}

// closeAdmin ends administration: what runs is finished, in the store that is still open.
func (h *Host) closeAdmin(ctx context.Context) {
	if h.admin == nil {
		return
	}
	if err := h.admin.Shutdown(ctx); err != nil {
		h.admin.Close()
	}
}

// bind takes the address, with TLS where there is a certificate.
func (h *Host) bind() (net.Listener, error) {
	var secure *tls.Config
	if h.TLSCert != "" {
		pair, err := tls.LoadX509KeyPair(h.TLSCert, h.TLSKey)
		if err != nil {
			return nil, err
		}
		secure = &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}}
	} else if !h.loopback() {
		h.Logger.Warn("this address is served without TLS: tokens, secrets and messages can be read on the way; use --tls-cert and --tls-key, or a proxy that has TLS",
			"listen", h.Listen)
	}
	l, err := net.Listen("tcp", h.Config.Listen)
	if err != nil {
		return nil, err
	}
	l = frugalListener{netutil.LimitListener(l, connectionsMax)}
	if secure != nil { // over the frugal one: a TLS connection does not outlive a write that met a deadline
		l = tls.NewListener(l, secure)
	}
	return l, nil
}

// Unlocked says whether the server started in development mode: any credentials are taken.
func (h *Host) Unlocked() bool { return h.open }

// URL is where clients find the server.
func (h *Host) URL() string {
	if h.TLSCert != "" {
		return "https://" + h.Address()
	}
	return "http://" + h.Address()
}

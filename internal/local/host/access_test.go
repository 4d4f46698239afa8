package host

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/leaselog/leaselog/internal/auth"
	"github.com/leaselog/leaselog/internal/local/admin"
)

// TestLoopback: what only this machine can reach, and nothing else.
func TestLoopback(t *testing.T) {
	for listen, want := range map[string]bool{"127.0.0.1:0": true, "127.9.9.9:80": true, "[::1]:80": true, "localhost:80": true, "0.0.0.0:80": false,
		":80": false, "[::]:80": false, "10.0.0.1:80": false, "example.com:80": false, "localhost.evil:80": false, "80": false} {
		c := Config{Listen: listen}
		if got := c.loopback(); got != want {
			t.Errorf("%s: %v", listen, got)
		}
	}
}

// TestTLS serves https with a certificate of its own, to a server with keys, on any address.
func TestTLS(t *testing.T) {
	dir := t.TempDir()
	data := filepath.Join(dir, "data")
	c, err := admin.Open(data, true)
	if err != nil {
		t.Fatal(err)
	}
	k, err := c.CreateKey(t.Context(), auth.NewKey{Kind: auth.Static})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	cert, pool := certificate(t, dir)
	h, err := Open(Config{Listen: "0.0.0.0:0", Data: data, TLSCert: cert, TLSKey: filepath.Join(dir, "key.pem")})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- h.Run(ctx) }()
	if !strings.HasPrefix(h.URL(), "https://") || h.Unlocked() {
		t.Errorf("%s, unlocked %v", h.URL(), h.Unlocked())
	}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}}
	_, port, _ := net.SplitHostPort(h.Address())
	r, err := http.NewRequest("GET", "https://127.0.0.1:"+port+"/v1/queues", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+k.Token)
	a, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	a.Body.Close()
	if a.StatusCode != 200 {
		t.Error(a.Status)
	}
	client.CloseIdleConnections()
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// certificate writes one for 127.0.0.1 and its key, and gives the pool that trusts it.
func certificate(t *testing.T, dir string) (file string, pool *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	cert := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	for name, text := range map[string][]byte{"cert.pem": cert, "key.pem": pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER})} {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	pool = x509.NewCertPool()
	pool.AppendCertsFromPEM(cert)
	return filepath.Join(dir, "cert.pem"), pool
}

// TestTheServerRunsWithoutItsSocket: where none can be made, only the management of keys has to wait.
func TestTheServerRunsWithoutItsSocket(t *testing.T) {
	data := filepath.Join(t.TempDir(), strings.Repeat("long", 30)) // longer than a socket's name may be
	h, err := Open(Config{Listen: "127.0.0.1:0", Data: data})
	if err != nil {
		t.Fatal(err)
	}
	if h.socket != nil {
		t.Error("this test shows nothing")
	}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if err := h.Run(ctx); err != nil {
		t.Error(err)
	}
}

// A directory that holds something else is refused and left as it is.
func TestForeignDirectory(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "a.txt"), []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := Open(Config{Listen: "127.0.0.1:0", Data: dir})
	if err == nil || !strings.Contains(err.Error(), "holds something else") {
		t.Errorf("it was opened: %v", err)
	}
	if entries, _ := os.ReadDir(dir); len(entries) != 1 {
		t.Errorf("it now holds %v", entries)
	}
}

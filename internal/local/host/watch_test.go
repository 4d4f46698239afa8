package host

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
)

func get(t *testing.T, url string) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	a, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Body.Close()
	text, err := io.ReadAll(a.Body)
	if err != nil {
		t.Fatal(err)
	}
	return a.StatusCode, string(text)
}

// TestWhereMetricsAre: on the API's address when that is loopback, on their own when one is given, and then there
// alone; health and readiness on both, without credentials.
func TestWhereMetricsAre(t *testing.T) {
	for name, aside := range map[string]string{"together": "", "apart": "127.0.0.1:0"} {
		t.Run(name, func(t *testing.T) {
			h, err := Open(Config{Listen: "127.0.0.1:0", MetricsListen: aside, Data: t.TempDir(), Version: "v1"})
			if err != nil {
				t.Fatal(err)
			}
			ctx, stop := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() { ended <- h.Run(ctx) }()
			api := "http://" + h.Address()
			if code, text := get(t, h.MetricsURL()); code != 200 || !strings.Contains(text, `leaselog_build_info{version="v1"} 1`) {
				t.Errorf("%s: %d %.200s", h.MetricsURL(), code, text)
			}
			for _, base := range []string{api, strings.TrimSuffix(h.MetricsURL(), "/metrics")} {
				for path, want := range map[string]string{"/healthz": `{"alive":true}`, "/readyz": `{"ready":true}`} {
					if code, text := get(t, base+path); code != 200 || strings.TrimSpace(text) != want {
						t.Errorf("%s%s: %d %s", base, path, code, text)
					}
				}
			}
			if code, _ := get(t, api+"/v1/queues"); code != 401 {
				t.Errorf("the API without credentials: %d", code)
			}
			if aside != "" {
				if code, text := get(t, api+"/metrics"); code != 401 || strings.Contains(text, "leaselog_") {
					t.Errorf("metrics on the API's address: %d %.100s", code, text)
				}
				if code, _ := get(t, strings.TrimSuffix(h.MetricsURL(), "/metrics")+"/v1/queues"); code != 404 {
					t.Errorf("the API on the metrics' address: %d", code)
				}
			}
			stop()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		})
	}
}

// TestQueuesAreWatched: after known work a scrape has the known numbers, by queue; and in-flight messages fall with time.
func TestQueuesAreWatched(t *testing.T) {
	h, err := Open(Config{Listen: "127.0.0.1:0", Data: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- h.Run(ctx) }()
	call := func(path, body string) string {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+h.Address()+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer dev")
		a, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer a.Body.Close()
		text, err := io.ReadAll(a.Body)
		if err != nil || a.StatusCode >= 300 {
			t.Fatalf("%s: %d %s, %v", path, a.StatusCode, text, err)
		}
		return string(text)
	}
	for _, q := range []string{"one", "two"} {
		call("/v1/queues", `{"name":"`+q+`"}`)
		for range 3 {
			call("/v1/queues/"+q+"/messages", `{"body":"x"}`)
		}
	}
	call("/v1/queues/one/messages", `{"body":"x","delay_seconds":900}`)
	call("/v1/queues/one/messages/receive", `{"max_messages":2}`)
	call("/v1/queues/two/messages/receive", `{"max_messages":10,"visibility_timeout_seconds":1}`)
	call("/v1/queues/two/messages/receive", `{"max_messages":10,"wait_time_seconds":0}`)
	wants(t, h, `leaselog_queue_messages{account="local",queue="one",state="available"} 1`, `leaselog_queue_messages{account="local",queue="one",state="in_flight"} 2`,
		`leaselog_queue_messages{account="local",queue="one",state="delayed"} 1`, `leaselog_queue_events_total{account="local",event="sent",queue="one"} 4`,
		`leaselog_queue_events_total{account="local",event="received",queue="one"} 2`, `leaselog_queue_events_total{account="local",event="empty_receive",queue="one"} 0`,
		`leaselog_queue_events_total{account="local",event="received",queue="two"} 3`, `leaselog_queue_events_total{account="local",event="empty_receive",queue="two"} 1`,
		`leaselog_queue_commits_total{account="local",outcome="stands",queue="two"} 4`, `leaselog_queue_commits_total{account="local",outcome="conflict",queue="two"} 0`)
	call("/v1/queues/two/messages/receive", `{"max_messages":1,"wait_time_seconds":20,"visibility_timeout_seconds":60}`) // once the leases are over
	wants(t, h, `leaselog_queue_messages{account="local",queue="two",state="available"} 2`, `leaselog_queue_messages{account="local",queue="two",state="in_flight"} 1`)
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// wants scrapes a host and looks for lines.
func wants(t *testing.T, h *Host, lines ...string) {
	t.Helper()
	_, text := get(t, h.MetricsURL())
	for _, line := range lines {
		if !strings.Contains(text, line+"\n") {
			t.Errorf("there is no %s", line)
		}
	}
}

// TestReadiness: the reasons, without a path of the server's disk; other methods are refused.
func TestReadiness(t *testing.T) {
	var ill error
	var stopping atomic.Bool
	f := &front{healthy: func() error { return ill }, stopping: &stopping}
	ask := func(method, path string, code int, want string) {
		t.Helper()
		a := httptest.NewRecorder()
		f.ServeHTTP(a, httptest.NewRequest(method, path, nil))
		if a.Code != code || strings.TrimSpace(a.Body.String()) != want {
			t.Errorf("%d %s, want %d %s", a.Code, a.Body, code, want)
		}
	}
	ask("GET", "/readyz", 200, `{"ready":true}`)
	ill = errors.New("the disk is full: write /data/secret: no space left on device")
	ask("GET", "/readyz", 503, `{"ready":false,"reason":"the store takes no writes: the disk is full"}`)
	ask("GET", "/healthz", 200, `{"alive":true}`)
	stopping.Store(true)
	ask("GET", "/readyz", 503, `{"ready":false,"reason":"the server is stopping"}`)
	ask("POST", "/readyz", 405, `{"error":"this path takes GET and HEAD"}`)
	ask("GET", "/metrics", 404, "404 page not found")
}

// BenchmarkFront is what every request pays for the paths of those who run the server.
func BenchmarkFront(b *testing.B) {
	f := &front{api: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}), metrics: http.NotFoundHandler()}
	r := httptest.NewRequest(http.MethodPost, "/v1/queues/orders/messages", nil)
	for b.Loop() {
		f.ServeHTTP(nil, r)
	}
}

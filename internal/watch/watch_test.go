package watch

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	metrics "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/leaselog/leaselog/events"
	"github.com/leaselog/leaselog/internal/api"
	"github.com/leaselog/leaselog/internal/broker"
	"github.com/leaselog/leaselog/projections"
)

var traffic = broker.Traffic{Sent: 21, Received: 22, Acked: 23, Expired: 24, DeadLettered: 25, EmptyReceives: 26, Commits: 27, Conflicts: 28, ReadUnits: 2.5, WriteUnits: 3}

// server is a broker and a store that say what they were told to.
type server struct {
	queues int
	ill    error
}

func (s server) Stats() broker.Stats {
	return broker.Stats{Queues: s.queues, Shards: 2 * s.queues, Polls: 3}
}
func (s server) Size() uint64   { return 4096 }
func (s server) Healthy() error { return s.ill }
func (s server) Depths(_ context.Context, most int) (all []broker.QueueDepth, left int) {
	for i := range min(s.queues, most) {
		all = append(all, broker.QueueDepth{Account: "local", Name: fmt.Sprint("q", i), Traffic: traffic, Depth: broker.Depth{Counts: broker.Counts{Available: 5, InFlight: 6, Delayed: 7},
			Ages: projections.Ages{WaitingMillis: 1500, TotalMillis: 2500}, Shards: []broker.Place{{Ledger: 10, Messages: 20}, {Ledger: 1, Messages: 2}}}})
	}
	return all, s.queues - len(all)
}

func newWatch(t testing.TB, c Config, s server) *Watch {
	t.Helper()
	c.Operations = []string{"send-message"}
	w, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Look(s, s); err != nil {
		t.Fatal(err)
	}
	return w
}

// served is a request to a queue, answered in 3 ms.
func served(operation string, status int, code string) *api.Served {
	s := &api.Served{Request: httptest.NewRequest("POST", "/v1/queues/q/messages?receipt_handle=secret", nil), Operation: operation,
		Queue: &broker.Queue{ID: events.QueueID{15: 1}}, Status: status, Code: code, Began: time.Now(), Took: 3 * time.Millisecond}
	copy(s.ID[:], "01234567-0123-4123-8123-0123456789ab")
	return s
}

func scrape(t testing.TB, w *Watch) string {
	t.Helper()
	a := httptest.NewRecorder()
	w.Metrics().ServeHTTP(a, httptest.NewRequest("GET", "/metrics", nil))
	if a.Code != http.StatusOK {
		t.Fatalf("%d %s", a.Code, a.Body)
	}
	return a.Body.String()
}

// busy is a watch that has heard of something of everything.
func busy(t testing.TB) *Watch {
	w := newWatch(t, Config{Version: "v1"}, server{queues: 2})
	w.Served(served("send-message", 200, ""))
	w.Served(served("send-message", 200, ""))
	w.Served(served("send-message", 409, "KMS_KEY_UNAVAILABLE"))
	w.Served(served("", 404, "NOT_FOUND"))
	w.Served(served("rm -rf", 404, "NOT_FOUND"))
	w.Failed(404, "NOT_FOUND")
	w.Done(&broker.Tally{Commands: 3, Wrote: true, Sent: 1, SentBytes: 100, Duplicates: 2, Leased: 3, Redelivered: 4, Acked: 5, Extended: 6,
		Released: 7, LateLeases: 8, Expired: 9, Moved: 10, Purged: 11, DeadLettered: 12, EmptyReceives: 13})
	w.Done(&broker.Tally{Commands: 1}) // wrote nothing
	w.Wrote(broker.Write{Outcome: broker.Stands, Bytes: 1000, Took: time.Millisecond})
	w.Wrote(broker.Write{Outcome: broker.Unknown, Bytes: 1000, Repeats: 2, Took: time.Second})
	w.Synced(3, 5000, time.Millisecond)
	return w
}

func TestMetrics(t *testing.T) {
	text := scrape(t, busy(t))
	for _, line := range []string{
		`leaselog_build_info{version="v1"} 1`,
		`leaselog_requests_total{code="",operation="send-message",status="200"} 2`,
		`leaselog_requests_total{code="KMS_KEY_UNAVAILABLE",operation="send-message",status="409"} 1`,
		`leaselog_requests_total{code="NOT_FOUND",operation="unknown",status="404"} 2`,
		`leaselog_request_seconds_bucket{operation="send-message",le="0.002"} 0`,
		`leaselog_request_seconds_bucket{operation="send-message",le="0.004"} 3`,
		`leaselog_failures_total{code="NOT_FOUND"} 1`,
		`leaselog_messages_total{event="sent"} 1`, `leaselog_messages_total{event="duplicate"} 2`, `leaselog_messages_total{event="received"} 3`,
		`leaselog_messages_total{event="redelivered"} 4`, `leaselog_messages_total{event="acked"} 5`, `leaselog_messages_total{event="extended"} 6`,
		`leaselog_messages_total{event="released"} 7`, `leaselog_messages_total{event="lease_ended"} 8`, `leaselog_messages_total{event="expired"} 9`,
		`leaselog_messages_total{event="moved"} 10`, `leaselog_messages_total{event="purged"} 11`,
		`leaselog_messages_total{event="dead_lettered"} 12`, `leaselog_messages_total{event="empty_receive"} 13`,
		`leaselog_queue_oldest_seconds{account="local",queue="q1",since="deliverable"} 1.5`, `leaselog_queue_oldest_seconds{account="local",queue="q1",since="sent"} 2.5`,
		`leaselog_queue_log_position{account="local",queue="q1",stream="ledger"} 11`, `leaselog_queue_log_position{account="local",queue="q1",stream="messages"} 22`,
		`leaselog_queue_events_total{account="local",event="sent",queue="q1"} 21`, `leaselog_queue_events_total{account="local",event="received",queue="q1"} 22`,
		`leaselog_queue_events_total{account="local",event="acked",queue="q1"} 23`, `leaselog_queue_events_total{account="local",event="expired",queue="q1"} 24`,
		`leaselog_queue_events_total{account="local",event="dead_lettered",queue="q1"} 25`, `leaselog_queue_events_total{account="local",event="empty_receive",queue="q1"} 26`,
		`leaselog_queue_commits_total{account="local",outcome="stands",queue="q1"} 27`, `leaselog_queue_commits_total{account="local",outcome="conflict",queue="q1"} 28`,
		`leaselog_sent_bytes_total 100`, `leaselog_group_commands_count 1`, `leaselog_group_commands_sum 3`,
		`leaselog_commits_total{outcome="stands"} 1`, `leaselog_commits_total{outcome="unknown"} 1`, `leaselog_commit_bytes_total 1000`,
		`leaselog_commit_repeats_total 2`, `leaselog_commit_seconds_count 2`, `leaselog_store_sync_seconds_count 1`, `leaselog_store_written_bytes_total 5000`,
		`leaselog_queue_messages{account="local",queue="q1",state="in_flight"} 6`, `leaselog_queues_not_counted 0`, `leaselog_polls_waiting 3`,
		`leaselog_queues_open 2`, `leaselog_shards_open 4`, `leaselog_store_bytes 4096`, `leaselog_store_healthy 1`,
	} {
		if !strings.Contains(text, line+"\n") {
			t.Errorf("there is no %s", line)
		}
	}
	for _, family := range []string{"go_goroutines ", "process_resident_memory_bytes "} {
		if !strings.Contains(text, "\n"+family) {
			t.Errorf("there is no %s", family)
		}
	}
	if strings.Contains(text, "rm -rf") {
		t.Error("a stranger made a name")
	}
}

// TestUnits: a store that charges has units of each queue, and an embedded one has none.
func TestUnits(t *testing.T) {
	w, err := New(Config{})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Look(server{queues: 1}, nil); err != nil {
		t.Fatal(err)
	}
	text := scrape(t, w)
	for _, line := range []string{`leaselog_queue_units_total{account="local",kind="read",queue="q0"} 2.5`, `leaselog_queue_units_total{account="local",kind="write",queue="q0"} 3`} {
		if !strings.Contains(text, line+"\n") {
			t.Errorf("there is no %s", line)
		}
	}
	if strings.Contains(scrape(t, newWatch(t, Config{}, server{queues: 1})), "leaselog_queue_units_total") {
		t.Error("an embedded store charges")
	}
}

// TestCardinality: a million queues are five hundred time series and a number.
func TestCardinality(t *testing.T) {
	text := scrape(t, newWatch(t, Config{}, server{queues: 1_000_000, ill: errors.New("the disk is full")}))
	if n := strings.Count(text, "\nleaselog_queue_messages{"); n != 3*queuesMax {
		t.Errorf("%d series", n)
	}
	for _, line := range []string{"leaselog_queues_not_counted 999500", "leaselog_queues_open 1e+06", "leaselog_store_healthy 0"} {
		if !strings.Contains(text, line+"\n") {
			t.Errorf("there is no %s", line)
		}
	}
}

// TestDashboard: every metric that the Grafana dashboard asks for exists, and every one of ours is asked for.
func TestDashboard(t *testing.T) {
	dashboard, err := os.ReadFile("../../deploy/grafana/leaselog.json")
	if err != nil {
		t.Fatal(err)
	}
	families := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^# TYPE (\S+) (\S+)$`).FindAllStringSubmatch(scrape(t, busy(t)), -1) {
		families[m[1]] = false
	}
	for _, name := range regexp.MustCompile(`\b(leaselog|go|process)_[a-z_]+\b`).FindAllString(string(dashboard), -1) {
		family := name
		if _, ok := families[family]; !ok {
			family = regexp.MustCompile(`_(bucket|sum|count)$`).ReplaceAllString(name, "")
		}
		if _, ok := families[family]; !ok {
			t.Errorf("the dashboard asks for %s, which there is not", name)
			continue
		}
		families[family] = true
	}
	for family, asked := range families {
		if strings.HasPrefix(family, "leaselog_") && !asked {
			t.Errorf("the dashboard does not show %s", family)
		}
	}
}

// TestAccessLog: a line at debug, without the query, where receipts stand; nothing at info.
func TestAccessLog(t *testing.T) {
	for level, lines := range map[slog.Level]int{slog.LevelDebug: 1, slog.LevelInfo: 0} {
		var out bytes.Buffer
		w := newWatch(t, Config{Logger: slog.New(slog.NewJSONHandler(&out, &slog.HandlerOptions{Level: level}))}, server{})
		w.Served(served("send-message", 409, "KMS_KEY_UNAVAILABLE"))
		if strings.Count(out.String(), "\n") != lines || strings.Contains(out.String(), "secret") {
			t.Errorf("%v: %s", level, out.String())
		}
		for _, part := range []string{`"request":"01234567-0123-4123-8123-0123456789ab"`, `"operation":"send-message"`, `"status":409`, `"ms":3`,
			`"code":"KMS_KEY_UNAVAILABLE"`, `"queue":"00000000-0000-0000-0000-000000000001"`} {
			if lines == 1 && !strings.Contains(out.String(), part) {
				t.Errorf("no %s in %s", part, out.String())
			}
		}
	}
}

// collecting is an OTLP collector.
type collecting struct {
	mu      sync.Mutex
	got     []*collector.ExportTraceServiceRequest
	metrics []*metrics.ExportMetricsServiceRequest
}

func (c *collecting) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	c.mu.Lock()
	defer c.mu.Unlock()
	switch r.URL.Path {
	case "/v1/traces":
		c.got = append(c.got, new(collector.ExportTraceServiceRequest))
		err = errors.Join(err, proto.Unmarshal(body, c.got[len(c.got)-1]))
	case "/v1/metrics":
		c.metrics = append(c.metrics, new(metrics.ExportMetricsServiceRequest))
		err = errors.Join(err, proto.Unmarshal(body, c.metrics[len(c.metrics)-1]))
	default:
		err = errors.New(r.URL.Path)
	}
	if err != nil {
		w.WriteHeader(http.StatusBadRequest)
	}
}

// pushed gives the values of what the collector got last, by name and labels, and the service that told them.
func (c *collecting) pushed() (values map[string]float64, service string) {
	values = map[string]float64{}
	for _, resource := range c.metrics[len(c.metrics)-1].ResourceMetrics {
		for _, a := range resource.Resource.Attributes {
			if a.Key == "service.name" {
				service = a.Value.GetStringValue()
			}
		}
		for _, scope := range resource.ScopeMetrics {
			for _, m := range scope.Metrics {
				for _, p := range append(m.GetGauge().GetDataPoints(), m.GetSum().GetDataPoints()...) {
					name := m.Name
					for _, a := range p.Attributes {
						name += " " + a.Key + "=" + a.Value.GetStringValue()
					}
					values[name] = p.GetAsDouble()
				}
				for _, p := range m.GetHistogram().GetDataPoints() {
					values[m.Name] += float64(p.Count)
				}
			}
		}
	}
	return values, service
}

// TestPush: a collector gets what Prometheus would scrape, at the end at the latest.
func TestPush(t *testing.T) {
	c := new(collecting)
	s := httptest.NewServer(c)
	defer s.Close()
	w := newWatch(t, Config{Push: s.URL + "/", Version: "v1"}, server{queues: 2})
	w.Served(served("send-message", 200, ""))
	w.Done(&broker.Tally{Sent: 3, EmptyReceives: 1})
	w.Wrote(broker.Write{Outcome: broker.Conflict, Took: time.Millisecond})
	if err := w.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	got, service := c.pushed()
	for name, want := range map[string]float64{
		"leaselog_messages_total event=sent": 3, "leaselog_messages_total event=empty_receive": 1, "leaselog_commits_total outcome=conflict": 1,
		"leaselog_requests_total code= operation=send-message status=200": 1, "leaselog_request_seconds": 1, "leaselog_commit_seconds": 1,
		"leaselog_queue_messages account=local queue=q1 state=in_flight": 6, "leaselog_queue_oldest_seconds account=local queue=q0 since=sent": 2.5,
		"leaselog_queue_events_total account=local event=dead_lettered queue=q1": 25, "leaselog_build_info version=v1": 1,
	} {
		if v, ok := got[name]; !ok || v != want {
			t.Errorf("%s is %v (%v), want %v", name, v, ok, want)
		}
	}
	if service != "leaselog" || len(c.got) > 0 {
		t.Errorf("told by %q, and %d times of spans", service, len(c.got))
	}
}

// TestTraces: a span for each request, under the caller's trace when it names one, with operation, queue and code.
func TestTraces(t *testing.T) {
	c := new(collecting)
	s := httptest.NewServer(c)
	defer s.Close()
	w := newWatch(t, Config{Traces: s.URL, Version: "v1"}, server{})
	asked := served("send-message", 503, "UNAVAILABLE")
	asked.Request.Header.Set("Traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
	w.Served(asked)
	w.Served(served("", 404, "NOT_FOUND"))
	unsampled := served("send-message", 200, "")
	unsampled.Request.Header.Set("Traceparent", "00-1af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00")
	w.Served(unsampled)
	if err := w.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	var text []string
	for _, r := range c.got {
		for _, resource := range r.ResourceSpans {
			for _, scope := range resource.ScopeSpans {
				for _, span := range scope.Spans {
					text = append(text, fmt.Sprintf("%s %x %x %v %d %v %v", span.Name, span.TraceId, span.ParentSpanId, span.Kind,
						span.EndTimeUnixNano-span.StartTimeUnixNano, span.Status.GetCode(), span.Attributes))
				}
			}
		}
	}
	if len(text) != 2 {
		t.Fatalf("%d spans: %q", len(text), text)
	}
	for _, part := range []string{"send-message 0af7651916cd43dd8448eb211c80319c b7ad6b7169203331 SPAN_KIND_SERVER 3000000 STATUS_CODE_ERROR",
		"00000000-0000-0000-0000-000000000001", "01234567-0123-4123-8123-0123456789ab", "UNAVAILABLE", "503"} {
		if !strings.Contains(text[0], part) {
			t.Errorf("no %s in %s", part, text[0])
		}
	}
	if !strings.HasPrefix(text[1], "unknown ") || strings.Contains(text[1], "STATUS_CODE_ERROR") {
		t.Error(text[1])
	}
}

func TestCollectorsNeedAnURL(t *testing.T) {
	for _, bad := range []string{"127.0.0.1:4318", "ftp://x", "http://", "::"} {
		for _, c := range []Config{{Traces: bad}, {Push: bad}} {
			if _, err := New(c); err == nil || !strings.Contains(err.Error(), "such as http://127.0.0.1:4318") {
				t.Errorf("%q: %v", bad, err)
			}
		}
	}
}

// BenchmarkServed is what a request pays to be counted and not traced; BenchmarkMeter what a group of commands pays.
func BenchmarkServed(b *testing.B) {
	w := newWatch(b, Config{}, server{})
	for name, s := range map[string]*api.Served{"good": served("send-message", 200, ""), "refused": served("send-message", 400, "INVALID_INPUT")} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				w.Served(s)
			}
		})
	}
}

func BenchmarkTraced(b *testing.B) {
	c := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.Copy(io.Discard, r.Body) }))
	defer c.Close()
	w := newWatch(b, Config{Traces: c.URL}, server{})
	s := served("send-message", 200, "")
	b.ReportAllocs()
	for b.Loop() {
		w.Served(s)
	}
}

func BenchmarkMeter(b *testing.B) {
	w := newWatch(b, Config{}, server{})
	for b.Loop() {
		w.Wrote(broker.Write{Bytes: 1000, Took: time.Millisecond})
		w.Done(&broker.Tally{Commands: 3, Wrote: true, Sent: 3, SentBytes: 3000, Leased: 2, Acked: 1})
		w.Synced(1, 1000, time.Millisecond)
	}
}

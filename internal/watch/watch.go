// Package watch tells those who run a server how it is: metrics for Prometheus, spans for OpenTelemetry, and a line in
// the log for every request. It hears and looks; nothing in the server waits for it or depends on it.
package watch

import (
	"context"
	"errors"
	"log/slog"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.opentelemetry.io/otel/sdk/metric"

	"github.com/leaselog/leaselog/internal/api"
)

// Config says what is watched and where it is told.
type Config struct {
	// Version stands in the metric leaselog_build_info and in the spans' resource.
	Version string
	// Operations are the names of the endpoints. A request that is for none of them counts as "unknown", so that a
	// stranger cannot make names.
	Operations []string
	// Traces and Push are base URLs of OTLP collectors over HTTP, such as http://127.0.0.1:4318, for spans and for what
	// Prometheus would scrape; empty: none are sent.
	Traces, Push string
	// Logger gets a line for every request at level debug. Default: none.
	Logger *slog.Logger
}

// Watch is a broker's meter and an API's listener. It is safe for use by many goroutines.
type Watch struct {
	logger   *slog.Logger
	registry *prometheus.Registry
	requests requests
	work     work
	disk     disk
	remote   *prometheus.CounterVec // capacity units of the remote store
	viewed   prometheus.Histogram
	tracer   *tracer               // nil: off
	push     *metric.MeterProvider // nil: off
}

// New makes a watch. What is asked of the broker and the store is added by [Watch.Look], once they are there.
func New(c Config) (*Watch, error) {
	w := &Watch{logger: c.Logger, registry: prometheus.NewRegistry(), requests: newRequests(c.Operations), work: newWork(), disk: newDisk(), remote: newRemote(), viewed: newViewed()}
	if w.logger == nil {
		w.logger = slog.New(slog.DiscardHandler)
	}
	build := prometheus.NewGauge(prometheus.GaugeOpts{Name: "leaselog_build_info", Help: "Always 1; the label says which program this is.",
		ConstLabels: prometheus.Labels{"version": c.Version}})
	build.Set(1)
	problems := w.register(build, w.viewed, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	problems = append(problems, w.register(w.requests.all()...)...)
	problems = append(problems, w.register(w.work.all()...)...)
	return w, errors.Join(append(problems, w.openCollector(c))...)
}

func (w *Watch) register(all ...prometheus.Collector) (problems []error) {
	for _, c := range all {
		problems = append(problems, w.registry.Register(c))
	}
	return problems
}

// Served hears of a request when it has been answered.
func (w *Watch) Served(s *api.Served) {
	w.requests.count(s)
	if w.tracer != nil {
		w.tracer.span(s)
	}
	w.log(s)
}

// Metrics serves what Prometheus scrapes.
func (w *Watch) Metrics() http.Handler {
	return promhttp.HandlerFor(w.registry, promhttp.HandlerOpts{ErrorLog: slog.NewLogLogger(w.logger.Handler(), slog.LevelWarn)})
}

// Close sends the spans and metrics that wait, for as long as ctx lasts.
func (w *Watch) Close(ctx context.Context) (err error) {
	if w.tracer != nil {
		err = w.tracer.close(ctx)
	}
	if w.push != nil {
		err = errors.Join(err, w.push.Shutdown(ctx))
	}
	return err
}

// log writes a request's line. A level that is off costs a comparison.
func (w *Watch) log(s *api.Served) {
	ctx := s.Request.Context()
	if !w.logger.Enabled(ctx, slog.LevelDebug) {
		return
	}
	attrs := []slog.Attr{slog.String("request", string(s.ID[:])), slog.String("operation", s.Operation), slog.String("method", s.Request.Method),
		slog.String("path", s.Request.URL.Path), slog.Int("status", s.Status), slog.Float64("ms", float64(s.Took.Microseconds())/1000)}
	if s.Queue != nil {
		attrs = append(attrs, slog.String("queue", s.Queue.ID.String()))
	}
	if s.Code != "" {
		attrs = append(attrs, slog.String("code", s.Code))
	}
	w.logger.LogAttrs(ctx, slog.LevelDebug, "request answered", attrs...)
}

package watch

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"

	"github.com/prometheus/client_golang/prometheus"
	bridge "go.opentelemetry.io/contrib/bridges/prometheus"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
)

// openCollector begins to tell an OTLP collector. The environment's OTEL_RESOURCE_ATTRIBUTES, OTEL_SERVICE_NAME and
// OTEL_METRIC_EXPORT_INTERVAL, and its variables for the exporters' headers, are the library's to read.
func (w *Watch) openCollector(c Config) error {
	if c.Traces == "" && c.Push == "" {
		return nil
	}
	about, err := resource.New(context.Background(),
		resource.WithAttributes(attribute.String("service.name", "leaselog"), attribute.String("service.version", c.Version)),
		resource.WithFromEnv(), resource.WithTelemetrySDK())
	if err != nil {
		return fmt.Errorf("the description of this process for the collector: %w", err)
	}
	// The library tells its failures to a global handler; there is one server in a process.
	logger := w.logger
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) {
		logger.LogAttrs(context.Background(), slog.LevelWarn, "telemetry", slog.Any("error", err))
	}))
	var problems []error
	if c.Traces != "" {
		w.tracer, err = newTracer(c, about)
		problems = append(problems, err)
	}
	if c.Push != "" {
		w.push, err = newPush(c.Push, w.registry, about)
		problems = append(problems, err)
	}
	return errors.Join(problems...)
}

// signalURL gives where a collector takes one kind of signal.
func signalURL(base, signal string) (string, error) {
	u, err := url.Parse(base)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return "", fmt.Errorf("the OTLP endpoint must be a URL such as http://127.0.0.1:4318, not %q", base)
	}
	return u.JoinPath("v1", signal).String(), nil
}

// newPush sends, every minute unless the environment says otherwise, what a scrape would get at that moment.
func newPush(base string, from prometheus.Gatherer, about *resource.Resource) (*metric.MeterProvider, error) {
	to, err := signalURL(base, "metrics")
	if err != nil {
		return nil, err
	}
	exporter, err := otlpmetrichttp.New(context.Background(), otlpmetrichttp.WithEndpointURL(to))
	if err != nil {
		return nil, fmt.Errorf("the OTLP exporter of metrics: %w", err)
	}
	reader := metric.NewPeriodicReader(exporter, metric.WithProducer(bridge.NewMetricProducer(bridge.WithGatherer(from))))
	return metric.NewMeterProvider(metric.WithReader(reader), metric.WithResource(about)), nil
}

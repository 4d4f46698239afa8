package watch

import (
	"context"
	"fmt"
	"net/http"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	"go.opentelemetry.io/otel/sdk/trace"
	spans "go.opentelemetry.io/otel/trace"

	"github.com/leaselog/leaselog/internal/api"
)

// tracer makes a span of each request when it has been answered, with the instants at which it began and ended. So a
// request carries nothing on its way, and a server without a collector pays nothing.
type tracer struct {
	provider *trace.TracerProvider
	tracer   spans.Tracer
	incoming propagation.TraceContext
}

// newTracer sends spans to a collector in batches. Whether a span is kept follows the caller's sampling, or is yes.
func newTracer(c Config, about *resource.Resource) (*tracer, error) {
	to, err := signalURL(c.Traces, "traces")
	if err != nil {
		return nil, err
	}
	exporter, err := otlptracehttp.New(context.Background(), otlptracehttp.WithEndpointURL(to))
	if err != nil {
		return nil, fmt.Errorf("the OTLP exporter: %w", err)
	}
	p := trace.NewTracerProvider(trace.WithBatcher(exporter), trace.WithResource(about))
	return &tracer{provider: p, tracer: p.Tracer("github.com/leaselog/leaselog")}, nil
}

// span tells of a request: under the caller's trace where the header names one.
func (t *tracer) span(s *api.Served) {
	name := s.Operation
	if name == "" {
		name = unknown
	}
	ctx := t.incoming.Extract(context.Background(), propagation.HeaderCarrier(s.Request.Header))
	_, span := t.tracer.Start(ctx, name, spans.WithSpanKind(spans.SpanKindServer), spans.WithTimestamp(s.Began))
	if span.IsRecording() {
		span.SetAttributes(attribute.String("http.request.method", s.Request.Method), attribute.Int("http.response.status_code", s.Status),
			attribute.String("leaselog.operation", name), attribute.String("leaselog.request_id", string(s.ID[:])))
		if s.Queue != nil {
			span.SetAttributes(attribute.String("leaselog.queue_id", s.Queue.ID.String()))
		}
		if s.Code != "" {
			span.SetAttributes(attribute.String("error.type", s.Code))
		}
		if s.Status >= http.StatusInternalServerError {
			span.SetStatus(codes.Error, s.Code)
		}
	}
	span.End(spans.WithTimestamp(s.Began.Add(s.Took)))
}

func (t *tracer) close(ctx context.Context) error { return t.provider.Shutdown(ctx) }

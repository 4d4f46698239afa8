package host

import (
	"context"
	"io"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-lambda-go/lambdacontext"

	"github.com/leaselog/leaselog/events"
	"github.com/leaselog/leaselog/internal/api"
	"github.com/leaselog/leaselog/internal/broker"
)

// telemetry is what one process tells of itself, a line of JSON at a time: logs, and after an invocation in which
// anything happened one line of metrics in CloudWatch's embedded format. What Lambda measures by itself (invocations,
// errors, durations) is not repeated, and what is zero is not told: each name that is ever told costs money by the month.
type telemetry struct {
	out        io.Writer
	deployment string
	operation  string
	off        bool // metrics
	logger     *slog.Logger

	filter   queueFilter
	traffics func() []broker.QueueTraffic // nil: no broker is open

	mu     sync.Mutex
	counts map[metric]float64
	told   map[events.QueueID]broker.Traffic // of the queues that are watched
}

var _ broker.Meter = (*telemetry)(nil)

// Further variables of a function's environment. The level is what Lambda's own logging controls set.
const (
	envMetrics  = "LEASELOG_METRICS" // "off" for none
	envLogLevel = "AWS_LAMBDA_LOG_LEVEL"
)

// namespace is that of the metrics in CloudWatch.
const namespace = "leaselog"

// metric is one of a fixed list, so that nobody's input makes names.
type metric struct {
	name, unit string
	mine       bool // counted for this operation, not for the whole deployment
}

var (
	refusals = metric{"Refusals", "Count", true} // answers that blame the caller
	faults   = metric{"Faults", "Count", true}   // answers that blame the service
	opened   = metric{"Opened", "Count", true}   // processes that began to work
	poison   = metric{"SetAside", "Count", true} // records of the stream that no attempt would get over
	// sweptThrough is 1 when a function on a schedule has done its work to the end: where it is missing, nobody has.
	sweptThrough = metric{"SweptThrough", "Count", true}
	// projectionLag is the longest time of an invocation from a change of the log to the view that has it.
	projectionLag = metric{"ProjectionLag", "Milliseconds", true}

	readUnits  = metric{"ReadUnits", "Count", false}
	writeUnits = metric{"WriteUnits", "Count", false}
	bytesSent  = metric{"SentBytes", "Bytes", false}
	repeats    = metric{"CommitRepeats", "Count", false}

	commits = [broker.Outcomes]metric{broker.Stands: {"Commits", "Count", false}, broker.Conflict: {"CommitConflicts", "Count", false},
		broker.Refused: {"CommitsRefused", "Count", false}, broker.Unknown: {"CommitsUnknown", "Count", false}}
)

func newTelemetry(operation string, getenv func(string) string, out io.Writer) *telemetry {
	var level slog.Level
	_ = level.UnmarshalText([]byte(getenv(envLogLevel))) // what it does not know is info
	h := slog.NewJSONHandler(out, &slog.HandlerOptions{Level: level, ReplaceAttr: lambdacontext.ReplaceAttr})
	return &telemetry{out: out, deployment: getenv(envDeployment), operation: operation, off: getenv(envMetrics) == "off",
		logger: slog.New(invoked{h}), counts: map[metric]float64{opened: 1}, filter: newQueueFilter(getenv), told: map[events.QueueID]broker.Traffic{}}
}

// traceKey is the key under which aws-lambda-go puts the trace's header into the context.
var traceKey any = "x-amzn-trace-id"

// begin is the start of an invocation; gateway is the API's own id of the request. What it gives is called at the end.
func (t *telemetry) begin(ctx context.Context, gateway string) (context.Context, func()) {
	trace, _ := ctx.Value(traceKey).(string)
	ids := ids{gateway: gateway, trace: trace}
	if lc, ok := lambdacontext.FromContext(ctx); ok {
		ids.lambda = lc.AwsRequestID
	}
	return context.WithValue(ctx, idsKey{}, ids), func() {
		t.flush(time.Now(), ids)
		t.queues(time.Now(), ids)
	}
}

// ids name an invocation in logs: Lambda's id, the API's, and the trace of X-Ray.
type ids struct{ lambda, gateway, trace string }

type idsKey struct{}

func idsOf(ctx context.Context) ids {
	ids, _ := ctx.Value(idsKey{}).(ids)
	return ids
}

func (i ids) attrs() (all []slog.Attr) {
	for name, value := range map[string]string{"requestId": i.lambda, "gatewayId": i.gateway, "trace": i.trace} {
		if value != "" {
			all = append(all, slog.String(name, value))
		}
	}
	slices.SortFunc(all, func(a, b slog.Attr) int { return strings.Compare(a.Key, b.Key) })
	return all
}

// invoked adds to each line the invocation that it belongs to.
type invoked struct{ slog.Handler }

// Handle implements [slog.Handler].
func (h invoked) Handle(ctx context.Context, r slog.Record) error {
	if ids, ok := ctx.Value(idsKey{}).(ids); ok {
		r.AddAttrs(ids.attrs()...)
	}
	return h.Handler.Handle(ctx, r)
}

// WithAttrs implements [slog.Handler].
func (h invoked) WithAttrs(attrs []slog.Attr) slog.Handler {
	return invoked{h.Handler.WithAttrs(attrs)}
}

// WithGroup implements [slog.Handler].
func (h invoked) WithGroup(name string) slog.Handler { return invoked{h.Handler.WithGroup(name)} }

func (t *telemetry) add(m metric, n float64) {
	if n == 0 {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.counts[m] += n
}

// Done hears of a group of commands that stands: see [broker.Meter].
func (t *telemetry) Done(d *broker.Tally) {
	for name, n := range map[string]uint64{"Sent": uint64(d.Sent), "Duplicates": uint64(d.Duplicates), "Received": uint64(d.Leased),
		"Redelivered": uint64(d.Redelivered), "Acked": uint64(d.Acked), "Extended": uint64(d.Extended), "Released": uint64(d.Released),
		"LeasesEnded": uint64(d.LateLeases), "Expired": d.Expired, "Moved": uint64(d.Moved), "Purged": d.Purged,
		"DeadLettered": uint64(d.DeadLettered), "EmptyReceives": uint64(d.EmptyReceives)} {
		t.add(metric{name, "Count", false}, float64(n))
	}
	t.add(bytesSent, float64(d.SentBytes))
}

// Wrote hears of a commit: see [broker.Meter].
func (t *telemetry) Wrote(w broker.Write) {
	t.add(commits[w.Outcome], 1)
	t.add(repeats, float64(w.Repeats))
}

func (t *telemetry) consumed(_ string, read, write float64) {
	t.add(readUnits, read)
	t.add(writeUnits, write)
}

// Failed hears of an error that is answered, in an entry of a batch too.
func (t *telemetry) Failed(status int, _ string) {
	if status >= 500 {
		t.add(faults, 1)
		return
	}
	t.add(refusals, 1)
}

// served writes a request's line. A level that is off costs a comparison.
func (t *telemetry) served(s *api.Served) {
	ctx := s.Request.Context()
	if !t.logger.Enabled(ctx, slog.LevelDebug) {
		return
	}
	attrs := []slog.Attr{slog.String("request", string(s.ID[:])), slog.String("operation", s.Operation), slog.Int("status", s.Status),
		slog.Float64("ms", float64(s.Took.Microseconds())/1000)}
	if s.Queue != nil {
		attrs = append(attrs, slog.String("queue", s.Queue.ID.String()))
	}
	if s.Code != "" {
		attrs = append(attrs, slog.String("code", s.Code))
	}
	t.logger.LogAttrs(ctx, slog.LevelDebug, "request answered", attrs...)
}

// directive says to CloudWatch which members of a line are metrics, and by what they are told apart
// (https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/CloudWatch_Embedded_Metric_Format_Specification.html).
type directive struct {
	Namespace  string
	Dimensions [][]string
	Metrics    []unit
}

type unit struct{ Name, Unit string }

// flush writes what was counted since the last time.
func (t *telemetry) flush(now time.Time, ids ids) {
	t.mu.Lock()
	counts := t.counts
	t.counts = map[metric]float64{}
	t.mu.Unlock()
	if t.off || len(counts) == 0 {
		return
	}
	whole, mine := directive{namespace, [][]string{{"Deployment"}}, nil}, directive{namespace, [][]string{{"Deployment", "Operation"}}, nil}
	line := map[string]any{"Deployment": t.deployment, "Operation": t.operation, "requestId": ids.lambda}
	for _, m := range slices.SortedFunc(maps.Keys(counts), func(a, b metric) int { return strings.Compare(a.name, b.name) }) {
		line[m.name] = counts[m]
		into := &whole
		if m.mine {
			into = &mine
		}
		into.Metrics = append(into.Metrics, unit{m.name, m.unit})
	}
	var directives []directive
	for _, d := range []directive{whole, mine} {
		if len(d.Metrics) > 0 {
			directives = append(directives, d)
		}
	}
	t.write(now, line, directives...)
}

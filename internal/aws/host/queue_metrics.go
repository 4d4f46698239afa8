package host

import (
	"cmp"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"time"

	leaselog "github.com/leaselog/leaselog/events"
	"github.com/leaselog/leaselog/internal/auth"
	"github.com/leaselog/leaselog/internal/broker"
)

// Variables for metrics of single queues, each of whose names costs money by the month: which queues, "*" for all, and how
// many at most.
const (
	envQueueMetrics    = "LEASELOG_QUEUE_METRICS"
	envQueueMetricsMax = "LEASELOG_QUEUE_METRICS_MAX"
)

const queueMetricsMaxDefault = 100

// queueFilter says which queues have metrics of their own.
type queueFilter struct {
	all   bool
	names map[string]bool // account/name
	most  int
}

// newQueueFilter reads it. A name without an account is of the default one.
func newQueueFilter(getenv func(string) string) queueFilter {
	f := queueFilter{names: map[string]bool{}, most: queueMetricsMaxDefault}
	if n, err := strconv.Atoi(getenv(envQueueMetricsMax)); err == nil && n >= 0 {
		f.most = n
	}
	for name := range strings.SplitSeq(getenv(envQueueMetrics), ",") {
		switch name = strings.TrimSpace(name); {
		case name == "":
		case name == "*":
			f.all = true
		case strings.Contains(name, "/"):
			f.names[name] = true
		default:
			f.names[queueLabel(auth.AccountDefault, name)] = true
		}
	}
	return f
}

func (f *queueFilter) shows(account, name string) bool {
	return f.all || len(f.names) > 0 && f.names[queueLabel(account, name)]
}

func queueLabel(account, name string) string { return account + "/" + name }

// queueTraffic are the metrics of a queue that every function tells of what it did; queueDepth are those that report-queues
// tells of what is there.
var (
	queueTraffic = []struct {
		name string
		of   func(*broker.Traffic) float64
	}{
		{"Sent", func(t *broker.Traffic) float64 { return float64(t.Sent) }},
		{"Received", func(t *broker.Traffic) float64 { return float64(t.Received) }},
		{"Acked", func(t *broker.Traffic) float64 { return float64(t.Acked) }},
		{"Expired", func(t *broker.Traffic) float64 { return float64(t.Expired) }},
		{"DeadLettered", func(t *broker.Traffic) float64 { return float64(t.DeadLettered) }},
		{"EmptyReceives", func(t *broker.Traffic) float64 { return float64(t.EmptyReceives) }},
		{"CommitConflicts", func(t *broker.Traffic) float64 { return float64(t.Conflicts) }},
		{"ReadUnits", func(t *broker.Traffic) float64 { return t.ReadUnits }},
		{"WriteUnits", func(t *broker.Traffic) float64 { return t.WriteUnits }},
	}
	queueDepth = []struct {
		name, unit string
		of         func(*broker.Depth) float64
	}{
		{"Available", "Count", func(d *broker.Depth) float64 { return float64(d.Available) }},
		{"InFlight", "Count", func(d *broker.Depth) float64 { return float64(d.InFlight) }},
		{"Delayed", "Count", func(d *broker.Depth) float64 { return float64(d.Delayed) }},
		{"OldestSeconds", "Seconds", func(d *broker.Depth) float64 { return float64(d.WaitingMillis) / 1000 }},
	}
)

// queues tells what was done to the queues that are watched since the last time, a line each; what did not happen is not
// told.
func (t *telemetry) queues(now time.Time, ids ids) {
	if t.off || t.traffics == nil || !t.filter.all && len(t.filter.names) == 0 {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, q := range t.traffics() {
		before, told := t.told[q.ID]
		if !t.filter.shows(q.Account, q.Name) || !told && len(t.told) >= t.filter.most {
			continue
		}
		t.told[q.ID] = q.Traffic
		var values []value
		for _, m := range queueTraffic {
			if n := m.of(&q.Traffic) - m.of(&before); n != 0 {
				values = append(values, value{unit{m.name, "Count"}, n})
			}
		}
		t.tellQueue(now, ids, q.Account, q.Name, values)
	}
}

// tellQueue writes the line of a queue, if there is anything in it.
func (t *telemetry) tellQueue(now time.Time, ids ids, account, name string, values []value) {
	t.tell(now, map[string]any{"Deployment": t.deployment, "Queue": queueLabel(account, name), "requestId": ids.lambda}, []string{"Deployment", "Queue"}, values)
}

// value is a metric with its number.
type value struct {
	unit
	n float64
}

// tell writes a line of metrics that are told apart by some of what stands beside them.
func (t *telemetry) tell(now time.Time, line map[string]any, by []string, values []value) {
	if len(values) == 0 {
		return
	}
	d := directive{namespace, [][]string{by}, nil}
	for _, v := range values {
		line[v.Name] = v.n
		d.Metrics = append(d.Metrics, v.unit)
	}
	t.write(now, line, d)
}

// write gives the log a line of metrics.
func (t *telemetry) write(now time.Time, line map[string]any, directives ...directive) {
	line["_aws"] = map[string]any{"Timestamp": now.UnixMilli(), "CloudWatchMetrics": directives}
	text, err := json.Marshal(line)
	if err != nil {
		panic(err) // numbers and strings
	}
	_, _ = t.out.Write(append(text, '\n')) // one write: lines of one process do not mix
}

// counted is a queue with what its views say.
type counted struct {
	broker.Registered
	*broker.Depth
}

// report tells what is in the queues: of each that is watched, and of all together. What waits in dead-letter queues waits
// for people, so it is told apart and its age is no worry.
func (t *telemetry) report(now time.Time, ids ids, all []counted) {
	if t.off {
		return
	}
	var whole, dead broker.Depth
	shown := 0
	slices.SortFunc(all, func(a, b counted) int { return cmp.Or(cmp.Compare(a.Account, b.Account), cmp.Compare(a.Name, b.Name)) })
	for _, q := range all {
		into := &whole
		if q.DeadLetters {
			into = &dead
		}
		into.Available += q.Available
		into.InFlight += q.InFlight
		into.Delayed += q.Delayed
		into.WaitingMillis = max(into.WaitingMillis, q.WaitingMillis)
		if shown < t.filter.most && t.filter.shows(q.Account, q.Name) {
			shown++
			t.tellQueue(now, ids, q.Account, q.Name, depthValues(q.Depth))
		}
	}
	values := append(depthValues(&whole), value{unit{deadLetters, "Count"}, float64(dead.Available + dead.InFlight + dead.Delayed)})
	t.tell(now, map[string]any{"Deployment": t.deployment, "requestId": ids.lambda}, []string{"Deployment"}, values)
}

// deadLetters is how many messages the dead-letter queues hold.
const deadLetters = "DeadLetters"

func depthValues(d *broker.Depth) (values []value) {
	for _, m := range queueDepth {
		values = append(values, value{unit{m.name, m.unit}, m.of(d)})
	}
	return values
}

// lagging notes how long after a change of the log a view had it.
func (t *telemetry) lagging(changed, now leaselog.Instant) {
	if changed <= 0 || now < changed {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.counts[projectionLag] = max(t.counts[projectionLag], float64(now-changed))
}

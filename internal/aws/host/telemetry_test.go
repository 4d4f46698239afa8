package host

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/leaselog/leaselog/internal/broker"
)

// TestMetrics: what was done in an invocation is one line that CloudWatch reads, with the numbers and what they count by;
// the next line begins at zero, and nothing is told of nothing.
func TestMetrics(t *testing.T) {
	var out strings.Builder
	m := newTelemetry("send-message", func(name string) string { return map[string]string{envDeployment: "prod"}[name] }, &out)
	_, end := m.begin(t.Context(), "")
	m.Done(&broker.Tally{Sent: 3, SentBytes: 30, Duplicates: 1, Leased: 4, Redelivered: 2, Acked: 5, Extended: 6, Released: 7, LateLeases: 8, Expired: 9, Moved: 10, Purged: 11, DeadLettered: 12, EmptyReceives: 13})
	m.Wrote(broker.Write{Outcome: broker.Stands, Repeats: 2})
	m.Wrote(broker.Write{Outcome: broker.Conflict})
	m.consumed("PutItem", 0, 1.5)
	m.consumed("Query", 2, 0)
	m.Failed(503, "UNAVAILABLE")
	m.Failed(404, "NOT_FOUND")
	m.Failed(400, "INVALID_INPUT")
	before := time.Now().UnixMilli()
	end()
	var line map[string]any
	if err := json.Unmarshal([]byte(out.String()), &line); err != nil || strings.Count(out.String(), "\n") != 1 {
		t.Fatalf("%s: %v", out.String(), err)
	}
	about := line["_aws"].(map[string]any)
	delete(line, "_aws")
	want := map[string]any{"Deployment": "prod", "Operation": "send-message", "requestId": "", "Sent": 3.0, "SentBytes": 30.0, "Duplicates": 1.0, "Received": 4.0,
		"Redelivered": 2.0, "Acked": 5.0, "Extended": 6.0, "Released": 7.0, "LeasesEnded": 8.0, "Expired": 9.0, "Moved": 10.0, "Purged": 11.0, "DeadLettered": 12.0, "EmptyReceives": 13.0, "Commits": 1.0,
		"CommitRepeats": 2.0, "CommitConflicts": 1.0, "WriteUnits": 1.5, "ReadUnits": 2.0, "Faults": 1.0, "Refusals": 2.0, "Opened": 1.0}
	if d := cmp.Diff(want, line); d != "" {
		t.Error(d)
	}
	if at := int64(about["Timestamp"].(float64)); at < before || at > time.Now().UnixMilli() {
		t.Errorf("at %d", at)
	}
	named := map[string]string{}
	for _, d := range about["CloudWatchMetrics"].([]any) {
		by := strings.Join(list(at(d, "Dimensions").([]any)[0]), "+")
		if at(d, "Namespace") != "leaselog" {
			t.Errorf("%v", d)
		}
		for _, metric := range at(d, "Metrics").([]any) {
			named[at(metric, "Name").(string)] = by + " " + at(metric, "Unit").(string)
		}
	}
	if len(named) != len(want)-3 || named["Sent"] != "Deployment Count" || named["SentBytes"] != "Deployment Bytes" || named["Faults"] != "Deployment+Operation Count" {
		t.Errorf("%v", named)
	}
	out.Reset()
	_, end = m.begin(t.Context(), "")
	end()
	m.Done(&broker.Tally{Commands: 1})
	m.flush(time.Now(), ids{})
	if out.String() != "" {
		t.Errorf("told of nothing: %s", out.String())
	}
}

// TestMetricsOff: whoever does not want to pay for them has none.
func TestMetricsOff(t *testing.T) {
	var out strings.Builder
	m := newTelemetry("x", func(name string) string { return map[string]string{envMetrics: "off"}[name] }, &out)
	m.Done(&broker.Tally{Sent: 1})
	m.flush(time.Now(), ids{})
	if out.String() != "" {
		t.Error(out.String())
	}
}

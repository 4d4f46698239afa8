package host

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/leaselog/leaselog/events"
	"github.com/leaselog/leaselog/internal/broker"
	"github.com/leaselog/leaselog/projections"
)

// told are the metrics in lines of CloudWatch's embedded format: by name and what they are told apart by.
func told(t testing.TB, text string) map[string]float64 {
	t.Helper()
	all := map[string]float64{}
	for line := range strings.Lines(text) {
		var m map[string]any
		if err := json.Unmarshal([]byte(line), &m); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		directives, _ := at(m, "_aws", "CloudWatchMetrics").([]any)
		for _, d := range directives {
			by := ""
			for _, name := range list(at(d, "Dimensions").([]any)[0]) {
				by += " " + name + "=" + m[name].(string)
			}
			for _, metric := range at(d, "Metrics").([]any) {
				name := at(metric, "Name").(string)
				all[name+by] += m[name].(float64)
			}
		}
	}
	return all
}

func queueOf(account, name string, n byte) counted {
	return counted{Registered: broker.Registered{ID: events.QueueID{n}, Account: account, Name: name}, Depth: &broker.Depth{
		Counts: broker.Counts{Available: uint64(n), InFlight: 2, Delayed: 3}, Ages: projections.Ages{WaitingMillis: 1000 * int64(n)}}}
}

// TestReport: all queues together, dead-letter queues apart, and of the queues that are named, or the first of all, each alone.
func TestReport(t *testing.T) {
	dead := queueOf("local", "dead", 100)
	dead.DeadLetters = true
	all := []counted{queueOf("other", "a", 7), dead, queueOf("local", "b", 5)}
	for names, c := range map[string]struct {
		most string
		want []string
	}{
		"":           {"", nil},
		"b, other/a": {"", []string{"local/b", "other/a"}},
		"*":          {"2", []string{"local/b", "local/dead"}},
		"b,nono":     {"0", nil},
	} {
		var out strings.Builder
		m := newTelemetry(ReportName, func(name string) string {
			return map[string]string{envDeployment: "prod", envQueueMetrics: names, envQueueMetricsMax: c.most}[name]
		}, &out)
		m.report(time.UnixMilli(1), ids{}, all)
		got := told(t, out.String())
		for name, want := range map[string]float64{"Available": 12, "InFlight": 4, "Delayed": 6, "OldestSeconds": 7, "DeadLetters": 105} {
			if got[name+" Deployment=prod"] != want {
				t.Errorf("%q: %s is %v, want %v", names, name, got[name+" Deployment=prod"], want)
			}
		}
		if len(got) != 5+4*len(c.want) {
			t.Errorf("%q: %v", names, got)
		}
		for _, q := range c.want {
			if n := got["OldestSeconds Deployment=prod Queue="+q]; n == 0 {
				t.Errorf("%q: nothing of %s in %v", names, q, got)
			}
		}
	}
}

// TestQueueMetrics: what was done to the queues that are named, since the last time, and of no more than there may be.
func TestQueueMetrics(t *testing.T) {
	var out strings.Builder
	m := newTelemetry("receive-messages", func(name string) string {
		return map[string]string{envDeployment: "prod", envQueueMetrics: "*", envQueueMetricsMax: "2"}[name]
	}, &out)
	open := []broker.QueueTraffic{{ID: events.QueueID{1}, Account: "local", Name: "a"}, {ID: events.QueueID{2}, Account: "local", Name: "b"}, {ID: events.QueueID{3}, Account: "local", Name: "c"}}
	m.traffics = func() []broker.QueueTraffic { return open }
	open[0].Traffic = broker.Traffic{Sent: 1, Received: 2, Acked: 3, Expired: 4, DeadLettered: 5, EmptyReceives: 6, Conflicts: 7, ReadUnits: 8.5, WriteUnits: 9, Commits: 10}
	open[2].Sent = 1
	m.queues(time.UnixMilli(1), ids{})
	got := told(t, out.String())
	for name, want := range map[string]float64{"Sent": 1, "Received": 2, "Acked": 3, "Expired": 4, "DeadLettered": 5, "EmptyReceives": 6, "CommitConflicts": 7, "ReadUnits": 8.5, "WriteUnits": 9} {
		if got[name+" Deployment=prod Queue=local/a"] != want {
			t.Errorf("%s: %v", name, got)
		}
	}
	if len(got) != len(queueTraffic) {
		t.Errorf("%v", got)
	}
	out.Reset()
	open[0].Sent, open[1].Sent = 4, 2
	m.queues(time.UnixMilli(1), ids{})
	if got := told(t, out.String()); len(got) != 2 || got["Sent Deployment=prod Queue=local/a"] != 3 || got["Sent Deployment=prod Queue=local/b"] != 2 {
		t.Errorf("%v", got)
	}
	m.filter = queueFilter{}
	out.Reset()
	open[0].Sent = 5
	if m.queues(time.UnixMilli(1), ids{}); out.String() != "" {
		t.Error(out.String())
	}
}

// published are the metrics of AWS' services that alarms rest on, with what they are told apart by, as the services' own
// pages have them.
var published = map[string]string{
	"AWS/DynamoDB ReadThrottleEvents": "TableName", "AWS/DynamoDB WriteThrottleEvents": "TableName", "AWS/DynamoDB SystemErrors": "TableName Operation",
	"AWS/DynamoDB AgeOfOldestUnreplicatedRecord": "TableName DelegatedOperation", "AWS/DynamoDB FailedToReplicateRecordCount": "TableName DelegatedOperation",
	"AWS/Kinesis GetRecords.IteratorAgeMilliseconds": "StreamName", "AWS/Kinesis WriteProvisionedThroughputExceeded": "StreamName", "AWS/Kinesis ReadProvisionedThroughputExceeded": "StreamName",
	"AWS/Lambda Errors": "FunctionName", "AWS/Lambda Throttles": "FunctionName", "AWS/Lambda Duration": "FunctionName", "AWS/Lambda IteratorAge": "FunctionName",
	"AWS/ApiGateway 5xx": "ApiId",
}

// everything is what a process tells in which everything happens, by name and what it is told apart by.
func everything(t testing.TB) map[string]bool {
	t.Helper()
	var out strings.Builder
	m := newTelemetry("OP", func(name string) string { return map[string]string{envDeployment: "D"}[name] }, &out)
	m.Done(&broker.Tally{Sent: 1, SentBytes: 1, Duplicates: 1, Leased: 1, Redelivered: 1, Acked: 1, Extended: 1, Released: 1, LateLeases: 1, Expired: 1, Moved: 1, Purged: 1, DeadLettered: 1, EmptyReceives: 1})
	for o := range broker.Outcomes {
		m.Wrote(broker.Write{Outcome: o, Repeats: 1})
	}
	m.consumed("Query", 1, 1)
	m.Failed(500, "")
	m.Failed(400, "")
	m.add(poison, 1)
	m.add(sweptThrough, 1)
	m.lagging(1, 2)
	m.flush(time.UnixMilli(1), ids{})
	m.report(time.UnixMilli(1), ids{}, nil)
	all := map[string]bool{}
	for name := range told(t, out.String()) {
		all[strings.NewReplacer("=D", "", "=OP", "").Replace(name)] = true
	}
	return all
}

// TestAlarmsHaveMetrics: each alarm of both templates rests on a metric that AWS publishes or that functions tell, by its
// exact name and dimensions; says what missing data means; and names an operation that tells it.
func TestAlarmsHaveMetrics(t *testing.T) {
	ours := everything(t)
	tells := map[string]map[string]bool{"SweptThrough": scheduled(), "ProjectionLag": {}, "SetAside": {}}
	for _, p := range projections.All() {
		tells["ProjectionLag"][p.Name], tells["SetAside"][p.Name] = true, true
	}
	seen := map[string]bool{}
	for _, file := range []string{"template.yaml", "infra/template.yaml"} {
		for name, a := range readTemplateFile(t, file, map[string]bool{"Notified": true, "Measured": true}).of("AWS::CloudWatch::Alarm") {
			for _, m := range measured(a) {
				by, values := dimensions(m)
				metric := at(m, "MetricName").(string)
				seen[metric] = true
				if at(m, "Namespace") == namespace {
					if !ours[strings.TrimSpace(metric+" "+by)] {
						t.Errorf("%s rests on %s by %s, which nobody tells", name, metric, by)
					}
					if op := values["Operation"]; op != "" && !tells[metric][op] {
						t.Errorf("%s waits for %s of %s, which does not tell it", name, metric, op)
					}
				} else if published[at(m, "Namespace").(string)+" "+metric] != by {
					t.Errorf("%s rests on %s of %s by %s, which AWS does not publish", name, metric, at(m, "Namespace"), by)
				}
			}
			if at(a, "TreatMissingData") == nil || at(a, "AlarmDescription") == nil || len(list(at(a, "AlarmActions"))) != 1 {
				t.Errorf("%s does not say what missing data means, what it is about, or whom it tells", name)
			}
			if swept := strings.HasSuffix(name, "NotRun"); swept != (at(a, "TreatMissingData") == "breaching") {
				t.Errorf("%s: missing data is %v", name, at(a, "TreatMissingData"))
			}
		}
	}
	for _, metric := range []string{"DeadLettered", "OldestSeconds", "ProjectionLag", "SweptThrough", "CommitConflicts", "Commits"} {
		if !seen[metric] {
			t.Errorf("no alarm rests on %s", metric)
		}
	}
}

// measured are the metrics of an alarm: its own, or those of its expression.
func measured(alarm any) (all []any) {
	metrics, several := at(alarm, "Metrics").([]any)
	if !several {
		return []any{alarm}
	}
	for _, m := range metrics {
		if of := at(m, "MetricStat", "Metric"); of != nil {
			all = append(all, of)
		}
	}
	return all
}

func dimensions(m any) (names string, values map[string]string) {
	values = map[string]string{}
	for _, d := range at(m, "Dimensions").([]any) {
		name, _ := at(d, "Name").(string)
		names = strings.TrimSpace(names + " " + name)
		values[name], _ = at(d, "Value").(string)
	}
	return names, values
}

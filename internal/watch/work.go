package watch

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/leaselog/leaselog/internal/broker"
)

// The events of messages that are counted, in the order of [work.Done].
var messageEvents = []string{"sent", "duplicate", "received", "redelivered", "acked", "extended", "released", "lease_ended", "expired", "moved", "purged", "dead_lettered", "empty_receive"}

// outcomes are the words for the broker's.
var outcomes = [broker.Outcomes]string{broker.Stands: "stands", broker.Conflict: "conflict", broker.Refused: "refused", broker.Unknown: "unknown"}

// work counts what the broker does. Every counter is found beforehand: a group costs some atomic additions.
type work struct {
	messages *prometheus.CounterVec
	events   []prometheus.Counter
	bytes    prometheus.Counter
	commands prometheus.Histogram
	commits  *prometheus.CounterVec
	ended    [broker.Outcomes]prometheus.Counter
	seconds  prometheus.Histogram
	written  prometheus.Counter
	repeats  prometheus.Counter
}

func newWork() work {
	w := work{
		messages: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "leaselog_messages_total",
			Help: "What happened to messages. redelivered is a part of received: an earlier lease ended without an ack. lease_ended counts acks and extensions that came too late, dead_lettered is a part of moved, empty_receive counts receives that found nothing."}, []string{"event"}),
		bytes: prometheus.NewCounter(prometheus.CounterOpts{Name: "leaselog_sent_bytes_total", Help: "Bytes of the bodies and attributes of sent messages."}),
		commands: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "leaselog_group_commands", Buckets: []float64{1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024},
			Help: "Commands that were decided and committed together, for each group that wrote something."}),
		commits: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "leaselog_commits_total",
			Help: "Writes to the log, by outcome: stands, conflict (another process had written), refused, unknown (given up without knowing)."}, []string{"outcome"}),
		seconds: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "leaselog_commit_seconds", Buckets: prometheus.ExponentialBuckets(.0001, 2, 18),
			Help: "Seconds until the outcome of a write to the log was known."}),
		written: prometheus.NewCounter(prometheus.CounterOpts{Name: "leaselog_commit_bytes_total", Help: "Bytes of the entries in writes to the log."}),
		repeats: prometheus.NewCounter(prometheus.CounterOpts{Name: "leaselog_commit_repeats_total", Help: "Repeats of writes to the log whose outcome was not known."}),
	}
	for _, e := range messageEvents {
		w.events = append(w.events, w.messages.WithLabelValues(e))
	}
	for i, o := range outcomes {
		w.ended[i] = w.commits.WithLabelValues(o)
	}
	return w
}

func (w *work) all() []prometheus.Collector {
	return []prometheus.Collector{w.messages, w.bytes, w.commands, w.commits, w.seconds, w.written, w.repeats}
}

var _ broker.Meter = (*Watch)(nil)

// Done hears of a group of commands that stands: see [broker.Meter].
func (w *Watch) Done(t *broker.Tally) {
	k := &w.work
	for i, n := range [...]uint64{uint64(t.Sent), uint64(t.Duplicates), uint64(t.Leased), uint64(t.Redelivered), uint64(t.Acked),
		uint64(t.Extended), uint64(t.Released), uint64(t.LateLeases), t.Expired, uint64(t.Moved), t.Purged, uint64(t.DeadLettered), uint64(t.EmptyReceives)} {
		if n > 0 {
			k.events[i].Add(float64(n))
		}
	}
	if t.SentBytes > 0 {
		k.bytes.Add(float64(t.SentBytes))
	}
	if t.Wrote && t.Commands > 0 {
		k.commands.Observe(float64(t.Commands))
	}
}

// Wrote hears of a commit: see [broker.Meter].
func (w *Watch) Wrote(c broker.Write) {
	k := &w.work
	k.ended[c.Outcome].Inc()
	k.seconds.Observe(c.Took.Seconds())
	if c.Outcome == broker.Stands {
		k.written.Add(float64(c.Bytes))
	}
	if c.Repeats > 0 {
		k.repeats.Add(float64(c.Repeats))
	}
}

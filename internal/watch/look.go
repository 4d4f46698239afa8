package watch

import (
	"context"
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/leaselog/leaselog/internal/broker"
)

// Queues is what is asked of a broker at a scrape.
type Queues interface {
	Stats() broker.Stats
	Depths(ctx context.Context, most int) (all []broker.QueueDepth, left int)
}

// Disk is what is asked of an embedded store at a scrape.
type Disk interface {
	Size() uint64
	Healthy() error
}

const (
	// queuesMax bounds the queues with metrics of their own; a time series for each of a million would help nobody.
	queuesMax = 500
	// lookTimeout ends the counting of queues: a scrape that hangs is worse than one that lacks a queue.
	lookTimeout = 2 * time.Second
)

// Look adds what is read at each scrape, and what is counted of the store: the embedded one, or the remote one where d
// is nil.
func (w *Watch) Look(q Queues, d Disk) error {
	if d == nil {
		return errors.Join(w.register(&looker{queues: q}, w.remote)...)
	}
	return errors.Join(append(w.register(w.disk.all()...), w.registry.Register(&looker{queues: q, disk: d}))...)
}

// looker reads everything at a scrape and keeps nothing.
type looker struct {
	queues Queues
	disk   Disk // nil: none
}

func description(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("leaselog_"+name, help, labels, nil)
}

var (
	pollsWaiting = description("polls_waiting", "Receives that wait for messages.")
	queuesOpen   = description("queues_open", "Queues that this process has opened.")
	shardsOpen   = description("shards_open", "Shards with a runner in this process.")
	queueDepth   = queueOf("queue_messages", "Messages of an open queue at this moment, by state: available, in_flight, delayed.", "state")
	queueOldest  = queueOf("queue_oldest_seconds", "Age of the available message that waits longest: since it became deliverable there, and since it was first sent. 0 where none is available.", "since")
	queuePlace   = queueOf("queue_log_position", "Up to where the log is in leaselog_queue_messages: entries of the ledgers, and positions of the message streams, of all shards together.", "stream")
	queueEvents  = queueOf("queue_events_total", "What this process did for a queue since it opened it: sent, received, acked, expired, dead_lettered, in messages, and empty_receive.", "event")
	queueCommits = queueOf("queue_commits_total", "Writes to a queue's log, by outcome: stands, conflict (another process had written).", "outcome")
	queueUnits   = queueOf("queue_units_total", "Capacity units that DynamoDB charged for a queue's log; kind is read or write.", "kind")
	notCounted   = description("queues_not_counted", "Open queues without the leaselog_queue_ metrics: beyond the first 500 by name, not used since the start, or not answering.")
	storeBytes   = description("store_bytes", "Bytes that the embedded store takes on the disk.")
	storeHealthy = description("store_healthy", "1 while the embedded store takes writes, 0 while its disk does not.")
)

func queueOf(name, help, label string) *prometheus.Desc {
	return description(name, help, "account", "queue", label)
}

// Describe names the metrics.
func (l *looker) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{pollsWaiting, queuesOpen, shardsOpen, queueDepth, queueOldest, queuePlace, queueEvents, queueCommits, queueUnits,
		notCounted, storeBytes, storeHealthy} {
		to <- d
	}
}

// queue tells of one queue.
func (l *looker) queue(to chan<- prometheus.Metric, q *broker.QueueDepth) {
	type labelled struct {
		label string
		value float64
	}
	tell := func(d *prometheus.Desc, kind prometheus.ValueType, all ...labelled) {
		for _, v := range all {
			to <- prometheus.MustNewConstMetric(d, kind, v.value, q.Account, q.Name, v.label)
		}
	}
	var ledger, messages float64
	for _, p := range q.Shards {
		ledger, messages = ledger+float64(p.Ledger), messages+float64(p.Messages)
	}
	t := &q.Traffic
	tell(queueDepth, prometheus.GaugeValue, labelled{"available", float64(q.Available)}, labelled{"in_flight", float64(q.InFlight)}, labelled{"delayed", float64(q.Delayed)})
	tell(queueOldest, prometheus.GaugeValue, labelled{"deliverable", float64(q.WaitingMillis) / 1000}, labelled{"sent", float64(q.TotalMillis) / 1000})
	tell(queuePlace, prometheus.CounterValue, labelled{"ledger", ledger}, labelled{"messages", messages})
	tell(queueEvents, prometheus.CounterValue, labelled{"sent", float64(t.Sent)}, labelled{"received", float64(t.Received)}, labelled{"acked", float64(t.Acked)},
		labelled{"expired", float64(t.Expired)}, labelled{"dead_lettered", float64(t.DeadLettered)}, labelled{"empty_receive", float64(t.EmptyReceives)})
	tell(queueCommits, prometheus.CounterValue, labelled{"stands", float64(t.Commits)}, labelled{"conflict", float64(t.Conflicts)})
	if l.disk == nil { // a store that charges
		tell(queueUnits, prometheus.CounterValue, labelled{"read", t.ReadUnits}, labelled{"write", t.WriteUnits})
	}
}

// Collect looks.
func (l *looker) Collect(to chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, value float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
	}
	ctx, cancel := context.WithTimeout(context.Background(), lookTimeout)
	defer cancel()
	depths, left := l.queues.Depths(ctx, queuesMax)
	for i := range depths {
		l.queue(to, &depths[i])
	}
	s := l.queues.Stats()
	gauge(pollsWaiting, float64(s.Polls))
	gauge(queuesOpen, float64(s.Queues))
	gauge(shardsOpen, float64(s.Shards))
	gauge(notCounted, float64(left))
	if l.disk == nil {
		return
	}
	gauge(storeBytes, float64(l.disk.Size()))
	healthy := 1.0
	if l.disk.Healthy() != nil {
		healthy = 0
	}
	gauge(storeHealthy, healthy)
}

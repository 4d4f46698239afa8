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
	queueDepth   = description("queue_messages", "Messages of an open queue, by state: available, in_flight, delayed.", "account", "queue", "state")
	notCounted   = description("queues_not_counted", "Open queues without leaselog_queue_messages: beyond the first 500 by name, not used since the start, or not answering.")
	storeBytes   = description("store_bytes", "Bytes that the embedded store takes on the disk.")
	storeHealthy = description("store_healthy", "1 while the embedded store takes writes, 0 while its disk does not.")
)

// Describe names the metrics.
func (l *looker) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{pollsWaiting, queuesOpen, shardsOpen, queueDepth, notCounted, storeBytes, storeHealthy} {
		to <- d
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
		q := &depths[i]
		gauge(queueDepth, float64(q.Available), q.Account, q.Name, "available")
		gauge(queueDepth, float64(q.InFlight), q.Account, q.Name, "in_flight")
		gauge(queueDepth, float64(q.Delayed), q.Account, q.Name, "delayed")
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

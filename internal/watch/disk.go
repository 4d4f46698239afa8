package watch

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// disk counts what the embedded store writes.
type disk struct {
	seconds prometheus.Histogram
	commits prometheus.Histogram
	bytes   prometheus.Counter
}

func newDisk() disk {
	return disk{
		seconds: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "leaselog_store_sync_seconds", Buckets: prometheus.ExponentialBuckets(.0001, 2, 16),
			Help: "Seconds in which one batch of the embedded store was written and synced to the disk."}),
		commits: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "leaselog_store_batch_commits", Buckets: []float64{1, 2, 4, 8, 16, 32, 64, 128},
			Help: "Commits that shared one sync of the disk."}),
		bytes: prometheus.NewCounter(prometheus.CounterOpts{Name: "leaselog_store_written_bytes_total", Help: "Bytes of the batches that were synced, before compaction."}),
	}
}

func (d *disk) all() []prometheus.Collector {
	return []prometheus.Collector{d.seconds, d.commits, d.bytes}
}

// Synced hears of a batch that is on the disk.
func (w *Watch) Synced(commits, bytes int, took time.Duration) {
	w.disk.seconds.Observe(took.Seconds())
	w.disk.commits.Observe(float64(commits))
	w.disk.bytes.Add(float64(bytes))
}

// newViewed makes the histogram of how far views are behind.
func newViewed() prometheus.Histogram {
	return prometheus.NewHistogram(prometheus.HistogramOpts{Name: "leaselog_view_lag_seconds", Buckets: prometheus.ExponentialBuckets(.001, 2, 18),
		Help: "Seconds from a change in the log to the views that have it, where this process keeps them."})
}

// Viewed hears how old the oldest change was that views were just brought up to date with.
func (w *Watch) Viewed(lag time.Duration) { w.viewed.Observe(lag.Seconds()) }

// newRemote makes the counter of what a remote store charges for.
func newRemote() *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Name: "leaselog_dynamodb_units_total",
		Help: "Capacity units that calls to DynamoDB took, by operation; kind is read or write."}, []string{"operation", "kind"})
}

// Consumed hears what a call to DynamoDB took.
func (w *Watch) Consumed(operation string, readUnits, writeUnits float64) {
	w.remote.WithLabelValues(operation, "read").Add(readUnits)
	w.remote.WithLabelValues(operation, "write").Add(writeUnits)
}

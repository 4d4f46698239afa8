package watch

import (
	"net/http"
	"slices"
	"strconv"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/leaselog/leaselog/internal/api"
)

// unknown is the operation of a request that no endpoint takes.
const unknown = "unknown"

// requestBuckets go from what a memory's answer takes to what a long poll may.
var requestBuckets = []float64{.00025, .0005, .001, .002, .004, .008, .016, .032, .064, .128, .25, .5, 1, 2.5, 5, 10, 20, 30}

// requests counts what the APIs answer.
type requests struct {
	total    *prometheus.CounterVec
	seconds  *prometheus.HistogramVec
	failures *prometheus.CounterVec
	known    map[string]*operation
}

// operation keeps the counters of the common case, since finding one by its labels costs more than adding to it.
type operation struct {
	name    string
	seconds prometheus.Observer
	good    [3]atomic.Pointer[prometheus.Counter] // by the places of successes; made when needed first
}

// successes are the statuses that an operation may end well with.
var successes = [3]int{http.StatusOK, http.StatusCreated, http.StatusNoContent}

func newRequests(operations []string) requests {
	r := requests{
		total: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "leaselog_requests_total",
			Help: "Requests answered, by operation, HTTP status and error code (empty when it went well)."}, []string{"operation", "status", "code"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "leaselog_request_seconds", Buckets: requestBuckets,
			Help: "Seconds from a request's arrival to its answer. A receive may wait for messages up to 20 seconds."}, []string{"operation"}),
		failures: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "leaselog_failures_total",
			Help: "Errors answered, those of single entries of a batch too, by error code."}, []string{"code"}),
		known: map[string]*operation{},
	}
	for _, name := range append(operations, unknown) {
		op := &operation{name: name, seconds: r.seconds.WithLabelValues(name)}
		r.known[name] = op
	}
	return r
}

func (r *requests) all() []prometheus.Collector {
	return []prometheus.Collector{r.total, r.seconds, r.failures}
}

func (r *requests) count(s *api.Served) {
	op := r.known[s.Operation]
	if op == nil {
		op = r.known[unknown]
	}
	op.seconds.Observe(s.Took.Seconds())
	place := slices.Index(successes[:], s.Status)
	if place >= 0 && s.Code == "" {
		if c := op.good[place].Load(); c != nil {
			(*c).Inc()
			return
		}
	}
	c := r.total.WithLabelValues(op.name, strconv.Itoa(s.Status), s.Code)
	c.Inc()
	if place >= 0 && s.Code == "" {
		op.good[place].Store(&c)
	}
}

// Failed hears of an error that is answered: see [api.Services].
func (w *Watch) Failed(_ int, code string) { w.requests.failures.WithLabelValues(code).Inc() }

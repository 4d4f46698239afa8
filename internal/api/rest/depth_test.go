package rest

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/leaselog/leaselog/events"
	"github.com/leaselog/leaselog/internal/broker"
)

// fill sends many messages at once, as no client may.
func (r *real) fill(queue string, n int) {
	r.t.Helper()
	id, ok := events.ParseUUID(queue)
	out := make([]broker.Outgoing, n)
	for i := range out {
		out[i].Message.Body = []byte("x")
	}
	if _, err := r.broker.Send(r.t.Context(), events.QueueID(id), out); err != nil || !ok {
		r.t.Fatal(queue, err)
	}
}

// TestDepthFallsWithTime: a thousand leases of different lengths end while nothing else happens, and each second both
// endpoints count what is left; the log stays where it was.
func TestDepthFallsWithTime(t *testing.T) {
	inReal(t, func(r *real) {
		r.call("POST", "/v1/queues", `{"name":"q"}`, 201)
		const entries = `{"entries":[{"id":"0","body":"x"},{"id":"1","body":"x"},{"id":"2","body":"x"},{"id":"3","body":"x"},{"id":"4","body":"x"},` +
			`{"id":"5","body":"x"},{"id":"6","body":"x"},{"id":"7","body":"x"},{"id":"8","body":"x"},{"id":"9","body":"x"}]}`
		ends := map[int]int{} // leases that end at a second
		for i := range 100 {
			r.call("POST", "/v1/queues/q/messages/batch", entries, 200)
			seconds := 1 + i*37%100
			r.call("POST", "/v1/queues/q/messages/receive", fmt.Sprintf(`{"max_messages":10,"visibility_timeout_seconds":%d}`, seconds), 200)
			ends[seconds] += 10
		}
		left := 1000
		place := get(r.call("GET", "/x/v1/queues/q/depth", "", 200), "depth.shards.0.ledger")
		for second := 1; second <= 100; second++ {
			time.Sleep(time.Second)
			left -= ends[second]
			want := []string{"in_flight", strconv.Itoa(left), "available", strconv.Itoa(1000 - left), "shards.0.ledger", place}
			one, all := r.call("GET", "/x/v1/queues/q/depth", "", 200), r.call("GET", "/x/v1/depths", "", 200)
			for i := 0; i < len(want); i += 2 {
				r.want(one, "depth."+want[i], want[i+1])
				r.want(all, "depths.0."+want[i], want[i+1])
			}
		}
		if left != 0 {
			t.Errorf("%d leases are left", left)
		}
	})
}

// TestDepthBeyondTheCap: where the API counts to 10,000 and says so, the count without a cap goes on.
func TestDepthBeyondTheCap(t *testing.T) {
	inReal(t, func(r *real) {
		id := get(r.call("POST", "/v1/queues", `{"name":"q"}`, 201), "queue.id")
		r.fill(id, 10_000)
		r.want(r.call("GET", "/v1/queues/q", "", 200), "queue.depth.approximate_available", "10000", "queue.depth.counts_capped", "false")
		r.fill(id, 1)
		r.want(r.call("GET", "/v1/queues/q", "", 200), "queue.depth.approximate_available", "10000", "queue.depth.counts_capped", "true")
		r.want(r.call("GET", "/x/v1/queues/q/depth", "", 200), "depth.available", "10001", "depth.in_flight", "0")
		r.want(r.call("GET", "/x/v1/depths", "", 200), "depths.0.available", "10001")
	})
}

package rest

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leaselog/leaselog/events"
	"github.com/leaselog/leaselog/internal/auth"
	"github.com/leaselog/leaselog/internal/broker"
	"github.com/leaselog/leaselog/internal/envelope"
	"github.com/leaselog/leaselog/internal/eventlog"
	"github.com/leaselog/leaselog/internal/local/keys"
)

// real is the dialect over a real broker on a log in memory, in the virtual time of a synctest bubble.
type real struct {
	t       *testing.T
	keys    *keys.Keys
	vault   envelope.Keys // wraps in place of keys, unless nil
	log     *eventlog.Memory
	broker  *broker.Broker
	h       http.Handler
	seen    map[string]bool // operation and status of every answer
	account string
}

func inReal(t *testing.T, test func(r *real)) {
	t.Helper()
	k, err := keys.Open(filepath.Join(t.TempDir(), "key"))
	if err != nil {
		t.Fatal(err)
	}
	loadContract(t)
	synctest.Test(t, func(t *testing.T) {
		r := &real{t: t, keys: k, log: eventlog.NewMemory(), seen: map[string]bool{}}
		r.restart()
		test(r)
		r.broker.Close()
	})
}

// restart begins anew on the same log, as a process does.
func (r *real) restart() {
	if r.broker != nil {
		r.broker.Close()
	}
	vault := r.vault
	if vault == nil {
		vault = r.keys
	}
	var err error
	r.broker, err = broker.New(broker.Config{Log: r.log, Keys: vault, Rand: rand.Reader, Deployment: "test", Exclusive: true,
		ReceiptKey: r.keys.Secret("receipts"), Now: func() events.Instant { return events.Instant(time.Now().UnixMilli()) }})
	if err != nil {
		r.t.Fatal(err)
	}
	r.h, err = New(Config{Broker: r.broker, Auth: auth.Development{}, Tokens: auth.Development{}, Secret: secret})
	if err != nil {
		r.t.Fatal(err)
	}
}

// call sends a request, holds the answer to the contract, demands its status, and gives its JSON.
func (r *real) call(method, target, body string, status int) map[string]any {
	r.t.Helper()
	request := httptest.NewRequest(method, target, strings.NewReader(body))
	request.Header.Set("Authorization", "Bearer test")
	if target == "/v1/oauth/token" {
		request.Header = http.Header{"Content-Type": {"application/json"}}
	}
	if r.account != "" {
		request.Header.Set("X-Account-Id", r.account)
	}
	c := loadContract(r.t)
	a, err := c.serve(r.h, request)
	if err != nil || a.Code != status {
		r.t.Errorf("%s %s %.100s: %d, want %d: %v\n%s", method, target, body, a.Code, status, err, a.Body)
	}
	if route, _, err := c.router.FindRoute(request); err == nil {
		r.seen[fmt.Sprint(route.Operation.OperationID, " ", a.Code)] = true
	}
	var v map[string]any
	json.Unmarshal(a.Body.Bytes(), &v)
	return v
}

// get looks a place up, as the scripts do.
func get(v map[string]any, path string) string {
	raw, _ := json.Marshal(v)
	found, ok := at(raw, path)
	if !ok {
		return ""
	}
	return fmt.Sprint(found)
}

// want demands what stands at some places: path, value, path, value.
func (r *real) want(v map[string]any, pairs ...string) {
	r.t.Helper()
	for i := 0; i < len(pairs); i += 2 {
		if got := get(v, pairs[i]); got != pairs[i+1] {
			r.t.Errorf("%s is %q, not %q, in %v", pairs[i], got, pairs[i+1], v)
		}
	}
}

// TestContractOverTheRealBroker walks through every operation, in the words of both dialects and with the mistakes
// that each knows; at the end every success of the contract must have been an answer.
func TestContractOverTheRealBroker(t *testing.T) {
	inReal(t, func(r *real) {
		r.tokens()
		r.queues()
		r.messages()
		r.fifo()
		r.deadLetters()
		r.moves()
		r.depths()
		r.gone()
		for _, item := range loadContract(t).doc.Paths.Map() {
			for _, op := range item.Operations() {
				for status := range op.Responses.Map() {
					if status < "300" && !r.seen[op.OperationID+" "+status] {
						t.Errorf("%s was never answered %s", op.OperationID, status)
					}
				}
			}
		}
	})
}

func (r *real) tokens() {
	r.call("POST", "/v1/oauth/token", `{"grant_type":"client_credentials","client_id":"a","client_secret":"b"}`, 200)
	r.call("POST", "/v1/oauth/token", `{"grant_type":"refresh_token","client_id":"a","client_secret":"b"}`, 400)
	r.call("POST", "/v1/oauth/token", `{"grant_type":"client_credentials"}`, 401)
	r.call("POST", "/v1/oauth/revoke", `{"token":"x"}`, 204)
}

func (r *real) queues() {
	q := r.call("POST", "/v1/queues", `{"name":"orders","tags":{"team":"é"},"kms_key":null,"delay_seconds":null}`, 201)
	r.want(q, "queue.depth.approximate_available", "0", "queue.tags.team", "é")
	r.call("POST", "/v1/queues", `{"name":"orders"}`, 409)
	r.call("POST", "/v1/queues", `{"name":"orders/x"}`, 400)
	r.call("POST", "/v1/queues", `{"name":"dead"}`, 201)
	r.call("GET", "/v1/queues", "", 200)
	page := r.call("GET", "/v1/queues?limit=1&marker=", "", 200)
	r.call("GET", "/v1/queues?limit=1&marker="+get(page, "meta.marker"), "", 200)
	r.call("GET", "/v1/queues?marker=forged", "", 400)
	r.call("GET", "/v1/queues?limit=0", "", 400)
	r.call("PATCH", "/v1/queues/orders", `{"redrive_policy":{"dead_letter_queue":"dead","max_receive_count":3}}`, 200)
	r.call("PATCH", "/v1/queues/orders", `{"redrive_policy":null,"clear_redrive_policy":true,"clear_kms_key":true}`, 200)
	r.call("PATCH", "/v1/queues/orders", `{"kms_key_id":"`+get(q, "queue.id")+`"}`, 400)
	r.call("PATCH", "/v1/queues/orders", `{"name":"other"}`, 400)
	r.call("GET", "/v1/queues/"+get(q, "queue.id"), "", 200)
	r.call("GET", "/v1/queues/nobody", "", 404)
	r.account = "another"
	r.call("GET", "/v1/queues", "", 403)
	r.call("POST", "/v1/queues", `{"name":"x"}`, 403)
	r.call("GET", "/v1/queues/orders", "", 404)
	r.account = ""
}

func (r *real) messages() {
	const m = "/v1/queues/orders/messages"
	r.call("POST", m, `{"body":"a\u0000\"é😀","attributes":{"n":{"type":"Number","value":"1e3"}}}`, 200)
	r.call("POST", m, `{"body":"late","delay_seconds":900,"attributes":null}`, 200)
	r.call("POST", m, `{"body":"`+strings.Repeat("x", 262145)+`"}`, 400)
	r.call("POST", m, `{"body":1}`, 400)
	r.call("POST", m+"/batch", `{"entries":[{"id":"1","body":"b"},{"id":"2","body":"c","delay_seconds":901},{"id":"3","body":"d","message_group_id":"g"}]}`, 200)
	r.call("POST", m+"/batch", `{"entries":[]}`, 400)
	r.want(r.call("GET", m+"?limit=1", "", 200), "messages.0.visibility", "available", "meta.has_more", "true")
	r.call("GET", m+"?visibility=never", "", 400)
	r.want(r.call("GET", m+"?visibility=delayed", "", 200), "messages.0.first_received_at", "<nil>")
	got := r.call("POST", m+"/receive", `{"max_messages":10,"visibility_timeout_seconds":100}`, 200)
	first, second := get(got, "messages.0.receipt_handle"), get(got, "messages.1.receipt_handle")
	r.call("POST", m+"/receive", "", 200)
	r.call("POST", m+"/receive", `{"wait_time_seconds":20}`, 200)
	r.call("GET", m+"?visibility=in_flight&crn="+url.QueryEscape("crn:queue:sa-saopaulo-1:local:message/orders/"+get(got, "messages.0.id")), "", 200)
	r.call("POST", m+"/visibility", `{"receipt_handle":"`+first+`","visibility_timeout_seconds":43200}`, 204)
	r.call("POST", m+"/visibility", `{"receipt_handle":"`+first+`","visibility_timeout_seconds":43201}`, 400)
	r.call("POST", m+"/visibility", `{"receipt_handle":"`+first+`","visibility_timeout_seconds":0}`, 204)
	r.call("POST", m+"/visibility", `{"receipt_handle":"`+first+`","visibility_timeout_seconds":5}`, 409)
	r.call("POST", m+"/visibility-batch", `{"entries":[{"id":"a","receipt_handle":"`+second+`","visibility_timeout_seconds":9},
		{"id":"b","receipt_handle":"junk","visibility_timeout_seconds":9},{"id":"c","receipt_handle":"`+second+`","visibility_timeout_seconds":-1}]}`, 200)
	r.call("DELETE", m+"?receipt_handle="+second, "", 204)
	r.call("DELETE", m+"?receipt_handle="+second, "", 204)
	r.call("DELETE", m+"?receipt_handle="+first, "", 409)
	r.call("DELETE", m+"?receipt_handle=junk", "", 400)
	r.call("DELETE", m, "", 400)
	r.call("POST", m+"/delete-batch", `{"entries":[{"id":"a","receipt_handle":"`+first+`"},{"id":"b","receipt_handle":"junk"}]}`, 200)
	r.call("POST", "/v1/queues/orders/purge", "", 200)
}

func (r *real) fifo() {
	r.call("POST", "/v1/queues", `{"name":"steps.fifo","content_based_deduplication":true}`, 201)
	const m = "/v1/queues/steps.fifo/messages"
	r.want(r.call("POST", m, `{"body":"1","message_group_id":"g"}`, 200), "result.duplicate", "false")
	r.want(r.call("POST", m, `{"body":"1","message_group_id":"g"}`, 200), "result.duplicate", "true")
	r.call("POST", m, `{"body":"1"}`, 400)
	r.want(r.call("POST", m+"/receive", `{}`, 200), "messages.0.message_group_id", "g")
}

func (r *real) deadLetters() {
	r.call("PATCH", "/v1/queues/orders", `{"redrive_policy":{"dead_letter_queue_id":"`+get(r.call("GET", "/v1/queues/dead", "", 200), "queue.id")+`","max_receive_count":1}}`, 200)
	r.call("POST", "/v1/queues/orders/messages", `{"body":"poison"}`, 200)
	r.call("POST", "/v1/queues/orders/messages/receive", `{"visibility_timeout_seconds":0}`, 200)
	if err := r.broker.Tick(r.t.Context()); err != nil {
		r.t.Error(err)
	}
	r.want(r.call("POST", "/v1/queues/dead/messages/receive", `{}`, 200), "messages.0.body", "poison", "messages.0.receive_count", "1")
	r.call("PATCH", "/v1/queues/orders", `{"redrive_policy":{"dead_letter_queue":"orders","max_receive_count":1}}`, 400)
}

// depths: counts with their places, of one queue and of all; leases that end with nobody asking for anything else.
func (r *real) depths() {
	r.call("POST", "/v1/queues", `{"name":"deep"}`, 201)
	for range 3 {
		r.call("POST", "/v1/queues/deep/messages", `{"body":"x"}`, 200)
	}
	time.Sleep(5 * time.Second)
	r.call("POST", "/v1/queues/deep/messages/receive", `{"max_messages":2,"visibility_timeout_seconds":10}`, 200)
	const d = "/x/v1/queues/deep/depth"
	r.want(r.call("GET", d, "", 200), "depth.queue_name", "deep", "depth.available", "1", "depth.in_flight", "2", "depth.delayed", "0", "depth.source", "state",
		"depth.oldest_waiting_milliseconds", "5000", "depth.oldest_total_milliseconds", "5000", "depth.shards.0.ledger", "2", "depth.shards.0.messages", "4")
	r.want(r.call("GET", "/v1/queues/deep", "", 200), "queue.depth.approximate_in_flight", "2", "queue.depth.source", "state", "queue.depth.shards.0.messages", "4")
	time.Sleep(10 * time.Second)
	r.want(r.call("GET", d, "", 200), "depth.available", "3", "depth.in_flight", "0", "depth.shards.0.ledger", "2")
	page := r.call("GET", "/x/v1/depths?limit=1", "", 200)
	first := get(page, "depths.0.queue_name")
	r.want(page, "meta.has_more", "true", "depths.1", "")
	page = r.call("GET", "/x/v1/depths?limit=1&marker="+get(page, "meta.marker"), "", 200)
	if second := get(page, "depths.0.queue_name"); second <= first {
		r.t.Errorf("%s comes after %s", second, first)
	}
	r.call("GET", "/x/v1/depths?limit=1&marker=x", "", 400)
	r.call("GET", "/x/v1/queues/nono/depth", "", 404)
	r.call("DELETE", "/v1/queues/deep", "", 204)
}

func (r *real) moves() {
	const m = "/x/v1/queues/dead/moves"
	r.want(r.call("GET", "/v1/queues/dead/messages", "", 200), "messages.0.moved_from.reason", "received_too_often", "messages.0.moved_from.receive_count", "1",
		"messages.0.moved_from.queue_id", get(r.call("GET", "/v1/queues/orders", "", 200), "queue.id"))
	time.Sleep(time.Minute) // the lease of what was received is over
	r.want(r.call("POST", m, `{"dry_run":true,"body_matches":"^poison$","source":"orders"}`, 200), "preview.moved", "1")
	r.want(r.call("POST", m, `{"dry_run":true,"body_matches":"^x"}`, 200), "preview.skipped", "1")
	r.call("POST", m, `{"body_matches":"("}`, 400)
	r.call("POST", m, `{"target":"dead"}`, 400)
	r.call("POST", m, `{"target":"steps.fifo"}`, 400)
	id := get(r.call("POST", m, "", 201), "move.id")
	r.call("POST", m, "{}", 403)
	if _, err := r.broker.Moves(r.t.Context()); err != nil {
		r.t.Error(err)
	}
	r.want(r.call("GET", m+"/"+id, "", 200), "move.moved", "1", "move.target", "")
	r.want(r.call("GET", m+"?limit=1", "", 200), "moves.0.id", id)
	r.want(r.call("POST", m+"/"+id+"/cancel", "", 200), "move.state", "cancelled")
	r.want(r.call("GET", "/v1/queues/orders/messages", "", 200), "messages.0.body", "poison", "messages.0.receive_count", "0", "messages.0.moved_from.reason", "redrive")
	message := get(r.call("GET", "/v1/queues/orders/messages", "", 200), "messages.0.id")
	h := "/x/v1/queues/orders/messages/" + message + "/history"
	orders, dead := get(r.call("GET", "/v1/queues/orders", "", 200), "queue.id"), get(r.call("GET", "/v1/queues/dead", "", 200), "queue.id")
	r.want(r.call("GET", h, "", 200), "message_id", message, "queue_id", orders, "history.0.event", "sent", "history.1.event", "leased", "history.1.receive_count", "1",
		"history.2.event", "lease_ended", "history.3.event", "moved", "history.3.reason", "received_too_often", "history.3.moved_to", dead,
		"history.4.event", "arrived", "history.4.moved_from", dead, "meta.has_more", "false")
	next := get(r.call("GET", h+"?limit=1", "", 200), "meta.marker")
	r.want(r.call("GET", h+"?limit=1000&marker="+next, "", 200), "history.0.event", "leased")
	r.call("GET", strings.Replace(h, "orders", "dead", 1)+"?marker="+next, "", 400)
	r.want(r.call("GET", strings.Replace(h, "orders", "dead", 1), "", 200), "history.1.event", "leased", "history.3.event", "moved", "history.3.reason", "redrive")
	r.call("GET", "/x/v1/queues/orders/messages/"+orders+"/history", "", 404)
	r.call("GET", "/x/v1/queues/orders/messages/none/history", "", 404)
	r.want(r.call("POST", m, `{"target":"orders","rate_per_second":5}`, 201), "move.target.name", "orders", "move.rate_per_second", "5")
}

func (r *real) gone() {
	id := get(r.call("GET", "/v1/queues/dead", "", 200), "queue.id")
	r.call("DELETE", "/v1/queues/"+id, "", 204)
	r.call("DELETE", "/v1/queues/"+id, "", 204)
	r.call("DELETE", "/v1/queues/dead", "", 404)
	r.want(r.call("GET", "/v1/queues/orders", "", 200), "queue.redrive_policy.dead_letter_queue.name", "")
	r.broker.Close()
	r.call("GET", "/v1/queues/orders", "", 503)
}

// TestTimesAcross2038 gives every duration its documented maximum while the clock stands right before the end of the
// 32-bit seconds, and looks at the instants that come of it, again after a restart, and again when they have come.
func TestTimesAcross2038(t *testing.T) {
	inReal(t, func(r *real) {
		start := time.Date(2038, 1, 19, 3, 14, 0, 0, time.UTC) // seven seconds before
		time.Sleep(time.Until(start))
		r.call("POST", "/v1/queues", `{"name":"q","visibility_timeout_seconds":43200,"message_retention_seconds":1209600,"max_message_bytes":262144,
			"delay_seconds":900,"receive_wait_time_seconds":20,"kms_data_key_reuse_period_seconds":86400}`, 201)
		const m = "/v1/queues/q/messages"
		r.call("POST", m, `{"body":"queue's delay"}`, 200)
		look := func() {
			t.Helper()
			r.want(r.call("GET", m, "", 200), "messages.0.enqueued_at", stamp(start), "messages.0.visible_at", stamp(start.Add(900*time.Second)),
				"messages.0.visibility", "delayed", "messages.0.expires_at", stamp(start.Add(1209600*time.Second)))
		}
		look()
		r.restart()
		look()
		empty := time.Now()
		r.want(r.call("POST", m+"/receive", `{}`, 200), "messages.0.id", "") // the longest wait is over before the delay
		if waited := time.Since(empty); waited != 20*time.Second {
			t.Errorf("waited %v", waited)
		}
		time.Sleep(time.Until(start.Add(900*time.Second - time.Millisecond)))
		r.want(r.call("POST", m+"/receive", `{"wait_time_seconds":0}`, 200), "messages.0.id", "")
		time.Sleep(time.Millisecond)
		got := r.call("POST", m+"/receive", `{"wait_time_seconds":0}`, 200)
		leased := start.Add(900 * time.Second)
		r.want(got, "messages.0.visible_at", stamp(leased.Add(43200*time.Second)), "messages.0.receive_count", "1")
		r.restart()
		time.Sleep(43200*time.Second - time.Millisecond)
		r.want(r.call("POST", m+"/receive", `{"wait_time_seconds":0}`, 200), "messages.0.id", "")
		r.call("POST", m+"/visibility", `{"receipt_handle":"`+get(got, "messages.0.receipt_handle")+`","visibility_timeout_seconds":43200}`, 204)
		time.Sleep(43200 * time.Second)
		r.want(r.call("POST", m+"/receive", `{"visibility_timeout_seconds":0}`, 200), "messages.0.receive_count", "2", "messages.0.body", "queue's delay")
		time.Sleep(time.Until(start.Add(1209600*time.Second - time.Millisecond)))
		r.want(r.call("POST", m+"/receive", `{"visibility_timeout_seconds":0}`, 200), "messages.0.receive_count", "3")
		time.Sleep(time.Millisecond)
		r.want(r.call("POST", m+"/receive", `{"wait_time_seconds":0}`, 200), "messages.0.id", "")
	})
}

// stamp is an instant as the answers have it.
func stamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }

// TestNothingOutOfRangeIsStored: a refused number, of an update too, leaves queue and messages as they were.
func TestNothingOutOfRangeIsStored(t *testing.T) {
	inReal(t, func(r *real) {
		r.call("POST", "/v1/queues", `{"name":"q"}`, 201)
		before := fmt.Sprint(r.call("GET", "/v1/queues/q", "", 200))
		for _, n := range []string{"-1", "-2147483649", "2147483647", "2147483648", "4294967296", "9223372036854775807", "18446744073709551616", "1e300", "1.5", `"5"`} {
			r.call("POST", "/v1/queues", `{"name":"never","delay_seconds":`+n+`}`, 400)
			r.call("POST", "/v1/queues/q/messages", `{"body":"never","delay_seconds":`+n+`}`, 400)
			r.call("PATCH", "/v1/queues/q", `{"tags":{"a":"b"},"message_retention_seconds":`+n+`}`, 400)
			r.call("POST", "/v1/queues/q/messages/receive", `{"visibility_timeout_seconds":`+n+`}`, 400)
		}
		if after := fmt.Sprint(r.call("GET", "/v1/queues/q", "", 200)); after != before {
			t.Errorf("%s became %s", before, after)
		}
		r.want(r.call("GET", "/v1/queues", "", 200), "queues.1.name", "")
	})
}

// TestNearNames: queues whose names differ by a letter's case, a dot or a suffix never meet, whichever way they are
// named; what is done to one is done to it alone, and its name comes back letter for letter.
func TestNearNames(t *testing.T) {
	names := []string{"news", "NEWS", "News", "a.b", "a..b", "a.b.", "x.fifo", "x", "X.fifo", "job", "job.1", "JOB", "fifo", "a.fifo.fifo", "0", "a-_.",
		strings.Repeat("n", 128), strings.Repeat("n", 127)}
	inReal(t, func(r *real) {
		ids := map[string]string{}
		for _, n := range names {
			q := r.call("POST", "/v1/queues", `{"name":"`+n+`"}`, 201)
			r.want(q, "queue.name", n, "queue.crn", "crn:queue:sa-saopaulo-1:local:queue/"+n)
			ids[n] = get(q, "queue.id")
			if isFifo(n) {
				r.call("POST", "/v1/queues/"+n+"/messages", `{"body":"`+n+`","message_group_id":"g","message_deduplication_id":"1"}`, 200)
			} else {
				r.call("POST", "/v1/queues/"+n+"/messages", `{"body":"`+n+`"}`, 200)
			}
		}
		for _, n := range names {
			for _, ref := range []string{n, ids[n], "crn:queue:sa-saopaulo-1:local:queue/" + n, "crn%3Aqueue%3Asa-saopaulo-1%3Alocal%3Aqueue%2F" + n,
				"crn%3aqueue%3asa-saopaulo-1%3alocal%3aqueue%2f" + n, strings.ReplaceAll(n, ".", "%2E"), strings.ReplaceAll(n, ".", "%2e")} {
				if strings.Contains(ref, "queue/") {
					r.call("GET", "/v1/queues/"+ref, "", 404) // a slash that is not encoded is two segments
					continue
				}
				r.want(r.call("GET", "/v1/queues/"+ref, "", 200), "queue.name", n, "queue.id", ids[n], "queue.depth.approximate_available", "1")
				r.want(r.call("GET", "/v1/queues/"+ref+"/messages", "", 200), "messages.0.body", n, "messages.1.id", "")
			}
			r.want(r.call("GET", "/v1/queues?name="+n, "", 200), "queues.0.name", n, "queues.1.name", "")
		}
		r.call("POST", "/v1/queues/job/purge", "", 200)
		r.call("DELETE", "/v1/queues/news", "", 204)
		for _, n := range names {
			switch n {
			case "job":
				r.want(r.call("GET", "/v1/queues/job", "", 200), "queue.depth.approximate_available", "0")
			case "news":
				r.call("GET", "/v1/queues/news", "", 404)
			default:
				r.want(r.call("POST", "/v1/queues/"+n+"/messages/receive", "", 200), "messages.0.body", n)
			}
		}
	})
}

// TestIllegalNames: what cannot be a queue's name is refused as such when it is created, and names nothing in a path.
func TestIllegalNames(t *testing.T) {
	inReal(t, func(r *real) {
		for _, n := range []string{"", `\u0000`, "a b", "../x", ".x", ".fifo", "-", "_", "--help", "a/b", "a+b", "a%2Fb", "{x}", "é", "::", "a:b", "crn:x",
			strings.Repeat("n", 129), "123e4567-e89b-12d3-a456-426614174000"} {
			r.want(r.call("POST", "/v1/queues", `{"name":"`+n+`"}`, 400), "error.code", "INVALID_INPUT")
			if n != "" {
				r.call("GET", "/v1/queues/"+url.PathEscape(n), "", 404)
			}
		}
		r.want(r.call("GET", "/v1/queues", "", 200), "queues.0.name", "")
	})
}

// A list of queues is never longer than a host can answer: the rest is on the next pages.
func TestListBound(t *testing.T) {
	inReal(t, func(r *real) {
		var tags []string
		for i := range tagsMax {
			tags = append(tags, fmt.Sprintf(`"%02d%s":%q`, i, strings.Repeat("🏷", tagKeyMax-2), strings.Repeat("🏷", tagValueMax)))
		}
		const queues = 60
		for i := range queues {
			r.call("POST", "/v1/queues", fmt.Sprintf(`{"name":"q%02d","tags":{%s}}`, i, strings.Join(tags, ",")), 201)
		}
		var seen []string
		for marker, pages := "", 0; ; pages++ {
			v := r.call("GET", "/v1/queues?limit=1000&marker="+url.QueryEscape(marker), "", 200)
			if text, _ := json.Marshal(v["queues"]); len(text) > answerBytesMax {
				t.Errorf("a page has %d bytes", len(text))
			}
			for _, q := range v["queues"].([]any) {
				seen = append(seen, get(q.(map[string]any), "name"))
			}
			if marker = get(v, "meta.marker"); marker == "" {
				if pages == 0 {
					t.Error("it is one page, which shows nothing")
				}
				break
			}
		}
		if len(seen) != queues || !slices.IsSorted(seen) || len(slices.Compact(seen)) != queues {
			t.Errorf("%d of %d queues were listed: %v", len(seen), queues, seen)
		}
	})
}

package rest

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"

	"github.com/leaselog/leaselog/events"
	"github.com/leaselog/leaselog/internal/broker"
)

// where is a body with one number in it: %s is the number's place.
type where struct {
	in           span
	method, path string
	body         string
	ok           int
}

// TestNumbers tries every number of the API with the values that have broken other queues (overflows, 2038, floats,
// texts): each bound is taken, and what is beyond it is refused with the range and with what was got.
func TestNumbers(t *testing.T) {
	f := new(fake)
	h := serving(t, f)
	expect(t, h, "POST", "/v1/queues", `{"name":"q"}`, 201)
	expect(t, h, "POST", "/v1/queues", `{"name":"dead"}`, 201)
	do(t, h, "POST", "/v1/queues/q/messages", `{"body":"x"}`)
	created := 0
	places := []where{
		{delaySpan, "POST", "/v1/queues/q/messages", `{"body":"x","delay_seconds":%s}`, 200},
		{messagesSpan, "POST", "/v1/queues/q/messages/receive", `{"max_messages":%s}`, 200},
		{visibilitySpan, "POST", "/v1/queues/q/messages/receive", `{"visibility_timeout_seconds":%s}`, 200},
		{pollSpan, "POST", "/v1/queues/q/messages/receive", `{"wait_time_seconds":%s}`, 200},
		{receivesSpan, "PATCH", "/v1/queues/q", `{"redrive_policy":{"dead_letter_queue":"dead","max_receive_count":%s}}`, 200},
	}
	for _, s := range []span{visibilitySpan, retentionSpan, maxBytesSpan, delaySpan, waitSpan, keyReuseSpan} {
		places = append(places, where{s, "PATCH", "/v1/queues/q", `{"` + s.name + `":%s}`, 200})
		places = append(places, where{s, "POST", "/v1/queues", `{"name":"NAME","` + s.name + `":%s}`, 201})
	}
	try := func(p where, number string, code int, parts ...string) {
		t.Helper()
		created++
		body := strings.ReplaceAll(fmt.Sprintf(p.body, number), "NAME", fmt.Sprintf("n%d", created))
		expect(t, h, p.method, p.path, body, code, parts...)
	}
	for _, p := range places {
		message := p.in.name + " must be " + p.in.String() + ", not "
		for _, ok := range []string{fmt.Sprint(p.in.low), fmt.Sprint(p.in.high)} {
			try(p, ok, p.ok)
		}
		for _, bad := range []string{fmt.Sprint(int64(p.in.low) - 1), fmt.Sprint(int64(p.in.high) + 1), "-1", "-2147483649", "2147483647",
			"2147483648", "4294967296", "4294967326", "9223372036854775807", "18446744073709551616", "1e300", "1.5", "30.0", "1e3", "3E1"} {
			try(p, bad, 400, message+bad)
		}
		for value, got := range map[string]string{`"5"`: "a string", `[]`: "an array", `{}`: "an object", `true`: "true"} {
			try(p, value, 400, message+got)
		}
		if p.in != receivesSpan { // which is required
			try(p, "null", p.ok)
		}
		try(p, "07", 400, "not valid JSON")
	}
	a := do(t, h, "POST", "/v1/queues/q/messages/visibility", `{"receipt_handle":"x","visibility_timeout_seconds":43201}`)
	if a.Code != 400 || !strings.Contains(a.Body.String(), "0 to 43200, not 43201") {
		t.Error(a.Body)
	}
}

func TestNames(t *testing.T) {
	for name, ok := range map[string]bool{
		"a": true, "0": true, "A.b-c_d": true, "a..b": true, "x.fifo": true, "a.fifo.fifo": true, "fifo": true,
		"123e4567-e89b-12d3-a456-42661417400": true, "123e4567-e89b-12d3-a456-426614174000.fifo": true,
		strings.Repeat("n", 128): true, strings.Repeat("n", 123) + ".fifo": true, "news": true, "NEWS": true,
		"": false, strings.Repeat("n", 129): false, strings.Repeat("n", 124) + ".fifo": false, ".fifo": false, "-bad": false,
		"_x": false, ".x": false, "has space": false, "crn:x": false, "a/b": false, "../x": false, "a\x00": false, "é": false,
		"a+b": false, "{x}": false, "--help": false,
		"123e4567-e89b-12d3-a456-426614174000": false, "123E4567-E89B-12D3-A456-426614174000": false,
		"123e4567e89b12d3a456426614174000": false, "123E4567E89B12D3A456426614174000": false,
		"{123e4567-e89b-12d3-a456-426614174000}": false, "urn:uuid:123e4567-e89b-12d3-a456-426614174000": false,
	} {
		if err := checkName(name); (err == nil) != ok {
			t.Errorf("%q: %v", name, err)
		}
	}
}

func TestDecimals(t *testing.T) {
	for s, ok := range map[string]bool{
		"0": true, "12.5": true, "-1": true, "+1e10": true, "1E-3": true, ".5": true, "5.": true, "-0.0": true, "1e+05": true,
		"": false, "-": false, ".": false, "e": false, "1e": false, "1e+": false, "1.2.3": false, "0x10": false, "NaN": false,
		"Infinity": false, " 1": false, "1,5": false, "--1": false, "1e5.0": false, "٣": false,
	} {
		if decimal(s) != ok {
			t.Errorf("%q: %t", s, !ok)
		}
	}
}

func TestTexts(t *testing.T) {
	h := serving(t, new(fake))
	expect(t, h, "POST", "/v1/queues", `{"name":"q"}`, 201)
	expect(t, h, "POST", "/v1/queues", `{"name":"f.fifo"}`, 201)
	send := func(group, dedup string, code int) {
		t.Helper()
		expect(t, h, "POST", "/v1/queues/f.fifo/messages",
			fmt.Sprintf(`{"body":"","message_group_id":"%s","message_deduplication_id":"%s"}`, group, dedup), code)
	}
	long := strings.Repeat("ü", 128) // characters, not bytes
	send(long, long, 200)
	send(long+"x", "1", 400)
	send("1", long+"x", 400)
	send("", "1", 400)
	send("1", "", 400)
	send(`\u0085`, "1", 400)
	tags := func(n int, key, value string) string {
		b := fmt.Sprintf(`{"tags":{"%s":"%s"`, key, value)
		for i := range n - 1 {
			b += fmt.Sprintf(`,"t%d":""`, i)
		}
		return b + "}}"
	}
	expect(t, h, "PATCH", "/v1/queues/q", tags(50, long, strings.Repeat("ü", 256)), 200)
	expect(t, h, "PATCH", "/v1/queues/q", tags(51, "k", ""), 400, "at most 50, not 51")
	expect(t, h, "PATCH", "/v1/queues/q", tags(1, "", ""), 400, "1 to 128 characters, not 0")
	expect(t, h, "PATCH", "/v1/queues/q", tags(1, long+"x", ""), 400, "1 to 128 characters, not 129")
	expect(t, h, "PATCH", "/v1/queues/q", tags(1, "k", strings.Repeat("v", 257)), 400, "0 to 256 characters, not 257")
	expect(t, h, "PATCH", "/v1/queues/q", `{"tags":{"k":null}}`, 400, "must be a string, not null")
	for n, code := range map[int]int{128: 200, 129: 400} {
		expect(t, h, "POST", "/v1/queues/q/messages/batch", `{"entries":[{"id":"`+strings.Repeat("é", n)+`","body":""}]}`, code)
	}
}

// TestBodyLimit: the last byte that fits is taken, with and without a length in the header, plain and compressed.
func TestBodyLimit(t *testing.T) {
	h := serving(t, new(fake))
	expect(t, h, "POST", "/v1/queues", `{"name":"q"}`, 201)
	head, tail := `{"body":"x","pad":"`, `"}`
	for _, over := range []int{0, 1} {
		body := []byte(head + strings.Repeat("p", bodyBytesMax+over-len(head)-len(tail)) + tail)
		want := http.StatusOK
		if over > 0 {
			want = http.StatusRequestEntityTooLarge
		}
		for name, r := range map[string]*http.Request{
			"plain":   request(bytes.NewReader(body), ""),
			"chunked": request(struct{ io.Reader }{bytes.NewReader(body)}, ""),
			"gzip":    request(bytes.NewReader(compressed(body)), "gzip"),
		} {
			a := httptest.NewRecorder()
			h.ServeHTTP(a, r)
			if a.Code != want {
				t.Errorf("%s, %+d: %d %.200s", name, over, a.Code, a.Body)
			}
		}
	}
}

func request(body io.Reader, coding string) *http.Request {
	r := httptest.NewRequest("POST", "/v1/queues/q/messages", body)
	r.Header.Set("Authorization", "Bearer test")
	if coding != "" {
		r.Header.Set("Content-Encoding", coding)
	}
	return r
}

func compressed(b []byte) []byte {
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	w.Write(b)
	w.Close()
	return out.Bytes()
}

// hollow is gzip of nothing that is 64 KiB long.
func hollow() []byte {
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	w.Extra = make([]byte, 65535)
	w.Close()
	return out.Bytes()
}

func TestGzip(t *testing.T) {
	f := new(fake)
	h := serving(t, f)
	expect(t, h, "POST", "/v1/queues", `{"name":"q"}`, 201)
	good := compressed([]byte(`{"body":"packed"}`))
	flipped := bytes.Clone(good)
	flipped[len(flipped)-6] ^= 1 // in the checksum
	for name, c := range map[string]struct {
		body []byte
		code int
	}{
		"good": {good, 200}, "truncated": {good[:len(good)-3], 400}, "cut in the header": {good[:5], 400}, "empty": {nil, 400},
		"bad checksum": {flipped, 400}, "garbage behind": {append(bytes.Clone(good), "rest"...), 400},
		"twice": {compressed(good), 400}, "nothing, at length": {bytes.Repeat(hollow(), 260), 413},
	} {
		a := httptest.NewRecorder()
		h.ServeHTTP(a, request(bytes.NewReader(c.body), "GZIP"))
		if a.Code != c.code {
			t.Errorf("%s: %d %s", name, a.Code, a.Body)
		}
	}
	if got := string(f.sent[0].Message.Body); got != "packed" {
		t.Errorf("stored %q", got)
	}
	bomb := bytes.Repeat(compressed(make([]byte, 1<<20)), 100)
	before := allocated()
	a := httptest.NewRecorder()
	h.ServeHTTP(a, request(bytes.NewReader(bomb), "gzip"))
	if a.Code != http.StatusRequestEntityTooLarge {
		t.Errorf("a bomb: %d %s", a.Code, a.Body)
	}
	if grown := allocated() - before; grown > 50<<20 {
		t.Errorf("a bomb took %d bytes", grown)
	}
}

func allocated() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.TotalAlloc
}

// TestAnswerBound: the size that decides before the lease is never below the size that is written.
func TestAnswerBound(t *testing.T) {
	worst := []string{"plain", "\x00\x01\"\\\n", "é\u2028😀", "\xff\xfe", strings.Repeat("\x01", 100000), strings.Repeat("\xff", 262144),
		strings.Repeat("é", 131072), strings.Repeat("x", 262144)}
	for _, body := range worst {
		m := &events.Message{Body: []byte(body), Group: `"` + strings.Repeat(`\`, 127)}
		for i := range 20 {
			m.Attributes = append(m.Attributes, events.Attribute{Name: fmt.Sprint(i, "\x00"), Type: "String", Value: []byte(body[:min(len(body), 99)])})
		}
		d := &broker.Delivery{Receipt: strings.Repeat("0", 256), Message: m, Receives: 1 << 31, Enqueued: now, Visible: now}
		if bound, size := deliveryBytes(d), len(delivery(nil, d)); size > bound {
			t.Errorf("%.20q: %d bytes, bound %d", body, size, bound)
		}
		c := &call{h: &handler{Config: Config{Region: regionDefault}}, queue: &broker.Queue{Name: strings.Repeat("n", 128), Account: "local"}}
		row := &broker.Row{Message: m, Visibility: broker.InFlight, Receives: 1 << 31, FirstReceived: now,
			Origin: &events.Origin{Receives: 1 << 31, Lease: events.LeaseID{1}}}
		if bound, size := c.rowBytes(row), len(c.row(nil, row)); size > bound {
			t.Errorf("%.20q: a row of %d bytes, bound %d", body, size, bound)
		}
	}
	plain := &events.Message{Body: bytes.Repeat([]byte("é"), 131072)}
	if n := messageBytes(plain, batchEntriesMax); n > 262144+2*rowBytes {
		t.Errorf("a large plain message counts as %d bytes", n)
	}
}

// TestTranslation looks at what reaches the broker.
func TestTranslation(t *testing.T) {
	f := new(fake)
	h := serving(t, f)
	expect(t, h, "POST", "/v1/queues", `{"name":"q.fifo"}`, 201)
	s := f.queues[0].Settings
	if !s.Fifo || s.Delivery != events.OnePerGroup || s.DedupScope != events.DedupQueue || s.DedupSeconds != 300 || s.ContentDedup {
		t.Errorf("settings %+v", s)
	}
	do(t, h, "POST", "/v1/queues/q.fifo/messages/receive", `{"max_messages":7,"wait_time_seconds":0}`)
	if r := f.received; r.Max != 7 || r.WaitSeconds == nil || *r.WaitSeconds != 0 || r.LeaseSeconds != nil || r.BytesMax != 4<<20 || r.Encoded == nil {
		t.Errorf("receive %+v", r)
	}
	do(t, h, "GET", "/v1/queues/q.fifo/messages?limit=101&visibility=delayed", "")
	if p := f.peeked; p.Limit != 100 || p.Visibility != broker.Delayed || p.BytesMax != 4<<20 {
		t.Errorf("peek %+v", p)
	}
	do(t, h, "PATCH", "/v1/queues/q.fifo", `{"tags":null,"redrive_policy":null}`)
	if u := f.updated; u.Tags != nil || !u.RemoveDeadLetter || u.MaxBytes != nil {
		t.Errorf("update %+v", u)
	}
}

// TestMessagesDoNotShareTheRequestsBuffer: what was given to the broker stays as it was when the call is used again.
func TestMessagesDoNotShareTheRequestsBuffer(t *testing.T) {
	f := new(fake)
	h := serving(t, f)
	expect(t, h, "POST", "/v1/queues", `{"name":"q"}`, 201)
	var kept []broker.Outgoing
	for i := range 20 {
		body := strings.Repeat(string(rune('a'+i)), 50)
		do(t, h, "POST", "/v1/queues/q/messages", `{"body":"`+body+`","attributes":{"`+body+`":{"type":"String","value":"`+body+`"}}}`)
		kept = append(kept, f.sent...)
	}
	for i, o := range kept {
		want := strings.Repeat(string(rune('a'+i)), 50)
		a := o.Message.Attributes[0]
		if string(o.Message.Body) != want || a.Name != want || string(a.Value) != want {
			t.Errorf("message %d became %q", i, o.Message.Body)
		}
	}
}

func TestTimes(t *testing.T) {
	for at, want := range map[events.Instant]string{
		0: "1970-01-01T00:00:00.000Z", now: "2026-01-01T00:00:00.123Z", 2147483648007: "2038-01-19T03:14:08.007Z",
		events.Never: "9999-12-31T23:59:59.999Z", -1: "1970-01-01T00:00:00.000Z", 951782400999: "2000-02-29T00:00:00.999Z",
	} {
		if got := string(appendTime(nil, at)); got != want {
			t.Errorf("%d: %s, want %s", at, got, want)
		}
	}
}

func TestDepthStops(t *testing.T) {
	b := string(appendDepth(nil, &broker.Depth{Counts: broker.Counts{Available: 10000, InFlight: 10001, Delayed: 1 << 40}}))
	if b != `"depth":{"approximate_available":10000,"approximate_in_flight":10000,"approximate_delayed":10000,"counts_capped":true}` {
		t.Error(b)
	}
	if b := string(appendDepth(nil, &broker.Depth{Counts: broker.Counts{Available: 10000}})); !strings.Contains(b, `"counts_capped":false`) {
		t.Error(b)
	}
}

// TestQuoteBody compares with the plain way, each byte at each place of a word.
func TestQuoteBody(t *testing.T) {
	for c := range 256 {
		for at := range 17 {
			s := []byte("~~~~~~~~~~~~~~~~~")
			s[at] = byte(c)
			if got, want := string(quoteBody(nil, s)), string(quote(nil, s)); got != want {
				t.Fatalf("%q: %s, want %s", s, got, want)
			}
			special := c < ' ' || c > '~'+1 || c == '"' || c == '\\'
			if plainASCII(s) == special {
				t.Fatalf("%q: plain is %t", s, special)
			}
		}
	}
}

//go:build linux

package main

import (
	"bufio"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/iotest"
	"time"
)

func TestAnswers(t *testing.T) {
	for _, c := range []struct {
		name, wire, body, err string
		status                int
	}{
		{"length", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nX-Request-Id: 1\r\n\r\nhello", "hello", "", 200},
		{"lower case", "HTTP/1.1 404 Not Found\r\ncontent-length:2\r\n\r\nno", "no", "", 404},
		{"no content", "HTTP/1.1 204 No Content\r\nDate: x\r\n\r\n", "", "", 204},
		{"chunks", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5;x=y\r\nhello\r\nA\r\n0123456789\r\n0\r\n\r\n",
			"hello0123456789", "", 200},
		{"closing", "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n", "", "closes", 200},
		{"no length", "HTTP/1.1 200 OK\r\n\r\nhello", "", "neither", 200},
		{"cut off", "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhello", "", "EOF", 200},
		{"no HTTP", "SSH-2.0-OpenSSH_9.6 and more\r\n\r\n", "", "status line", 0},
		{"bad chunk", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n", "", "chunk", 200},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, half := range []bool{false, true} {
				var cn conn
				cn.r = bufio.NewReader(strings.NewReader(c.wire))
				if half {
					cn.r = bufio.NewReader(iotest.OneByteReader(strings.NewReader(c.wire)))
				}
				status, err := cn.answer()
				if c.err != "" {
					if err == nil || !strings.Contains(err.Error(), c.err) {
						t.Errorf("error %v, want %q", err, c.err)
					}
					continue
				}
				if err != nil || status != c.status || string(cn.resp) != c.body {
					t.Errorf("%d %q %v", status, cn.resp, err)
				}
			}
		})
	}
}

// Two answers one after another on one connection must not run into each other.
func TestAnswersFollowEachOther(t *testing.T) {
	one := "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"
	two := "HTTP/1.1 204 No Content\r\n\r\n"
	cn := conn{r: bufio.NewReader(strings.NewReader(one + two + one))}
	for _, want := range []string{"abc", "", "abc"} {
		if _, err := cn.answer(); err != nil || string(cn.resp) != want {
			t.Fatalf("%q %v, want %q", cn.resp, err, want)
		}
	}
}

func TestMessages(t *testing.T) {
	in := ` { "meta" : {"x":[1,2,{"y":"]}"}],"z":null}, "messages" : [ {"id":"1","body":"plain","receipt_handle":"r1","receive_count":1},
		{"attributes":{"a":{"type":"String","value":"\"}"}},"receipt_handle":"r2","body":"a\\\"\u00e9\n"},{"body":"\\","receipt_handle":"r3"} ] }`
	ms, err := parseMessages([]byte(in), nil)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, m := range ms {
		got = append(got, string(m.receipt)+"="+string(m.body))
	}
	if want := []string{"r1=plain", "r2=a\\\"é\n", `r3=\`}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if ms, err := parseMessages([]byte(`{"messages":[]}`), nil); err != nil || len(ms) != 0 {
		t.Errorf("%v %v", ms, err)
	}
	for i := range len(in) - 1 { // whatever is cut off must not be taken for an answer, and end
		if _, err := parseMessages([]byte(in[:i]), nil); err == nil {
			t.Errorf("accepted when cut off at %d", i)
		}
	}
}

func TestResults(t *testing.T) {
	for _, c := range []struct{ in, err string }{
		{`{"results":[{"id":"0","message_id":"x","duplicate":false},{"id":"1","message_id":"y","duplicate":false}]}`, ""},
		{`{"results":[{"id":"0"},{"id":"1"}]}`, ""},
		{`{"results":[{"id":"0"}]}`, "1 results for 2 entries"},
		{`{"results":[{"id":"0"},{"id":"1","error":"KMS_KEY_UNAVAILABLE","message":"the key is disabled"}]}`, "the key is disabled"},
		{`{"results":[{"id":"0"},{"id":"1","message_id":"y","duplicate":true}]}`, "duplicate"},
		{`{"error":{"code":"X"}}`, "0 results"},
	} {
		err := parseResults([]byte(c.in), 2)
		if c.err == "" && err != nil || c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)) {
			t.Errorf("%s: %v", c.in, err)
		}
	}
	if err := parseSent([]byte(`{"result":{"message_id":"x","duplicate":false}}`)); err != nil {
		t.Error(err)
	}
	for _, in := range []string{`{"result":{"message_id":"x","duplicate":true}}`, `{"result":{}}`, `{}`, `x`} {
		if parseSent([]byte(in)) == nil {
			t.Errorf("%s is accepted", in)
		}
	}
}

func TestBodies(t *testing.T) {
	for _, h := range []header{{id: 0, group: -1}, {id: 999_999_999, group: 99, seq: 1_000_000, at: 1e17}} {
		b := appendBody(nil, h, 1024)
		if len(b) != 1024 || readHeader(b) != h {
			t.Errorf("%d bytes, %+v, want %+v", len(b), readHeader(b), h)
		}
	}
	for _, s := range []string{"", "short", strings.Repeat("x", 1024)} {
		if h := readHeader([]byte(s)); h.id != -1 {
			t.Errorf("%.10q is read as %+v", s, h)
		}
	}
}

func TestOrderInGroups(t *testing.T) {
	l := newLedger(5, 2, true)
	for _, h := range []header{{id: 0, group: 0, seq: 1}, {id: 1, group: 1, seq: 1}, {id: 2, group: 0, seq: 3}, {id: 3, group: 0, seq: 2}} {
		l.wasSent(h.id)
		l.wasGot(h)
		l.wasAcked(h.id)
	}
	l.wasGot(header{id: 7, group: -1})
	l.wasSent(4)
	if got := strings.Join(l.verify(true), "; "); got != "1 deliveries of unknown messages; 2 out of order in their group; 1 lost" {
		t.Error(got)
	}
}

func TestQuantiles(t *testing.T) {
	var h hist
	if h.quantile(.5) != 0 || h.latency() != nil {
		t.Error("an empty histogram has values")
	}
	var all []time.Duration
	for range 10_000 {
		d := time.Duration(rand.ExpFloat64() * 1e6)
		all = append(all, d)
		h.add(d)
	}
	slices.Sort(all)
	for _, p := range []float64{.5, .9, .99, .999, 1} {
		want := all[min(len(all)-1, int(p*float64(len(all))+.5)-1)]
		if got := h.quantile(p); float64(got) < float64(want) || float64(got) > 1.04*float64(want)+1 {
			t.Errorf("p%g is %v, want about %v", p, got, want)
		}
	}
	for v := uint64(1); v < 1<<40; v = v*5/4 + 1 {
		if b := bucket(v); uint64(top(b)) < v || b > 0 && uint64(top(b-1)) >= v {
			t.Fatalf("%d is in bucket %d, which ends at %d", v, b, top(b))
		}
	}
}

func TestProcessCPU(t *testing.T) {
	before := processCPU(os.Getpid())
	clocked := func() time.Duration { // the same by another clock of the kernel's
		var u syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
			t.Fatal(err)
		}
		return time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	began := clocked()
	for clocked()-began < 20*time.Millisecond { // however long that takes on a busy machine
	}
	if used := processCPU(os.Getpid()) - before; used < 10*time.Millisecond || used > time.Second {
		t.Errorf("20 ms of work took %v", used)
	}
	if processCPU(1<<22+1) != 0 {
		t.Error("no process has CPU time")
	}
	if now, high := resident(os.Getpid()); now < 1 || high < now {
		t.Errorf("resident %v MB, at most %v MB", now, high)
	}
}

func TestTable(t *testing.T) {
	var b strings.Builder
	rows := []row{{"send", "100/s", "80/s", "0.80", ">= 0.75", good}, {"µ of all", "1/s", "", "", "", ""}, {"x", "", "", "", "< 1", bad}}
	printTable(&b, rows)
	want := `           base  leaselog  ratio (runs)  demanded
send      100/s      80/s          0.80  >= 0.75   ok
µ of all    1/s
x                                        < 1       MISSED
`
	if b.String() != want {
		t.Errorf("got\n%swant\n%s", b.String(), want)
	}
	if missed(rows) != 1 {
		t.Error("one row is missed")
	}
	if middle(nil) != 0 || middle([]float64{3, 1, 2}) != 2 || middle([]float64{4, 1, 2, 3}) != 2.5 {
		t.Error("medians")
	}
}

package host

import (
	"bytes"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/kms"

	leaselog "github.com/leaselog/leaselog/events"
)

// line is a queue and warm processes of the functions that work on it.
type line struct {
	*story
	queue                  string
	send, receive, destroy *process
}

// line makes a queue of one shard.
func (c *cloud) line(queue string, settings map[string]any) *line {
	c.Helper()
	defer func(shards string) { c.env[envShards] = shards }(c.env[envShards])
	c.env[envShards] = "1"
	l := &line{story: c.story("before-" + queue), queue: queue}
	e := l.event("create-queue", "TOKEN", l.token, "orders", queue)
	l.body(&e, settings)
	if a := l.cold("create-queue", e); a.StatusCode != 201 {
		l.Fatal(a.Body)
	}
	l.send, l.receive, l.destroy = l.warm("send-message"), l.warm("receive-messages"), l.warm("delete-message")
	return l
}

func (l *line) warm(name string) *process { return l.process(endpoints()[name]) }

func (l *line) sends(by *process, body string) response {
	e := l.event("send-message", "TOKEN", l.token, "orders", l.queue)
	l.body(&e, map[string]any{"body": body, "attributes": map[string]any{}})
	return by.ask(e)
}

// received is a message as it is answered.
type received struct{ body, receipt string }

func (l *line) receives(by *process, most int) (response, []received) {
	l.Helper()
	e := l.event("receive-messages", "TOKEN", l.token, "orders", l.queue)
	l.body(&e, map[string]any{"max_messages": most, "wait_time_seconds": 0, "visibility_timeout_seconds": 43200})
	a := by.ask(e)
	var all []received
	if a.StatusCode == 200 {
		for _, m := range field[[]map[string]any](l.story, bodyOf(l, a), "messages") {
			all = append(all, received{m["body"].(string), m["receipt_handle"].(string)})
		}
	}
	return a, all
}

func (l *line) destroys(by *process, receipt string) response {
	return by.ask(l.event("delete-message", "TOKEN", l.token, "orders", l.queue, "RECEIPT_HANDLE_1", url.QueryEscape(receipt)))
}

func (l *line) wants(what string, a response, status int, code string) {
	l.Helper()
	if a.StatusCode != status || !strings.Contains(a.Body, code) {
		l.Errorf("%s: %d %.200s, want %d %s", what, a.StatusCode, a.Body, status, code)
	}
}

// keyDisabled: with a queue's key disabled, sends and receives go on within the reuse period, then fail and say why;
// with the key back they work again, and nothing is lost. What needs no key works all the while.
func keyDisabled(c *cloud, t *testing.T) {
	client := kms.NewFromConfig(c.config)
	made, err := client.CreateKey(t.Context(), &kms.CreateKeyInput{})
	c.must(err)
	key := made.KeyMetadata.KeyId
	l := c.line("guarded", map[string]any{"kms_key": *key, "kms_data_key_reuse_period_seconds": 60})
	for _, body := range []string{"1", "2", "3"} {
		l.wants("send", l.sends(l.send, body), 200, "")
	}
	_, held := l.receives(l.receive, 1)
	_, err = client.DisableKey(t.Context(), &kms.DisableKeyInput{KeyId: key})
	c.must(err)

	c.shift.Add(int64(50 * time.Second))
	l.wants("send within the reuse period", l.sends(l.send, "4"), 200, "")
	a, more := l.receives(l.receive, 1)
	l.wants("receive within the reuse period", a, 200, "")
	if held = append(held, more...); len(held) != 2 {
		t.Fatalf("%d messages were received within the reuse period", len(held))
	}
	c.shift.Add(int64(11 * time.Second))
	for _, by := range []*process{l.send, l.warm("send-message")} {
		l.wants("send after it", l.sends(by, "5"), 409, "KMS_KEY_UNAVAILABLE")
	}
	for _, by := range []*process{l.receive, l.warm("receive-messages")} {
		a, _ = l.receives(by, 1)
		l.wants("receive after it", a, 409, "KMS_KEY_UNAVAILABLE")
	}
	l.wants("delete after it", l.destroys(l.destroy, held[0].receipt), 204, "")

	_, err = client.EnableKey(t.Context(), &kms.EnableKeyInput{KeyId: key})
	c.must(err)
	c.shift.Add(int64(2 * time.Second)) // a failure is remembered for one
	l.wants("send with the key back", l.sends(l.send, "5"), 200, "")
	for range 3 { // one is answered with what it knows, before it looks for more
		a, more = l.receives(l.receive, 10)
		l.wants("receive with the key back", a, 200, "")
		held = append(held, more...)
	}
	var bodies []string
	for _, m := range held {
		bodies = append(bodies, m.body)
	}
	if slices.Sort(bodies); fmt.Sprint(bodies) != "[1 2 3 4 5]" {
		t.Errorf("in all, %v were received", bodies)
	}
}

// frozen: processes that were frozen for an hour, while others worked, look where the streams end now before they write,
// and answer by what is there now. What a tail may have lost by then is for the store's own test: TestStaleEnd.
func frozen(c *cloud, t *testing.T) {
	l := c.line("frozen", map[string]any{})
	for i := range 5 {
		l.wants("send", l.sends(l.send, fmt.Sprint("before ", i)), 200, "")
	}
	_, held := l.receives(l.receive, 3)
	l.wants("delete", l.destroys(l.destroy, held[0].receipt), 204, "")
	others := &line{story: l.story, queue: l.queue, send: l.warm("send-message"), receive: l.warm("receive-messages"), destroy: l.warm("delete-message")}
	for i := range 5 {
		l.wants("send by another", others.sends(others.send, fmt.Sprint("meanwhile ", i)), 200, "")
	}
	_, theirs := others.receives(others.receive, 5)
	for _, m := range theirs {
		l.wants("delete by another", others.destroys(others.destroy, m.receipt), 204, "")
	}
	c.shift.Add(int64(time.Hour))

	for _, step := range []struct {
		what   string
		do     func() response
		status int
		puts   int
	}{
		{"send", func() response { return l.sends(l.send, "after") }, 200, 1},
		{"delete", func() response { return l.destroys(l.destroy, held[1].receipt) }, 204, 1},
		{"the same again", func() response { return l.destroys(l.destroy, held[1].receipt) }, 204, 0},
		{"delete of what another deleted", func() response { return l.destroys(l.destroy, theirs[0].receipt) }, 204, 0},
	} {
		c.taken()
		l.wants(step.what, step.do(), step.status, "")
		looked, puts := false, 0
		for _, call := range c.taken() {
			looked = looked || call.action == "dynamodb:Query" && call.resource == "test-log"
			if call.action == "dynamodb:PutItem" {
				if puts++; !looked {
					t.Errorf("%s: it wrote before it looked", step.what)
				}
			}
		}
		if puts != step.puts {
			t.Errorf("%s: %d writes, want %d", step.what, puts, step.puts)
		}
	}
	a, found := l.receives(l.receive, 10)
	_, rest := l.receives(l.receive, 10)
	came := map[string]bool{}
	for _, m := range slices.Concat(found, rest, held, theirs) {
		came[m.body] = true
	}
	if all := len(found) + len(rest) + len(held) + len(theirs); a.StatusCode != 200 || all != 11 || len(came) != 11 || !came["after"] {
		t.Errorf("%d: of 11 messages %d came, %d different ones", a.StatusCode, all, len(came))
	}
}

// skewed: a function whose clock is a second ahead of DynamoDB's works. One whose is five ahead writes nothing, its
// caller may try again, its log says what is wrong; and it works as soon as the clock is right.
func skewed(c *cloud, t *testing.T) {
	l := c.line("skewed", map[string]any{})
	var ahead atomic.Int64
	var out bytes.Buffer
	f := c.function("send-message", c.env, &out)
	f.now = func() leaselog.Instant { return c.now() + leaselog.Instant(time.Duration(ahead.Load()).Milliseconds()) }
	p := &process{cloud: c, invoke: f.serving(endpoints()["send-message"])}
	sent := 0
	for _, step := range []struct {
		ahead  time.Duration
		status int
	}{{time.Second, 200}, {5 * time.Second, 503}, {0, 200}, {-5 * time.Second, 503}, {-time.Second, 200}} {
		ahead.Store(int64(step.ahead))
		out.Reset()
		c.shift.Add(int64(time.Hour)) // so that the clocks are compared again
		l.wants(fmt.Sprintf("send, the clock %v ahead", step.ahead), l.sends(p, "x"), step.status, "")
		if said := strings.Contains(out.String(), "set it right"); said != (step.status != 200) {
			t.Errorf("with the clock %v ahead the log is\n%s", step.ahead, out.String())
		}
		if step.status == 200 {
			sent++
		}
	}
	_, found := l.receives(l.receive, 10)
	_, rest := l.receives(l.receive, 10)
	if n := len(found) + len(rest); n != sent {
		t.Errorf("%d messages are there, %d were taken", n, sent)
	}
}

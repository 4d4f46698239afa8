package host

import (
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"maps"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/leaselog/leaselog/internal/auth"
)

// passage is messages that are sent, received and deleted, each by a process of its own, as functions have.
type passage struct {
	*story
	name   string
	queue  string
	fifo   bool
	signed bool
	keyed  bool // with an idempotency key
	size   int
	batch  int

	meters  map[string]*meter
	warm    map[string]*process
	counted int // requests that count once
}

// passages are what is measured, with the most that each may take for one message.
var passages = []struct {
	passage
	writes, reads float64
}{
	{passage{name: "100 B", size: 100, batch: 1}, 3, 3},
	{passage{name: "850 B", size: 850, batch: 1}, 3, 3},
	{passage{name: "1 KB", size: 1024, batch: 1}, 3, 3},
	{passage{name: "in tens, 100 B", size: 100, batch: 10}, 0.4, 0.3},
	{passage{name: "in tens, 1 KB", size: 1024, batch: 10}, 1.3, 0.5},
	{passage{name: "FIFO, 100 B", fifo: true, size: 100, batch: 1}, 3, 3},
	{passage{name: "FIFO, 850 B", fifo: true, size: 850, batch: 1}, 3, 3},
	{passage{name: "FIFO, in tens, 100 B", fifo: true, size: 100, batch: 10}, 0.4, 0.3},
	{passage{name: "FIFO, in tens, 1 KB", fifo: true, size: 1024, batch: 10}, 1.3, 0.5},
	{passage{name: "signed, 100 B", signed: true, size: 100, batch: 1}, 12, 3},
	{passage{name: "idempotent, 100 B", keyed: true, size: 100, batch: 1}, 12, 4},
}

const (
	warmRounds = 2
	rounds     = 4
	// keyAge and reuse are a little more than how long a process trusts what it knows of a caller, and a data key.
	keyAge = 4 * time.Second
	reuse  = 301 * time.Second
)

// cost measures what messages cost, demands that it is no more than was promised, and prints the bill.
func cost(c *cloud, t *testing.T) {
	c.env[envShards] = "1"
	defer delete(c.env, envShards)
	memory := memory(t)
	var messages, polls []column
	for i := range passages {
		most, p := &passages[i], &passages[i].passage
		p.begin(c, fmt.Sprint("cost-", i))
		u := p.measure(rounds)
		writes, reads := u.writes+u.claimWrites, u.reads+u.claimReads
		if over(writes, most.writes) || over(reads, most.reads) || u.lost > 0 {
			t.Errorf("%s: %v write and %v read units, %v lost; at most %v and %v are promised", p.name, writes, reads, u.lost, most.writes, most.reads)
		}
		messages = append(messages, column{p.name, u.bill(p.byTheClock(), memory), sqs(p.fifo, p.size, p.batch)})
	}
	polls = idle(c, memory)
	t.Logf("A million messages, sent, received and deleted:\n%s", table(messages))
	t.Logf("A million receives that find nothing:\n%s", table(polls))
}

// begin makes the queue.
func (l *passage) begin(c *cloud, queue string) {
	if l.queue = queue; l.fifo {
		l.queue += ".fifo"
	}
	l.story = c.story(l.queue)
	l.pair = c.key(auth.Pair)
	l.meters, l.warm = map[string]*meter{}, map[string]*process{}
	for range warmRounds {
		l.live()
	}
}

// measure lets messages live in warm processes, and gives what one of them took.
func (l *passage) measure(rounds int) (one usage) {
	l.taken()
	for _, p := range l.warm {
		p.out.Reset()
	}
	for range rounds {
		l.live()
	}
	for name, u := range l.taken() {
		u.invocations = float64(rounds)
		u.logged = float64(l.warm[name].out.Len() + rounds*(platformBytes+3*lineExtraBytes))
		u.seconds = u.calls*callSeconds + u.invocations*invokeSeconds
		l.Logf("%s, %s: %+v", l.name, name, u)
		one.add(u, 1/float64(rounds*l.batch))
	}
	return one
}

// taken gives what each process has used since the last time.
func (l *passage) taken() map[string]usage {
	all := map[string]usage{}
	for name, m := range l.meters {
		all[name] = m.taken()
	}
	return all
}

// byTheClock gives what a message takes beside its own, where one comes every second: each process looks at its
// caller's key anew after three seconds, and has data keys unwrapped again after five minutes.
func (l *passage) byTheClock() (one usage) {
	warm := l.measure(1)
	l.shift.Add(int64(keyAge))
	one.claimReads = (l.measure(1).claimReads - warm.claimReads) * float64(l.batch) / max(3, float64(l.batch)) // seconds
	l.shift.Add(int64(reuse))
	one.kms = l.measure(1).kms * float64(l.batch) / 300
	return one
}

// memory is that of a function, in GB.
func memory(t *testing.T) float64 {
	text, err := os.ReadFile("../../../template.yaml")
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`\n  Memory:\n    Type: Number\n    Default: (\d+)\n`).FindSubmatch(text)
	if found == nil {
		t.Fatal("template.yaml says nothing of memory")
	}
	mb, err := strconv.Atoi(string(found[1]))
	if err != nil {
		t.Fatal(err)
	}
	return float64(mb) / 1024
}

func (l *passage) live() {
	if l.batch == 1 {
		l.ask("send-message", l.message(0))
		got := field[[]map[string]any](l.story, l.ask("receive-messages", map[string]any{"max_messages": 1, "wait_time_seconds": 0}).Body, "messages")
		if len(got) != 1 {
			l.Fatalf("%s: %d messages received", l.name, len(got))
		}
		l.ask("delete-message", nil, "RECEIPT_HANDLE_1", got[0]["receipt_handle"].(string))
		return
	}
	var entries, receipts []map[string]any
	for i := range l.batch {
		m := l.message(i)
		m["id"] = fmt.Sprint(i)
		entries = append(entries, m)
	}
	l.ask("send-message-batch", map[string]any{"entries": entries})
	got := field[[]map[string]any](l.story, l.ask("receive-messages", map[string]any{"max_messages": 10, "wait_time_seconds": 0}).Body, "messages")
	if len(got) != l.batch {
		l.Fatalf("%s: %d messages received", l.name, len(got))
	}
	for i, m := range got {
		receipts = append(receipts, map[string]any{"id": fmt.Sprint(i), "receipt_handle": m["receipt_handle"]})
	}
	l.ask("delete-message-batch", map[string]any{"entries": receipts})
}

// message is one whose body does not compress: letters and digits at random.
func (l *passage) message(i int) map[string]any {
	m := map[string]any{"body": random(l.size)}
	if l.fifo {
		m["message_group_id"], m["message_deduplication_id"] = fmt.Sprint("customer-", 4711+i), random(20)
	}
	return m
}

// ask lets the warm process of a function answer.
func (l *passage) ask(name string, body map[string]any, replace ...string) response {
	p := l.warm[name]
	if p == nil {
		l.meters[name] = new(meter)
		p = l.process(endpoints()[name], map[string]string{"AWS_ENDPOINT_URL": l.metered(l.meters[name]), envLogLevel: "INFO"})
		l.warm[name] = p
	}
	e := l.event(name, append([]string{"TOKEN", l.token, "orders", l.queue}, replace...)...)
	e.Headers = maps.Clone(e.Headers)
	if body != nil {
		e.Body = "{}"
		l.body(&e, body)
	}
	if l.signed || l.keyed {
		l.counted++
		key := fmt.Sprint(l.queue, l.counted)
		if l.signed {
			l.sign(&e, endpoints()[name].Encoded, 10_000+l.counted)
		}
		delete(e.Headers, "idempotency-key")
		if l.keyed {
			e.Headers["idempotency-key"] = key
		}
	}
	a := p.ask(e)
	if a.StatusCode >= 300 || strings.Contains(a.Body, `"error":`) {
		l.Fatalf("%s %s: %d %s", l.name, name, a.StatusCode, a.Body)
	}
	return a
}

// random is text in which nothing repeats: letters of base64, six bits each.
func random(n int) string {
	b := make([]byte, n)
	_, _ = rand.Read(b)
	return base64.StdEncoding.EncodeToString(b)[:n]
}

// over compares sums of tenths.
func over(v, most float64) bool { return v > most+1e-9 }

package store

import (
	"context"
	"crypto/rand"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/leaselog/leaselog/events"
	"github.com/leaselog/leaselog/internal/broker"
	"github.com/leaselog/leaselog/internal/eventlog"
	"github.com/leaselog/leaselog/internal/eventlog/eventlogtest"
	"github.com/leaselog/leaselog/internal/local/keys"
)

// brokers starts brokers that know nothing of each other, each on its own store over the same tables.
func brokers(t *testing.T, d database, shards, n int, edit func(*broker.Config), each ...func(*Config)) ([]*broker.Broker, Tables) {
	t.Helper()
	k, err := keys.Open(filepath.Join(t.TempDir(), "key"))
	if err != nil {
		t.Fatal(err)
	}
	tables := Tables(d.Tables(t))
	var all []*broker.Broker
	for range n {
		c := broker.Config{Log: d.openOn(t, tables, each...), Keys: k, Rand: rand.Reader, Deployment: "test", Shards: shards,
			ReceiptKey: k.Secret("receipts"), Now: func() events.Instant { return events.Instant(time.Now().UnixMilli()) }, CommitItems: ItemsMax}
		if edit != nil {
			edit(&c)
		}
		b, err := broker.New(c)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(b.Close)
		all = append(all, b)
	}
	return all, tables
}

func newQueue(t *testing.T, b *broker.Broker, fifo bool) events.QueueID {
	t.Helper()
	settings := events.Settings{Fifo: fifo, LeaseSeconds: 30, RetentionSeconds: 4 * 86400, MaxBytes: 256 << 10, KeyReuseSeconds: 300}
	if fifo {
		settings.DedupSeconds = 300
	}
	q, err := b.Create(t.Context(), broker.CreateQueue{Account: "a", Name: "q", Settings: settings})
	if err != nil {
		t.Fatal(err)
	}
	return q.ID
}

// message is, in a FIFO queue, of a group of its own.
func message(body []byte, fifo bool, id string) broker.Outgoing {
	m := events.Message{Body: body}
	if fifo {
		m.Group, m.Dedup = "g"+id, id
	}
	return broker.Outgoing{Message: m}
}

func receiptsOf(found []broker.Delivery) (all []string) {
	for _, d := range found {
		all = append(all, d.Receipt)
	}
	return all
}

func ackAll(t *testing.T, b *broker.Broker, q events.QueueID, found []broker.Delivery) {
	t.Helper()
	answers, err := b.Ack(t.Context(), q, receiptsOf(found))
	if err != nil || slices.ContainsFunc(answers, func(err error) bool { return err != nil }) {
		t.Errorf("ack: %v, %v", answers, err)
	}
}

// Two brokers with four workers each send, receive and ack on one table set, with nothing between them but the
// conditional write: every message is acked once, none is leased twice at a time, and the log is whole.
func TestBrokersShareTables(t *testing.T) {
	d := startDatabase(t)
	for _, fifo := range []bool{false, true} {
		t.Run(fmt.Sprint("fifo ", fifo), func(t *testing.T) { testBrokersShareTables(t, d, fifo) })
	}
}

func testBrokersShareTables(t *testing.T, d database, fifo bool) {
	shards, seconds := 4, 3*time.Second
	if testing.Short() {
		seconds = time.Second
	}
	if fifo {
		shards = 1
	}
	all, tables := brokers(t, d, shards, 2, nil)
	tr := traffic{T: t, queue: newQueue(t, all[0], fifo), fifo: fifo, until: time.Now().Add(seconds), leased: map[events.MessageID]bool{}, acked: map[string]int{}}
	var receivers, senders sync.WaitGroup
	for i := range 4 {
		senders.Go(func() { tr.send(all[i%2], i) })
		receivers.Go(func() { tr.receive(all[i%2]) })
	}
	senders.Wait()
	tr.over.Store(true)
	receivers.Wait()
	if len(tr.acked) != int(tr.sent.Load()) {
		t.Errorf("%d of %d messages came", len(tr.acked), tr.sent.Load())
	}
	for m, n := range tr.acked {
		if n != 1 {
			t.Errorf("%s came %d times", m, n)
		}
	}
	t.Logf("%d messages a second sent, received and acked", int(float64(tr.sent.Load())/seconds.Seconds()))
	for _, b := range all {
		b.Close()
	}
	for i := range shards {
		s := d.openOn(t, tables)
		if err := eventlogtest.Check(t.Context(), s, eventlog.Stream(events.MessageStream(tr.queue, i, 0)), eventlog.Stream(events.LedgerStream(tr.queue, i))); err != nil {
			t.Error(err)
		}
	}
}

// traffic is senders and receivers of a queue, and what they have seen.
type traffic struct {
	*testing.T
	queue  events.QueueID
	fifo   bool
	until  time.Time
	sent   atomic.Int64
	over   atomic.Bool // nothing is sent any more
	mu     sync.Mutex
	leased map[events.MessageID]bool
	acked  map[string]int
}

func (tr *traffic) send(b *broker.Broker, sender int) {
	for n := 0; time.Now().Before(tr.until); n++ {
		body := fmt.Sprintf("m%d-%d", sender, n)
		answers, err := b.Send(tr.Context(), tr.queue, []broker.Outgoing{message([]byte(body), tr.fifo, body)})
		if err != nil || answers[0].Err != nil {
			tr.Errorf("send: %v, %v", answers, err)
			return
		}
		tr.sent.Add(1)
	}
}

func (tr *traffic) receive(b *broker.Broker) {
	for {
		last, wait := tr.over.Load(), uint32(1)
		found, err := b.Receive(tr.Context(), broker.Receive{Queue: tr.queue, Max: 5, WaitSeconds: &wait})
		if err != nil {
			tr.Errorf("receive: %v", err)
			return
		}
		tr.mu.Lock()
		for _, m := range found {
			if tr.leased[m.ID] {
				tr.Errorf("%s is leased twice", m.Message.Body)
			}
			tr.leased[m.ID] = true
			tr.acked[string(m.Message.Body)]++
		}
		tr.mu.Unlock()
		if len(found) > 0 {
			ackAll(tr.T, b, tr.queue, found)
		} else if last {
			return
		}
	}
}

// What a message's whole life costs, as architecture.md says it: 3 write units up to about 850 B and 4 at 1 KB, in
// batches of ten 0.4 at 100 B and 1.3 at 1 KB. The hashes of a FIFO message take 40 B of it. One process alone reads
// nothing, since it knows the ends of its streams.
func TestCostOfAMessage(t *testing.T) {
	d := startDatabase(t)
	for _, tt := range []struct {
		bytes, batch int
		write        float64 // units of one message
	}{
		{100, 1, 3}, {850, 1, 3}, {1024, 1, 4}, {100, 10, 0.4}, {1024, 10, 1.3},
	} {
		for _, fifo := range []bool{false, true} {
			if fifo && tt.bytes == 850 {
				tt.bytes -= 40
			}
			t.Run(fmt.Sprintf("%d x %d B, fifo %v", tt.batch, tt.bytes, fifo), func(t *testing.T) {
				var u units
				all, _ := brokers(t, d, 1, 1, nil, func(c *Config) { c.Consumed = u.count })
				b := all[0]
				q := newQueue(t, b, fifo)
				life := func(n int) {
					var batch []broker.Outgoing
					for i := range tt.batch {
						batch = append(batch, message(noise(tt.bytes), fifo, fmt.Sprint(n, "-", i)))
					}
					answers, err := b.Send(t.Context(), q, batch)
					if err != nil || answers[0].Err != nil {
						t.Fatal(answers, err)
					}
					none := uint32(0)
					found, err := b.Receive(t.Context(), broker.Receive{Queue: q, Max: 10, WaitSeconds: &none})
					if err != nil || len(found) != tt.batch {
						t.Fatalf("%d messages, %v", len(found), err)
					}
					ackAll(t, b, q, found)
				}
				life(0)
				u.take()
				const lives = 5
				for n := range lives {
					life(n + 1)
				}
				read, write := u.take()
				if each := write / float64(lives*tt.batch); each != tt.write || read != 0 {
					t.Errorf("%v write units a message and %v read units in all, want %v and none", each, read, tt.write)
				}
			})
		}
	}
}

// tallest is a log that notes how many places its largest commit had.
type tallest struct {
	eventlog.Log
	most atomic.Int64
}

func (l *tallest) Commit(ctx context.Context, c eventlog.Commit) error {
	n := int64(len(c.Appends) + len(c.Claims))
	for was := l.most.Load(); n > was && !l.most.CompareAndSwap(was, n); was = l.most.Load() {
	}
	return l.Log.Commit(ctx, c)
}

// More commands under idempotency keys than one transaction holds are spread over several. Where the broker was not
// told of the bound, the store refuses the group for its content, and its commands are decided one by one.
func TestManyClaims(t *testing.T) {
	d := startDatabase(t)
	for _, told := range []bool{true, false} {
		t.Run(fmt.Sprint("told: ", told), func(t *testing.T) {
			var log tallest
			all, _ := brokers(t, d, 1, 1, func(c *broker.Config) {
				log.Log = c.Log
				c.Log = &log
				if !told {
					c.CommitItems = 0
				}
			})
			b := all[0]
			q := newQueue(t, b, false)
			const senders = 150
			var work sync.WaitGroup
			for i := range senders {
				work.Go(func() {
					ctx := broker.With(t.Context(), broker.Once{Account: "a", Key: fmt.Sprint("key", i), Print: []byte("p"),
						Nonce: fmt.Sprint("nonce/k/", i), NonceUntil: events.Instant(time.Now().Add(time.Minute).UnixMilli())})
					answers, err := b.Send(ctx, q, []broker.Outgoing{message([]byte("body"), false, "")})
					if err != nil || answers[0].Err != nil {
						t.Errorf("send: %v, %v", answers, err)
					}
				})
			}
			work.Wait()
			about, err := b.Describe(t.Context(), q)
			if err != nil || about.Depth.Available != senders {
				t.Errorf("%+v messages wait, %v; want %d", about.Depth, err, senders)
			}
			if told {
				manyReceives(t, b, q, senders)
			}
			if most := log.most.Load(); told && most > ItemsMax || !told && most <= ItemsMax {
				t.Errorf("the largest commit had %d places", most)
			}
		})
	}
}

// manyReceives wait, each under keys of its own, and are served by few sends.
func manyReceives(t *testing.T, b *broker.Broker, q events.QueueID, n int) {
	t.Helper()
	if _, err := b.Purge(t.Context(), q); err != nil {
		t.Fatal(err)
	}
	var found atomic.Int64
	var work sync.WaitGroup
	for i := range n {
		work.Go(func() {
			wait := uint32(20)
			ctx := broker.With(t.Context(), broker.Once{Account: "a", Key: fmt.Sprint("receive", i), Print: []byte("p"),
				Nonce: fmt.Sprint("nonce/r/", i), NonceUntil: events.Instant(time.Now().Add(time.Minute).UnixMilli())})
			got, err := b.Receive(ctx, broker.Receive{Queue: q, Max: 1, WaitSeconds: &wait})
			if err != nil {
				t.Errorf("receive: %v", err)
			}
			found.Add(int64(len(got)))
		})
	}
	for range n / 50 {
		if _, err := b.Send(t.Context(), q, slices.Repeat([]broker.Outgoing{message([]byte("body"), false, "")}, 50)); err != nil {
			t.Fatal(err)
		}
	}
	work.Wait()
	if found.Load() != int64(n) {
		t.Errorf("%d of %d receives got a message", found.Load(), n)
	}
}

package store

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/feature/dynamodb/expression"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/leaselog/leaselog/internal/eventlog"
)

// noise is data that repeats nowhere near.
func noise(n int) []byte {
	data := make([]byte, n)
	for i, x := 0, uint32(n)+1; i < n; i++ {
		x = x*1664525 + 1013904223
		data[i] = byte(x >> 24)
	}
	return data
}

func large(name eventlog.Stream, seq eventlog.Seq, n int) eventlog.Append {
	return eventlog.Append{Stream: name, Seq: seq, Width: 10, Header: []byte("header"), Data: noise(n)}
}

// Data of any size comes back as it was written, whole, alone or among others.
func TestLargeData(t *testing.T) {
	d := startDatabase(t)
	s := d.open(t)
	sizes := []int{inlineBytesMax - 6, inlineBytesMax - 5, chunkBytesMax + 1, 10, 2*chunkBytesMax + 7, 2_700_000, 100}
	var c []eventlog.Commit
	for i, n := range sizes {
		c = append(c, commitOf(large("s", eventlog.Seq(i*10), n)))
		if i == 4 { // in a transaction, beside another of that size by the same writer
			c[i].Appends = append(c[i].Appends, large("t", 0, n+1))
		}
		mustCommit(t, s, c[i])
		mustCommit(t, s, c[i])
		last, ok, err := d.openOn(t, s.tables).Last(t.Context(), "s")
		if err != nil || !ok || !bytes.Equal(last.Data, c[i].Appends[0].Data) {
			t.Fatalf("the last of %d bytes has %d: %v", n, len(last.Data), err)
		}
	}
	all, err := s.Read(t.Context(), "s", 3, eventlog.Limits{})
	if err != nil || len(all) != len(sizes) {
		t.Fatalf("%d entries: %v", len(all), err)
	}
	for i, e := range all {
		if !bytes.Equal(e.Data, c[i].Appends[0].Data) || string(e.Header) != "header" {
			t.Errorf("entry of %d bytes: %d bytes are read, header %q", sizes[i], len(e.Data), e.Header)
		}
	}
	if beside, err := s.Read(t.Context(), "t", 0, eventlog.Limits{}); err != nil || !bytes.Equal(beside[0].Data, c[4].Appends[1].Data) {
		t.Errorf("the other stream: %v", err)
	}
	for bound, want := range map[int]int{1: 1, inlineBytesMax + 20: 1, 2 * (inlineBytesMax + 20): 2, 3 * (inlineBytesMax + 20): 4} {
		if some, err := s.Read(t.Context(), "s", 0, eventlog.Limits{Bytes: bound}); err != nil || len(some) != want {
			t.Errorf("within %d bytes: %d entries, %v; want %d", bound, len(some), err, want)
		}
	}
	headers, err := s.Read(t.Context(), "s", 0, eventlog.Limits{HeadersOnly: true, Bytes: 1000})
	if err != nil || len(headers) != len(sizes) || headers[5].Data != nil {
		t.Errorf("headers: %d, %v", len(headers), err)
	}
}

// Chunks that are missing or altered are corruption; chunks that another attempt wrote are used.
func TestChunks(t *testing.T) {
	s, n, other := openFaulty(t)
	c := commitOf(large("s", 0, 3*chunkBytesMax))
	n.meets(passes, passes, passes, answerLost)
	if got := outcomeOf(s.Commit(t.Context(), c)); got != unknown {
		t.Errorf("the entry's answer is lost: %s", got)
	}
	mustCommit(t, s, c)
	c = commitOf(large("s", 10, 3*chunkBytesMax))
	n.meets(passes, answers(400, "ValidationException", "")) // a throttled chunk is repeated, another fault is not
	if got := outcomeOf(s.Commit(t.Context(), c)); got != refused {
		t.Errorf("a chunk is not written: %s", got)
	}
	if last, _, err := other.Last(t.Context(), "s"); err != nil || last.Seq != 0 {
		t.Errorf("the last entry is at %d: %v", last.Seq, err)
	}
	n.meets(answers(400, "ThrottlingException", ""), answerLost)
	mustCommit(t, s, c)
	foreign := c
	foreign.Appends = []eventlog.Append{large("s", 20, 3*chunkBytesMax-1)}
	if err := s.Commit(t.Context(), foreign); outcomeOf(err) != refused || !errors.Is(err, eventlog.ErrCorrupt) {
		t.Errorf("a writer that is used again for other bytes: %v", err)
	}
	for what, damage := range map[string]func(item) error{
		"altered": func(key item) error {
			key["d"] = raw([]byte("other"))
			_, err := s.client.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: &s.tables.Log, Item: key})
			return err
		},
		"missing": func(key item) error {
			_, err := s.client.DeleteItem(t.Context(), &dynamodb.DeleteItemInput{TableName: &s.tables.Log, Key: key})
			return err
		},
	} {
		if err := damage(chunkKey(c.Writer, "s", 1)); err != nil {
			t.Fatal(err)
		}
		if _, err := other.Read(t.Context(), "s", 10, eventlog.Limits{}); !errors.Is(err, eventlog.ErrCorrupt) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// What DynamoDB would refuse for its size is refused before it is sent, and nothing of it stands.
func TestTooLarge(t *testing.T) {
	s, n, _ := openFaulty(t)
	var many, heavy, fits []any
	for i := range ItemsMax {
		many = append(many, forever(fmt.Sprint("k/", i)))
	}
	for i := range 17 {
		c := forever(fmt.Sprint("v/", i))
		c.Value = noise(256 << 10)
		heavy = append(heavy, c)
	}
	fits = append(slices.Clone(many[:ItemsMax-1]), entryAt("s", 0))
	wide := forever("w")
	wide.Holder, wide.Value = strings.Repeat("h", 200<<10), noise(256<<10)
	for what, c := range map[string]eventlog.Commit{
		"101 places":            commitOf(append(many, entryAt("s", 0))...),
		"over 4 MB":             commitOf(heavy...),
		"a header":              commitOf(eventlog.Append{Stream: "s", Width: 1, Header: noise(inlineBytesMax + 1)}),
		"data":                  commitOf(large("s", 0, dataBytesMax+1)),
		"a claim's own holder":  commitOf(wide),
		"a header beside other": commitOf(eventlog.Append{Stream: "s", Width: 1, Header: noise(500_000)}, forever("k")),
	} {
		if n.meets(); outcomeOf(s.Commit(t.Context(), c)) != content || n.writes() != 0 {
			t.Errorf("%s: %v after %d writes", what, s.Commit(t.Context(), c), n.writes())
		}
	}
	mustCommit(t, s, commitOf(fits...))
	mustCommit(t, s, commitOf(heavy[:15]...))
	if claims, err := s.Claims(t.Context(), "k/", "", 1000); err != nil || len(claims) != ItemsMax-1 {
		t.Errorf("%d claims, %v", len(claims), err)
	}
}

// The newest snapshot never expires, and an older one is kept for 16 days after it was overtaken.
func TestSnapshotsExpire(t *testing.T) {
	d := startDatabase(t)
	s := d.open(t)
	keep := func(seq eventlog.Seq, data []byte) {
		t.Helper()
		if err := s.PutSnapshot(t.Context(), "s", eventlog.Snapshot{Seq: seq, Data: data}); err != nil {
			t.Fatal(err)
		}
	}
	ends := func(want map[eventlog.Seq]bool) {
		t.Helper()
		got := map[eventlog.Seq]bool{}
		for it, err := range s.query(t.Context(), s.snapshotsUpTo("s", math.MaxUint64, 10)) {
			if err != nil {
				t.Fatal(err)
			}
			n, err := readSnapshot("s", it)
			if err != nil {
				t.Fatal(err)
			}
			if left := time.Until(time.Unix(int64(n.expires), 0)); n.expires != 0 && (left > snapshotAge || left < snapshotAge-time.Minute) {
				t.Errorf("the one at %d expires in %v", n.seq, left)
			}
			got[n.seq] = n.expires != 0
			if lasts := chunkExpiry(t, s, n); n.expires == 0 && lasts != 0 || n.expires != 0 && lasts != n.expires+86400 {
				t.Errorf("the chunks of the one at %d expire at %d, itself at %d", n.seq, lasts, n.expires)
			}
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("those that expire: %v, want %v", got, want)
		}
	}
	keep(5, noise(500_000))
	ends(map[eventlog.Seq]bool{5: false})
	keep(9, noise(100))
	ends(map[eventlog.Seq]bool{5: true, 9: false})
	keep(7, noise(100)) // it comes late
	ends(map[eventlog.Seq]bool{5: true, 7: true, 9: false})
	keep(9, noise(200))
	keep(9, noise(200))
	ends(map[eventlog.Seq]bool{5: true, 7: true, 9: false})
	keep(9, nil)
	if snap, ok, err := s.Snapshot(t.Context(), "s", 9); err != nil || !ok || len(snap.Data) != 0 {
		t.Errorf("an empty one: %+v, %v, %v", snap, ok, err)
	}
	n := snapshot{name: "s", seq: 7}
	if err := s.expire(t.Context(), s.tables.Views, n.key(), expiry(time.Now())); err != nil {
		t.Fatal(err)
	}
	if snap, ok, err := s.Snapshot(t.Context(), "s", 8); err != nil || !ok || snap.Seq != 5 || !bytes.Equal(snap.Data, noise(500_000)) {
		t.Errorf("behind one that has expired: %d, %v, %v", snap.Seq, ok, err)
	}
	if err := s.PutSnapshot(t.Context(), "s", eventlog.Snapshot{Seq: 1, Data: make([]byte, snapshotBytesMax+1)}); err == nil {
		t.Error("a snapshot of any size is taken")
	}
}

// chunkExpiry gives when the chunks of a snapshot expire, which must be the same for all.
func chunkExpiry(t *testing.T, s *Store, n snapshot) (x uint64) {
	t.Helper()
	e := must(expression.NewBuilder().WithKeyCondition(expression.KeyEqual(expression.Key("p"), expression.Value(n.chunks()))).Build())
	i := 0
	for it, err := range s.query(t.Context(), &dynamodb.QueryInput{TableName: &s.tables.Views, KeyConditionExpression: e.KeyCondition(),
		ExpressionAttributeNames: e.Names(), ExpressionAttributeValues: e.Values()}) {
		f := fields{item: it}
		if this := f.unsigned("x", false); err != nil || i > 0 && this != x {
			t.Fatalf("chunk %d expires at %d, the one before at %d: %v", i, this, x, err)
		} else {
			x, i = this, i+1
		}
	}
	if i != n.blob.chunks {
		t.Fatalf("%d chunks, want %d", i, n.blob.chunks)
	}
	return x
}

// A drop that fails half way leaves a stream that can be read, and does the rest when it is repeated.
func TestDropHalfWay(t *testing.T) {
	s, n, other := openFaulty(t)
	fill(t, s, "s", 0, 12)
	reject := answers(400, "ValidationException", "")
	for passed := range 4 {
		plan := []func(*http.Request, http.RoundTripper) (*http.Response, error){passes, passes, passes, passes}[:passed]
		for range 12 {
			plan = append(plan, reject)
		}
		n.meets(plan...)
		if err := s.Drop(t.Context(), "s", 0, 9); err == nil {
			t.Fatal("the fault was not met")
		}
		for from := eventlog.Seq(0); from < 12; {
			entries, err := other.Read(t.Context(), "s", from, eventlog.Limits{})
			tr := (*eventlog.Truncated)(nil)
			switch {
			case errors.As(err, &tr):
				from = tr.To
			case err != nil || len(entries) == 0:
				t.Fatalf("after %d writes, at %d: %v", passed, from, err)
			default:
				from = entries[len(entries)-1].Next()
			}
		}
	}
	n.meets()
	if err := s.Drop(t.Context(), "s", 0, 9); err != nil {
		t.Fatal(err)
	}
	_, err := other.Read(t.Context(), "s", 0, eventlog.Limits{})
	if tr := (*eventlog.Truncated)(nil); !errors.As(err, &tr) || tr.To != 9 {
		t.Errorf("read: %v", err)
	}
}

// units counts what a store's calls consumed.
type units struct {
	mu          sync.Mutex
	read, write float64
	by          map[string]float64
}

func (u *units) count(operation string, read, write float64) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.by == nil {
		u.by = map[string]float64{}
	}
	u.read, u.write = u.read+read, u.write+write
	u.by[operation] += read + write
}

func (u *units) take() (read, write float64) {
	u.mu.Lock()
	defer u.mu.Unlock()
	read, write = u.read, u.write
	u.read, u.write = 0, 0
	return read, write
}

// What the calls cost, in DynamoDB's units: a put one for each KB begun, a transaction twice that, a strong read one
// for each 4 KB begun, and a write that lost as much as one that won.
func TestConsumed(t *testing.T) {
	d := startDatabase(t)
	var u units
	s := d.open(t, func(c *Config) { c.Consumed = u.count })
	seq := eventlog.Seq(0)
	entry := func(n int) eventlog.Append {
		a := large("s", seq, n)
		seq += 10
		return a
	}
	stream, other := eventlog.Stream("s"), d.openOn(t, s.tables)
	against := func(err error) error {
		if outcomeOf(err) != against {
			return fmt.Errorf("got %w, want a conflict", err)
		}
		return nil
	}
	over := itemBytes(entryItem(&eventlog.Commit{At: time.Now().UnixMilli()}, &eventlog.Append{Stream: "s", Seq: 1000, Width: 10, Header: []byte("header"), Data: []byte{1}})) - 1
	mustCommit(t, s, commitOf(entry(1)))
	u.take()
	for _, tt := range []struct {
		what        string
		do          func() error
		read, write float64
	}{
		{"an entry of 100 B", func() error { return s.Commit(t.Context(), commitOf(entry(100))) }, 0, 1},
		{"an entry of 850 B", func() error { return s.Commit(t.Context(), commitOf(entry(850))) }, 0, 1},
		{"the largest of one unit", func() error { return s.Commit(t.Context(), commitOf(entry(1024-over-2))) }, 0, 1},
		{"an entry of 1 KB", func() error { return s.Commit(t.Context(), commitOf(entry(1024))) }, 0, 2},
		{"an entry and a claim", func() error { return s.Commit(t.Context(), commitOf(entry(100), forever("k/1"))) }, 0, 4},
		{"a claim alone", func() error { return s.Commit(t.Context(), commitOf(forever("k/2"))) }, 0, 1},
		{"the first entry of a stream", func() error { return s.Commit(t.Context(), commitOf(entryAt("t", 0))) }, 1, 1},
		{"a lost race", func() error {
			fill(t, other, "t", 1, 1)
			return against(s.Commit(t.Context(), commitOf(entryAt("t", 1))))
		}, 0, 1},
		{"a lost transaction", func() error {
			fill(t, other, "t", 2, 1)
			return against(s.Commit(t.Context(), commitOf(entryAt("t", 2), forever("k/3"))))
		}, 0, 4},
		{"an empty probe", func() error { _, err := s.Read(t.Context(), stream, seq, eventlog.Limits{}); return err }, 1, 0},
		{"an empty probe that may lag", func() error { _, err := s.Read(t.Context(), stream, seq, eventlog.Limits{Lagging: true}); return err }, 0.5, 0},
		{"a small read", func() error {
			_, err := s.Read(t.Context(), stream, seq-10, eventlog.Limits{Entries: 1})
			return err
		}, 1, 0},
		{"a claim read", func() error { _, _, err := s.Claim(t.Context(), "k/1"); return err }, 1, 0},
	} {
		if err := tt.do(); err != nil {
			t.Errorf("%s: %v", tt.what, err)
		}
		if read, write := u.take(); read != tt.read || write != tt.write {
			t.Errorf("%s takes %v read and %v write units, want %v and %v", tt.what, read, write, tt.read, tt.write)
		}
	}
	if more := over - len("header") - len("s"); more > 45 {
		t.Errorf("an entry takes %d B beside its name, header and data", more)
	}
}

// A key is found again from where it stands, and keys of one directory stand in one partition in their order.
func TestClaimKeys(t *testing.T) {
	for _, key := range []string{"a", "/", "a/", "a/b", "a/b/", "a//", "/a", ".", "./a", "./", "k\x01", "a/\u00e9"} {
		f := fields{item: claimKey(key)}
		dir, rest := f.text("p"), f.text("k")
		if dir == top {
			dir = ""
		}
		if got := dir + strings.TrimPrefix(rest, "/"); got != key || rest == "" {
			t.Errorf("%q stands at %q, %q, which is read as %q", key, dir, rest, got)
		}
	}
}

package eventlogtest

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/leaselog/leaselog/internal/eventlog"
)

// testModel does the same random steps on the log and on a [eventlog.Memory], and compares every answer. All runs
// share one log, which is costly to open elsewhere than in memory; each has streams and keys of its own.
func testModel(t *testing.T, open func(*testing.T) *suite) {
	log := open(t).log.log
	run := uint64(0)
	rapid.Check(t, func(rt *rapid.T) {
		run++
		m := &modelRun{T: rt, log: Checked(rt, log), model: eventlog.NewMemory(), run: run, done: map[eventlog.Writer]bool{}}
		rt.Repeat(map[string]func(*rapid.T){
			"commit":   m.commit,
			"append":   m.appendOne,
			"repeat":   m.repeat,
			"read":     m.read,
			"last":     m.last,
			"claim":    m.claim,
			"list":     m.list,
			"snapshot": m.snapshot,
			"keep":     m.putSnapshot,
			"drop":     m.drop,
		})
		m.compareAll()
		m.log.Recheck()
	})
}

// modelRun is one run of random steps.
type modelRun struct {
	*rapid.T
	log   *CheckedLog
	model *eventlog.Memory
	run   uint64
	sent  []eventlog.Commit
	done  map[eventlog.Writer]bool
}

func (m *modelRun) streams() []eventlog.Stream {
	return []eventlog.Stream{
		eventlog.Stream(fmt.Sprintf("run%d/a", m.run)),
		eventlog.Stream(fmt.Sprintf("run%d/ab", m.run)),
		eventlog.Stream(fmt.Sprintf("run%d/b", m.run)),
	}
}

func (m *modelRun) keys() []string {
	prefix := m.prefix()
	return []string{prefix + "k", prefix + "k1", prefix + "l"}
}

func (m *modelRun) prefix() string { return fmt.Sprintf("run%d/", m.run) }

// end gives where a stream ends by the model.
func (m *modelRun) end(name eventlog.Stream) eventlog.Seq {
	last, _, _ := m.model.Last(context.Background(), name)
	return last.Next()
}

// newWriter names the run and the commit.
func (m *modelRun) newWriter() eventlog.Writer {
	var w eventlog.Writer
	binary.BigEndian.PutUint64(w[:8], m.run)
	binary.BigEndian.PutUint64(w[8:], uint64(len(m.sent)))
	return w
}

// drawSeq draws a place: mostly the end, now and then what is taken, or beyond the end.
func (m *modelRun) drawSeq(t *rapid.T, end eventlog.Seq) eventlog.Seq {
	switch rapid.IntRange(0, 9).Draw(t, "place") {
	case 0:
		return end + eventlog.Seq(rapid.IntRange(1, 3).Draw(t, "gap"))
	case 1:
		return eventlog.Seq(rapid.Uint64Range(0, uint64(end)).Draw(t, "seq"))
	}
	return end
}

func (m *modelRun) drawAppend(t *rapid.T, name eventlog.Stream) eventlog.Append {
	return eventlog.Append{
		Stream: name,
		Seq:    m.drawSeq(t, m.end(name)),
		Width:  uint32(rapid.IntRange(1, 4).Draw(t, "width")),
		Header: rapid.SliceOfN(rapid.Byte(), 0, 4).Draw(t, "header"),
		Data:   rapid.SliceOfN(rapid.Byte(), 0, 4).Draw(t, "data"),
	}
}

func (m *modelRun) drawClaim(t *rapid.T, key string, at int64) eventlog.Claim {
	stands, _, _ := m.model.Claim(context.Background(), key)
	return eventlog.Claim{
		Key:    key,
		Holder: rapid.SampledFrom([]string{"", "h", "holder"}).Draw(t, "holder"),
		Until:  rapid.SampledFrom([]int64{0, at, at + 1, at + 5, eventlog.Forever}).Draw(t, "until"),
		Value:  rapid.SliceOfN(rapid.Byte(), 0, 4).Draw(t, "value"),
		If:     rapid.SampledFrom([]uint64{0, 1, stands.Version, stands.Version, stands.Version + 1}).Draw(t, "if"),
	}
}

// commit sends a commit with any parts, now and then one that is malformed.
func (m *modelRun) commit(t *rapid.T) {
	c := eventlog.Commit{Writer: m.newWriter(), At: rapid.Int64Range(0, 20).Draw(t, "at")}
	for _, name := range m.streams() {
		if rapid.Bool().Draw(t, "append") {
			c.Appends = append(c.Appends, m.drawAppend(t, name))
		}
	}
	for _, key := range m.keys() {
		if rapid.Bool().Draw(t, "claim") {
			c.Claims = append(c.Claims, m.drawClaim(t, key, c.At))
		}
	}
	if len(c.Appends)+len(c.Claims) == 0 {
		return
	}
	if n := len(c.Appends); n > 0 && rapid.IntRange(0, 19).Draw(t, "malformed") == 0 {
		c.Appends = append(c.Appends, c.Appends[n-1])
	}
	m.send(t, c)
}

// appendOne sends the commit that is most common in life.
func (m *modelRun) appendOne(t *rapid.T) {
	name := rapid.SampledFrom(m.streams()).Draw(t, "stream")
	m.send(t, eventlog.Commit{Writer: m.newWriter(), Appends: []eventlog.Append{m.drawAppend(t, name)}})
}

// repeat sends any commit again, also one that lost, or that is long past.
func (m *modelRun) repeat(t *rapid.T) {
	if len(m.sent) == 0 {
		return
	}
	if c := rapid.SampledFrom(m.sent).Draw(t, "commit"); !m.forgotten(c) {
		m.compareCommit(t, c)
	}
}

// forgotten reports whether c claimed, and nothing is left of it: what a repeat does then is left to the log.
func (m *modelRun) forgotten(c eventlog.Commit) bool {
	return m.done[c.Writer] && len(c.Appends) == 0 && !slices.ContainsFunc(c.Claims, func(claim eventlog.Claim) bool {
		stands, _, _ := m.model.Claim(context.Background(), claim.Key)
		return stands.Writer == c.Writer
	})
}

func (m *modelRun) send(t *rapid.T, c eventlog.Commit) {
	m.sent = append(m.sent, c)
	m.compareCommit(t, c)
}

func (m *modelRun) compareCommit(t *rapid.T, c eventlog.Commit) {
	ctx := context.Background()
	want, got := m.model.Commit(ctx, c), m.log.Commit(ctx, c)
	var wantC, gotC *eventlog.Conflict
	var wantR, gotR *eventlog.Refused
	switch {
	case want == nil && got == nil:
		m.done[c.Writer] = true
	case errors.As(want, &wantC) && errors.As(got, &gotC):
		m.same(t, "conflict", sorted(gotC), sorted(wantC))
	case errors.As(want, &wantR) && errors.As(got, &gotR) && wantR.Content == gotR.Content:
	case errors.As(want, &wantC) && errors.As(got, &gotR) && !gotR.Content && m.gapped(c):
		// One append is beyond its end and another place is taken: either answer is true.
	default:
		t.Fatalf("commit %+v\ngot  %v\nwant %v", c, got, want)
	}
}

// gapped reports whether an append of c lies beyond the end of its stream.
func (m *modelRun) gapped(c eventlog.Commit) bool {
	return slices.ContainsFunc(c.Appends, func(a eventlog.Append) bool { return a.Seq > m.end(a.Stream) })
}

// sorted puts what a conflict shows in an order, as a log need not.
func sorted(c *eventlog.Conflict) *eventlog.Conflict {
	slices.SortFunc(c.Entries, func(a, b eventlog.Entry) int { return strings.Compare(string(a.Stream), string(b.Stream)) })
	slices.SortFunc(c.Claims, func(a, b eventlog.Claim) int { return strings.Compare(a.Key, b.Key) })
	return c
}

func (m *modelRun) read(t *rapid.T) {
	name := rapid.SampledFrom(m.streams()).Draw(t, "stream")
	from := eventlog.Seq(rapid.Uint64Range(0, uint64(m.end(name))+2).Draw(t, "from"))
	l := eventlog.Limits{Entries: rapid.IntRange(0, 4).Draw(t, "entries"), HeadersOnly: rapid.Bool().Draw(t, "headers")}
	m.compareRead(t, name, from, l)
}

func (m *modelRun) compareRead(t *rapid.T, name eventlog.Stream, from eventlog.Seq, l eventlog.Limits) {
	ctx := context.Background()
	want, wantErr := m.model.Read(ctx, name, from, l)
	got, gotErr := m.log.Read(ctx, name, from, l)
	var wantT, gotT *eventlog.Truncated
	switch {
	case errors.As(wantErr, &wantT) && errors.As(gotErr, &gotT):
		if gotT.Stream != name || gotT.From > from || gotT.To != wantT.To {
			t.Fatalf("read at %d is truncated as %+v, want %+v", from, *gotT, *wantT)
		}
	case wantErr != nil || gotErr != nil:
		t.Fatalf("read at %d: got %v, want %v", from, gotErr, wantErr)
	}
	m.same(t, "read", got, want)
}

func (m *modelRun) last(t *rapid.T) {
	name := rapid.SampledFrom(m.streams()).Draw(t, "stream")
	want, wantOK, _ := m.model.Last(context.Background(), name)
	got, ok, err := m.log.Last(context.Background(), name)
	if err != nil || ok != wantOK {
		t.Fatalf("last: found %v, error %v; want found %v", ok, err, wantOK)
	}
	m.same(t, "last", got, want)
}

func (m *modelRun) claim(t *rapid.T) {
	m.compareClaim(t, rapid.SampledFrom(m.keys()).Draw(t, "key"))
}

func (m *modelRun) compareClaim(t *rapid.T, key string) {
	want, wantOK, _ := m.model.Claim(context.Background(), key)
	got, ok, err := m.log.Claim(context.Background(), key)
	if err != nil || ok != wantOK {
		t.Fatalf("claim %q: found %v, error %v; want found %v", key, ok, err, wantOK)
	}
	m.same(t, "claim", got, want)
}

func (m *modelRun) list(t *rapid.T) {
	prefix := m.prefix() + rapid.SampledFrom([]string{"", "k", "k1", "l", "m"}).Draw(t, "prefix")
	after := rapid.SampledFrom(append(m.keys(), "")).Draw(t, "after")
	limit := rapid.IntRange(1, 4).Draw(t, "limit")
	want, _ := m.model.Claims(context.Background(), prefix, after, limit)
	got, err := m.log.Claims(context.Background(), prefix, after, limit)
	if err != nil {
		t.Fatalf("claims: %v", err)
	}
	m.same(t, "claims", got, want)
}

func (m *modelRun) snapshot(t *rapid.T) {
	name := rapid.SampledFrom(m.streams()).Draw(t, "stream")
	m.compareSnapshot(t, name, eventlog.Seq(rapid.Uint64Range(0, uint64(m.end(name))+1).Draw(t, "seq")))
}

func (m *modelRun) compareSnapshot(t *rapid.T, name eventlog.Stream, seq eventlog.Seq) {
	want, wantOK, _ := m.model.Snapshot(context.Background(), name, seq)
	got, ok, err := m.log.Snapshot(context.Background(), name, seq)
	if err != nil || ok != wantOK {
		t.Fatalf("snapshot: found %v, error %v; want found %v", ok, err, wantOK)
	}
	m.same(t, "snapshot", got, want)
}

func (m *modelRun) putSnapshot(t *rapid.T) {
	name := rapid.SampledFrom(m.streams()).Draw(t, "stream")
	snap := eventlog.Snapshot{
		Seq:  eventlog.Seq(rapid.Uint64Range(0, uint64(m.end(name))).Draw(t, "seq")),
		Data: rapid.SliceOfN(rapid.Byte(), 0, 4).Draw(t, "data"),
	}
	_ = m.model.PutSnapshot(context.Background(), name, snap)
	if err := m.log.PutSnapshot(context.Background(), name, snap); err != nil {
		t.Fatalf("put snapshot: %v", err)
	}
}

func (m *modelRun) drop(t *rapid.T) {
	name := rapid.SampledFrom(m.streams()).Draw(t, "stream")
	end := uint64(m.end(name))
	from := eventlog.Seq(rapid.Uint64Range(0, end).Draw(t, "from"))
	to := from + eventlog.Seq(rapid.Uint64Range(1, end+1).Draw(t, "length"))
	_ = m.model.Drop(context.Background(), name, from, to)
	if err := m.log.Drop(context.Background(), name, from, to); err != nil {
		t.Fatalf("drop [%d, %d): %v", from, to, err)
	}
}

// compareAll compares everything that can be read.
func (m *modelRun) compareAll() {
	for _, name := range m.streams() {
		for from := range m.end(name) + 1 {
			m.compareRead(m.T, name, from, eventlog.Limits{})
			m.compareSnapshot(m.T, name, from)
		}
		m.compareSnapshot(m.T, name, math.MaxUint64)
	}
	for _, key := range m.keys() {
		m.compareClaim(m.T, key)
	}
}

func (m *modelRun) same(t *rapid.T, what string, got, want any) {
	t.Helper()
	if diff := difference(got, want); diff != "" {
		t.Fatalf("%s (-want +got):\n%s", what, diff)
	}
}

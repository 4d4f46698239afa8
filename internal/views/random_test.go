package views_test

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/leaselog/leaselog/events"
	"github.com/leaselog/leaselog/internal/broker"
	"github.com/leaselog/leaselog/internal/fault"
	"github.com/leaselog/leaselog/internal/sweep"
	"github.com/leaselog/leaselog/projections"
)

// TestRandom runs random histories through a broker. Whenever the views are caught up, by followers that woke at every
// step or at none, what is kept is byte for byte what the log gives from its snapshots and from its first entry, and its
// numbers are those of a full replay, at this instant and at later ones.
func TestRandom(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := newMachine(t)
		defer m.b.Close()
		m.t = t
		t.Repeat(map[string]func(*rapid.T){
			"":        m.begin,
			"send":    m.send2,
			"send2":   m.send2,
			"receive": m.lease,
			"lease":   m.lease,
			"ack":     m.ack,
			"extend":  m.extend,
			"time":    m.pass,
			"time2":   m.pass,
			"move":    m.move,
			"expire":  m.expire,
			"anchor":  m.anchor,
			"purge":   m.purge,
			"update":  m.update,
			"follow":  func(*rapid.T) { m.follow() },
			"wake":    m.wake,
			"check":   m.check,
		})
		m.check(t)
	})
}

type machine struct {
	*world
	t      *rapid.T
	queues []events.QueueID
	fifo   events.QueueID
}

func newMachine(t *rapid.T) *machine {
	m := &machine{world: newWorld(t), t: t}
	dead := m.create("dead", m.settings(t), "", 0)
	source := m.create("source", m.settings(t), "dead", rapid.Uint32Range(1, 2).Draw(t, "receives"))
	s := m.settings(t)
	s.Fifo, s.DedupSeconds, s.ContentDedup = true, 0, true
	m.fifo = m.create("a.fifo", s, "", 0)
	m.queues = []events.QueueID{source, source, dead, m.fifo}
	return m
}

func (m *machine) settings(t *rapid.T) events.Settings {
	return events.Settings{LeaseSeconds: 30, RetentionSeconds: rapid.SampledFrom([]uint32{60, 600, 3_600, 200_000}).Draw(t, "retention"),
		DelaySeconds: rapid.SampledFrom([]uint32{0, 0, 0, 7}).Draw(t, "delay")}
}

func (m *machine) begin(t *rapid.T) { m.tester = t }

func (m *machine) queue(t *rapid.T) events.QueueID {
	return rapid.SampledFrom(m.queues).Draw(t, "queue")
}

func (m *machine) send2(t *rapid.T) {
	q, group := m.queue(t), ""
	if q == m.fifo {
		group = rapid.SampledFrom([]string{"a", "b"}).Draw(t, "group")
	}
	m.send(q, rapid.IntRange(1, 4).Draw(t, "messages"), rapid.SampledFrom([]int{-1, -1, 0, 1, 90, 900}).Draw(t, "delay"), group)
}

func (m *machine) lease(t *rapid.T) {
	m.receive(m.queue(t), rapid.IntRange(1, 6).Draw(t, "max"), rapid.SampledFrom([]uint32{0, 1, 5, 30, 43_200}).Draw(t, "lease"))
}

func (m *machine) receipt(t *rapid.T) (q events.QueueID, receipt string) {
	q = m.queue(t)
	if len(m.receipts[q]) > 0 {
		receipt = rapid.SampledFrom(m.receipts[q]).Draw(t, "receipt")
	}
	return q, receipt
}

func (m *machine) ack(t *rapid.T) {
	if q, r := m.receipt(t); r != "" {
		_, err := m.b.Ack(m.ctx, q, []string{r})
		m.must(err)
	}
}

func (m *machine) extend(t *rapid.T) {
	if q, r := m.receipt(t); r != "" {
		_, err := m.b.Extend(m.ctx, q, []broker.Extend{{Receipt: r, Seconds: rapid.SampledFrom([]uint32{0, 0, 10, 600}).Draw(t, "seconds")}})
		m.must(err)
	}
}

// pass lets time pass; sometimes the clock is set back a little.
func (m *machine) pass(t *rapid.T) {
	m.now += rapid.SampledFrom([]events.Instant{1, 999, 1_000, 5_001, 30_000, 61_000, 600_000, 7_200_000, 90_000_000, -2_000}).Draw(t, "by")
}

func (m *machine) move(*rapid.T)   { m.must(m.b.Tick(m.ctx)) }
func (m *machine) expire(*rapid.T) { m.sweep(sweep.Expired) }
func (m *machine) anchor(*rapid.T) { m.sweep(sweep.Anchors) }

func (m *machine) purge(t *rapid.T) {
	_, err := m.b.Purge(m.ctx, m.queue(t))
	m.must(unless(err, fault.Limit, fault.Invalid))
}

func (m *machine) update(t *rapid.T) {
	s := m.settings(t)
	_, err := m.b.Update(m.ctx, broker.UpdateQueue{Queue: m.queue(t), RetentionSeconds: &s.RetentionSeconds, DelaySeconds: &s.DelaySeconds})
	m.must(err)
}

// wake brings some view of some shard up to date.
func (m *machine) wake(t *rapid.T) {
	s := rapid.SampledFrom(m.shards(m.queue(t))).Draw(t, "shard")
	m.must(rapid.SampledFrom(m.followers).Draw(t, "projection").CatchUp(m.ctx, s))
}

func (m *machine) check(t *rapid.T) {
	for _, q := range m.queues[1:] {
		m.catchUp(q)
		for _, s := range m.shards(q) {
			m.sameAsMade(s)
			r := m.replay(s)
			m.compareDepth(s, r)
			m.compareTraffic(s, r)
			m.compareRedrive(s, r)
		}
	}
}

func (m *machine) compareDepth(s projections.Shard, r *replay) {
	_, data := m.view(s, projections.Depth)
	v, err := projections.ReadDepth(data)
	m.must(err)
	at := max(m.now, v.At) // as commands have it
	at += 1000 - at%1000
	for _, later := range []events.Instant{0, 1, 2, 5, 29, 30, 60, 61, 90, 599, 600, 900, 3_600, 43_200, 200_000} {
		at := at + later*1000
		got, err := v.ReadAt(at)
		m.must(err)
		want := r.counts(at)
		if got.Counts != want && (v.Retain <= 3_600 || got.Available < want.Available || got.Available > r.counts(at-600_000).Available || got.InFlight != want.InFlight) {
			m.Fatalf("shard %d of %x at %d, %d s from now: the view counts %+v, a replay %+v\n%+v", s.Index, s.Queue[:2], at, later, got.Counts, want, v)
		}
		oldest, passed := r.oldest(at)
		if got.Available > 0 && !passed && (got.WaitingMillis != oldest.WaitingMillis ||
			got.TotalMillis != oldest.TotalMillis && (r.ledger.Totals.Arrived == 0 || got.TotalMillis > oldest.TotalMillis)) {
			m.Fatalf("shard %d of %x at %d: the view says the oldest is %+v, a replay %+v\n%+v", s.Index, s.Queue[:2], at, got.Ages, oldest, v)
		}
	}
}

func (m *machine) compareTraffic(s projections.Shard, r *replay) {
	_, data := m.view(s, projections.Traffic)
	v, err := projections.ReadTraffic(data)
	m.must(err)
	high := max(r.ledger.High, r.sender.High)
	sums := map[events.Instant]projections.Minute{}
	add := func(at events.Instant, f func(*projections.Minute)) {
		begin := at / 60_000 * 60_000
		x := sums[begin]
		x.Begin = begin
		if f(&x); begin >= high-86_400_000 && x != (projections.Minute{Begin: begin}) {
			sums[begin] = x
		}
	}
	for _, h := range r.headers {
		if len(h.Origins) == 0 {
			add(h.At, func(x *projections.Minute) { x.Sent += uint64(h.Count); x.Bytes += h.Bytes })
		}
	}
	before := events.LedgerTotals{}
	for _, e := range r.entries { // by the running totals, which the fold does not look at
		now := e.header.Totals
		add(e.header.At, func(x *projections.Minute) {
			x.Received += now.Received - before.Received
			x.Acked += now.Acked - before.Acked
			x.Expired += now.Expired - before.Expired
			x.DeadLettered += now.Moved - before.Moved
		})
		before = now
	}
	for _, x := range v.Minutes {
		if sums[x.Begin] != x {
			m.Fatalf("minute %+v, a replay has %+v", x, sums[x.Begin])
		}
		delete(sums, x.Begin)
	}
	if len(sums) > 0 || v.At != high {
		m.Fatalf("minutes %v are missing at %d, high is %d", sums, v.At, high)
	}
}

func (m *machine) compareRedrive(s projections.Shard, r *replay) {
	_, data := m.view(s, projections.Redrive)
	v, err := projections.ReadRedrive(data)
	m.must(err)
	want := map[events.QueueID]uint64{}
	for b, h := range r.headers {
		for i := range h.Origins {
			p := r.places[b] + events.Position(i)
			if p >= r.ledger.Cursor || r.ledger.Get(p) != nil {
				want[h.Origins[i].Queue]++
			}
		}
	}
	got := map[events.QueueID]uint64{}
	for _, x := range v.Sources {
		got[x.Queue] = x.Messages
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		m.Fatalf("the sources are %v, a replay has %v", got, want)
	}
}

package queue_test

import (
	"slices"

	"github.com/leaselog/leaselog/events"
	"github.com/leaselog/leaselog/internal/queue"
)

// twin is the same shard told the obvious way: every message that was ever sent in one slice, every question answered
// by looking at all of them. It has no events, no indexes, no rollback, and no code in common with the rules.
type twin struct {
	limits   queue.Limits
	settings events.Settings
	version  uint64
	tail     events.Position
	all      []*twinMessage
	ids      []twinID
}

type twinMessage struct {
	position      events.Position
	group         string
	retained, due events.Instant
	sent          events.Instant
	looked, gone  bool
	held          bool
	leased        bool
	lease         events.LeaseID
	visible       events.Instant
	receives      uint32
	delayed       bool // sent with a delay
	counted       bool // against the limit of delayed messages
}

// twinID is a deduplication id with the message that had it.
type twinID struct {
	group, id string
	at        events.Instant
	position  events.Position
}

func seconds(n uint32) events.Instant { return events.Instant(n) * 1000 }

func (w *twin) pending(m *twinMessage) bool { return m.looked && !m.gone }
func (w *twin) live(m *twinMessage, at events.Instant) bool {
	return w.pending(m) && m.leased && m.visible > at
}

func (w *twin) spent(m *twinMessage) bool {
	d := w.settings.DeadLetter
	return d != nil && !d.Gone && m.receives >= d.Receives
}

func (w *twin) end(m *twinMessage) events.Instant {
	return m.retained + seconds(w.settings.RetentionSeconds)
}

func (w *twin) notDue(m *twinMessage, at events.Instant) bool { return m.delayed && m.due > at }

// exhausted: its last lease ended before its retention did, so it only waits for its move.
func (w *twin) exhausted(m *twinMessage, at events.Instant) bool {
	return w.pending(m) && w.spent(m) && m.visible <= at && m.visible < w.end(m)
}

func (w *twin) expired(m *twinMessage, at events.Instant) bool {
	return !m.gone && at >= w.end(m) && !w.live(m, at) && !w.exhausted(m, at)
}

func (w *twin) count(f func(*twinMessage) bool) (n int) {
	for _, m := range w.all {
		if f(m) {
			n++
		}
	}
	return n
}

// send gives the position, whether it is a repeat, and the code of the refusal.
func (w *twin) send(at events.Instant, x text, delay *uint32, size int) (events.Position, bool, string) {
	switch {
	case w.settings.Status >= events.Deleted:
		return 0, false, "not_found"
	case w.settings.Status == events.Draining:
		return 0, false, "invalid"
	case w.settings.Fifo && (x.group == "" || x.id == "" && !w.settings.ContentDedup):
		return 0, false, "invalid"
	case size > int(w.settings.MaxBytes):
		return 0, false, "too_large"
	case delay != nil && *delay > 900:
		return 0, false, "invalid"
	}
	id := x.id
	if id == "" && w.settings.ContentDedup {
		id = x.body
	}
	if p, ok := w.repeated(at, x.group, id); ok {
		return p, true, ""
	}
	d := w.settings.DelaySeconds
	if delay != nil {
		d = *delay
	}
	if d > 0 && w.count(func(m *twinMessage) bool { return m.counted && m.due > at }) >= w.limits.Delayed {
		return 0, false, "limit"
	}
	m := &twinMessage{position: w.tail, group: x.group, sent: at, retained: at, due: at + seconds(d), delayed: d > 0, counted: d > 0}
	w.add(m)
	if id != "" {
		w.ids = append(w.ids, twinID{x.group, id, at, m.position})
	}
	return m.position, false, ""
}

func (w *twin) add(m *twinMessage) {
	w.all = append(w.all, m)
	w.tail++
}

func (w *twin) repeated(at events.Instant, group, id string) (events.Position, bool) {
	for _, r := range slices.Backward(w.ids) {
		same := r.id == id && (r.group == group || w.settings.DedupScope == events.DedupQueue)
		if id != "" && same && w.settings.DedupSeconds > 0 && r.at+seconds(w.settings.DedupSeconds) > at {
			return r.position, true
		}
	}
	return 0, false
}

func (w *twin) clone() *twin {
	c := *w
	c.all = nil
	for _, m := range w.all {
		c.all = append(c.all, new(*m))
	}
	return &c
}

func (w *twin) skipExpired(at events.Instant) {
	for _, m := range w.all {
		m.gone = m.gone || !m.looked && w.expired(m, at)
	}
}

// find gives the pending message at a position, or nil.
func (w *twin) find(p events.Position) *twinMessage {
	for _, m := range w.all {
		if m.position == p && w.pending(m) {
			return m
		}
	}
	return nil
}

func (w *twin) outcome(p events.Position, id events.LeaseID, at events.Instant, lapsed bool) queue.Outcome {
	m := w.find(p)
	switch {
	case m == nil:
		return queue.Finished
	case m.leased && m.lease == id && (m.visible > at || lapsed && !w.expired(m, at)):
		return queue.Done
	}
	return queue.Ended
}

func (w *twin) ack(c *queue.Ack) (all []queue.Outcome) {
	for _, h := range c.Items {
		all = append(all, w.outcome(h.Position, h.Lease, c.At, c.Lapsed))
	}
	for i, h := range c.Items {
		if m := w.find(h.Position); all[i] == queue.Done && m != nil {
			m.gone = true
		}
	}
	return all
}

func (w *twin) extend(c *queue.Extend) (all []queue.Outcome) {
	for _, x := range c.Items {
		all = append(all, w.outcome(x.Position, x.Lease, c.At, true))
		m := w.find(x.Position)
		switch {
		case all[len(all)-1] != queue.Done:
		case m.visible <= c.At && !c.Lapsed:
			all[len(all)-1] = queue.Ended
		case x.Seconds == 0:
			m.leased, m.lease, m.visible = false, events.LeaseID{}, c.At
		default:
			m.visible = c.At + seconds(x.Seconds)
		}
	}
	return all
}

func (w *twin) configure(at events.Instant, version uint64, s events.Settings) {
	if version <= w.version {
		return
	}
	for _, m := range w.all {
		if w.version > 0 && s.RetentionSeconds > w.settings.RetentionSeconds && w.pending(m) && w.expired(m, at) {
			m.gone = true
		}
	}
	if s.DedupSeconds != w.settings.DedupSeconds || s.DedupScope != w.settings.DedupScope {
		w.ids = nil
	}
	w.settings, w.version = s, version
	w.tail++
}

// purge gives how many messages it finishes.
func (w *twin) purge(to events.Position, forgets bool) (n uint64) {
	for _, m := range w.all {
		if m.position < to && !m.gone {
			m.looked, m.gone, m.counted = true, true, false
			n++
		} else if m.position < to {
			m.counted = false
		}
	}
	if forgets {
		w.ids = nil
	}
	w.tail++
	return n
}

// expire discards up to n pending messages, and all ahead of the cursor before to.
func (w *twin) expire(at events.Instant, n int, to events.Position) {
	for _, m := range w.all {
		switch {
		case w.pending(m) && w.expired(m, at) && n > 0:
			m.gone = true
			n--
		case !m.looked && m.position < to:
			m.looked, m.gone = true, true
		}
	}
}

// waitingForMove are the exhausted messages, longest first.
func (w *twin) waitingForMove(at events.Instant, n int) (all []events.Position) {
	var found []*twinMessage
	for _, m := range w.all {
		if w.exhausted(m, at) {
			found = append(found, m)
		}
	}
	slices.SortStableFunc(found, func(a, b *twinMessage) int { return int(a.visible - b.visible) })
	for _, m := range found[:min(n, len(found))] {
		all = append(all, m.position)
	}
	return all
}

func (w *twin) depth(at events.Instant) (d queue.Depth) {
	for _, m := range w.all {
		switch {
		case m.gone || w.expired(m, at):
		case w.live(m, at):
			d.InFlight++
		case m.looked && m.visible > at, !m.looked && w.notDue(m, at):
			d.Delayed++
		default:
			d.Available++
			if m.looked && (d.Oldest.Since == 0 || m.visible < d.Oldest.Since) {
				d.Oldest.Since = m.visible
			}
		}
	}
	return d
}

// twinLease is one receive being decided.
type twinLease struct {
	*twin
	at, until    events.Instant
	id           events.LeaseID
	room, passes int
	start        []*twinMessage  // what was pending when the decision began
	before       map[string]bool // groups that had one of those
	full         map[string]bool // groups from which nothing more may go
	begun        map[string]bool // groups from which more may go
	heldNow      int
	stopped      bool
	changed      bool
	got          []events.Position
}

// lease hands out messages; known is the end of what the log has shown, complete whether the log ends there.
func (w *twin) lease(at, until events.Instant, id events.LeaseID, n int, known events.Position, complete bool) (got []events.Position, need, again bool) {
	inFlight := w.count(func(m *twinMessage) bool { return w.live(m, at) })
	g := &twinLease{twin: w, at: at, until: until, id: id, room: min(n, w.limits.InFlight-inFlight), passes: w.limits.Passed,
		before: map[string]bool{}, full: map[string]bool{}, begun: map[string]bool{}}
	for _, m := range w.all {
		if w.pending(m) {
			g.start = append(g.start, m)
			g.before[m.group] = true
		}
	}
	g.heldNow = w.count(func(m *twinMessage) bool { return w.pending(m) && m.held })
	if g.room > 0 && g.ahead(known) == nil && !complete {
		return nil, true, false
	}
	waiting := g.waiting()
	for g.room > 0 && g.passes > 0 {
		a := g.ahead(known)
		switch {
		case len(waiting) > 0 && (a == nil || g.since(a) >= waiting[0].visible):
			g.head(waiting[0])
			waiting = waiting[1:]
		case a != nil:
			g.look(a)
		default:
			return g.got, false, g.changed && len(g.got) == 0
		}
	}
	return g.got, false, g.changed && len(g.got) == 0
}

// ahead is the first message that nobody has looked at.
func (g *twinLease) ahead(known events.Position) *twinMessage {
	for _, m := range g.all {
		if !m.looked && !m.gone && m.position < known && !g.stopped {
			return m
		}
	}
	return nil
}

// since is when a message ahead became deliverable; one that is not due may hide others written after it.
func (g *twinLease) since(m *twinMessage) events.Instant {
	if g.notDue(m, g.at) {
		return m.sent
	}
	return m.due
}

// waiting are the pending messages that may go, longest deliverable first: in a group only the oldest.
func (g *twinLease) waiting() (all []*twinMessage) {
	met := map[string]bool{}
	for _, m := range g.start {
		if (m.group == "" || !met[m.group]) && m.visible <= g.at && !g.exhausted(m, g.at) {
			all = append(all, m)
		}
		met[m.group] = true
	}
	slices.SortStableFunc(all, func(a, b *twinMessage) int { return int(a.visible - b.visible) })
	return all
}

func (g *twinLease) give(m *twinMessage) {
	m.looked, m.held, m.leased, m.lease, m.visible = true, false, true, g.id, g.until
	m.receives++
	g.room--
	g.got = append(g.got, m.position)
	g.changed = true
}

func (g *twinLease) head(m *twinMessage) {
	if g.expired(m, g.at) {
		m.gone, g.changed = true, true
		g.passes--
		return
	}
	followers := g.followers(m)
	g.give(m)
	if m.group == "" {
		return
	}
	if g.settings.Delivery == events.OnePerGroup {
		g.full[m.group] = true
		return
	}
	for _, f := range followers {
		if g.room <= 0 || f.visible > g.at || g.spent(f) || g.expired(f, g.at) {
			g.full[m.group] = true
			return
		}
		g.give(f)
	}
	g.begun[m.group] = true
}

// followers are those of m's group behind it that were pending when the decision began.
func (g *twinLease) followers(m *twinMessage) (all []*twinMessage) {
	for _, f := range g.start {
		if f.group == m.group && f.position > m.position {
			all = append(all, f)
		}
	}
	return all
}

func (g *twinLease) look(m *twinMessage) {
	if g.expired(m, g.at) {
		m.looked, m.gone, g.changed = true, true, true
		return
	}
	locked := m.group != "" && (g.full[m.group] || g.before[m.group] && !g.begun[m.group])
	if g.notDue(m, g.at) || locked {
		g.pass(m)
		return
	}
	g.give(m)
	if m.group != "" && g.settings.Delivery == events.OnePerGroup {
		g.full[m.group] = true
	}
	g.begun[m.group] = true
}

func (g *twinLease) pass(m *twinMessage) {
	if m.group != "" {
		if g.heldNow >= g.limits.LookAhead {
			g.stopped = true
			return
		}
		g.heldNow++
		g.full[m.group] = true
	}
	m.looked, m.held, m.visible = true, m.group != "", m.due
	if !m.delayed {
		m.visible = min(m.due, g.at)
	}
	g.passes--
	g.changed = true
}

package sim

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/leaselog/leaselog/events"
	"github.com/leaselog/leaselog/internal/eventlog"
)

// ledger reads an entry of a ledger and gives how many messages it moves away.
func (w *witness) ledger(sh *wShard, e eventlog.Entry, arrivals map[events.MessageID]*letter) (moved int) {
	happened, err := events.Decode(e.Data)
	w.must(err == nil && len(happened) > 0, "entry %d of %s: %d events, %v", e.Seq, e.Stream, len(happened), err)
	header, err := events.DecodeLedgerHeader(e.Header)
	w.must(err == nil, "entry %d of %s: %v", e.Seq, e.Stream, err)
	sh.high = max(sh.high, header.At)
	for _, ev := range happened {
		_, configures := ev.(*events.Configured)
		w.must(configures || sh.ruling.Status != events.Deleted, "%T in %s after the queue was deleted", ev, e.Stream)
		moved += w.event(sh, ev, arrivals)
		w.count(fmt.Sprintf("%T", ev))
		sh.replay.Evolve(ev)
	}
	sh.replay.Settle()
	w.must(header.Totals == sh.totals, "entry %d of %s counts %+v, it is %+v", e.Seq, e.Stream, header.Totals, sh.totals)
	w.small(sh)
	return moved
}

// small holds that the state keeps what was looked at and is not finished, and nothing else, whatever the backlog is.
func (w *witness) small(sh *wShard) {
	sh.replay.Check()
	n, held, leased := 0, 0, 0
	for _, l := range sh.alive {
		if l.position >= sh.cursor {
			break
		}
		n++
		if l.receives == 0 && l.group != "" {
			held++
		}
		if l.live(sh.high) {
			leased++
		}
	}
	w.must(sh.replay.Len() == n, "the state keeps %d messages, %d were looked at and live", sh.replay.Len(), n)
	w.must(held <= w.Limits.LookAhead, "%d messages are held for their groups, at most %d may be", held, w.Limits.LookAhead)
	w.must(w.Clocks != right || leased <= w.Limits.InFlight, "%d messages are leased, at most %d may be", leased, w.Limits.InFlight)
}

func (w *witness) event(sh *wShard, ev events.Event, arrivals map[events.MessageID]*letter) (moved int) {
	switch ev := ev.(type) {
	case *events.Configured:
		w.must(ev.Version > sh.ruleVer, "settings version %d after %d", ev.Version, sh.ruleVer)
		sh.ruling, sh.ruleVer = ev.Settings, ev.Version
		w.must(ev.Version == sh.sentVer, "the ledger has settings %d, the message stream %d", ev.Version, sh.sentVer)
	case *events.Leased:
		w.leased(sh, ev)
	case *events.Passed:
		for _, t := range ev.Items {
			w.looked(sh, t)
			w.find(sh, t.Position, ev)
		}
	case *events.Extended:
		for _, p := range ev.Items {
			l := w.find(sh, p, ev)
			w.must(l.live(ev.At), "message %d is extended without a live lease", l.attempt.n)
			l.visible, l.touched, l.changed = ev.Until, l.receives, w.commits
		}
	case *events.Released:
		for _, p := range ev.Items {
			l := w.find(sh, p, ev)
			w.must(l.live(ev.At), "message %d is released without a live lease", l.attempt.n)
			l.visible, l.touched, l.leased, l.changed = ev.Visible, l.receives, false, w.commits
		}
	case *events.Acked:
		w.acked(sh, ev)
	case *events.Expired:
		w.expired(sh, ev)
	case *events.Moved:
		return w.moved(sh, ev, arrivals)
	case *events.Arrived:
		w.arrived(sh, ev, arrivals)
	case *events.Purged:
		w.purged(sh, ev)
	case *events.Anchored:
	default:
		w.failf("nobody asked for a %T", ev)
	}
	return 0
}

// find gives the live message at a position.
func (w *witness) find(sh *wShard, p events.Position, ev events.Event) *letter {
	i, ok := slices.BinarySearchFunc(sh.alive, p, func(l *letter, p events.Position) int { return int(l.position) - int(p) })
	w.must(ok, "%T of position %d, where no message lives", ev, p)
	return sh.alive[i]
}

// end takes a message out of its queue.
func (w *witness) end(l *letter, fate string, at events.Instant) {
	l.fate, l.ended, l.changed = fate, at, w.commits
	l.shard.alive = slices.DeleteFunc(l.shard.alive, func(x *letter) bool { return x == l })
}

// looked moves the cursor when a message is looked at for the first time.
func (w *witness) looked(sh *wShard, t events.Taken) {
	if t.Info == nil {
		w.must(t.Position < sh.cursor, "position %d was not looked at, and its info is missing", t.Position)
		return
	}
	w.must(t.Position >= sh.cursor, "position %d is looked at for the first time twice", t.Position)
	w.skipped(sh, t.Position, 0, "nothing")
	sh.cursor = t.Position + 1
}

// skipped holds that no message is passed over in silence between the cursor and a position, apart from want.
func (w *witness) skipped(sh *wShard, to events.Position, want uint64, why string) {
	n := uint64(0)
	for _, l := range sh.alive {
		if l.position >= sh.cursor && l.position < to {
			n++
		}
	}
	w.must(n == want, "the cursor of shard %d jumps from %d to %d over %d messages, and %d of them are said to be %s", sh.index, sh.cursor, to, n, want, why)
}

func (sh *wShard) past(l *letter, at events.Instant) bool {
	return at >= l.retained.Add(sh.ruling.RetentionSeconds)
}

func (sh *wShard) spent(l *letter) bool {
	d := sh.ruling.DeadLetter
	return d != nil && !d.Gone && l.receives >= d.Receives
}

func (w *witness) leased(sh *wShard, ev *events.Leased) {
	for _, t := range ev.Items {
		w.looked(sh, t)
		l := w.find(sh, t.Position, ev)
		n := l.attempt.n
		w.must(!l.live(ev.At), "message %d is leased at %d, and another lease lives until %d", n, ev.At-epoch, l.visible-epoch)
		w.must(l.visible <= ev.At, "message %d is leased %d ms before it is due", n, l.visible-ev.At)
		w.must(!sh.past(l, ev.At), "message %d is leased past its retention", n)
		w.must(!sh.spent(l), "message %d is leased for the %d. time, its queue allows %d", n, l.receives+1, sh.maxReceives())
		w.inOrder(sh, l, ev)
		l.receives++
		l.leases = append(l.leases, ev.Lease)
		l.leased, l.visible, l.changed = true, ev.Until, w.commits
		sh.totals.Received++
	}
}

func (sh *wShard) maxReceives() uint32 {
	if sh.ruling.DeadLetter == nil {
		return 0
	}
	return sh.ruling.DeadLetter.Receives
}

// inOrder holds that nothing of a group is handed out while something earlier of it is not finished; only one receive
// may take several at once, where the queue allows it.
func (w *witness) inOrder(sh *wShard, l *letter, ev *events.Leased) {
	if !sh.ruling.Fifo {
		return
	}
	for _, other := range sh.alive {
		if other.position >= l.position {
			return
		}
		if other.group != l.group {
			continue
		}
		together := sh.ruling.Delivery == events.AsManyAsFit && len(other.leases) > 0 && other.leases[len(other.leases)-1] == ev.Lease &&
			other.leased && other.visible == ev.Until
		w.must(together, "message %d is leased before message %d of its group", l.attempt.n, other.attempt.n)
	}
}

func (w *witness) acked(sh *wShard, ev *events.Acked) {
	for _, p := range ev.Items {
		l := w.find(sh, p, ev)
		w.must(l.live(ev.At), "message %d is acked without a live lease", l.attempt.n)
		w.must(l.leases[len(l.leases)-1] == ev.Lease, "message %d is acked under an older lease", l.attempt.n)
		l.endedBy = ev.Lease
		w.end(l, "acked", ev.At)
		sh.totals.Acked++
	}
}

func (w *witness) expired(sh *wShard, ev *events.Expired) {
	for _, p := range ev.Items {
		l := w.find(sh, p, ev)
		w.expire(sh, l, ev.At)
	}
	if ev.To <= sh.cursor {
		return
	}
	w.skipped(sh, ev.To, ev.Skipped, "expired")
	for _, l := range slices.Clone(sh.alive) {
		if l.position >= sh.cursor && l.position < ev.To {
			w.expire(sh, l, ev.At)
		}
	}
	sh.cursor = ev.To
}

func (w *witness) expire(sh *wShard, l *letter, at events.Instant) {
	w.must(sh.past(l, at), "message %d expires %d ms before its time", l.attempt.n, l.retained.Add(sh.ruling.RetentionSeconds)-at)
	w.must(!l.live(at), "message %d expires under a live lease", l.attempt.n)
	w.end(l, "expired", at)
	sh.totals.Expired++
}

// moved holds that what leaves here stands in the target's stream by the same commit.
func (w *witness) moved(sh *wShard, ev *events.Moved, arrivals map[events.MessageID]*letter) int {
	d := sh.ruling.DeadLetter
	w.must(ev.Reason == events.Redriven || d != nil && d.Queue == ev.Queue, "messages move to a queue that is not the dead-letter queue")
	for i, p := range ev.Items {
		l := w.find(sh, p, ev)
		if ev.Reason == events.Redriven {
			w.redriven(sh, l, ev.At)
		} else {
			w.must(sh.spent(l) && l.visible <= ev.At, "message %d moves after %d receives, at most %d are allowed", l.attempt.n, l.receives, d.Receives)
		}
		there := arrivals[l.id]
		w.must(there != nil, "message %d leaves its queue and arrives nowhere", l.attempt.n)
		w.must(there.shard.queue.id == ev.Queue && uint32(there.shard.index) == ev.Shard && there.position == ev.Position+events.Position(i) && there.attempt == l.attempt,
			"message %d arrives at another place than it was moved to", l.attempt.n)
		w.end(l, "moved", ev.At)
		w.letters[l.id] = there
		l.attempt.letter = there
		sh.totals.Moved++
	}
	return len(ev.Items)
}

// redriven holds that a move task takes nothing that is leased or not due, and nothing that follows such a one in its group.
func (w *witness) redriven(sh *wShard, l *letter, at events.Instant) {
	for _, x := range sh.alive {
		if x == l || l.group != "" && x.group == l.group && x.position < l.position {
			w.must(x.visible <= at || sh.past(x, at) && !x.live(at), "message %d is moved while message %d may not be", l.attempt.n, x.attempt.n)
		}
	}
}

func (w *witness) arrived(sh *wShard, ev *events.Arrived, arrivals map[events.MessageID]*letter) {
	for i, id := range ev.IDs {
		l := arrivals[id]
		w.must(l != nil && l.shard == sh && l.position == ev.Position+events.Position(i), "the ledger says that %s arrived, its stream does not", id)
	}
	sh.totals.Arrived += uint64(len(ev.IDs))
}

func (w *witness) purged(sh *wShard, ev *events.Purged) {
	n := uint64(0)
	for _, l := range slices.Clone(sh.alive) {
		if l.position < ev.To {
			w.end(l, "purged", ev.At)
			n++
		}
	}
	w.must(n == ev.Messages, "a purge says that it took %d messages, it was %d", ev.Messages, n)
	sh.totals.Purged += n
	sh.cursor = max(sh.cursor, ev.To)
}

// compare orders queues by id, which is the order of their creation.
func compare(a, b *wQueue) int { return bytes.Compare(a.id[:], b.id[:]) }

package audit

import (
	"fmt"
	"math"

	"github.com/leaselog/leaselog/internal/eventlog"
	"github.com/leaselog/leaselog/internal/local/store"
)

// folding is what one kind of stream is folded into.
type folding interface {
	// begin starts anew before the first entry, or from a snapshot.
	begin()
	load(snapshot []byte) error
	// apply checks an entry by itself and, where the fold has a state, applies it. It panics on a contradiction.
	apply(e eventlog.Entry, folded bool) error
	// differs says how the state differs from a snapshot, "" if it does not.
	differs(snapshot []byte) string
}

// walk is the way through one stream.
type walk struct {
	*audit
	at        Finding
	stream    eventlog.Stream
	into      folding
	drops     []store.Range
	snapshots []eventlog.Snapshot
	next      eventlog.Seq // where the next entry must stand
	folded    bool         // the fold has the state before next
	broken    bool         // damage was found, which explains why it has none
	writers   map[eventlog.Writer]eventlog.Seq
	count     int
}

// walk reads a stream from its first entry to its last, and gives where it ends and how many entries it has.
func (a *audit) walk(queue string, stream eventlog.Stream, into folding) *walk {
	w := &walk{audit: a, at: Finding{Queue: queue, Stream: string(stream)}, stream: stream, into: into,
		writers: map[eventlog.Writer]eventlog.Seq{}}
	w.drops = gather(w, a.Store.Drops(stream))
	w.snapshots = gather(w, a.Store.Snapshots(stream))
	a.report.Snapshots += len(w.snapshots)
	if len(w.drops) == 0 || w.drops[0].From > 0 {
		into.begin()
		w.folded = true
	}
	for e, err := range a.Store.Entries(stream) {
		w.entry(e, err)
	}
	w.compare(w.next)
	for _, s := range w.snapshots {
		w.finding(s.Seq, "there is a snapshot at %d, where no entry begins or ends", s.Seq)
	}
	return w
}

// gather collects what can be read, and notes what cannot.
func gather[T any](w *walk, all func(func(T, error) bool)) (out []T) {
	for v, err := range all {
		if err != nil {
			w.finding(0, "%v", err)
			continue
		}
		out = append(out, v)
	}
	return out
}

func (w *walk) finding(seq eventlog.Seq, format string, args ...any) {
	w.broken = true
	at := w.at
	at.Seq = uint64(seq)
	w.damage(at, format, args...)
}

// entry verifies one entry in its place.
func (w *walk) entry(e eventlog.Entry, err error) {
	w.report.Entries++
	w.count++
	if err != nil {
		w.finding(e.Seq, "%v", err)
		w.lose()
		if e.Stream != "" {
			w.next = math.MaxUint64 // unknown: its width did not decode
		}
		return
	}
	w.place(e)
	w.compare(e.Seq)
	if before, ok := w.writers[e.Writer]; ok {
		w.finding(e.Seq, "its commit has written entry %d as well", before)
	}
	w.writers[e.Writer] = e.Seq
	w.apply(e)
	w.next = e.Next()
}

// lose forgets the state: what follows cannot be folded until a snapshot.
func (w *walk) lose() { w.folded = false }

// place verifies that the entry follows the one before, or a range that was dropped.
func (w *walk) place(e eventlog.Entry) {
	switch {
	case w.next == math.MaxUint64 || w.next == e.Seq:
		return
	case e.Seq < w.next:
		w.finding(e.Seq, "it begins at %d inside the entry before, which ends at %d", e.Seq, w.next)
	case !w.dropped(w.next, e.Seq):
		w.finding(e.Seq, "nothing stands from %d to %d, and no drop is recorded there: entries are lost", w.next, e.Seq)
	}
	w.lose()
}

func (w *walk) dropped(from, to eventlog.Seq) bool {
	for _, d := range w.drops {
		if d.From <= from && d.To >= to {
			return true
		}
	}
	return false
}

// compare takes the snapshots up to a place: one that stands there is compared with the state, or becomes it.
func (w *walk) compare(seq eventlog.Seq) {
	for len(w.snapshots) > 0 && w.snapshots[0].Seq <= seq {
		s := w.snapshots[0]
		w.snapshots = w.snapshots[1:]
		switch {
		case s.Seq < seq:
			if !w.dropped(s.Seq, seq) && w.next != math.MaxUint64 {
				w.finding(s.Seq, "there is a snapshot at %d, inside of an entry", s.Seq)
			}
		case w.folded:
			w.report.Compared++
			if how := w.into.differs(s.Data); how != "" {
				w.finding(s.Seq, "the snapshot is not what the entries before it give: %s", how)
			}
		default:
			if err := w.guard(func() error { return w.into.load(s.Data) }); err != nil {
				w.finding(s.Seq, "the snapshot does not load: %v", err)
			} else {
				w.folded = true
			}
		}
	}
}

func (w *walk) apply(e eventlog.Entry) {
	if err := w.guard(func() error { return w.into.apply(e, w.folded) }); err != nil {
		w.finding(e.Seq, "%v", err)
		w.lose()
	}
}

// guard makes an error of what the rules panic about: an entry that contradicts the state.
func (w *walk) guard(f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("it contradicts what stands before it: %v", p)
		}
	}()
	return f()
}

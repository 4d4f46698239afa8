package sim

import (
	"context"
	"encoding/hex"
	"fmt"
	"slices"

	"github.com/leaselog/leaselog/events"
	"github.com/leaselog/leaselog/internal/broker"
	"github.com/leaselog/leaselog/internal/fault"
)

// hold is a lease as its holder knows it.
type hold struct {
	queue    *known
	attempt  *attempt
	receipt  string
	lease    events.LeaseID
	receives uint32
	until    events.Instant // the holder may rely on it until then, in true time
	extends  int            // asked for so far
	asking   int            // of them without an answer
}

// view is what the witness knew of a queue when a command began.
type view struct {
	at      events.Instant
	changes map[*wShard]int
}

// look remembers how a queue stands now.
func (w *witness) look(k *known) view {
	v := view{at: w.now(), changes: map[*wShard]int{}}
	if q := w.queues[k.id]; q != nil {
		for _, sh := range q.shards {
			v.changes[sh] = sh.changes
		}
	}
	return v
}

// living gives the messages that are in a queue now.
func (w *witness) living(k *known) (all []*letter) {
	for _, sh := range w.queues[k.id].sorted() {
		all = append(all, sh.alive...)
	}
	return all
}

// may holds that an error is one that this command may give now.
func (s *simulation) may(ctx context.Context, err error, codes ...fault.Code) {
	c := ctx.Value(commandKey{}).(*command)
	shaky := s.Faults > 0 || c.life.ending
	if c.kind() == "peek" && s.Maintains {
		shaky = true // it reads beside the runner, and what it is about to read may be dropped just then
	}
	f := fault.Of(err)
	s.count(c.kind() + " answered " + string(f.Code))
	switch {
	case slices.Contains(codes, f.Code):
	case f.Code == fault.Unavailable && (shaky || c.left):
	case f.Code == fault.KeyLost && s.seen["keys turned"] > 0:
	case f.Code == fault.Unconfirmed && (shaky || c.left):
	default:
		s.failf("%s was answered: %v", c.name, err)
	}
}

// notFound allows that a queue is not found once its deletion was asked for.
func (s *simulation) notFound(k *known) []fault.Code {
	if k.deleting {
		return []fault.Code{fault.NotFound}
	}
	return nil
}

// floor gives for each group the last position that was answered, per shard.
func (s *simulation) floor(k *known) map[string]events.Position {
	last := map[string]events.Position{}
	for _, a := range s.attempts {
		if a.queue == k.id && a.answer == sentAnswer && a.letter.shard.queue.id == k.id {
			last[a.group] = max(last[a.group], a.letter.position)
		}
	}
	return last
}

// sent judges the answer to one message.
func (s *simulation) sent(ctx context.Context, k *known, a *attempt, r broker.Sent, floor map[string]events.Position) {
	c := ctx.Value(commandKey{}).(*command)
	s.note("send %d: %s%s", a.n, map[bool]string{true: "duplicate "}[r.Duplicate], errText(r.Err))
	if r.Err != nil {
		s.may(ctx, r.Err, append(s.notFound(k), fault.Limit)...)
		if !fault.Is(r.Err, fault.Unconfirmed) {
			a.answer = refusedAnswer
			s.must(a.letter == nil, "message %d was refused (%v), and is there", a.n, r.Err)
		}
		return
	}
	l := s.witness.letters[r.ID]
	s.must(l != nil, "message %d was answered with success, and is not in the log", a.n)
	if r.Duplicate {
		a.answer = duplicateAnswer
		s.count("duplicate")
		s.must(a.letter == nil, "message %d was answered as a duplicate, and is there", a.n)
		s.repeats(k, a, l, c)
		return
	}
	a.answer = sentAnswer
	s.count("sent")
	s.must(l.attempt == a, "message %d was answered with the id of message %d", a.n, l.attempt.n)
	if p, ok := floor[a.group]; ok && k.fifo && a.letter.shard.queue.id == k.id {
		s.must(a.letter.position > p, "message %d was sent after one at %d was answered, and is before it", a.n, p)
	}
}

func errText(err error) string {
	if err == nil {
		return "ok"
	}
	return err.Error()
}

// repeats judges that a message was rightly called a repetition of another.
func (s *simulation) repeats(k *known, a *attempt, l *letter, c *command) {
	first := l
	for first.before != nil {
		first = first.before
	}
	b := first.attempt
	same := a.dedup == b.dedup
	if a.dedup == "" || b.dedup == "" {
		same = a.dedup == b.dedup && a.body == b.body
	}
	settings := first.shard.sending
	if settings.DedupScope == events.DedupGroup {
		same = same && a.group == b.group
	}
	s.must(same && b.queue == k.id, "message %d was called a duplicate of message %d", a.n, b.n)
	s.must(first.sent.Add(settings.DedupSeconds) > c.began-s.Clocks.slack(), "message %d was called a duplicate of message %d, whose window had ended", a.n, b.n)
}

// delivered judges one message that was handed out.
func (s *simulation) delivered(ctx context.Context, k *known, d *broker.Delivery, atOnce bool) {
	c := ctx.Value(commandKey{}).(*command)
	l := s.witness.letters[d.ID]
	s.must(l != nil, "a message was delivered that is not in the log")
	a := l.attempt
	s.must(string(d.Message.Body) == a.body && d.Message.Group == a.group, "message %d came with another body", a.n)
	h := &hold{queue: k, attempt: a, receipt: d.Receipt, lease: leaseOf(d.Receipt), receives: d.Receives, until: d.Visible - s.Clocks.slack()}
	l = h.in()
	s.must(l != nil && l.shard.queue.id == k.id, "message %d came with a lease that the log does not have", a.n)
	s.must(int(d.Receives) <= len(l.leases) && l.leases[d.Receives-1] == h.lease, "message %d came as received %d times, which is not so", a.n, d.Receives)
	s.note("  message %d, receive %d, until %.3f", a.n, d.Receives, float64(d.Visible-epoch)/1000)
	s.must(!a.acked || atOnce && c.began <= a.ackedAt || s.Clocks != right && c.began <= a.ackedAt, "message %d came again after its ack was answered", a.n)
	if atOnce {
		h.until = 0
	} else if s.Clocks == right {
		s.must(d.Visible > s.now(), "message %d came with a lease that has ended", a.n)
		s.must(l.fate == "" || l.fate == "purged", "message %d came, and was %s already", a.n, l.fate)
	}
	s.alone(h, atOnce)
	s.count("delivered")
	s.held = append(s.held, h)
	if len(s.held) > 40 {
		s.held = s.held[1:]
	}
}

// leaseOf reads the lease id out of a receipt.
func leaseOf(receipt string) (id events.LeaseID) {
	b, err := hex.DecodeString(receipt)
	if err == nil {
		copy(id[:], b[42:])
	}
	return id
}

// alone holds that nobody else holds a lease on the message, nor on another of its group where that is not allowed.
func (s *simulation) alone(h *hold, atOnce bool) {
	if atOnce || h.until <= s.now() {
		return
	}
	for _, other := range s.held {
		if other.until <= s.now() || other.attempt.acked || other.lease == h.lease || other.queue != h.queue {
			continue
		}
		l := other.attempt.letter
		if l.fate != "" || l.shard.queue.id != h.queue.id {
			continue // purged or expired: its holder relies on nothing
		}
		s.must(other.attempt != h.attempt, "message %d is held twice, by the other until %.3f", h.attempt.n, float64(other.until-epoch)/1000)
		overtakes := l.position < h.attempt.letter.position || h.queue.name.spec.Settings.Delivery == events.OnePerGroup
		s.must(!h.queue.fifo || other.attempt.group != h.attempt.group || !overtakes, "messages %d and %d of one group are held at once", other.attempt.n, h.attempt.n)
	}
}

// in gives the message as it is or was where the lease was given: by moves it may have come back to the same queue.
func (h *hold) in() *letter {
	l := h.attempt.letter
	for l != nil && !slices.Contains(l.leases, h.lease) {
		l = l.before
	}
	return l
}

// acked judges the answer to an ack.
func (s *simulation) acked(ctx context.Context, h *hold, err error) {
	l, n := h.in(), h.attempt.n
	mine := l.fate == "acked" && l.endedBy == h.lease
	c := ctx.Value(commandKey{}).(*command)
	switch {
	case err == nil:
		s.must(mine, "the ack of message %d was answered, and the log does not have it (%s)", n, l.fate)
		s.count("acked")
		if !h.attempt.acked {
			h.attempt.acked, h.attempt.ackedAt = true, s.now()
		}
	case fault.Is(err, fault.LeaseEnded):
		s.count("ack refused")
		s.must(!mine || l.changed > c.before || s.now()-l.ended > 290_000-s.Clocks.slack(), "message %d was acked by this lease just now, and its ack is refused", n)
		s.holds(c, h, l, "ack")
	default:
		s.may(ctx, err, s.notFound(h.queue)...)
	}
}

// extended judges the answer to an extension. Only one that was alone says when the lease ends.
func (s *simulation) extended(ctx context.Context, h *hold, seconds uint32, alone bool, err error) {
	l, n := h.in(), h.attempt.n
	c := ctx.Value(commandKey{}).(*command)
	switch {
	case err == nil:
		s.must(l.fate != "" || l.touched >= h.receives, "message %d was extended, and the log does not have it", n)
		if seconds > 0 && h.until > 0 && alone {
			h.until = c.began.Add(seconds) - s.Clocks.slack()
		}
	case fault.Is(err, fault.LeaseEnded):
		h.until = 0
		s.holds(c, h, l, "extension")
	default:
		s.may(ctx, err, s.notFound(h.queue)...)
	}
}

// holds fails when a lease was live all the time that is called ended.
func (s *simulation) holds(c *command, h *hold, l *letter, what string) {
	live := l.fate == "" && l.changed <= c.before && l.leases[len(l.leases)-1] == h.lease && l.live(s.now()+s.Clocks.slack())
	s.must(!live, "the %s of message %d is refused, and its lease lives until %.3f", what, h.attempt.n, float64(l.visible-epoch)/1000)
}

// updated judges that settings are in force after the answer.
func (s *simulation) updated(k *known, u broker.UpdateQueue) {
	for _, sh := range s.witness.queues[k.id].sorted() {
		for _, f := range []struct {
			want *uint32
			have uint32
		}{{u.LeaseSeconds, sh.ruling.LeaseSeconds}, {u.RetentionSeconds, sh.ruling.RetentionSeconds}, {u.DelaySeconds, sh.sending.DelaySeconds}} {
			s.must(f.want == nil || *f.want == f.have, "an update was answered, and shard %d does not have it", sh.index)
		}
	}
}

// empty judges an answer without messages: what could be delivered all the time must have been.
func (s *simulation) empty(l *life, k *known, before view, waited bool) {
	if waited && s.Faults > 0 && len(before.changes) > 1 {
		return // a poll ends in time, also where one of its shards waits for the store
	}
	if l.ending {
		return // a broker that stops ends its long polls with nothing
	}
	if s.Clocks == wrong {
		return // what was sent or released by a clock that was ahead comes later by one that is not
	}
	for _, sh := range s.witness.queues[k.id].sorted() {
		if before.changes[sh] != sh.changes {
			continue
		}
		slack := s.Clocks.slack()
		s.count("nothing received, judged")
		if x := sh.deliverable(before.at-slack, s.now()+slack, s.Limits.InFlight, s.Limits.LookAhead); x != nil {
			s.failf("nothing was received from %s, and %s can be delivered", k.name.text, x)
		}
	}
}

// deliverable gives a message that any receive between two instants must find.
func (sh *wShard) deliverable(from, to events.Instant, inFlight, lookAhead int) *letter {
	live, ahead := 0, 0
	groups := map[string]bool{}
	for _, l := range sh.alive {
		if l.leased && l.visible > from {
			live++
		}
		if l.position >= sh.cursor || l.receives == 0 {
			ahead++
		}
	}
	if live >= inFlight || sh.ruling.Fifo && ahead > lookAhead {
		return nil
	}
	for _, l := range sh.alive {
		first := !groups[l.group]
		groups[l.group] = sh.ruling.Fifo
		if first && l.due <= from && l.visible <= from && !sh.past(l, to) && !sh.spent(l) {
			return l
		}
	}
	return nil
}

// counted judges a depth that was taken while nothing changed.
func (s *simulation) counted(l *life, k *known, before view, got broker.Counts) {
	var want broker.Counts
	if s.Clocks != right || before.at != s.now() {
		return
	}
	for _, sh := range s.witness.queues[k.id].sorted() {
		if before.changes[sh] != sh.changes {
			return
		}
		for _, x := range sh.alive {
			spent := sh.spent(x) && x.visible <= s.now() && !sh.past(x, x.visible)
			switch {
			case x.live(s.now()):
				want.InFlight++
			case sh.past(x, s.now()) && !spent:
			case x.visible > s.now():
				want.Delayed++
			default:
				want.Available++
			}
		}
	}
	s.count("depth judged")
	s.must(got == want, "the depth of %s is %+v, by the log it is %+v", k.name.text, got, want)
}

// judge holds what must be true after every step.
func (s *simulation) judge() {
	if s.steps%64 == 0 {
		s.check()
	}
}

func (l *letter) String() string {
	return fmt.Sprintf("message %d (at %d, received %d times, leased %t, visible %.3f, due %.3f)", l.attempt.n, l.position, l.receives, l.leased,
		float64(max(0, l.visible-epoch))/1000, float64(max(0, l.due-epoch))/1000)
}

func (h *hold) String() string { return fmt.Sprintf("%d/%d", h.attempt.n, h.receives) }

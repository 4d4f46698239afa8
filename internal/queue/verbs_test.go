package queue_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/leaselog/leaselog/events"
	"github.com/leaselog/leaselog/internal/queue"
)

// script is a world that is spoken to in words. Messages are called m and their position, leases L and their number.
type script struct {
	*world
	leases map[string]events.LeaseID
	latest map[events.Position]string // the last lease of each message
}

// began is the instant zero of the transcripts.
const began events.Instant = 1_700_000_000_000

func newScript() *script {
	return &script{world: newWorld(queue.DefaultLimits, began), leases: map[string]events.LeaseID{}, latest: map[events.Position]string{}}
}

// words are the arguments of a command: those with = by name, the others in order.
type words struct {
	t     *testing.T
	named map[string]string
	plain []string
}

func parse(t *testing.T, fields []string) words {
	a := words{t: t, named: map[string]string{}}
	for _, f := range fields {
		if name, value, ok := strings.Cut(f, "="); ok {
			a.named[name] = value
		} else {
			a.plain = append(a.plain, f)
		}
	}
	return a
}

func (a words) number(name string, otherwise int) int {
	v, ok := a.named[name]
	if !ok {
		return otherwise
	}
	n, err := strconv.Atoi(v)
	if err != nil {
		a.t.Fatalf("%s=%s is no number", name, v)
	}
	return n
}

func (a words) has(word string) bool {
	for _, w := range a.plain {
		if w == word {
			return true
		}
	}
	return false
}

// run runs one command and gives the lines of its answer.
func (s *script) run(t *testing.T, line string) []string {
	verb, rest, _ := strings.Cut(line, " ")
	a := parse(t, strings.Fields(rest))
	switch verb {
	case "limits":
		return s.setLimits(a)
	case "create", "configure":
		return s.configureQueue(a)
	case "at":
		return s.setClock(a)
	case "send", "arrive":
		return s.sendAll(t, verb, rest)
	case "key":
		s.key = uint32(a.number("version", 0))
		return nil
	case "lease":
		return s.leaseOut(a)
	case "ack":
		return s.ackAll(a)
	case "extend", "release":
		return s.extendAll(a, verb)
	case "purge":
		return s.purgeAll(a)
	case "anchor":
		return s.anchor()
	case "expire":
		return s.expireSome(a)
	case "exhausted":
		return s.showExhausted()
	case "move":
		return s.moveExhausted(a)
	case "depth":
		return s.showDepth()
	case "next":
		return []string{"visible " + when(s.ledger.NextVisible(s.at())) + ", due " + when(s.sender.NextDue(s.at())) +
			", exhausted " + when(s.ledger.NextExhausted())}
	case "remembered":
		return []string{fmt.Sprint(s.sender.Remembered())}
	case "state":
		return s.showState()
	}
	t.Fatalf("no such verb: %s", line)
	return nil
}

func (s *script) setLimits(a words) []string {
	d := queue.DefaultLimits
	*s = *newScript()
	s.world = newWorld(queue.Limits{InFlight: a.number("inflight", d.InFlight), LookAhead: a.number("lookahead", d.LookAhead),
		Passed: a.number("passed", d.Passed), Delayed: a.number("delayed", d.Delayed)}, began)
	return nil
}

// setClock sets the clock (at 10s), moves it (at +10s, at -1ms), and says at which instant a command is decided now.
func (s *script) setClock(a words) []string {
	d, err := time.ParseDuration(a.plain[0])
	if err != nil {
		a.t.Fatal(err)
	}
	if c := a.plain[0][0]; c == '+' || c == '-' {
		s.now += events.Instant(d.Milliseconds())
	} else {
		s.now = began + events.Instant(d.Milliseconds())
	}
	if s.at() != s.now {
		return []string{"decided at " + when(s.at()) + ", since the log is there"}
	}
	return nil
}

var defaults = events.Settings{MaxBytes: 1000, RetentionSeconds: 345_600, LeaseSeconds: 30}

// configureQueue changes what is named: fifo, fit, dedup, scope, content, retention, delay, max, dead, status.
func (s *script) configureQueue(a words) []string {
	v := s.ledger.Settings
	if s.ledger.Version == 0 {
		v = defaults
	}
	number := func(field *uint32, name string) { *field = uint32(a.number(name, int(*field))) }
	number(&v.DedupSeconds, "dedup")
	number(&v.RetentionSeconds, "retention")
	number(&v.DelaySeconds, "delay")
	number(&v.MaxBytes, "max")
	v.Fifo = v.Fifo || a.has("fifo")
	v.ContentDedup = v.ContentDedup || a.has("content")
	if a.has("fit") {
		v.Delivery = events.AsManyAsFit
	}
	v.DedupScope = events.DedupScope(a.number("scope", int(v.DedupScope)))
	v.Status = events.Status(a.number("status", int(v.Status)))
	if n := a.number("dead", -1); n > 0 {
		v.DeadLetter = &events.DeadLetter{Queue: events.QueueID{7}, Receives: uint32(n), Gone: a.has("gone")}
	} else if n == 0 {
		v.DeadLetter = nil
	}
	d := s.world.configure(uint64(a.number("version", int(s.ledger.Version)+1)), v)
	return s.tell(d.Events)
}

// sendAll sends one block; its messages are divided by /. Words: bytes=, group=, id=, content=, delay=; for arrive age=
// and enqueued, where retention goes on.
func (s *script) sendAll(t *testing.T, verb, rest string) (answers []string) {
	var out []queue.Outgoing
	for _, part := range strings.Split(rest, "/") {
		a := parse(t, strings.Fields(part))
		o := queue.Outgoing{Size: a.number("bytes", 1), Group: hash("group", a.named["group"]), Dedup: hash("id", a.named["id"]),
			Content: hash("id", a.named["content"])}
		if d := a.number("delay", -1); d >= 0 {
			o.DelaySeconds = new(uint32(d))
		}
		if verb == "arrive" {
			o.Origin = &events.Origin{Enqueued: s.at() - events.Instant(a.number("age", 0))*1000, FromEnqueued: a.has("enqueued")}
		}
		out = append(out, o)
	}
	for _, r := range s.send(out...) {
		switch {
		case r.err != nil:
			answers = append(answers, "refused "+r.err.Error())
		case r.Duplicate:
			answers = append(answers, fmt.Sprintf("duplicate of m%d", r.Position))
		default:
			answers = append(answers, fmt.Sprintf("m%d", r.Position))
		}
	}
	if verb == "arrive" {
		answers = append(answers, s.answer(s.decide(&queue.Arrive{At: s.at(), IDs: make([]events.MessageID, len(out))}))...)
	}
	return answers
}

// leaseOut leases max=1 messages for=30 seconds, but none under the lost= key, each time from as many blocks=, again as long as the rules say so.
func (s *script) leaseOut(a words) (answers []string) {
	name := fmt.Sprintf("L%d", len(s.leases)+1)
	c := &queue.Lease{At: s.at(), ID: s.lease(), Until: s.at().Add(uint32(a.number("for", 30))), Max: a.number("max", 1)}
	if lost := a.number("lost", 0); lost > 0 {
		c.Lost, c.PassLost = map[uint32]bool{uint32(lost): true}, a.has("pass")
	}
	s.leases[name] = c.ID
	for n := a.number("blocks", len(s.blocks)); ; n++ {
		c.Window = s.window(n)
		d, err := s.decide(c)
		for _, p := range leasesOf(d.Events) {
			s.latest[p] = name
		}
		answers = append(answers, s.answer(d, err)...)
		switch {
		case d.Need != nil:
			answers = append(answers, fmt.Sprintf("needs what stands from %d on", d.Need.From))
		case d.Again:
			answers = append(answers, "again")
		default:
			return answers
		}
	}
}

func (s *script) answer(d queue.Decision, err error) []string {
	if err != nil {
		return []string{"refused " + err.Error()}
	}
	if len(d.Events) == 0 && d.Need == nil && d.Items == nil {
		return []string{"nothing"}
	}
	return s.tell(d.Events)
}

// held reads m3 (under its last lease) and m3@L1.
func (s *script) held(t *testing.T, word string) queue.Held {
	name, lease, named := strings.Cut(word, "@")
	n, err := strconv.Atoi(strings.TrimPrefix(name, "m"))
	if err != nil {
		t.Fatalf("%s is no message", word)
	}
	p := events.Position(n)
	if !named {
		lease = s.latest[p]
	}
	return queue.Held{Position: p, Lease: s.leases[lease]}
}

func (a words) messages() (all []string) {
	for _, w := range a.plain {
		if strings.HasPrefix(w, "m") {
			all = append(all, w)
		}
	}
	return all
}

var outcomes = map[queue.Outcome]string{queue.Done: "done", queue.Ended: "lease ended", queue.Finished: "finished before"}

func (s *script) outcomes(d queue.Decision, err error, names []string) []string {
	answers := s.answer(d, err)
	for i, o := range d.Items {
		answers = append(answers, names[i]+": "+outcomes[o])
	}
	return answers
}

func (s *script) ackAll(a words) []string {
	c := &queue.Ack{At: s.at(), Lapsed: a.has("lapsed")}
	for _, m := range a.messages() {
		c.Items = append(c.Items, s.held(a.t, m))
	}
	d, err := s.decide(c)
	return s.outcomes(d, err, a.messages())
}

func (s *script) extendAll(a words, verb string) []string {
	c := &queue.Extend{At: s.at(), Lapsed: a.has("lapsed")}
	n := 0
	if verb == "extend" {
		n = a.number("for", 30)
	}
	for _, m := range a.messages() {
		c.Items = append(c.Items, queue.Extension{Held: s.held(a.t, m), Seconds: uint32(n)})
	}
	d, err := s.decide(c)
	return s.outcomes(d, err, a.messages())
}

package broker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/leaselog/leaselog/events"
	"github.com/leaselog/leaselog/internal/fault"
)

// scene is what a use case works on: two queues, the second of which is the first one's dead-letter queue where the
// use case wants that, and leases that were given before.
type scene struct {
	*world
	k       kind
	b       *Broker // the one that is asked; another one after a crash
	q, dead events.QueueID
	held    []Delivery
	coarse  bool
	task    TaskID
}

// useCase is a command with all that it takes to try it under faults.
type useCase struct {
	name  string
	setup func(s *scene)
	act   func(ctx context.Context, s *scene) error
	// steps is true where several commits make the effect, so that between them it is there in part.
	steps func(k kind) bool
	// parts is true where every shard does its part and answers for itself, so that nobody finishes the others.
	parts bool
	// coarse is true where it is open which messages are chosen, so that only their number counts.
	coarse bool
	// inner is true for what the host does, and no user waits for.
	inner bool
	// ticked is true where it is part of what the host does again and again.
	ticked bool
	// repeated lists the faults that mean, of a command that is repeated, that it was done before.
	repeated []fault.Code
}

func always(kind) bool   { return true }
func spread(k kind) bool { return k.shards > 1 }

// longest is a lease that outlives every fault of these tests.
const longest = 43_200

var useCases = []useCase{
	{name: "create", act: func(ctx context.Context, s *scene) error { return s.make(ctx, "new", nil) }, repeated: []fault.Code{fault.Exists}},
	{name: "create with dead letter", act: func(ctx context.Context, s *scene) error {
		return s.make(ctx, "new", &DeadLetter{Queue: Ref{Account: "a", ID: s.dead}, Receives: 3})
	}, repeated: []fault.Code{fault.Exists}},
	{name: "send", act: func(ctx context.Context, s *scene) error { return s.add(ctx, "g:x", "h:y") }},
	{name: "send to some", setup: func(s *scene) { s.send(s.q, "g:a", "h:b") }, act: func(ctx context.Context, s *scene) error { return s.add(ctx, "g:x", "h:y") }},
	{name: "receive", setup: func(s *scene) { s.send(s.q, "g:a", "h:b", "g:c") }, act: take(1), coarse: true},
	{name: "receive many", setup: func(s *scene) { s.fillAll(9) }, act: take(10), coarse: true},
	{name: "ack", setup: holding(1), act: finish, repeated: []fault.Code{fault.LeaseEnded}},
	{name: "ack many", setup: holding(9), act: finish, steps: spread, parts: true, repeated: []fault.Code{fault.LeaseEnded}},
	{name: "extend", setup: holding(2), act: extendTo(20_000), steps: spread, parts: true},
	{name: "release", setup: holding(2), act: extendTo(0), steps: spread, parts: true, repeated: []fault.Code{fault.LeaseEnded}},
	{name: "update", setup: holding(2), act: func(ctx context.Context, s *scene) error {
		_, err := s.b.Update(ctx, UpdateQueue{Queue: s.q, MaxBytes: seconds(2048)})
		return err
	}, steps: always},
	{name: "update dead letter", setup: holding(2), act: func(ctx context.Context, s *scene) error {
		_, err := s.b.Update(ctx, UpdateQueue{Queue: s.q, DeadLetter: &DeadLetter{Queue: Ref{Account: "a", ID: s.dead}, Receives: 1}})
		return err
	}, steps: always},
	{name: "re-key", setup: holding(2), act: func(ctx context.Context, s *scene) error {
		_, err := s.b.Update(ctx, UpdateQueue{Queue: s.q, Key: new("blue")})
		return err
	}, steps: always},
	{name: "rotate", setup: func(s *scene) {
		s.fillAll(2)
		time.Sleep(25 * time.Hour)
	}, inner: true, act: func(ctx context.Context, s *scene) error { return s.b.Maintain(ctx, History{}) }, steps: always},
	{name: "purge", setup: holding(5), act: func(ctx context.Context, s *scene) error {
		_, err := s.b.Purge(ctx, s.q)
		return err
	}, steps: spread},
	{name: "delete", setup: holding(5), act: remove(func(s *scene) events.QueueID { return s.q }), steps: always, repeated: []fault.Code{fault.NotFound}},
	{name: "delete dead letter", setup: pointed(5, 2), act: remove(func(s *scene) events.QueueID { return s.dead }), steps: always, repeated: []fault.Code{fault.NotFound}},
	{name: "move", setup: pointed(3, 1), inner: true, act: func(ctx context.Context, s *scene) error { return s.b.Tick(ctx) }, steps: always},
	{name: "start a move", setup: gathered, act: func(ctx context.Context, s *scene) error {
		_, err := s.b.StartMove(ctx, StartMove{Queue: s.dead})
		return err
	}, repeated: []fault.Code{fault.Limit}},
	{name: "cancel a move", setup: redriving, act: func(ctx context.Context, s *scene) error {
		_, err := s.b.CancelMove(ctx, s.dead, s.task)
		return err
	}},
	{name: "redrive", setup: redriving, inner: true, ticked: true, act: func(ctx context.Context, s *scene) error { return s.redrive(ctx, s.b) }, steps: always},
	{name: "maintain", setup: old, inner: true, act: func(ctx context.Context, s *scene) error {
		return s.b.Maintain(ctx, History{Before: s.now()})
	}, steps: always},
}

func (s *scene) make(ctx context.Context, name string, d *DeadLetter) error {
	_, err := s.b.Create(ctx, CreateQueue{Account: "a", Name: name, Settings: s.settings(), DeadLetter: d})
	return err
}

func (s *scene) settings() events.Settings {
	c := settings(s.k.fifo)
	c.LeaseSeconds = longest
	if s.k.fifo {
		c.DedupSeconds = 3600
	}
	return c
}

func (s *scene) add(ctx context.Context, texts ...string) error {
	sent, err := s.b.Send(ctx, s.q, out(texts...))
	for _, x := range sent {
		err = errors.Join(err, x.Err)
	}
	return err
}

func (s *scene) fillAll(n int) {
	all, _ := groups(n)
	for _, text := range all {
		s.send(s.q, text)
	}
}

func take(most int) func(context.Context, *scene) error {
	return func(ctx context.Context, s *scene) error {
		_, err := s.b.Receive(ctx, Receive{Queue: s.q, Max: most, WaitSeconds: seconds(0)})
		return err
	}
}

// holding sends n messages and leases every one.
func holding(n int) func(s *scene) {
	return func(s *scene) {
		s.fillAll(n)
		for range s.k.shards {
			s.held = append(s.held, s.receiveBy(s.b, Receive{Queue: s.q, Max: 10, LeaseSeconds: seconds(longest), WaitSeconds: seconds(0)})...)
		}
	}
}

// pointed sends messages to a queue with a dead-letter queue, and receives them once.
func pointed(n int, most uint32) func(s *scene) {
	return func(s *scene) {
		if _, err := s.b.Update(s.ctx, UpdateQueue{Queue: s.q, DeadLetter: &DeadLetter{Queue: Ref{Account: "a", ID: s.dead}, Receives: most}}); err != nil {
			s.t.Fatal(err)
		}
		s.fillAll(n)
		s.exhaust(s.q, 1)
	}
}

// gathered leaves messages in the dead-letter queue, and one that was sent there.
func gathered(s *scene) {
	pointed(3, 1)(s)
	s.tick()
	s.send(s.dead, "g:direct")
}

// redriving has a move task that has not moved anything yet.
func redriving(s *scene) {
	gathered(s)
	m, err := s.b.StartMove(s.ctx, StartMove{Queue: s.dead})
	if err != nil {
		s.t.Fatal(err)
	}
	s.task = m.ID
}

// redrive advances move tasks for as long as there is something to do at once.
func (w *world) redrive(ctx context.Context, b *Broker) error {
	for {
		if next, err := b.Moves(ctx); err != nil || next > b.Now() {
			return err
		}
	}
}

// old leaves history behind that is finished and old, and one message that is not.
func old(s *scene) {
	s.fillAll(6)
	s.drain(s.q)
	s.send(s.q, "z:last")
	time.Sleep(time.Hour)
}

func finish(ctx context.Context, s *scene) error {
	results, err := s.b.Ack(ctx, s.q, receipts(s.held))
	return errors.Join(append(results, err)...)
}

func extendTo(n uint32) func(context.Context, *scene) error {
	return func(ctx context.Context, s *scene) error {
		var items []Extend
		for _, d := range s.held {
			items = append(items, Extend{d.Receipt, n})
		}
		results, err := s.b.Extend(ctx, s.q, items)
		return errors.Join(append(results, err)...)
	}
}

func remove(which func(s *scene) events.QueueID) func(context.Context, *scene) error {
	return func(ctx context.Context, s *scene) error { return s.b.Delete(ctx, Ref{Account: "a", ID: which(s)}) }
}

// digest is all that a user can see, but for ids and instants, by one broker.
func (s *scene) digest(b *Broker) string {
	var lines []string
	for _, name := range []string{"q", "dead", "new"} {
		id, ok, err := b.readName(s.ctx, "a", name)
		if err != nil {
			return "error: " + err.Error()
		}
		if !ok {
			lines = append(lines, name+": none")
			continue
		}
		q, err := b.Describe(s.ctx, id)
		if err != nil {
			return "error: " + err.Error()
		}
		lines = append(lines, fmt.Sprintf("%s: max %d, key %q, dead letter %q of %v, %d sources, %+v", name, q.Settings.MaxBytes, q.Key.Name, q.DeadLetterName,
			q.Settings.DeadLetter != nil, len(q.Sources), q.Depth.Counts))
		if !s.coarse {
			lines = append(lines, s.rows(b, id)...)
		}
		tasks, _, err := b.ListMoves(s.ctx, ListMoves{Queue: id, Limit: 100})
		if err != nil {
			return "error: " + err.Error()
		}
		for _, m := range tasks {
			lines = append(lines, fmt.Sprintf("  move %s: %d of %d, %d skipped, %d failed, %d waiting: %s", m.State, m.Moved, m.Total, m.Skipped, m.Failed, m.Waiting, strings.ReplaceAll(m.Reason, s.q.String(), "Q")))
		}
	}
	return strings.Join(lines, "\n")
}

func (s *scene) rows(b *Broker, id events.QueueID) (rows []string) {
	page, err := b.Peek(s.ctx, Peek{Queue: id, Limit: 100})
	if err != nil {
		return []string{"error: " + err.Error()}
	}
	for _, r := range page.Rows {
		hours := max(0, (r.Visible-s.now()+3_599_999)/3_600_000)
		rows = append(rows, fmt.Sprintf("  %s %s, received %d times, visible in %d hours, moved %v", r.Message.Body, r.Visibility, r.Receives, hours, r.Origin != nil))
	}
	slices.Sort(rows)
	return rows
}

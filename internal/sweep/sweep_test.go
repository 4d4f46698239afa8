package sweep_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/leaselog/leaselog/events"
	"github.com/leaselog/leaselog/internal/broker"
	"github.com/leaselog/leaselog/internal/eventlog"
	"github.com/leaselog/leaselog/internal/eventlog/eventlogtest"
	"github.com/leaselog/leaselog/internal/local/keys"
	"github.com/leaselog/leaselog/internal/sweep"
	"github.com/leaselog/leaselog/internal/views"
	"github.com/leaselog/leaselog/projections"
)

// world is a log with brokers on it, as processes of a deployment, in the virtual time of a synctest bubble.
type world struct {
	*testing.T
	mem   *eventlog.Memory
	log   *eventlogtest.Faulty
	keys  *keys.Keys
	views *projections.Memory
	all   []*broker.Broker
}

func inWorld(t *testing.T, test func(w *world)) {
	t.Helper()
	k, err := keys.Open(filepath.Join(t.TempDir(), "key"))
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		mem := eventlog.NewMemory()
		w := &world{T: t, mem: mem, log: eventlogtest.NewFaulty(mem), keys: k, views: projections.NewMemory()}
		test(w)
		for _, b := range w.all {
			b.Close()
		}
		if err := eventlogtest.Check(t.Context(), mem, mem.Streams()...); err != nil {
			t.Error(err)
		}
	})
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// site starts a process and gives what its chores work on.
func (w *world) site() sweep.Site {
	w.Helper()
	b, err := broker.New(broker.Config{Log: w.log, Keys: w.keys, Rand: rand.Reader, Deployment: "test", ReceiptKey: w.keys.Secret("receipts"),
		Now: func() events.Instant { return events.Instant(time.Now().UnixMilli()) }, Unattended: true,
		Buried: (&views.Follower{Store: w.views, Projections: projections.All()}).Bury})
	w.must(err)
	w.all = append(w.all, b)
	return sweep.Site{Broker: b, Cloud: true, Views: w.views, Keeps: projections.All()}
}

func (w *world) create(b *broker.Broker, name, dead string, retention uint32) events.QueueID {
	w.Helper()
	c := broker.CreateQueue{Account: "a", Name: name, Settings: events.Settings{LeaseSeconds: 30, RetentionSeconds: retention, MaxBytes: 1024, KeyReuseSeconds: 300}}
	if dead != "" {
		c.DeadLetter = &broker.DeadLetter{Queue: broker.Ref{Account: "a", Name: dead}, Receives: 1}
	}
	q, err := b.Create(w.Context(), c)
	w.must(err)
	return q.ID
}

func (w *world) send(b *broker.Broker, q events.QueueID, n int) {
	w.Helper()
	for n > 0 {
		out := make([]broker.Outgoing, min(n, 10))
		for i := range out {
			out[i].Message = events.Message{Body: []byte("x")}
		}
		sent, err := b.Send(w.Context(), q, out)
		w.must(err)
		for _, s := range sent {
			w.must(s.Err)
		}
		n -= len(out)
	}
}

func (w *world) receive(b *broker.Broker, q events.QueueID, n int, lease uint32) (all []broker.Delivery) {
	w.Helper()
	for len(all) < n {
		found, err := b.Receive(w.Context(), broker.Receive{Queue: q, Max: min(10, n-len(all)), LeaseSeconds: &lease, WaitSeconds: new(uint32)})
		if err != nil || len(found) == 0 {
			w.Fatalf("received %d of %d: %v", len(all), n, err)
		}
		all = append(all, found...)
	}
	return all
}

func (w *world) run(c sweep.Chore, s sweep.Site) sweep.Report {
	w.Helper()
	r, err := c.Run(w.Context(), s)
	if err != nil {
		w.Errorf("%s: %v", c.Name, err)
	}
	return r
}

func (w *world) want(r sweep.Report, through bool, done map[broker.Work]uint64) {
	w.Helper()
	if r.Through != through || !maps.Equal(r.Done, done) && len(r.Done)+len(done) > 0 {
		w.Errorf("%s did %v, want %v; through: %v", r.Sweep, r.Done, done, r.Through)
	}
}

// TestTickTwice is a scheduled function that is invoked twice for one tick, again ten minutes later, and once with an
// event of two hours ago: a chore judges by the clock as it is, and what was done is not done again.
func TestTickTwice(t *testing.T) {
	inWorld(t, func(w *world) {
		first, second := w.site(), w.site()
		b := first.Broker
		dead := w.create(b, "dead", "", 86_400)
		source, short := w.create(b, "source", "dead", 86_400), w.create(b, "short", "", 60)
		held := w.create(b, "held", "dead", 86_400)
		w.send(b, source, 1_000)
		w.send(b, short, 1_000)
		w.send(b, held, 50)
		w.receive(b, source, 1_000, 5)
		time.Sleep(61 * time.Second)
		leased := w.receive(b, held, 50, 60)

		w.log.Plan(func(c eventlogtest.Call) eventlogtest.Fault { // a store that takes its time, so that both are at it
			time.Sleep(2 * time.Millisecond)
			return eventlogtest.Pass
		})
		var mu sync.Mutex
		sum := map[broker.Work]uint64{}
		invoke := func(s sweep.Site) {
			for _, c := range []sweep.Chore{sweep.Exhausted, sweep.Expired} {
				r, err := c.Run(w.Context(), s)
				mu.Lock()
				if err != nil || !r.Through {
					w.Errorf("%s: %v, %+v", c.Name, err, r)
				}
				for what, n := range r.Done {
					sum[what] += n
				}
				mu.Unlock()
			}
		}
		var both sync.WaitGroup
		both.Go(func() { invoke(first) })
		time.Sleep(200 * time.Millisecond)
		both.Go(func() { invoke(second) })
		both.Wait()
		w.log.Plan(nil)
		want := map[broker.Work]uint64{broker.WorkMoved: 1_000, broker.WorkExpired: 1_000}
		if !maps.Equal(sum, want) {
			w.Errorf("twice for one tick: %v, want %v", sum, want)
		}
		invoke(first) // an old event, which looks like any other
		for _, d := range leased {
			results, err := b.Extend(w.Context(), held, []broker.Extend{{Receipt: d.Receipt, Seconds: 1_200}})
			w.must(errors.Join(append(results, err)...))
		}
		time.Sleep(10 * time.Minute)
		invoke(second)
		if !maps.Equal(sum, want) {
			w.Errorf("in the end: %v, want %v", sum, want)
		}
		for _, d := range leased {
			results, err := b.Ack(w.Context(), held, []string{d.Receipt})
			w.must(errors.Join(append(results, err)...))
		}
		replay := w.site().Broker // from the log alone
		for q, want := range map[events.QueueID]broker.Counts{dead: {Available: 1_000}, source: {}, short: {}, held: {}} {
			for _, b := range []*broker.Broker{b, replay} {
				if got, err := b.Describe(w.Context(), q); err != nil || got.Depth.Counts != want {
					w.Errorf("queue %v: %+v, want %+v; %v", q, got, want, err)
				}
			}
		}
	})
}

// full gives a deployment in which every chore has something to do.
func (w *world) full(s sweep.Site) {
	b := s.Broker
	dead := w.create(b, "dead", "", 86_400)
	source, short := w.create(b, "source", "dead", 86_400), w.create(b, "short", "", 60)
	gone := w.create(b, "gone", "", 60)
	w.send(b, gone, 20)
	w.must(b.Delete(w.Context(), broker.Ref{Account: "a", ID: gone}))
	for _, p := range projections.All() {
		w.must(w.views.Save(w.Context(), projections.Shard{Queue: gone}.Key(p.View), []byte("old"), 0))
	}
	time.Sleep(18 * 24 * time.Hour)
	w.send(b, source, 30)
	w.receive(b, source, 20, 5)
	w.send(b, short, 40)
	w.send(b, dead, 3)
	time.Sleep(2 * time.Hour)
	w.log.Plan(func(c eventlogtest.Call) eventlogtest.Fault {
		if c.Op == eventlogtest.OpCommit && len(c.Commit.Appends) > 0 {
			return eventlogtest.Refuse
		}
		return eventlogtest.Pass
	})
	if _, err := b.Update(w.Context(), broker.UpdateQueue{Queue: source, MaxBytes: new(uint32(2048))}); err == nil {
		w.Fatal("the change was not broken off")
	}
	w.log.Plan(nil)
	_, err := b.StartMove(w.Context(), broker.StartMove{Queue: dead, Target: &broker.Ref{Account: "a", ID: source}})
	w.must(err)
	time.Sleep(22*time.Hour + 30*time.Minute)
}

// contents is all that a deployment holds: entries, claims, snapshots, views.
func (w *world) contents() map[string]any {
	w.Helper()
	all := map[string]any{}
	for _, name := range w.mem.Streams() {
		last, _, err := w.mem.Last(w.Context(), name)
		w.must(err)
		for seq := eventlog.Seq(0); seq < last.Next(); {
			entries, err := w.mem.Read(w.Context(), name, seq, eventlog.Limits{})
			if gone := (*eventlog.Truncated)(nil); errors.As(err, &gone) {
				all[fmt.Sprint("dropped ", name, gone.From)] = gone.To
				seq = gone.To
				continue
			}
			w.must(err)
			for _, e := range entries {
				all[fmt.Sprint(name, e.Seq)] = e
				seq = e.Next()
			}
		}
		for seq := eventlog.Seq(1 << 62); ; {
			snap, ok, err := w.mem.Snapshot(w.Context(), name, seq)
			w.must(err)
			if !ok {
				break
			}
			all[fmt.Sprint("snapshot of ", name, snap.Seq)] = snap
			if snap.Seq == 0 {
				break
			}
			seq = snap.Seq - 1
		}
		q, shard, _, err := events.ReadStream(string(name))
		w.must(err)
		for _, p := range projections.All() {
			key := projections.Shard{Queue: q, Index: shard}.Key(p.View)
			if k, ok, _ := w.views.Load(w.Context(), key); ok {
				all[key] = k
			}
		}
	}
	claims, err := w.mem.Claims(w.Context(), "", "", 1<<20)
	w.must(err)
	for _, c := range claims {
		all[c.Key] = c
	}
	return all
}

// TestDryRun compares all that there is before and after a dry run of every chore, and what it says with what the run
// then does.
func TestDryRun(t *testing.T) {
	inWorld(t, func(w *world) {
		s := w.site()
		w.full(s)
		for _, c := range sweep.Functions() {
			before := w.contents()
			would, err := c.ByHand(w.Context(), w.site(), true, nil)
			w.must(err)
			if !would.Dry || !would.Through || would.Total() == 0 {
				w.Errorf("%s would do nothing: %+v", c.Name, would)
			}
			if diff := cmp.Diff(before, w.contents()); diff != "" {
				w.Errorf("a dry run of %s changes:\n%s", c.Name, diff)
			}
			did, err := c.ByHand(w.Context(), w.site(), false, nil)
			w.must(err)
			if c.Name != sweep.Moves.Name { // a dry run does not try out what a task will move
				if !maps.Equal(did.Done, would.Done) {
					w.Errorf("%s did %v, and would do %v", c.Name, did.Done, would.Done)
				}
				again, err := c.ByHand(w.Context(), w.site(), true, nil)
				w.must(err)
				if again.Total() > 0 {
					w.Errorf("%s did not do all: %v is left", c.Name, again.Done)
				}
			}
		}
		for key := range w.contents() {
			for _, p := range projections.All() {
				if k, ok, _ := w.views.Load(w.Context(), key); ok && string(k.Data) == "old" {
					w.Errorf("the view %s of a deleted queue is left: %s", key, p.View)
				}
			}
		}
	})
}

// many makes a deployment of queues that each have expired messages, and gives how many they are.
func (w *world) many(queues int) sweep.Site {
	s := w.site()
	for i := range queues {
		w.send(s.Broker, w.create(s.Broker, fmt.Sprint("q", i), "", 60), 1)
	}
	time.Sleep(2 * time.Minute)
	return s
}

// TestBookmark breaks a chore off by its time, again and again, each time in another process: every run goes on where the
// last one stopped, and none does twice what is done.
func TestBookmark(t *testing.T) {
	inWorld(t, func(w *world) {
		const queues = 450
		w.many(queues)
		w.log.Plan(func(c eventlogtest.Call) eventlogtest.Fault {
			if c.Op.Writes() {
				time.Sleep(100 * time.Millisecond)
			}
			return eventlogtest.Pass
		})
		looked, expired, runs := 0, uint64(0), 0
		for through := false; !through; runs++ {
			ctx, cancel := context.WithTimeout(w.Context(), 20*time.Second)
			began := time.Now()
			r, err := sweep.Expired.Run(ctx, w.site())
			cancel()
			w.must(err)
			if took := time.Since(began); took > 16*time.Second {
				w.Errorf("a run of 20 s took %v", took)
			}
			looked, expired, through = looked+r.Queues, expired+r.Done[broker.WorkExpired], r.Through
		}
		if looked != queues || expired != queues || runs < 3 {
			w.Errorf("%d runs looked at %d queues and expired %d messages", runs, looked, expired)
		}
	})
}

// TestKilled kills a chore at every write of a pass, its own and those of its bookmark; another process then finishes.
func TestKilled(t *testing.T) {
	const queues = 130
	inWorld(t, func(w *world) {
		w.many(queues)
		left := queues
		for n := 1; left > 0; n += 11 {
			s := w.site()
			ctx, kill := context.WithCancel(w.Context())
			w.log.ResetCounts()
			w.log.Plan(func(c eventlogtest.Call) eventlogtest.Fault {
				if c.Write == n {
					s.Broker.Abandon()
					kill()
				}
				return eventlogtest.Pass
			})
			r, err := sweep.Expired.Run(ctx, s)
			kill()
			w.log.Plan(nil)
			if ctx.Err() == nil && err != nil {
				w.Error(err)
			}
			before := left
			would, err := sweep.Expired.ByHand(w.Context(), w.site(), true, nil)
			w.must(err)
			if left = int(would.Done[broker.WorkExpired]); left > before || r.Through && left > 0 {
				w.Fatalf("killed at write %d: %d are left of %d; %+v", n, left, before, r)
			}
		}
		w.want(w.run(sweep.Expired, w.site()), true, nil)
	})
}

// TestAtOnce lets three processes go through the queues at once: together they do everything once, and share the work.
func TestAtOnce(t *testing.T) {
	inWorld(t, func(w *world) {
		const queues = 450
		w.many(queues)
		w.log.Plan(func(c eventlogtest.Call) eventlogtest.Fault {
			time.Sleep(time.Millisecond)
			return eventlogtest.Pass
		})
		var all sync.WaitGroup
		reports := make([]sweep.Report, 3)
		for i := range reports {
			s := w.site()
			all.Go(func() {
				time.Sleep(time.Duration(i) * 200 * time.Millisecond)
				reports[i] = w.run(sweep.Expired, s)
			})
		}
		all.Wait()
		expired := uint64(0)
		for _, r := range reports {
			expired += r.Done[broker.WorkExpired]
			if !r.Through {
				w.Errorf("not through: %+v", r)
			}
		}
		if expired != queues {
			w.Errorf("%d messages were expired, there were %d", expired, queues)
		}
		if st, err := sweep.Expired.Stands(w.Context(), w.site()); err != nil || st.Half || st.Through == 0 {
			w.Errorf("it stands at %+v, %v", st, err)
		}
	})
}

// TestFailingQueue has a queue that always fails, and one that takes all the time there is: the others have their turn.
func TestFailingQueue(t *testing.T) {
	inWorld(t, func(w *world) {
		const queues = 20
		w.many(queues)
		claims, err := w.mem.Claims(w.Context(), broker.QueuePrefix, "", queues)
		w.must(err)
		fails, err := broker.ReadFound(claims[3])
		w.must(err)
		slow, err := broker.ReadFound(claims[7])
		w.must(err)
		w.log.Plan(func(c eventlogtest.Call) eventlogtest.Fault {
			switch {
			case c.Stream == eventlog.Stream(events.LedgerStream(fails.ID, 0)):
				return eventlogtest.Before
			case c.Stream == eventlog.Stream(events.LedgerStream(slow.ID, 0)):
				time.Sleep(time.Hour)
			}
			return eventlogtest.Pass
		})
		var told error
		expired := uint64(0)
		for through, runs := false, 0; !through; runs++ {
			if runs > 4 {
				w.Fatal("it never comes through")
			}
			ctx, cancel := context.WithTimeout(w.Context(), time.Minute)
			r, err := sweep.Expired.Run(ctx, w.site())
			cancel()
			told = errors.Join(told, err)
			expired, through = expired+r.Done[broker.WorkExpired], r.Through
		}
		if expired != queues-2 || !errors.Is(told, eventlogtest.ErrInjected) || !errors.Is(told, context.DeadlineExceeded) {
			w.Errorf("%d messages were expired, and told is %v", expired, told)
		}
		w.log.Plan(nil)
		time.Sleep(2 * time.Hour)
		w.run(sweep.Expired, w.site())
		w.want(w.run(sweep.Expired, w.site()), true, nil)
	})
}

// TestDue says when it is time for another run.
func TestDue(t *testing.T) {
	inWorld(t, func(w *world) {
		s := w.site()
		due := func(c sweep.Chore, want bool) {
			w.Helper()
			st, err := c.Stands(w.Context(), s)
			w.must(err)
			if st.IsDue(s.Broker) != want {
				w.Errorf("%s is due: %v; it stands at %+v", c.Name, !want, st)
			}
		}
		due(sweep.Keys, true)
		w.run(sweep.Keys, s)
		due(sweep.Keys, false)
		time.Sleep(59 * time.Minute)
		due(sweep.Keys, false)
		time.Sleep(time.Minute)
		due(sweep.Keys, true)
		due(sweep.Lapsed, false) // in the cloud never
		w.run(sweep.Exhausted, s)
		due(sweep.Expired, true) // each has its own bookmark
	})
}

// TestNothingTwiceAtASite: a second run of every chore has nothing to do.
func TestNothingTwiceAtASite(t *testing.T) {
	inWorld(t, func(w *world) {
		s := w.site()
		w.full(s)
		for range 2 { // what one chore does may be something to do for one before it
			for _, c := range sweep.Functions() {
				w.run(c, s)
			}
		}
		for _, c := range sweep.Functions() {
			w.want(w.run(c, w.site()), true, nil)
		}
	})
}

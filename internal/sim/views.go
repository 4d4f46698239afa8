package sim

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/leaselog/leaselog/events"
	"github.com/leaselog/leaselog/internal/broker"
	"github.com/leaselog/leaselog/internal/eventlog"
	"github.com/leaselog/leaselog/internal/sweep"
	"github.com/leaselog/leaselog/internal/views"
	"github.com/leaselog/leaselog/projections"
)

// projectors are two processes of each projection and two of all, and the stream of changes that wakes them: it doubles, shuffles,
// delays and drops its records. They have chance of their own, so that a seed's history is the same without them.
type projectors struct {
	rand      *rand.Rand
	store     *lossy
	followers []*views.Follower
	seen      map[eventlog.Stream]eventlog.Seq // up to where the stream has told
	records   []record
}

// record says that a stream of a shard reaches an end.
type record struct {
	shard projections.Shard
	reach projections.Ends
}

func newProjectors(log eventlog.Log, seed uint64) *projectors {
	p := &projectors{rand: rand.New(rand.NewPCG(seed, 0x7669657773)), seen: map[eventlog.Stream]eventlog.Seq{}}
	p.store = &lossy{Store: projections.NewMemory(), rand: p.rand}
	for range 2 {
		p.followers = append(p.followers, &views.Follower{Log: log, Store: p.store, Projections: projections.All()})
		for _, kind := range projections.All() {
			p.followers = append(p.followers, &views.Follower{Log: log, Store: p.store, Projections: []projections.Projection{kind}})
		}
	}
	return p
}

// lossy is a store of views whose saves fail, before they took effect or after it.
type lossy struct {
	projections.Store
	rand   *rand.Rand
	healed bool
}

var errUnsaved = errors.New("the store of views failed")

func (l *lossy) Save(ctx context.Context, key string, data []byte, ifVersion uint64) error {
	if !l.healed && chance(l.rand, 0.1) {
		return errUnsaved
	}
	err := l.Store.Save(ctx, key, data, ifVersion)
	if !l.healed && chance(l.rand, 0.1) {
		return errUnsaved
	}
	return err
}

// told puts what was written since the last time into the stream of changes.
func (s *simulation) told() {
	p := s.projectors
	for _, name := range slices.Sorted(slices.Values(s.memory.Streams())) {
		last, ok, err := s.memory.Last(context.Background(), name)
		s.must(err == nil, "the end of %s: %v", name, err)
		if !ok || last.Next() == p.seen[name] {
			continue
		}
		p.seen[name] = last.Next()
		queue, index, ledger, err := events.ReadStream(string(name))
		s.must(err == nil, "%v", err)
		r := record{shard: projections.Shard{Queue: queue, Index: index}}
		if ledger {
			r.reach.Ledger = uint64(last.Next())
		} else {
			r.reach.Messages = events.Position(last.Next())
		}
		for range one(p.rand, 0, 1, 1, 1, 2) {
			p.records = append(p.records, r)
		}
	}
}

// project lets some record wake some process.
func (s *simulation) project() {
	s.told()
	p := s.projectors
	if len(p.records) == 0 || !chance(p.rand, 0.5) {
		return
	}
	i := p.rand.IntN(len(p.records))
	r := p.records[i]
	p.records = slices.Delete(p.records, i, i+1)
	f := one(p.rand, p.followers...)
	err := f.Wake(context.Background(), r.shard, r.reach)
	s.count("a projection woke")
	if errors.Is(err, errUnsaved) {
		s.count("a view was not saved")
		if chance(p.rand, 0.7) { // the others are dropped after too many attempts
			p.records = append(p.records, r)
		}
		return
	}
	s.must(err == nil || s.buried(r.shard), "a projection: %v", err)
}

// buried says whether the streams of a deleted queue may have been dropped, so that nothing more can be said of it. They
// go before its record says so, and what comes between may fail.
func (s *simulation) buried(name projections.Shard) bool {
	c, ok, err := s.memory.Claim(context.Background(), fmt.Sprintf("%s%x", broker.QueuePrefix, name.Queue[:]))
	if err != nil || !ok {
		return false
	}
	r, err := broker.ReadRegistered(c.Value)
	const youngest = 10 * 60 * 1000 // what is dropped is older
	return err == nil && r.Gone() && r.Deleted <= s.now()-youngest
}

// viewed lets the sweep find what the stream has dropped, and demands of every view that it is what the log gives, byte
// for byte. empty says that no message is left.
func (s *simulation) viewed(empty bool) {
	p := s.projectors
	p.store.healed = true
	defer func() { p.store.healed = false }()
	ctx := context.Background()
	err := sweep.Shards(ctx, s.memory, func(name projections.Shard) error {
		for _, kind := range projections.All() {
			f := &views.Follower{Log: s.memory, Store: p.store, Projections: []projections.Projection{kind}}
			if err := f.CatchUp(ctx, name); err != nil {
				return err
			}
			if s.Maintains && kind.History > 0 {
				continue // its history is longer than what is left of the log
			}
			made, err := f.Make(ctx, name, kind, nil)
			if err != nil {
				return err
			}
			kept, _, err := p.store.Load(ctx, name.Key(kind.View))
			s.must(err == nil && bytes.Equal(kept.Data, made), "the view %s was kept as\n%x\nand is made as\n%x: %v", name.Key(kind.View), kept.Data, made, err)
			s.count("a view was compared")
		}
		if !empty || !slices.ContainsFunc(s.queues, func(k *known) bool { return k.id == name.Queue && !k.deleting }) {
			return nil
		}
		kept, _, err := p.store.Load(ctx, name.Key(projections.Depth.View))
		if err != nil {
			return err
		}
		_, view, err := projections.Unpack(kept.Data)
		if err != nil {
			return err
		}
		v, err := projections.ReadDepth(view)
		if err != nil {
			return err
		}
		d, err := v.ReadAt(s.now() + 1000) // buckets end with their second
		s.must(d.Counts == projections.Counts{}, "no message is left, and the view %s counts %+v at %d: %+v", name.Key("depth"), d.Counts, d.At, v)
		return err
	})
	s.must(err == nil, "the sweep of views: %v", err)
}

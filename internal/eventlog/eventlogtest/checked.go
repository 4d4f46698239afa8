package eventlogtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"sync"

	"github.com/leaselog/leaselog/internal/eventlog"
)

// TB is what a check needs of a test: *testing.T and *rapid.T have it.
type TB interface {
	Helper()
	Errorf(format string, args ...any)
	Cleanup(func())
}

// CheckedLog is a log with a memory for what it answered. After each call that may change the log, as soon as no
// other such call is under way, it reads back what was touched and fails the test where log and answers disagree:
//
//   - what was answered as done stands, with its writer and its bytes, unless a drop was asked for;
//   - what was refused or met a conflict does not stand, and nothing stands that nobody sent;
//   - a claim's version counts the commits that set it, and only rises;
//   - whatever [Check] finds.
//
// Everything must be written through the one CheckedLog. A [Faulty] goes around it, not under it, since a check
// reads.
type CheckedLog struct {
	t TB

	// world is held shared by whoever changes the log, and alone by whoever checks it.
	world sync.RWMutex
	log   eventlog.Log

	mu      sync.Mutex
	broken  bool // the first breach is reported, the ones that follow from it are not
	touched places
	all     places
	sent    map[eventlog.Writer]*sent
	streams map[eventlog.Stream]*remembered
	claims  map[string][]*sent
	seen    map[string]eventlog.Claim
}

// sent is a commit and what was answered so far.
type sent struct {
	commit   eventlog.Commit
	calls    uint64
	done     bool // answered as done at least once: it stands
	doubtful bool // an answer was unknown: it may stand, or come to stand
	never    bool // a foreign entry stands at one of its places
}

// remembered is what happened to a stream beside the commits.
type remembered struct {
	sent      []*sent
	drops     []gap // asked for, whatever was answered
	snapshots bool
	newest    eventlog.Seq // of the snapshots that were answered as kept
}

// places are streams and claim keys.
type places struct {
	streams map[eventlog.Stream]bool
	keys    map[string]bool
}

func newPlaces() places {
	return places{streams: map[eventlog.Stream]bool{}, keys: map[string]bool{}}
}

func (p places) add(c eventlog.Commit) {
	for _, a := range c.Appends {
		p.streams[a.Stream] = true
	}
	for _, claim := range c.Claims {
		p.keys[claim.Key] = true
	}
}

// Checked wraps a log so that the test fails as soon as it breaks its contract, and checks all of it at the end.
func Checked(t TB, log eventlog.Log) *CheckedLog {
	c := &CheckedLog{
		t: t, log: log, touched: newPlaces(), all: newPlaces(),
		sent: map[eventlog.Writer]*sent{}, streams: map[eventlog.Stream]*remembered{},
		claims: map[string][]*sent{}, seen: map[string]eventlog.Claim{},
	}
	t.Cleanup(func() {
		t.Helper()
		c.Recheck()
	})
	return c
}

// Recheck reads back everything that was ever touched. It waits for the calls that are under way.
func (c *CheckedLog) Recheck() {
	c.t.Helper()
	c.world.Lock()
	defer c.world.Unlock()
	c.mu.Lock()
	maps.Copy(c.touched.streams, c.all.streams)
	maps.Copy(c.touched.keys, c.all.keys)
	c.mu.Unlock()
	c.checkTouched()
}

// Reopened goes on with another Log over the same store, so that what was answered before a restart is checked
// after it.
func (c *CheckedLog) Reopened(log eventlog.Log) {
	c.t.Helper()
	c.world.Lock()
	c.log = log
	c.world.Unlock()
	c.Recheck()
}

// Commit implements [eventlog.Log].
func (c *CheckedLog) Commit(ctx context.Context, commit eventlog.Commit) error {
	c.t.Helper()
	c.world.RLock()
	record := c.remember(commit)
	err := c.log.Commit(ctx, commit)
	c.mu.Lock()
	record.calls++
	record.answer(err)
	c.touched.add(commit)
	c.mu.Unlock()
	c.world.RUnlock()
	c.step()
	return err
}

// remember finds the commit's earlier calls, or begins a record. A call under way counts as doubtful only by its
// answer, since nobody checks meanwhile.
func (c *CheckedLog) remember(commit eventlog.Commit) *sent {
	c.mu.Lock()
	defer c.mu.Unlock()
	if before, ok := c.sent[commit.Writer]; ok {
		if !reflect.DeepEqual(before.commit, commit) {
			c.broken = true
			c.t.Errorf("writer %x is used for two different commits", commit.Writer)
		}
		return before
	}
	record := &sent{commit: copyCommit(commit)}
	c.sent[commit.Writer] = record
	for _, a := range commit.Appends {
		s := c.stream(a.Stream)
		s.sent = append(s.sent, record)
	}
	for _, claim := range commit.Claims {
		c.claims[claim.Key] = append(c.claims[claim.Key], record)
	}
	c.all.add(commit)
	return record
}

func (c *CheckedLog) stream(name eventlog.Stream) *remembered {
	s := c.streams[name]
	if s == nil {
		s = &remembered{}
		c.streams[name] = s
	}
	return s
}

// answer notes one answer. A refusal speaks of its own call only, and so does a conflict about claims, which may
// be given up again: an earlier call whose outcome is unknown may still take effect after either.
func (s *sent) answer(err error) {
	var conflict *eventlog.Conflict
	var refused *eventlog.Refused
	switch {
	case err == nil:
		s.done = true
	case errors.As(err, &conflict):
		s.never = s.never || len(conflict.Entries) > 0
	case errors.As(err, &refused):
	default:
		s.doubtful = true
	}
}

// mayStand reports whether the answers allow that the commit stands.
func (s *sent) mayStand() bool { return s.done || s.doubtful && !s.never }

// effects is how often the commit may have taken effect. An entry stands for good, so that its writer is always
// recognized. Of a commit that only claims nothing is left when all its claims were replaced: when these lapse, or
// are given up, a repeat is like new.
func (s *sent) effects() uint64 {
	switch {
	case !s.mayStand():
		return 0
	case len(s.commit.Appends) > 0:
		return 1
	}
	return s.calls
}

// PutSnapshot implements [eventlog.Log].
func (c *CheckedLog) PutSnapshot(ctx context.Context, name eventlog.Stream, snap eventlog.Snapshot) error {
	c.t.Helper()
	c.world.RLock()
	err := c.log.PutSnapshot(ctx, name, snap)
	c.mu.Lock()
	if s := c.stream(name); err == nil {
		s.snapshots, s.newest = true, max(s.newest, snap.Seq)
	}
	c.touched.streams[name], c.all.streams[name] = true, true
	c.mu.Unlock()
	c.world.RUnlock()
	c.step()
	return err
}

// Drop implements [eventlog.Log].
func (c *CheckedLog) Drop(ctx context.Context, name eventlog.Stream, from, to eventlog.Seq) error {
	c.t.Helper()
	c.world.RLock()
	c.mu.Lock()
	s := c.stream(name)
	s.drops = append(s.drops, gap{from, to})
	c.touched.streams[name], c.all.streams[name] = true, true
	c.mu.Unlock()
	err := c.log.Drop(ctx, name, from, to)
	c.world.RUnlock()
	c.step()
	return err
}

// Read implements [eventlog.Log].
func (c *CheckedLog) Read(ctx context.Context, s eventlog.Stream, from eventlog.Seq, l eventlog.Limits) ([]eventlog.Entry, error) {
	return c.current().Read(ctx, s, from, l)
}

// Last implements [eventlog.Log].
func (c *CheckedLog) Last(ctx context.Context, s eventlog.Stream) (eventlog.Entry, bool, error) {
	return c.current().Last(ctx, s)
}

// Claim implements [eventlog.Log].
func (c *CheckedLog) Claim(ctx context.Context, key string) (eventlog.Claim, bool, error) {
	return c.current().Claim(ctx, key)
}

// Claims implements [eventlog.Log].
func (c *CheckedLog) Claims(ctx context.Context, prefix, after string, limit int) ([]eventlog.Claim, error) {
	return c.current().Claims(ctx, prefix, after, limit)
}

// Snapshot implements [eventlog.Log].
func (c *CheckedLog) Snapshot(ctx context.Context, s eventlog.Stream, seq eventlog.Seq) (eventlog.Snapshot, bool, error) {
	return c.current().Snapshot(ctx, s, seq)
}

func (c *CheckedLog) current() eventlog.Log {
	c.world.RLock()
	defer c.world.RUnlock()
	return c.log
}

// step checks what was touched, unless somebody is changing the log just now: whoever ends last checks for all.
func (c *CheckedLog) step() {
	c.t.Helper()
	if !c.world.TryLock() {
		return
	}
	defer c.world.Unlock()
	c.checkTouched()
}

// checkTouched is called with the world held alone.
func (c *CheckedLog) checkTouched() {
	c.t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	touched := c.touched
	c.touched = newPlaces()
	if c.broken {
		return
	}
	if err := c.check(touched); err != nil {
		c.broken = true
		c.t.Errorf("the log broke its contract: %v", err)
	}
}

func (c *CheckedLog) check(touched places) error {
	ctx := context.Background()
	for _, name := range slices.Sorted(maps.Keys(touched.streams)) {
		if err := c.checkStream(ctx, name); err != nil {
			return fmt.Errorf("stream %s: %w", name, err)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(touched.keys)) {
		if err := c.checkKey(ctx, key); err != nil {
			return fmt.Errorf("claim %q: %w", key, err)
		}
	}
	return nil
}

// checkStream compares a stream with the answers in both directions.
func (c *CheckedLog) checkStream(ctx context.Context, name eventlog.Stream) error {
	found, err := readStream(ctx, c.log, name)
	if err != nil {
		return err
	}
	for _, e := range found.entries {
		if err := c.allowed(e); err != nil {
			return err
		}
	}
	known := c.stream(name)
	for _, s := range known.sent {
		if s.done {
			if err := known.stands(s.commit, name, found); err != nil {
				return err
			}
		}
	}
	return c.checkNewestSnapshot(ctx, name, known)
}

// allowed reports an entry that no answer explains.
func (c *CheckedLog) allowed(e eventlog.Entry) error {
	s, ok := c.sent[e.Writer]
	if !ok {
		return fmt.Errorf("the entry at %d is by %x, who sent no commit", e.Seq, e.Writer)
	}
	if !s.mayStand() {
		return fmt.Errorf("the entry at %d is by %x, whose commit was not applied", e.Seq, e.Writer)
	}
	for _, want := range entriesOf(s.commit) {
		if sameEntry(want, e) {
			return nil
		}
	}
	return fmt.Errorf("the entry at %d is not the one that its writer %x sent", e.Seq, e.Writer)
}

// stands reports an entry of a commit that was done and is not there, though no drop was asked for.
func (r *remembered) stands(c eventlog.Commit, name eventlog.Stream, found contents) error {
	for _, want := range entriesOf(c) {
		if want.Stream != name {
			continue
		}
		if e, ok := found.at(want.Seq); ok {
			if e.Writer != want.Writer {
				return fmt.Errorf("the commit by %x was done, but %x stands at %d", want.Writer, e.Writer, want.Seq)
			}
			continue // its bytes are compared in allowed
		}
		dropped := func(g gap) bool { return g.from <= want.Seq && want.Next() <= g.to }
		if !slices.ContainsFunc(r.drops, dropped) || !slices.ContainsFunc(found.gaps, dropped) {
			return fmt.Errorf("the commit by %x was done, and its entry at %d is gone", want.Writer, want.Seq)
		}
	}
	return nil
}

func (c *CheckedLog) checkNewestSnapshot(ctx context.Context, name eventlog.Stream, known *remembered) error {
	if !known.snapshots {
		return nil
	}
	snap, ok, err := c.log.Snapshot(ctx, name, math.MaxUint64)
	if err != nil {
		return err
	}
	if !ok || snap.Seq < known.newest {
		return fmt.Errorf("the snapshot at %d was kept, the newest found is at %d (%v)", known.newest, snap.Seq, ok)
	}
	return nil
}

// checkKey compares a claim with the answers: its version counts the commits that set it, so that none is lost and
// none takes effect twice.
func (c *CheckedLog) checkKey(ctx context.Context, key string) error {
	claim, ok, err := c.log.Claim(ctx, key)
	if err != nil {
		return err
	}
	var done, possible uint64
	for _, s := range c.claims[key] {
		if s.done {
			done++
		}
		possible += s.effects()
	}
	if !ok {
		claim = eventlog.Claim{} // version 0: nobody has set it
	}
	if claim.Version < done || claim.Version > possible {
		return fmt.Errorf("version %d, but commits that set it took effect %d to %d times", claim.Version, done, possible)
	}
	if !ok {
		return nil
	}
	if err := c.checkSetter(claim); err != nil {
		return err
	}
	if err := c.checkHistory(claim); err != nil {
		return err
	}
	c.seen[key] = claim
	return c.checkListed(ctx, claim)
}

// checkListed looks for a claim in the list of its directory.
func (c *CheckedLog) checkListed(ctx context.Context, claim eventlog.Claim) error {
	listed, err := c.log.Claims(ctx, claim.Key, "", 1)
	if err != nil {
		return err
	}
	if len(listed) != 1 || listed[0].Version != claim.Version || !sameClaim(listed[0], claim) {
		return fmt.Errorf("version %d is not listed as it is read alone: %d are", claim.Version, len(listed))
	}
	return nil
}

// checkHistory compares a claim with what was seen at its key before.
func (c *CheckedLog) checkHistory(claim eventlog.Claim) error {
	before, ok := c.seen[claim.Key]
	switch {
	case !ok:
	case claim.Version < before.Version:
		return fmt.Errorf("version %d after %d", claim.Version, before.Version)
	case claim.Version == before.Version && !sameClaim(claim, before):
		return fmt.Errorf("version %d has changed", claim.Version)
	case claim.Version > before.Version && claim.Writer == before.Writer && c.sent[claim.Writer].effects() == 1:
		return fmt.Errorf("versions %d and %d are both by %x", before.Version, claim.Version, claim.Writer)
	}
	return nil
}

// checkSetter reports a claim that its writer did not ask for.
func (c *CheckedLog) checkSetter(claim eventlog.Claim) error {
	s, ok := c.sent[claim.Writer]
	if !ok || !s.mayStand() {
		return fmt.Errorf("set by %x, whose commit was not applied", claim.Writer)
	}
	for _, want := range s.commit.Claims {
		want.Writer = s.commit.Writer
		if sameClaim(want, claim) {
			return nil
		}
	}
	return fmt.Errorf("not the claim that its writer %x sent", claim.Writer)
}

// entriesOf gives the entries that a commit makes.
func entriesOf(c eventlog.Commit) []eventlog.Entry {
	var entries []eventlog.Entry
	for _, a := range c.Appends {
		entries = append(entries, eventlog.Entry{
			Stream: a.Stream, Seq: a.Seq, Width: a.Width, Writer: c.Writer, Header: a.Header, Data: a.Data,
		})
	}
	return entries
}

// copyCommit keeps a commit's bytes apart from the caller's, who might change them against the rules.
func copyCommit(c eventlog.Commit) eventlog.Commit {
	c.Appends, c.Claims = slices.Clone(c.Appends), slices.Clone(c.Claims)
	for i := range c.Appends {
		a := &c.Appends[i]
		a.Header, a.Data = bytes.Clone(a.Header), bytes.Clone(a.Data)
	}
	for i := range c.Claims {
		c.Claims[i].Value = bytes.Clone(c.Claims[i].Value)
	}
	return c
}

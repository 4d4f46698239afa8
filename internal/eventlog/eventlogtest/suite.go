// Package eventlogtest holds what every implementation of the log must pass, and what tests put around a log:
// [Run] is the conformance suite, [Faulty] makes calls fail before or after they took effect or lets them take
// effect late, [Retrying] is the client that lives with that, [Checked] and [Check] compare a log with its contract.
package eventlogtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/leaselog/leaselog/internal/eventlog"
)

// Run is the conformance suite of the log. Each call of open gives a log without entries and claims; open registers
// its own cleanup. The suite adds no claim that lapses by anybody's clock: instants are its own, from 0 on.
func Run(t *testing.T, open func(t *testing.T) eventlog.Log) {
	topics := []struct {
		name string
		test func(*testing.T, func(*testing.T) *suite)
	}{
		{"appends", testAppends},
		{"claims", testClaims},
		{"repeats", testRepeats},
		{"malformed", testMalformed},
		{"reads", testReads},
		{"drops", testDrops},
		{"snapshots", testSnapshots},
		{"concurrent", testConcurrent},
		{"model", testModel},
	}
	for _, topic := range topics {
		t.Run(topic.name, func(t *testing.T) {
			topic.test(t, func(t *testing.T) *suite {
				t.Helper()
				return &suite{T: t, log: Checked(t, open(t))}
			})
		})
	}
}

// suite is one test of the suite with its log. Its verbs fail the test where the log does not answer as it must.
type suite struct {
	*testing.T
	log *CheckedLog
}

// step is a commit and what the log must answer.
type step struct {
	commit eventlog.Commit
	want   outcome
}

// scenario is a sequence of commits, begun on an empty log.
type scenario struct {
	name  string
	steps []step
}

func runScenarios(t *testing.T, open func(*testing.T) *suite, scenarios []scenario) {
	for _, sc := range scenarios {
		t.Run(sc.name, func(t *testing.T) {
			s := open(t)
			for i, step := range sc.steps {
				if err := step.want(s.commit(step.commit)); err != nil {
					t.Fatalf("step %d: %v", i, err)
				}
			}
			s.wholeCheck(sc.steps)
		})
	}
}

// wholeCheck runs Check over all streams that the steps name.
func (s *suite) wholeCheck(steps []step) {
	s.Helper()
	var names []eventlog.Stream
	for _, step := range steps {
		for _, a := range step.commit.Appends {
			names = append(names, a.Stream)
		}
	}
	slices.Sort(names)
	if err := Check(s.Context(), s.log, slices.Compact(names)...); err != nil {
		s.Errorf("check: %v", err)
	}
}

func (s *suite) commit(c eventlog.Commit) error { return s.log.Commit(s.Context(), c) }

// must commits what must be done.
func (s *suite) must(commits ...eventlog.Commit) {
	s.Helper()
	for _, c := range commits {
		if err := s.commit(c); err != nil {
			s.Fatalf("commit by %s: %v", nameOf(c.Writer), err)
		}
	}
}

// fill appends entries of the given widths to an empty stream, by the writers 0, 1, 2, ….
func (s *suite) fill(name eventlog.Stream, widths ...uint32) {
	s.Helper()
	var seq eventlog.Seq
	for i, width := range widths {
		s.must(by(fmt.Sprintf("%s-%d", name, i), put(name, seq, width)))
		seq += eventlog.Seq(width)
	}
}

func (s *suite) drop(name eventlog.Stream, from, to eventlog.Seq) {
	s.Helper()
	if err := s.log.Drop(s.Context(), name, from, to); err != nil {
		s.Fatalf("drop [%d, %d): %v", from, to, err)
	}
}

// read gives the seqs that a read gives.
func (s *suite) read(name eventlog.Stream, from eventlog.Seq, l eventlog.Limits) []eventlog.Seq {
	s.Helper()
	entries, err := s.log.Read(s.Context(), name, from, l)
	if err != nil {
		s.Fatalf("read %s at %d: %v", name, from, err)
	}
	return seqs(entries)
}

// truncated demands that a read is refused because entries up to a position were dropped.
func (s *suite) truncated(name eventlog.Stream, from, to eventlog.Seq) {
	s.Helper()
	entries, err := s.log.Read(s.Context(), name, from, eventlog.Limits{})
	var tr *eventlog.Truncated
	if !errors.As(err, &tr) {
		s.Fatalf("read %s at %d gave %v and error %v, it was dropped up to %d", name, from, seqs(entries), err, to)
	}
	if tr.Stream != name || tr.From > from || tr.To != to {
		s.Errorf("read %s at %d gave %+v, it was dropped up to %d", name, from, *tr, to)
	}
}

// claim gives the claim at a key that must be there.
func (s *suite) claim(key string) eventlog.Claim {
	s.Helper()
	c, ok, err := s.log.Claim(s.Context(), key)
	if err != nil || !ok {
		s.Fatalf("claim %q: found %v, error %v", key, ok, err)
	}
	return c
}

func (s *suite) same(what string, got, want any) {
	s.Helper()
	if diff := difference(got, want); diff != "" {
		s.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// difference compares two answers. A claim's If is a condition and not part of what stands; nil and empty are the
// same to a log.
func difference(got, want any) string {
	notEmpty := func(a, b []byte) bool { return len(a)+len(b) > 0 }
	return cmp.Diff(want, got, cmpopts.EquateEmpty(), cmpopts.IgnoreFields(eventlog.Claim{}, "If"),
		cmp.FilterValues(notEmpty, cmp.Comparer(bytes.Equal))) // byte by byte, a megabyte takes a minute
}

func seqs(entries []eventlog.Entry) []eventlog.Seq {
	var all []eventlog.Seq
	for _, e := range entries {
		all = append(all, e.Seq)
	}
	return all
}

// by makes a commit of appends and claims. The writer is made from the name, and so are the bytes of what it appends.
func by(name string, parts ...any) eventlog.Commit {
	c := eventlog.Commit{Writer: writer(name)}
	for _, part := range parts {
		switch part := part.(type) {
		case eventlog.Append:
			part.Header = fmt.Appendf(nil, "header by %s", name)
			part.Data = fmt.Appendf(nil, "data by %s for %s", name, part.Stream)
			c.Appends = append(c.Appends, part)
		case eventlog.Claim:
			part.Value = fmt.Appendf(nil, "value by %s", name)
			part.Holder = name
			c.Claims = append(c.Claims, part)
		default:
			panic(fmt.Sprintf("a commit has no part like %T", part))
		}
	}
	return c
}

// at sets the instant by which claims have lapsed.
func at(millis int64, c eventlog.Commit) eventlog.Commit {
	c.At = millis
	return c
}

func put(name eventlog.Stream, seq eventlog.Seq, width uint32) eventlog.Append {
	return eventlog.Append{Stream: name, Seq: seq, Width: width}
}

// hold claims a free key.
func hold(key string, until int64) eventlog.Claim { return eventlog.Claim{Key: key, Until: until} }

// replace claims a key that stands at a version.
func replace(key string, version uint64, until int64) eventlog.Claim {
	return eventlog.Claim{Key: key, Until: until, If: version}
}

// writer makes a writer from a name of at most 16 bytes.
func writer(name string) eventlog.Writer {
	var w eventlog.Writer
	if len(name) == 0 || len(name) > len(w) {
		panic(fmt.Sprintf("a test's writer has 1 to %d bytes, not %q", len(w), name))
	}
	copy(w[:], name)
	return w
}

func nameOf(w eventlog.Writer) string { return strings.TrimRight(string(w[:]), "\x00") }

// outcome reports an answer that is not the wanted one.
type outcome func(err error) error

func done(err error) error {
	if err != nil {
		return fmt.Errorf("got %w, want done", err)
	}
	return nil
}

// gapped is the answer to an append beyond the end: it may succeed later, so it is not refused for its content.
func gapped(err error) error {
	var r *eventlog.Refused
	if !errors.As(err, &r) || r.Content {
		return fmt.Errorf("got %v, want it refused for the gap", err)
	}
	return nil
}

// malformed is the answer to what can never be applied.
func malformed(err error) error {
	var r *eventlog.Refused
	if !errors.As(err, &r) || !r.Content {
		return fmt.Errorf("got %v, want it refused for its content", err)
	}
	return nil
}

// against is a conflict with the entries, or claims, of exactly these writers.
func against(entries []string, claims []string) outcome {
	return func(err error) error {
		var c *eventlog.Conflict
		if !errors.As(err, &c) {
			return fmt.Errorf("got %v, want a conflict", err)
		}
		var gotEntries, gotClaims []string
		for _, e := range c.Entries {
			gotEntries = append(gotEntries, nameOf(e.Writer))
			if e.Data != nil {
				return fmt.Errorf("the conflict brings the data of the entry at %d", e.Seq)
			}
		}
		for _, claim := range c.Claims {
			gotClaims = append(gotClaims, nameOf(claim.Writer))
		}
		slices.Sort(gotEntries)
		slices.Sort(gotClaims)
		if !slices.Equal(gotEntries, entries) || !slices.Equal(gotClaims, claims) {
			return fmt.Errorf("conflict with entries by %q and claims by %q, want %q and %q", gotEntries, gotClaims, entries, claims)
		}
		return nil
	}
}

// standing makes the lists of against readable.
func standing(names ...string) []string { return names }

// background is for what runs beside a test, whose own context ends with it.
func background(s *suite) context.Context { return context.WithoutCancel(s.Context()) }

package eventlogtest

import (
	"errors"
	"strings"
	"testing"

	"github.com/leaselog/leaselog/internal/eventlog"
)

func testAppends(t *testing.T, open func(*testing.T) *suite) {
	runScenarios(t, open, []scenario{
		{"at the end", []step{
			{by("a", put("s", 0, 1)), done},
			{by("b", put("s", 1, 10)), done},
			{by("c", put("s", 11, 1)), done},
		}},
		{"where an entry stands", []step{
			{by("a", put("s", 0, 1)), done},
			{by("b", put("s", 0, 1)), against(standing("a"), nil)},
			{by("c", put("s", 0, 7)), against(standing("a"), nil)},
		}},
		{"where an older entry stands", []step{
			{by("a", put("s", 0, 1)), done},
			{by("b", put("s", 1, 1)), done},
			{by("c", put("s", 0, 1)), against(standing("a"), nil)},
		}},
		{"inside an entry", []step{
			{by("a", put("s", 0, 3)), done},
			{by("b", put("s", 3, 3)), done},
			{by("c", put("s", 1, 1)), against(standing("a"), nil)},
			{by("d", put("s", 2, 9)), against(standing("a"), nil)},
			{by("e", put("s", 5, 1)), against(standing("b"), nil)},
		}},
		{"beyond the end", []step{
			{by("a", put("s", 1, 1)), gapped},
			{by("b", put("s", 0, 2)), done},
			{by("c", put("s", 3, 1)), gapped},
			{by("d", put("s", 1<<40, 1)), gapped},
			{by("e", put("s", 2, 1)), done},
		}},
		{"beyond the end, then at it", []step{
			{by("a", put("s", 1, 1)), gapped},
			{by("b", put("s", 0, 1)), done},
			{by("a", put("s", 1, 1)), done},
		}},
		{"several streams", []step{
			{by("a", put("s", 0, 1), put("t", 0, 2), put("u", 0, 3)), done},
			{by("b", put("u", 3, 1), put("s", 1, 1)), done},
		}},
		{"several streams, one place taken", []step{
			{by("a", put("s", 0, 1)), done},
			{by("b", put("s", 0, 1), put("t", 0, 1)), against(standing("a"), nil)},
			{by("c", put("t", 0, 1), put("s", 0, 1), put("u", 0, 1)), against(standing("a"), nil)},
			{by("d", put("t", 0, 1), put("u", 0, 1)), done},
		}},
		{"several streams, several places taken", []step{
			{by("a", put("s", 0, 1)), done},
			{by("b", put("t", 0, 4)), done},
			{by("c", put("s", 0, 1), put("t", 2, 1), put("u", 0, 1)), against(standing("a", "b"), nil)},
		}},
		{"several streams, one gap", []step{
			{by("a", put("s", 0, 1), put("t", 5, 1)), gapped},
			{by("b", put("s", 0, 1), put("t", 0, 1)), done},
		}},
		{"appends and claims", []step{
			{by("a", put("s", 0, 1), hold("k", 10)), done},
			{by("b", put("s", 1, 1), hold("k", 10)), against(nil, standing("a"))},
			{by("c", put("s", 0, 1), hold("l", 10)), against(standing("a"), nil)},
			{by("d", put("s", 0, 1), hold("k", 10)), against(standing("a"), standing("a"))},
			{by("e", put("s", 1, 1), hold("l", 10)), done},
		}},
		{"a gap and claims", []step{
			{by("a", put("s", 7, 1), hold("k", 10)), gapped},
			{by("b", put("s", 0, 1), hold("k", 10)), done},
		}},
		{"the widest entry", []step{
			{by("a", put("s", 0, 1<<32-1)), done},
			{by("b", put("s", 1<<32-1, 1<<32-1)), done},
			{by("c", put("s", 1<<33-3, 1)), against(standing("b"), nil)},
		}},
		{"streams whose names begin alike", []step{
			{by("a", put("q", 0, 1)), done},
			{by("b", put("q/0", 0, 1)), done},
			{by("c", put("q/00", 0, 1)), done},
			{by("d", put("q!", 0, 1)), done},
			{by("e", put("q", 1, 1)), done},
			{by("f", put("q~", 0, 1)), done},
			{by("g", put("q/0", 1, 1)), done},
		}},
		{"the longest name", []step{
			{by("a", put(longest, 0, 1)), done},
			{by("b", put(longest, 1, 1)), done},
			{by("c", put(longest[1:], 0, 1)), done},
		}},
	})
	t.Run("a conflict shows what stands", func(t *testing.T) { testConflictContent(open(t)) })
	t.Run("a gone caller", func(t *testing.T) { testGoneCaller(open(t)) })
}

var longest = eventlog.Stream(strings.Repeat("s", 128))

// testConflictContent compares all that a conflict brings: the loser decides by it without another read.
func testConflictContent(s *suite) {
	first := by("a", put("s", 0, 4), hold("k", 10))
	s.must(first)
	err := s.commit(by("b", put("s", 2, 1), hold("k", 20)))
	var conflict *eventlog.Conflict
	if !errors.As(err, &conflict) {
		s.Fatalf("got %v, want a conflict", err)
	}
	entry := entriesOf(first)[0]
	entry.Data = nil
	s.same("entries", conflict.Entries, []eventlog.Entry{entry})
	claim := first.Claims[0]
	claim.Version, claim.Writer = 1, first.Writer
	s.same("claims", conflict.Claims, []eventlog.Claim{claim})
}

// testGoneCaller commits for a caller who has gone. Whatever the answer, the check holds the log to it.
func testGoneCaller(s *suite) {
	gone := goneContext(s)
	c := by("a", put("s", 0, 1), hold("k", 10))
	_ = s.log.Commit(gone, c)
	s.must(c)
	s.same("entries", s.read("s", 0, eventlog.Limits{}), []eventlog.Seq{0})
	s.same("version", s.claim("k").Version, uint64(1))
}

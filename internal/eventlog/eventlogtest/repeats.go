package eventlogtest

import (
	"context"
	"strings"
	"testing"

	"github.com/leaselog/leaselog/internal/eventlog"
)

// testRepeats repeats identical commits, as a caller does whose answer was lost: also late, when others have gone on.
func testRepeats(t *testing.T, open func(*testing.T) *suite) {
	once := by("a", put("s", 0, 3), put("t", 0, 1), hold("k", 10), hold("l", 10))
	runScenarios(t, open, []scenario{
		{"at once", []step{
			{once, done}, {once, done}, {once, done},
		}},
		{"after others appended", []step{
			{once, done},
			{by("b", put("s", 3, 1), put("t", 1, 1)), done},
			{once, done},
			{by("c", put("s", 4, 1)), done},
			{once, done},
		}},
		{"after its claims were replaced", []step{
			{once, done},
			{by("b", replace("k", 1, 20)), done},
			{once, done},
			{by("c", replace("l", 1, 20)), done},
			{once, done},
		}},
		{"after its claims lapsed and were replaced", []step{
			{once, done},
			{at(10, by("b", hold("k", 20), hold("l", 20))), done},
			{once, done},
		}},
		{"after one of its claims was replaced", []step{
			{by("a", hold("k", 10), hold("l", 10)), done},
			{by("b", replace("k", 1, 20)), done},
			{by("a", hold("k", 10), hold("l", 10)), done},
		}},
		{"giving a claim up, which frees the key for its own repeat", []step{
			{by("a", hold("k", 10)), done},
			{at(5, by("b", replace("k", 1, 0))), done},
			{at(5, by("b", replace("k", 1, 0))), done},
		}},
		{"a claim that had lapsed when it was set", []step{
			{at(5, by("a", hold("k", 5))), done},
			{at(5, by("a", hold("k", 5))), done},
			{at(5, by("b", hold("k", 9))), done},
		}},
		{"a loser never wins later", []step{
			{by("a", put("s", 0, 1)), done},
			{by("b", put("s", 0, 1), put("t", 0, 1)), against(standing("a"), nil)},
			{by("b", put("s", 0, 1), put("t", 0, 1)), against(standing("a"), nil)},
			{by("c", put("t", 0, 1)), done},
			{by("b", put("s", 0, 1), put("t", 0, 1)), against(standing("a", "c"), nil)},
		}},
		{"the same content by another writer is another commit", []step{
			{by("a", put("s", 0, 1)), done},
			{sameBytes(by("a", put("s", 0, 1)), "b"), against(standing("a"), nil)},
		}},
	})
	t.Run("takes effect once", func(t *testing.T) { testOnce(open(t)) })
}

// testOnce looks at what the repeats left: one entry, one version.
func testOnce(s *suite) {
	give := at(5, by("b", put("s", 1, 1), replace("k", 1, 0)))
	s.must(by("a", put("s", 0, 1), hold("k", 10)), give, give, give)
	s.same("entries", s.read("s", 0, eventlog.Limits{}), []eventlog.Seq{0, 1})
	s.same("version", s.claim("k").Version, uint64(2))
}

// sameBytes is c as another writer would have sent it.
func sameBytes(c eventlog.Commit, name string) eventlog.Commit {
	c.Writer = writer(name)
	return c
}

// goneContext belongs to a caller who has gone already.
func goneContext(s *suite) context.Context {
	ctx, cancel := context.WithCancel(s.Context())
	cancel()
	return ctx
}

// testMalformed sends what no log may take, each beside parts that are in order, and looks that nothing of it stands.
func testMalformed(t *testing.T, open func(*testing.T) *suite) {
	large := hold("k2", 10)
	for _, tt := range []struct {
		name   string
		commit eventlog.Commit
	}{
		{"two appends to a stream", by("x", put("s", 1, 1), put("s", 2, 1))},
		{"two equal appends to a stream", by("x", put("t", 0, 1), put("s", 1, 1), put("s", 1, 1))},
		{"two claims of a key", by("x", hold("k2", 10), hold("k2", 10))},
		{"two claims of a key, the second by version", by("x", hold("k2", 10), replace("k2", 1, 20))},
		{"width 0", by("x", put("s", 1, 0))},
		{"a stream without a name", by("x", put("", 0, 1))},
		{"a blank in a stream's name", by("x", put("s t", 0, 1))},
		{"a tab in a stream's name", by("x", put("s\t", 0, 1))},
		{"a NUL in a stream's name", by("x", put("s\x00", 0, 1))},
		{"a stream's name that is not ASCII", by("x", put("\u00e9", 0, 1))},
		{"a stream's name that is too long", by("x", put(longest+"s", 0, 1))},
		{"a NUL in a key", by("x", hold("k\x00", 10))},
		{"a key that is not UTF-8", by("x", hold("k\xff", 10))},
		{"a key that is too long", by("x", hold(strings.Repeat("k", 513), 10))},
		{"a value that is too large", withValue(by("x", large), 256<<10+1)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := open(t)
			s.must(by("a", put("s", 0, 1), hold("k", 10)))
			c := tt.commit
			good := by("x", put("good", 0, 1), hold("good", 10))
			c.Appends = append(good.Appends, c.Appends...)
			c.Claims = append(c.Claims, good.Claims...)
			if err := malformed(s.commit(c)); err != nil {
				t.Fatal(err)
			}
			s.must(by("b", put("s", 1, 1), put("good", 0, 1), hold("good", 10), hold("k2", 10)))
			s.same("version", s.claim("k").Version, uint64(1))
		})
	}
}

// withValue gives the only claim of c a value of a size.
func withValue(c eventlog.Commit, size int) eventlog.Commit {
	c.Claims[0].Value = make([]byte, size)
	return c
}

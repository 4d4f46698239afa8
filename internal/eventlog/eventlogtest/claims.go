package eventlogtest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/leaselog/leaselog/internal/eventlog"
)

func testClaims(t *testing.T, open func(*testing.T) *suite) {
	runScenarios(t, open, []scenario{
		{"a free key", []step{
			{by("a", hold("k", 10)), done},
			{by("b", hold("l", 10)), done},
		}},
		{"a held key", []step{
			{at(5, by("a", hold("k", 10))), done},
			{at(9, by("b", hold("k", 20))), against(nil, standing("a"))},
		}},
		{"a claim has lapsed when its Until is reached", []step{
			{at(5, by("a", hold("k", 10))), done},
			{at(10, by("b", hold("k", 20))), done},
			{at(10, by("c", hold("k", 30))), against(nil, standing("b"))},
		}},
		{"a claim lapses by the At of whoever wants it", []step{
			{at(50, by("a", hold("k", 100))), done},
			{at(100, by("b", hold("k", 200))), done},
			{at(60, by("c", hold("k", 300))), against(nil, standing("b"))},
		}},
		{"a claim forever", []step{
			{by("a", hold("k", eventlog.Forever)), done},
			{at(1<<62, by("b", hold("k", eventlog.Forever))), against(nil, standing("a"))},
			{at(1<<62, by("c", replace("k", 1, eventlog.Forever))), done},
		}},
		{"replaced by version", []step{
			{by("a", hold("k", 10)), done},
			{by("b", replace("k", 1, 20)), done},
			{by("c", replace("k", 1, 30)), against(nil, standing("b"))},
			{by("d", replace("k", 3, 30)), against(nil, standing("b"))},
			{by("e", replace("k", 2, 30)), done},
		}},
		{"a version that is wrong does not matter where the claim has lapsed", []step{
			{by("a", hold("k", 10)), done},
			{at(10, by("b", replace("k", 7, 20))), done},
			{at(10, by("c", replace("k", 1, 30))), against(nil, standing("b"))},
			{at(10, by("d", replace("k", 2, 30))), done},
		}},
		{"given up by its holder", []step{
			{at(5, by("a", hold("k", 10))), done},
			{at(6, by("b", replace("k", 1, 6))), done},
			{at(6, by("c", hold("k", 20))), done},
			{at(6, by("d", replace("k", 3, 0))), done},
			{at(1, by("e", hold("k", 20))), done},
		}},
		{"given up by one who does not hold it", []step{
			{at(5, by("a", hold("k", 10))), done},
			{at(6, by("b", hold("k", 0))), against(nil, standing("a"))},
			{at(6, by("c", replace("k", 2, 0))), against(nil, standing("a"))},
		}},
		{"several keys, one held", []step{
			{by("a", hold("k", 10)), done},
			{by("b", hold("j", 10), hold("k", 10), hold("l", 10)), against(nil, standing("a"))},
			{by("c", hold("j", 10), hold("l", 10)), done},
		}},
		{"several keys, several held", []step{
			{by("a", hold("k", 10)), done},
			{by("b", hold("l", 10)), done},
			{by("c", hold("l", 10), hold("j", 10), hold("k", 10)), against(nil, standing("a", "b"))},
			{by("d", hold("l", 10), replace("k", 1, 10)), against(nil, standing("b"))},
			{by("e", replace("l", 1, 10), replace("k", 1, 10)), done},
		}},
		{"keys of any kind", []step{
			{by("a", hold("k", 10)), done},
			{by("b", hold("k ", 10)), done},
			{by("c", hold("k/\u00e9\U0001F600", 10)), done},
			{by("d", hold("k\x01", 10)), done},
			{by("e", hold(strings.Repeat("k", 512), 10)), done},
			{by("f", hold(strings.Repeat("k", 511), 10)), done},
		}},
	})
	t.Run("versions", func(t *testing.T) { testVersions(open(t)) })
	t.Run("what stands", func(t *testing.T) { testClaimContent(open(t)) })
	t.Run("absent", func(t *testing.T) { testAbsentClaim(open(t)) })
	t.Run("list", func(t *testing.T) { testClaimList(open(t)) })
	t.Run("the largest value", func(t *testing.T) { testLargestValue(open(t)) })
}

// testVersions counts every change of a key, also after the claim lapsed or was given up: a version is never used
// twice, so that If cannot meet another claim than the one that was read.
func testVersions(s *suite) {
	for i, c := range []eventlog.Commit{
		by("a", hold("k", 10)),
		by("renewed", replace("k", 1, 20)),
		at(30, by("lapsed", hold("k", 40))),
		at(31, by("given up", replace("k", 3, 0))),
		at(31, by("taken", hold("k", 50))),
		at(50, by("lapsed, too", replace("k", 1, 60))),
	} {
		s.must(c)
		s.same(nameOf(c.Writer), s.claim("k").Version, uint64(i+1))
	}
}

// testClaimContent reads back all of a claim, held and given up.
func testClaimContent(s *suite) {
	for i, c := range []eventlog.Commit{
		at(5, by("a", put("s", 0, 1), hold("k", 10))),
		at(6, by("b", replace("k", 1, eventlog.Forever))),
		at(7, by("c", replace("k", 2, 7))),
	} {
		s.must(c)
		got, want := s.claim("k"), c.Claims[0]
		want.Version, want.Writer = uint64(i+1), c.Writer
		s.same("claim", got, want)
	}
}

func testAbsentClaim(s *suite) {
	s.must(by("a", hold("key", 10)))
	for _, key := range []string{"ke", "key ", "key2", "KEY"} {
		if c, ok, err := s.log.Claim(s.Context(), key); err != nil || ok {
			s.Errorf("claim %q: found %v %+v, error %v", key, ok, c, err)
		}
	}
}

// testClaimList pages through claims by prefix. The order is that of the bytes, whatever the script. No directory has
// another below it, where implementations differ.
func testClaimList(s *suite) {
	keys := []string{"a/", "a/1", "a/10", "a/2", "a/\u00e9", "a/\uffff", "a/\U0001F600", "b/1", "k", "k\x01", "k0"}
	for i, n := range []int{7, 2, 10, 0, 5, 1, 9, 3, 8, 4, 6} {
		s.must(by(fmt.Sprintf("w%d", i), hold(keys[n], int64(n)))) // some have lapsed, all are listed
	}
	for _, tt := range []struct {
		prefix, after string
		limit         int
		want          []string
	}{
		{"a/", "", 100, keys[:7]},
		{"a/", "a/", 100, keys[1:7]},
		{"a/", "a/", 3, keys[1:4]},
		{"a/", "a/10", 2, keys[3:5]},
		{"a/", "a/11", 1, keys[3:4]},
		{"a/", "a/\U0001F600", 100, nil},
		{"a/", "b", 100, nil},
		{"a/1", "", 100, keys[1:3]},
		{"a/1", "a/1", 100, keys[2:3]},
		{"b/", "a", 100, keys[7:8]},
		{"k", "", 100, keys[8:]},
		{"k", "", 2, keys[8:10]},
		{"k", "k", 1, keys[9:10]},
		{"k", "k0", 100, nil},
		{"c", "", 100, nil},
		{"c/", "", 100, nil},
	} {
		claims, err := s.log.Claims(s.Context(), tt.prefix, tt.after, tt.limit)
		if err != nil {
			s.Fatalf("claims of %q after %q: %v", tt.prefix, tt.after, err)
		}
		var got []string
		for _, c := range claims {
			got = append(got, c.Key)
			s.same("listed and alone", c, s.claim(c.Key))
		}
		s.same(fmt.Sprintf("claims of %q after %q, at most %d", tt.prefix, tt.after, tt.limit), got, tt.want)
	}
}

func testLargestValue(s *suite) {
	c := by("a", hold("k", 10))
	c.Claims[0].Value = []byte(strings.Repeat("v", 256<<10))
	s.must(c)
	s.same("value", s.claim("k").Value, c.Claims[0].Value)
}

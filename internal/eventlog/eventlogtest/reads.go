package eventlogtest

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/leaselog/leaselog/internal/eventlog"
)

func testReads(t *testing.T, open func(*testing.T) *suite) {
	t.Run("positions and limits", func(t *testing.T) { testReadFrom(open(t)) })
	t.Run("contents", func(t *testing.T) { testReadContent(open(t)) })
	t.Run("bytes", func(t *testing.T) { testReadBytes(open(t)) })
	t.Run("empty streams", func(t *testing.T) { testReadEmpty(open(t)) })
	t.Run("last", func(t *testing.T) { testLast(open(t)) })
	t.Run("many entries", func(t *testing.T) { testReadMany(open(t)) })
	t.Run("slices stay", func(t *testing.T) { testSlicesStay(open(t)) })
}

// testReadFrom reads a stream with entries at 0, 3, 4 and 10, ending at 11, with neighbours on both sides.
func testReadFrom(s *suite) {
	s.fill("s", 3, 1, 6, 1)
	s.fill("r", 5, 5, 5)
	s.fill("s0", 2, 2)
	type list = []eventlog.Seq
	for _, tt := range []struct {
		from   eventlog.Seq
		limits eventlog.Limits
		want   list
	}{
		{0, eventlog.Limits{}, list{0, 3, 4, 10}},
		{1, eventlog.Limits{}, list{0, 3, 4, 10}},
		{2, eventlog.Limits{}, list{0, 3, 4, 10}},
		{3, eventlog.Limits{}, list{3, 4, 10}},
		{4, eventlog.Limits{}, list{4, 10}},
		{9, eventlog.Limits{}, list{4, 10}},
		{10, eventlog.Limits{}, list{10}},
		{11, eventlog.Limits{}, nil},
		{12, eventlog.Limits{}, nil},
		{math.MaxUint64, eventlog.Limits{}, nil},
		{0, eventlog.Limits{Entries: 1}, list{0}},
		{2, eventlog.Limits{Entries: 2}, list{0, 3}},
		{5, eventlog.Limits{Entries: 1}, list{4}},
		{0, eventlog.Limits{Entries: 4}, list{0, 3, 4, 10}},
		{0, eventlog.Limits{Entries: 5}, list{0, 3, 4, 10}},
		{0, eventlog.Limits{Bytes: 1}, list{0}},
		{6, eventlog.Limits{Bytes: 1}, list{4}},
		{0, eventlog.Limits{Bytes: 1 << 20}, list{0, 3, 4, 10}},
		{0, eventlog.Limits{Bytes: 1 << 20, Entries: 2}, list{0, 3}},
		{0, eventlog.Limits{HeadersOnly: true}, list{0, 3, 4, 10}},
		{8, eventlog.Limits{HeadersOnly: true, Entries: 1}, list{4}},
	} {
		s.same(fmt.Sprintf("read at %d, %+v", tt.from, tt.limits), s.read("s", tt.from, tt.limits), tt.want)
		tt.limits.Lagging = true
		if got := s.read("s", tt.from, tt.limits); len(got) > len(tt.want) || !slices.Equal(got, tt.want[:len(got)]) {
			s.Errorf("a read that may lag, at %d, %+v: %v does not begin as %v does", tt.from, tt.limits, got, tt.want)
		}
	}
}

// testReadContent reads back every field, with data and without, and empty bytes, too.
func testReadContent(s *suite) {
	bare := eventlog.Commit{Writer: writer("bare"), Appends: []eventlog.Append{put("s", 4, 1)}}
	commits := []eventlog.Commit{by("a", put("s", 0, 4)), bare, by("c", put("s", 5, 1))}
	commits[2].Appends[0].Data = bytes.Repeat([]byte{0, 1, 0xff, '\n'}, 20_000)
	s.must(commits...)
	var want []eventlog.Entry
	for _, c := range commits {
		want = append(want, entriesOf(c)...)
	}
	got, err := s.log.Read(s.Context(), "s", 0, eventlog.Limits{})
	if err != nil {
		s.Fatal(err)
	}
	s.same("entries", got, want)
	for i := range want {
		want[i].Data = nil
	}
	got, err = s.log.Read(s.Context(), "s", 0, eventlog.Limits{HeadersOnly: true})
	if err != nil {
		s.Fatal(err)
	}
	s.same("headers", got, want)
}

// testReadBytes bounds a read by bytes. What a log adds to the bytes may count, so that a read may end earlier
// than one would think, but never beyond the bound and never without an entry.
func testReadBytes(s *suite) {
	const n, size = 20, 1000
	for i := range n {
		c := by(fmt.Sprintf("w%d", i), put("s", eventlog.Seq(i), 1))
		c.Appends[0].Data = make([]byte, size)
		s.must(c)
	}
	for _, bound := range []int{1, size, 3 * size, 10*size + 500, 100 * size} {
		entries, err := s.log.Read(s.Context(), "s", 5, eventlog.Limits{Bytes: bound})
		if err != nil {
			s.Fatal(err)
		}
		sum := 0
		for i, e := range entries {
			sum += len(e.Header) + len(e.Data)
			if e.Seq != eventlog.Seq(5+i) {
				s.Errorf("bound %d: entry %d is at %d", bound, i, e.Seq)
			}
		}
		switch least := min(bound/(2*size), n-5); {
		case len(entries) == 0 || len(entries) < least:
			s.Errorf("bound %d: %d entries, at least %d are possible", bound, len(entries), max(least, 1))
		case len(entries) > 1 && sum > bound:
			s.Errorf("bound %d: %d entries of %d bytes", bound, len(entries), sum)
		}
	}
}

func testReadEmpty(s *suite) {
	s.must(by("a", put("s", 0, 1)))
	for _, name := range []eventlog.Stream{"r", "s/", "t", longest} {
		for _, from := range []eventlog.Seq{0, 1, 1 << 40} {
			s.same("entries", s.read(name, from, eventlog.Limits{}), []eventlog.Seq{})
		}
		if e, ok, err := s.log.Last(s.Context(), name); ok || err != nil {
			s.Errorf("last of %s: %+v, found %v, error %v", name, e, ok, err)
		}
	}
}

// testLast follows the end of two streams, data included.
func testLast(s *suite) {
	for _, c := range []eventlog.Commit{
		by("a", put("s", 0, 1)), by("b", put("s", 1, 9)), by("c", put("t", 0, 2)), by("d", put("s", 10, 1), put("t", 2, 1)),
	} {
		s.must(c)
		for _, want := range entriesOf(c) {
			got, ok, err := s.log.Last(s.Context(), want.Stream)
			if err != nil || !ok {
				s.Fatalf("last of %s: found %v, error %v", want.Stream, ok, err)
			}
			s.same("last", got, want)
		}
	}
}

// testReadMany passes whatever an implementation holds in one page, in one batch, or under one digit.
func testReadMany(s *suite) {
	const n = 300
	var want []eventlog.Seq
	for i := range eventlog.Seq(n) {
		s.must(by(fmt.Sprintf("w%d", i), put("s", i*7, 7)))
		want = append(want, i*7)
	}
	s.same("all", s.read("s", 0, eventlog.Limits{}), want)
	s.same("from within", s.read("s", 1234, eventlog.Limits{}), want[1234/7:])
	s.same("a few", s.read("s", 1234, eventlog.Limits{Entries: 100}), want[1234/7:1234/7+100])
}

// testSlicesStay holds on to everything a log gave while the log goes on: nothing of it may change.
func testSlicesStay(s *suite) {
	s.fill("s", 1, 1, 1)
	s.must(by("k", hold("k", 10)))
	snap := eventlog.Snapshot{Seq: 2, Data: []byte("two")}
	if err := s.log.PutSnapshot(s.Context(), "s", snap); err != nil {
		s.Fatal(err)
	}
	entries, _ := s.log.Read(s.Context(), "s", 0, eventlog.Limits{})
	last, _, _ := s.log.Last(s.Context(), "s")
	claim := s.claim("k")
	found, _, _ := s.log.Snapshot(s.Context(), "s", 9)
	before := fmt.Sprintf("%v %v %v %v", entries, last, claim, found)
	for i := range 20 {
		s.must(by(fmt.Sprintf("w%d", i), put("s", eventlog.Seq(3+i), 1), replace("k", uint64(i+1), 10)))
		s.read("s", 0, eventlog.Limits{})
	}
	if err := s.log.PutSnapshot(s.Context(), "s", eventlog.Snapshot{Seq: 2, Data: []byte("new")}); err != nil {
		s.Fatal(err)
	}
	s.drop("s", 0, 10)
	if after := fmt.Sprintf("%v %v %v %v", entries, last, claim, found); after != before {
		s.Errorf("what was read has changed:\n%s\n%s", before, after)
	}
}

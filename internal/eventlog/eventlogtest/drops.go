package eventlogtest

import (
	"testing"

	"github.com/leaselog/leaselog/internal/eventlog"
)

func testDrops(t *testing.T, open func(*testing.T) *suite) {
	t.Run("what is left", func(t *testing.T) { testDropLeft(t, open) })
	t.Run("appending goes on", func(t *testing.T) { testDropAppend(open(t)) })
	t.Run("in a dropped range nobody writes", func(t *testing.T) { testDropConflict(open(t)) })
	t.Run("other streams stay", func(t *testing.T) { testDropOthers(open(t)) })
	t.Run("nothing to drop", func(t *testing.T) { testDropNothing(open(t)) })
}

// testDropLeft drops from a stream with entries at 0, 3, 4, 10, 11 and 13, ending at 14.
func testDropLeft(t *testing.T, open func(*testing.T) *suite) {
	type seq = eventlog.Seq
	for _, tt := range []struct {
		name  string
		drops [][2]seq
		left  []seq
	}{
		{"from the start", [][2]seq{{0, 4}}, []seq{4, 10, 11, 13}},
		{"a part of an entry at the end of the range", [][2]seq{{0, 9}}, []seq{4, 10, 11, 13}},
		{"a part of an entry at its start", [][2]seq{{1, 10}}, []seq{0, 10, 11, 13}},
		{"within one entry", [][2]seq{{5, 9}}, []seq{0, 3, 4, 10, 11, 13}},
		{"one entry", [][2]seq{{4, 10}}, []seq{0, 3, 10, 11, 13}},
		{"an empty range", [][2]seq{{4, 4}}, []seq{0, 3, 4, 10, 11, 13}},
		{"all but the last", [][2]seq{{0, 13}}, []seq{13}},
		{"never the last", [][2]seq{{0, 14}}, []seq{13}},
		{"never the last, far beyond", [][2]seq{{0, 1 << 62}}, []seq{13}},
		{"only the last", [][2]seq{{13, 14}}, []seq{0, 3, 4, 10, 11, 13}},
		{"twice the same", [][2]seq{{3, 10}, {3, 10}}, []seq{0, 10, 11, 13}},
		{"one after the other", [][2]seq{{0, 3}, {3, 4}, {4, 10}}, []seq{10, 11, 13}},
		{"one before the other", [][2]seq{{4, 10}, {3, 4}, {0, 3}}, []seq{10, 11, 13}},
		{"apart", [][2]seq{{0, 3}, {4, 10}}, []seq{3, 10, 11, 13}},
		{"apart, then joined", [][2]seq{{0, 3}, {4, 10}, {3, 4}}, []seq{10, 11, 13}},
		{"three apart, then across all", [][2]seq{{0, 3}, {4, 10}, {11, 13}, {0, 13}}, []seq{13}},
		{"overlapping", [][2]seq{{0, 10}, {4, 13}}, []seq{13}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := open(t)
			s.fill("s", 3, 1, 6, 1, 2, 1)
			for _, d := range tt.drops {
				s.drop("s", d[0], d[1])
			}
			s.left("s", []seq{0, 3, 4, 10, 11, 13, 14}, tt.left)
		})
	}
}

// left demands that of the entries between the given bounds only some are left, each reached by reading at every
// number it takes, and that reading anything else tells how far it was dropped.
func (s *suite) left(name eventlog.Stream, bounds, left []eventlog.Seq) {
	s.Helper()
	for i, first := range bounds[:len(bounds)-1] {
		for from := first; from < bounds[i+1]; from++ {
			run, next := runFrom(bounds, left, first)
			if len(run) == 0 {
				s.truncated(name, from, next)
				continue
			}
			s.same("entries", s.read(name, from, eventlog.Limits{}), run)
		}
	}
	s.same("the end", s.read(name, bounds[len(bounds)-1], eventlog.Limits{}), []eventlog.Seq{})
	last, ok, err := s.log.Last(s.Context(), name)
	if err != nil || !ok || last.Seq != left[len(left)-1] {
		s.Errorf("last is at %d, found %v, error %v; want %d", last.Seq, ok, err, left[len(left)-1])
	}
	if err := Check(s.Context(), s.log, name); err != nil {
		s.Error(err)
	}
}

// runFrom gives the entries that stand without a gap from first on, and else where the next one stands.
func runFrom(bounds, left []eventlog.Seq, first eventlog.Seq) (run []eventlog.Seq, next eventlog.Seq) {
	i := 0
	for left[i] < first {
		i++
	}
	if left[i] != first {
		return nil, left[i]
	}
	for _, b := range bounds {
		if b < first {
			continue
		}
		if i == len(left) || left[i] != b {
			break
		}
		run = append(run, b)
		i++
	}
	return run, 0
}

func testDropAppend(s *suite) {
	s.fill("s", 2, 2, 2)
	s.drop("s", 0, 6)
	s.must(by("a", put("s", 6, 1)))
	s.left("s", []eventlog.Seq{0, 2, 4, 6, 7}, []eventlog.Seq{4, 6})
	s.drop("s", 0, 7)
	s.left("s", []eventlog.Seq{0, 2, 4, 6, 7}, []eventlog.Seq{6})
}

// testDropConflict appends where entries were dropped. Nobody can say what stood there, only that it is taken.
func testDropConflict(s *suite) {
	s.fill("s", 2, 2, 2)
	s.drop("s", 0, 4)
	for i, seq := range []eventlog.Seq{0, 1, 2, 3} {
		name := string(rune('a' + i))
		if err := against(nil, nil)(s.commit(by(name, put("s", seq, 1), put("t", 0, 1)))); err != nil {
			s.Errorf("at %d: %v", seq, err)
		}
	}
	if err := against(standing("s-2"), nil)(s.commit(by("e", put("s", 5, 1)))); err != nil {
		s.Error(err)
	}
}

func testDropOthers(s *suite) {
	for _, name := range []eventlog.Stream{"s", "r", "t", "s0", "s/0"} {
		s.fill(name, 1, 1, 1)
	}
	s.must(by("k", hold("s", 10)))
	s.drop("s", 0, 2)
	for _, name := range []eventlog.Stream{"r", "t", "s0", "s/0"} {
		s.left(name, []eventlog.Seq{0, 1, 2, 3}, []eventlog.Seq{0, 1, 2})
	}
	s.left("s", []eventlog.Seq{0, 1, 2, 3}, []eventlog.Seq{2})
	s.claim("s")
}

func testDropNothing(s *suite) {
	s.drop("s", 0, 100)
	s.must(by("a", put("s", 0, 1)))
	s.drop("s", 5, 100)
	s.left("s", []eventlog.Seq{0, 1}, []eventlog.Seq{0})
}

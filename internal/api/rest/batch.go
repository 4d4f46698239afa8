package rest

import (
	"strconv"

	"github.com/leaselog/leaselog/internal/fault"
)

// entry is one item of a batch.
type entry[T any] interface {
	*T
	entryID() string
	complete() error // what is missing of it
}

// batch reads {"entries":[…]} (section 5, Batches). What is wrong with the form is an error of the whole request; what
// is wrong with one entry stays in it.
func batch[T any, P entry[T]](s *scan, body []byte, into []T, o *object[T]) ([]T, error) {
	s.begin(body)
	if err := s.enter('{', "the body"); err != nil {
		return into, err
	}
	count := 0
	for s.dec.PeekKind() != '}' {
		name, err := s.member()
		if err != nil {
			return into, err
		}
		if string(name) != "entries" || s.dec.PeekKind() == 'n' {
			err = s.skip()
		} else {
			into, count, err = list[T, P](s, into, o)
		}
		if err != nil {
			return into, err
		}
	}
	if err := s.leave(); err != nil {
		return into, err
	}
	if err := s.finish(); err != nil {
		return into, err
	}
	if count < 1 || count > batchEntriesMax {
		return into, invalid("entries must hold 1 to %d entries, not %d", batchEntriesMax, count)
	}
	return into, nil
}

// list reads the entries and counts those beyond the most, which are not kept.
func list[T any, P entry[T]](s *scan, into []T, o *object[T]) ([]T, int, error) {
	if err := s.enter('[', "entries"); err != nil {
		return into, 0, err
	}
	count := 0
	for ; s.dec.PeekKind() != ']'; count++ {
		if count >= batchEntriesMax {
			if err := s.skip(); err != nil {
				return into, count, err
			}
			continue
		}
		var zero T
		into = append(into, zero)
		if err := item[T, P](s, into, o); err != nil {
			return into, count, within("entries["+strconv.Itoa(count)+"]", err)
		}
	}
	return into, count, s.leave()
}

// item reads the last entry of a list and checks what the others depend on: its id.
func item[T any, P entry[T]](s *scan, all []T, o *object[T]) error {
	last := P(&all[len(all)-1])
	if err := members(s, "an entry", (*T)(last), o); err != nil {
		return err
	}
	id := last.entryID()
	if id == "" {
		return invalid("id is missing; give each entry one of 1 to %d characters", entryIDMax)
	}
	if err := checkText("id", id, 1, entryIDMax); err != nil {
		return err
	}
	for i := range all[:len(all)-1] {
		if P(&all[i]).entryID() == id {
			return invalid("id %q is also that of entries[%d]; give each entry its own", shorten(id), i)
		}
	}
	return last.complete()
}

// within says in which part of the request a fault is.
func within(part string, err error) error {
	f := fault.Of(err)
	return fault.New(f.Code, "%s: %s", part, f.Message)
}

// failed appends the result of an entry that was refused (section 4.9).
func (c *call) failed(b []byte, id string, err error) []byte {
	w, message := c.judge(err)
	b = text(append(b, '{'), "id", id)
	b = text(append(b, ','), "error", w.code)
	return append(text(append(b, ','), "message", message), '}')
}

// results answers a batch. one appends the result of the i-th entry.
func (c *call) results(n int, one func(b []byte, i int) []byte) error {
	b := append(c.out[:0], `{"results":[`...)
	for i := range n {
		if i > 0 {
			b = append(b, ',')
		}
		b = one(b, i)
	}
	c.out = append(b, `]}`...)
	c.json(200)
	return nil
}

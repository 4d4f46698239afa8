package rest

import (
	"bytes"
	"errors"
	"io"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
)

// scan reads a JSON body, token by token and without reflection: on the hot path that halves the cost of a message.
// The decoder refuses invalid UTF-8, half surrogates and repeated names; a scan refuses wrong types and numbers that
// are not whole, and ignores unknown fields. Every error is a fault Invalid.
type scan struct {
	in   bytes.Buffer
	dec  jsontext.Decoder
	name []byte // of the member being read, when it had escapes
}

// begin starts on a body. It must not change while it is scanned.
func (s *scan) begin(body []byte) {
	s.in = *bytes.NewBuffer(body) // the decoder reads such a buffer in place
	s.dec.Reset(&s.in)
}

// object says how to read the fields of a T. A null is an absent field (section 1), but for those in nulls.
type object[T any] struct {
	fields map[string]func(*scan, *T) error
	nulls  map[string]func(*T)
}

// one reads a body that is one object and nothing else.
func one[T any](s *scan, body []byte, into *T, o *object[T]) error {
	s.begin(body)
	if err := members(s, "the body", into, o); err != nil {
		return err
	}
	return s.finish()
}

// members reads one object. what names it in messages.
func members[T any](s *scan, what string, into *T, o *object[T]) error {
	if err := s.enter('{', what); err != nil {
		return err
	}
	for s.dec.PeekKind() != '}' {
		name, err := s.member()
		if err != nil {
			return err
		}
		read, null := o.fields[string(name)], o.nulls[string(name)]
		switch isNull := s.dec.PeekKind() == 'n'; {
		case isNull && null != nil:
			null(into)
			err = s.skip()
		case isNull || read == nil:
			err = s.skip()
		default:
			err = read(s, into)
		}
		if err != nil {
			return err
		}
	}
	return s.leave()
}

// enter steps into an object or array.
func (s *scan) enter(open jsontext.Kind, what string) error {
	if s.dec.PeekKind() != open {
		want := "an object"
		if open == '[' {
			want = "an array"
		}
		return s.mistyped(what, want)
	}
	_, err := s.dec.ReadToken()
	return broken(err)
}

// leave steps out again.
func (s *scan) leave() error {
	_, err := s.dec.ReadToken()
	return broken(err)
}

// finish demands that the body ends here.
func (s *scan) finish() error {
	if _, err := s.dec.ReadToken(); err == io.EOF {
		return nil
	}
	return invalid("there is more after the body's JSON value, from byte %d on", s.dec.InputOffset())
}

// empty says whether the body holds no value, or only null.
func empty(body []byte) bool {
	body = bytes.Trim(body, " \t\r\n")
	return len(body) == 0 || string(body) == "null"
}

// member reads a name, which is valid until the next read.
func (s *scan) member() ([]byte, error) {
	raw, err := s.dec.ReadValue()
	if err != nil {
		return nil, broken(err)
	}
	return s.plain(raw), nil
}

// plain gives a string's content: the input itself, or a scratch buffer when there are escapes.
func (s *scan) plain(raw jsontext.Value) []byte {
	if inner := raw[1 : len(raw)-1]; bytes.IndexByte(inner, '\\') < 0 {
		return inner
	}
	s.name, _ = jsontext.AppendUnquote(s.name[:0], raw) // the decoder has checked it
	return s.name
}

func (s *scan) skip() error { return broken(s.dec.SkipValue()) }

// text reads a string.
func (s *scan) text(what string, into *string) error {
	raw, err := s.quoted(what)
	if err == nil {
		*into = string(s.plain(raw))
	}
	return err
}

// bytes reads a string into memory of its own, never nil: a message's body outlives the request.
func (s *scan) bytes(what string, into *[]byte) error {
	raw, err := s.quoted(what)
	if err != nil {
		return err
	}
	if inner := raw[1 : len(raw)-1]; bytes.IndexByte(inner, '\\') < 0 {
		*into = append(make([]byte, 0, len(inner)), inner...)
		return nil
	}
	*into, _ = jsontext.AppendUnquote([]byte{}, raw)
	return nil
}

func (s *scan) quoted(what string) (jsontext.Value, error) {
	if s.dec.PeekKind() != '"' {
		return nil, s.mistyped(what, "a string")
	}
	raw, err := s.dec.ReadValue()
	return raw, broken(err)
}

// flag reads true or false.
func (s *scan) flag(what string, into **bool) error {
	kind := s.dec.PeekKind()
	if kind != 't' && kind != 'f' {
		return s.mistyped(what, "true or false")
	}
	yes := kind == 't'
	*into = &yes
	return s.skip()
}

// whole reads a number that is written as a whole one: 30.0 and 3e1 are wrong types, as section 4 has it. One out of
// its range is a problem of its field alone, which in a batch fails one entry and not the request.
func (s *scan) whole(in span, into **uint32, problem *error) error {
	if s.dec.PeekKind() != '0' {
		return s.mistyped(in.name, in.String())
	}
	raw, err := s.dec.ReadValue()
	if err != nil {
		return broken(err)
	}
	if bytes.ContainsAny(raw, ".eE") {
		return invalid("%s must be %s, not %s", in.name, in, got(raw))
	}
	n, err := strconv.ParseInt(string(raw), 10, 64)
	if err != nil || n < int64(in.low) || n > int64(in.high) {
		first(problem, invalid("%s must be %s, not %s", in.name, in, got(raw)))
		return nil
	}
	value := uint32(n)
	*into = &value
	return nil
}

// first keeps the first problem of an input.
func first(problem *error, err error) {
	if *problem == nil {
		*problem = err
	}
}

// mistyped reads whatever stands here and says that it is not what was wanted.
func (s *scan) mistyped(what, want string) error {
	raw, err := s.dec.ReadValue()
	if err == io.EOF {
		return invalid("the body is empty; %s must be %s", what, want)
	}
	if err != nil {
		return broken(err)
	}
	return invalid("%s must be %s, not %s", what, want, got(raw))
}

// got names a value in a message without repeating what may be secret.
func got(raw jsontext.Value) string {
	switch raw.Kind() {
	case '"':
		return "a string"
	case '{':
		return "an object"
	case '[':
		return "an array"
	}
	return shorten(string(raw))
}

// broken is what a user is told of JSON that cannot be read.
func broken(err error) error {
	if err == nil {
		return nil
	}
	if errors.Is(err, io.ErrUnexpectedEOF) || err == io.EOF {
		return invalid("the body ends in the middle of its JSON")
	}
	if e, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
		return invalid("the body is not valid JSON: %s, at byte %d", shorten(e.Err.Error()), e.ByteOffset)
	}
	return invalid("the body is not valid JSON")
}

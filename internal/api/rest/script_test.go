package rest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// A wire script is a text file of requests and what is expected of their answers:
//
//	# why this case is here
//	POST /v1/queues/$id/messages        the request line
//	X-Account-Id: other                 headers; "Authorization: -" sends none
//	{"body":"x"}                        the body, or go "…" for bytes in Go's notation; up to the empty line
//
//	code == 200
//	header Allow == GET, POST
//	json result.duplicate == false      a place in the answer; numbers are places in arrays
//	absent result.error
//	body contains text
//	save id result.message_id           $id from here on
//
// Every answer must also keep what all answers keep, see [checkAnswer], and the contract.
func TestScripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal("no scripts", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			runScript(t, serving(t, new(fake)), file)
		})
	}
}

// script is a run of one file.
type script struct {
	t      *testing.T
	h      http.Handler
	file   string
	line   int
	lines  []string
	saved  map[string]string
	answer *httptest.ResponseRecorder
}

func runScript(t *testing.T, h http.Handler, file string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	s := &script{t: t, h: h, file: file, lines: strings.Split(string(text), "\n"), saved: map[string]string{}}
	for s.line < len(s.lines) {
		line := s.lines[s.line]
		s.line++
		switch {
		case line == "" || strings.HasPrefix(line, "#"):
		case requestLine.MatchString(line):
			s.send(line)
		default:
			s.check(line)
		}
	}
}

var requestLine = regexp.MustCompile(`^[A-Z]+ /`)

func (s *script) failf(format string, args ...any) {
	s.t.Helper()
	s.t.Errorf("%s:%d: %s\n%d %s", s.file, s.line, fmt.Sprintf(format, args...), s.answer.Code, s.answer.Body)
}

func (s *script) send(line string) {
	s.t.Helper()
	method, target, _ := strings.Cut(s.expand(line), " ")
	headers := http.Header{"Authorization": {"Bearer test"}}
	var body []string
	for ; s.line < len(s.lines) && s.lines[s.line] != ""; s.line++ {
		l := s.expand(s.lines[s.line])
		if name, value, ok := strings.Cut(l, ": "); ok && len(body) == 0 && regexp.MustCompile(`^[A-Za-z-]+$`).MatchString(name) {
			headers.Set(name, value)
			continue
		}
		body = append(body, l)
	}
	if headers.Get("Authorization") == "-" {
		headers.Del("Authorization")
	}
	r := httptest.NewRequest(method, target, s.body(strings.Join(body, "\n")))
	r.Header = headers
	var err error
	if s.answer, err = loadContract(s.t).serve(s.h, r); err != nil {
		s.failf("%v", err)
	}
}

func (s *script) body(text string) io.Reader {
	if quoted, ok := strings.CutPrefix(text, "go "); ok {
		raw, err := strconv.Unquote(quoted)
		if err != nil {
			s.t.Fatalf("%s:%d: %v", s.file, s.line, err)
		}
		text = raw
	}
	return bytes.NewReader([]byte(text))
}

func (s *script) expand(line string) string {
	return os.Expand(line, func(name string) string {
		if v, ok := s.saved[name]; ok {
			return v
		}
		return "$" + name
	})
}

func (s *script) check(line string) {
	s.t.Helper()
	line = s.expand(line)
	what, want, _ := strings.Cut(line, " == ")
	words := strings.Fields(line)
	switch words[0] {
	case "code":
		if got := strconv.Itoa(s.answer.Code); got != want {
			s.failf("code is %s, not %s", got, want)
		}
	case "header":
		if got := s.answer.Header().Get(words[1]); got != want {
			s.failf("%s is %q", what, got)
		}
	case "body":
		if part := strings.TrimPrefix(line, "body contains "); !strings.Contains(s.answer.Body.String(), part) {
			s.failf("the body does not contain %q", part)
		}
	case "json":
		var expected any
		if err := json.Unmarshal([]byte(want), &expected); err != nil {
			s.t.Fatalf("%s:%d: %v", s.file, s.line, err)
		}
		if got, _ := at(s.answer.Body.Bytes(), words[1]); !reflect.DeepEqual(got, expected) {
			s.failf("%s is %v, not %v", words[1], got, expected)
		}
	case "absent":
		if got, ok := at(s.answer.Body.Bytes(), words[1]); ok {
			s.failf("%s is there: %v", words[1], got)
		}
	case "save":
		got, ok := at(s.answer.Body.Bytes(), words[2])
		if !ok {
			s.failf("%s is not there", words[2])
		}
		s.saved[words[1]] = fmt.Sprint(got)
	default:
		s.t.Fatalf("%s:%d: unknown check %q", s.file, s.line, line)
	}
}

// at looks a place up: names and numbers joined by dots.
func at(body []byte, path string) (v any, ok bool) {
	if json.Unmarshal(body, &v) != nil {
		return nil, false
	}
	for part := range strings.SplitSeq(path, ".") {
		switch in := v.(type) {
		case map[string]any:
			if v, ok = in[part]; !ok {
				return nil, false
			}
		case []any:
			i, err := strconv.Atoi(part)
			if err != nil || i >= len(in) {
				return nil, false
			}
			v = in[i]
		default:
			return nil, false
		}
	}
	return v, true
}

var uuidForm = regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)

// checkAnswer holds what sections 1 and 6 say of every answer: a request id, an exact length, never a redirect, and
// for an error the envelope with three strings and the same id.
func checkAnswer(a *httptest.ResponseRecorder) error {
	id := a.Header().Get("X-Request-Id")
	if !uuidForm.MatchString(id) {
		return fmt.Errorf("X-Request-Id is %q", id)
	}
	if a.Code >= 300 && a.Code < 400 {
		return fmt.Errorf("a redirect")
	}
	if a.Code == http.StatusNoContent {
		if a.Body.Len() > 0 {
			return fmt.Errorf("204 with a body")
		}
		return nil
	}
	if got := a.Header().Get("Content-Length"); got != strconv.Itoa(a.Body.Len()) {
		return fmt.Errorf("Content-Length is %q, the body has %d bytes", got, a.Body.Len())
	}
	if !json.Valid(a.Body.Bytes()) || a.Header().Get("Content-Type") != "application/json" {
		return fmt.Errorf("the body is not JSON, or not said to be")
	}
	if a.Code < 400 || bytes.Contains(a.Body.Bytes(), []byte("error_description")) {
		return nil
	}
	var e struct{ Error map[string]any }
	if err := json.Unmarshal(a.Body.Bytes(), &e); err != nil {
		return err
	}
	code, _ := e.Error["code"].(string)
	message, _ := e.Error["message"].(string)
	if code == "" || message == "" || e.Error["request_id"] != id || len(e.Error) != 3 {
		return fmt.Errorf("the envelope is not complete")
	}
	return nil
}

// do sends one request to a handler, with credentials, and holds the answer to the contract.
func do(t testing.TB, h http.Handler, method, target, body string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequest(method, target, strings.NewReader(body))
	r.Header.Set("Authorization", "Bearer test")
	a, err := loadContract(t).serve(h, r)
	if err != nil {
		t.Errorf("%s %s: %v\n%s", method, target, err, a.Body)
	}
	return a
}

// expect sends one request and checks the status and that the body has all parts.
func expect(t testing.TB, h http.Handler, method, target, body string, code int, parts ...string) {
	t.Helper()
	a := do(t, h, method, target, body)
	missing := slices.ContainsFunc(parts, func(p string) bool { return !strings.Contains(a.Body.String(), p) })
	if a.Code != code || missing {
		t.Errorf("%s %s %.200s\n is %d %s\nwant %d %q", method, target, body, a.Code, a.Body, code, parts)
	}
}

package host

import (
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"
)

// answerBytesMax is what Lambda passes on of an answer, as JSON: 6 MB by its quotas, and 100 bytes more by its error.
const answerBytesMax = 6<<20 + 100

// bodyOf is an answer's body as the client gets it.
func bodyOf(l *line, a response) string {
	l.Helper()
	if text, err := json.Marshal(a); err != nil || len(text) > answerBytesMax {
		l.Errorf("an answer of %d bytes, Lambda passes on %d: %v", len(text), answerBytesMax, err)
	}
	if !a.IsBase64Encoded {
		return a.Body
	}
	body, err := base64.StdEncoding.DecodeString(a.Body)
	l.must(err)
	return string(body)
}

// encoded is how a gateway hands over whatever it does not take for text.
func encoded(e event) event {
	e.Body, e.IsBase64Encoded = base64.StdEncoding.EncodeToString([]byte(e.Body)), true
	delete(e.Headers, "content-type")
	return e
}

// bodies is case G1 for the native dialect, its parts 3 to 5: a body comes base64-encoded where its type is not known for
// text, limits are judged on what it decodes to, and one that does not decode is the caller's fault.
//
// With the other dialects come: SQS, part 2: SendMessage of the Query protocol, whose form type comes encoded too, with
// the MD5 of body and attributes. Spooler, part 1: the bytes 00 to FF as application/octet-stream, stored and received as
// they are, the binary answer flagged base64; and the size limit of a payload, in bytes as decoded.
func bodies(c *cloud, t *testing.T) {
	l := c.line("bodies", map[string]any{"max_message_bytes": 2048})
	every := []rune{}
	for r := range rune(0x300) {
		every = append(every, r)
	}
	text := string(every) + "\u2028\U0010ffff\\\"</script>"
	send := func(body string) event {
		e := l.event("send-message", "TOKEN", l.token, "orders", "bodies")
		in, err := json.Marshal(map[string]string{"body": body})
		c.must(err)
		e.Body = string(in)
		return e
	}
	for _, e := range []event{send(text), encoded(send(text))} {
		l.wants("send", l.send.ask(e), 200, "")
		if _, found := l.receives(l.receive, 1); len(found) != 1 || found[0].body != text {
			t.Errorf("base64 %v: it came out as another", e.IsBase64Encoded)
		}
	}
	l.wants("the largest", l.send.ask(encoded(send(strings.Repeat("x", 2048)))), 200, "")
	l.wants("one byte more", l.send.ask(encoded(send(strings.Repeat("x", 2049)))), 400, "2049")
	for _, body := range []string{"not base64!", "AAA", "e30=="} {
		e := send("x")
		e.Body, e.IsBase64Encoded = body, true
		l.wants("no base64", l.send.ask(e), 400, "INVALID_INPUT")
	}
	l.wants("nothing", l.send.ask(encoded(event{RawPath: send("").RawPath, RequestContext: send("").RequestContext, Headers: send("").Headers})), 400, "INVALID_INPUT")
}

// longAnswers: messages of the largest size, of characters that grow most on their way out, never make an answer that
// Lambda does not pass on; each answer has some of them, until all have come.
func longAnswers(c *cloud, t *testing.T) {
	l := c.line("long", map[string]any{})
	const each = 10
	for _, character := range []string{"<", `"`, "\u0001"} {
		largest := strings.Repeat(character, 262144/len(character))
		for i := range each {
			a := l.sends(l.send, largest)
			if a.StatusCode != 200 {
				t.Fatalf("message %d of %q: %d %s", i, character, a.StatusCode, a.Body)
			}
		}
		peeked := l.warm("peek-messages").ask(l.event("peek-messages", "TOKEN", l.token, "orders", "long", "limit=10", "limit=100"))
		l.wants("peek", peeked, 200, "")
		bodyOf(l, peeked)
		came, answers := 0, 0
		for ; came < each && answers < each; answers++ {
			a, found := l.receives(l.receive, 10)
			if l.wants("receive", a, 200, ""); len(found) == 0 {
				break
			}
			for _, m := range found {
				if came++; m.body != largest {
					t.Errorf("a message of %q came out as another", character)
				}
			}
		}
		if came != each {
			t.Errorf("%d of %d messages of %q came", came, each, character)
		}
		t.Logf("%d of the largest messages of %q came in %d answers", came, character, answers)
	}
}

package rest

import (
	"fmt"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/leaselog/leaselog/internal/auth"
)

// guess is something of account A, and something of the same length that never existed. B must not see a difference.
type guess struct{ what, real, never string }

// victim is account A with everything that B could guess at.
type victim struct {
	refs     []guess // of queues: by id, name, CRN, and of a deleted one
	accounts []guess
	receipt  guess
	list     guess // markers
	peek     guess
	message  guess // CRN
	token    guess
	key      guess
}

const randomID = "3b241101-e2bb-4255-8caf-4136c566a962"

func newVictim(t *testing.T, a *user) *victim {
	id := a.want(201, "queue.id", "POST", "/v1/queues", `{"name":"orders"}`)
	gone := a.want(201, "queue.id", "POST", "/v1/queues", `{"name":"gone"}`)
	a.want(204, "", "DELETE", "/v1/queues/gone", "")
	a.want(201, "", "POST", "/v1/queues", `{"name":"kitchen"}`)
	var message string
	for i := range 3 {
		message = a.want(200, "result.message_id", "POST", "/v1/queues/orders/messages", fmt.Sprintf(`{"body":"secret %d"}`, i), "Idempotency-Key", fmt.Sprint("key-", i))
	}
	receipt := a.want(200, "messages.0.receipt_handle", "POST", "/v1/queues/orders/messages/receive", `{"visibility_timeout_seconds":600}`)
	list := a.want(200, "meta.marker", "GET", "/v1/queues?limit=1", "")
	peek := a.want(200, "meta.marker", "GET", "/v1/queues/orders/messages?limit=1", "")
	all, err := a.d.Accounts(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	own := all[slices.IndexFunc(all, func(x auth.Account) bool { return x.Handle == "aaaa" })].ID
	return &victim{
		refs: []guess{{"id", id, randomID}, {"id of a deleted queue", gone, randomID}, {"name", "orders", "nowher"},
			{"CRN of the account", "crn:queue:local:aaaa:queue/orders", "crn:queue:local:aaaa:queue/nowher"},
			{"CRN of no account", "crn:queue:local:aaaa:queue/orders", "crn:queue:local:zzzz:queue/orders"}},
		accounts: []guess{{"handle", "aaaa", "zzzz"}, {"id", own, randomID}},
		receipt:  guess{"receipt", receipt, flip(receipt)},
		list:     guess{"list marker", list, flip(list)},
		peek:     guess{"peek marker", peek, flip(peek)},
		message:  guess{"message CRN", "crn:queue:local:aaaa:message/orders/" + message, "crn:queue:local:aaaa:message/orders/" + randomID},
		token:    guess{"token", a.token, flip(a.token)},
		key:      guess{"key id", a.key.ID, flip(a.key.ID)},
	}
}

// flip changes the first letter or digit behind the eighth character.
func flip(s string) string {
	c := "2"
	if s[8:9] == c {
		c = "3"
	}
	return s[:8] + c + s[9:]
}

// probe is a request of an operation with one place for a guess, written as GUESS.
type probe struct {
	op, target, body string
	headers          []string
	guesses          []guess
}

// path gives an operation's path with a queue in it.
func (op *operation) at(queue string) string { return strings.Replace(op.path, "{queue_id}", queue, 1) }

// bodies are good ones of every operation that reads one, with a receipt in place.
func bodies(receipt string) map[string]string {
	return map[string]string{
		"send-message":                    `{"body":"x"}`,
		"send-message-batch":              `{"entries":[{"id":"a","body":"x"}]}`,
		"receive-messages":                `{"wait_time_seconds":0}`,
		"update-queue":                    `{"visibility_timeout_seconds":5}`,
		"delete-message-batch":            `{"entries":[{"id":"a","receipt_handle":"` + receipt + `"}]}`,
		"change-message-visibility":       `{"receipt_handle":"` + receipt + `","visibility_timeout_seconds":0}`,
		"change-message-visibility-batch": `{"entries":[{"id":"a","receipt_handle":"` + receipt + `","visibility_timeout_seconds":0}]}`,
		"create-queue":                    `{"name":"fresh"}`,
	}
}

// probes are all ways that B has to guess.
func (v *victim) probes() (all []probe) {
	for _, op := range operations() {
		query := ""
		if op.name == "delete-message" {
			query = "?receipt_handle=" + v.receipt.real
		}
		body := bodies(v.receipt.real)[op.name]
		switch op.access {
		case inQueue, byPath:
			all = append(all, probe{op.name, op.at("GUESS") + query, body, nil, v.refs},
				// A's name and id, in A's account and in none
				probe{op.name, op.at("orders") + query, body, []string{"X-Account-Id", "GUESS"}, v.accounts},
				probe{op.name, op.at(v.refs[0].real) + query, body, []string{"X-Account-Id", "GUESS"}, v.accounts},
				probe{op.name, op.at("nowher") + query, body, []string{"X-Account-Id", "GUESS"}, v.accounts})
		case inAccount:
			all = append(all, probe{op.name, op.path, body, []string{"X-Account-Id", "GUESS"}, v.accounts})
		}
		switch op.name { // with B's own queue in the path, and A's things beside it
		case "delete-message":
			all = append(all, probe{op.name, op.at("mine") + "?receipt_handle=GUESS", "", nil, []guess{v.receipt}})
		case "delete-message-batch", "change-message-visibility", "change-message-visibility-batch":
			all = append(all, probe{op.name, op.at("mine"), bodies("GUESS")[op.name], nil, []guess{v.receipt}})
		case "peek-messages":
			all = append(all, probe{op.name, op.at("mine") + "?marker=GUESS", "", nil, []guess{v.peek}},
				probe{op.name, op.at("mine") + "?crn=GUESS", "", nil, []guess{v.message}})
		case "list-queues":
			all = append(all, probe{op.name, op.path + "?marker=GUESS", "", nil, []guess{v.list}},
				probe{op.name, op.path + "?name=GUESS", "", nil, v.refs[2:3]}, probe{op.name, op.path + "?crn=GUESS", "", nil, v.refs[3:]})
		case "list-depths":
			all = append(all, probe{op.name, op.path + "?marker=GUESS", "", nil, []guess{v.list}})
		case "update-queue":
			all = append(all, probe{op.name, op.at("mine"), `{"redrive_policy":{"dead_letter_queue":"GUESS","max_receive_count":3}}`, nil, v.refs},
				probe{op.name, op.at("mine"), `{"redrive_policy":{"dead_letter_queue_id":"GUESS","max_receive_count":3}}`, nil, v.refs[:2]})
		case "create-queue":
			all = append(all, probe{op.name, op.path, `{"name":"fresh","redrive_policy":{"dead_letter_queue":"GUESS","max_receive_count":3}}`, nil, v.refs},
				probe{op.name, op.path, `{"name":"GUESS"}`, nil, []guess{{"name", "kitchen", "kitchex"}}})
		case "send-message", "send-message-batch":
			all = append(all, probe{op.name, op.at("mine"), body, []string{"Idempotency-Key", "GUESS"}, []guess{{"idempotency key", "key-0", "key-9"}}})
		case "revoke-token":
			all = append(all, probe{op.name, op.path, `{"token":"GUESS"}`, nil, []guess{v.token}})
		case "create-token":
			all = append(all, probe{op.name, op.path, "grant_type=client_credentials&client_id=GUESS&client_secret=" + strings.Repeat("x", 48),
				[]string{"Content-Type", "application/x-www-form-urlencoded"}, []guess{v.key}})
		}
	}
	return all
}

func (p probe) send(b *user, guess string) *httptest.ResponseRecorder {
	target := strings.Replace(p.target, "GUESS", url.PathEscape(strings.ReplaceAll(guess, "/", "%2F")), 1)
	target = strings.ReplaceAll(target, "%252F", "%2F")
	headers := slices.Clone(p.headers)
	for i := range headers {
		headers[i] = strings.Replace(headers[i], "GUESS", guess, 1)
	}
	i := slices.IndexFunc(operations(), func(op *operation) bool { return op.name == p.op })
	return b.do(operations()[i].method, target, strings.Replace(p.body, "GUESS", guess, 1), headers...)
}

var (
	anyID   = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)
	asOf    = regexp.MustCompile(`as_of"?:"?[^Z]*Z`)
	anyTime = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z`)
)

// untimed leaves out when depths were counted.
func untimed(answer string) string { return asOf.ReplaceAllString(answer, "as_of") }

// told is an answer as B sees it, without what is new in every answer and without the guess itself.
func told(a *httptest.ResponseRecorder, guess string) string {
	header := a.Header().Clone()
	header.Del("X-Request-Id")
	body := strings.ReplaceAll(a.Body.String(), guess, "GUESS")
	return fmt.Sprintln(a.Code, header) + anyTime.ReplaceAllString(anyID.ReplaceAllString(body, "ID"), "TIME")
}

// TestNothingLeaks: by every operation, B's guess at something of A's is answered, byte for byte, like a guess at what
// never existed; and nothing of A's has changed.
func TestNothingLeaks(t *testing.T) {
	g := newGated(t)
	a, b := g.user("aaaa"), g.user("bbbb")
	v := newVictim(t, a)
	b.want(201, "", "POST", "/v1/queues", `{"name":"mine"}`)
	before := state(a)
	probed := map[string]int{}
	for _, p := range v.probes() {
		for _, guess := range p.guesses {
			probed[p.op]++
			real, never := told(p.send(b, guess.real), guess.real), told(p.send(b, guess.never), guess.never)
			if real != never {
				t.Errorf("%s %s %s %v, by %s:\n%s\nand for what never existed\n%s", p.op, p.target, p.body, p.headers, guess.what, real, never)
			}
		}
	}
	for _, op := range operations() {
		if probed[op.name] == 0 {
			t.Errorf("%s was not tried", op.name)
		}
	}
	if own := (probe{op: "describe-queue", target: queuesPath + "/GUESS"}); told(own.send(a, "orders"), "orders") == told(own.send(a, "nowher"), "nowher") {
		t.Error("A sees no difference either, so this test shows nothing")
	}
	if after := state(a); after != before {
		t.Errorf("account A was\n%s\nand is\n%s", before, after)
	}
}

// state is all that A sees of itself.
func state(a *user) string {
	return a.do("GET", "/v1/queues", "").Body.String() + untimed(a.do("GET", "/v1/queues/orders", "").Body.String()) +
		a.do("GET", "/v1/queues/orders/messages?limit=100", "").Body.String() + a.do("GET", "/v1/queues/kitchen/messages", "").Body.String()
}

package host

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	lambdaevents "github.com/aws/aws-lambda-go/events"

	"github.com/leaselog/leaselog/internal/api"
	"github.com/leaselog/leaselog/internal/api/rest"
	"github.com/leaselog/leaselog/internal/auth"
)

type event = lambdaevents.APIGatewayV2HTTPRequest
type response = lambdaevents.APIGatewayV2HTTPResponse

// endpoints are the functions that serve, by their names.
func endpoints() map[string]api.Endpoint {
	all := map[string]api.Endpoint{}
	for _, e := range rest.Endpoints() {
		all[e.Name] = e
	}
	return all
}

// steps are every function once, in an order in which each has something to do, with the status of its answer.
var steps = []struct {
	name   string
	status int
}{
	{"create-token", 200}, {"create-queue", 201}, {"list-queues", 200}, {"describe-queue", 200}, {"update-queue", 200}, {"send-message", 200},
	{"send-message-batch", 200}, {"peek-messages", 200}, {"list-history", 200}, {"start-move", 201}, {"list-moves", 200}, {"describe-depth", 200}, {"list-depths", 200},
	{"describe-move", 200}, {"cancel-move", 200}, {"receive-messages", 200}, {"change-message-visibility", 204},
	{"change-message-visibility-batch", 200}, {"delete-message", 204}, {"delete-message-batch", 200}, {"purge-queue", 200}, {"delete-queue", 204},
	{"revoke-token", 204},
}

// story is one run of the steps. edit changes an event before it is sent.
type story struct {
	*cloud
	pair  auth.Issued
	token string // in the authorization of the events
	edit  func(name string, e *event)
	does  func(name string, e event) response
}

// story makes a story that has a queue.
func (c *cloud) story(queue string) *story {
	c.Helper()
	s := &story{cloud: c, token: c.key(auth.Static).Token}
	if a := s.cold("create-queue", s.event("create-queue", "TOKEN", s.token, "orders", queue)); a.StatusCode != 201 {
		s.Fatal(a.Body)
	}
	return s
}

// tell runs the steps and gives the answers.
func (s *story) tell() map[string]response {
	s.Helper()
	answers := map[string]response{}
	words := map[string]string{"TOKEN_TO_REVOKE": "llt.none", "RECEIPT_HANDLE_1": "", "RECEIPT_HANDLE_2": "", "RECEIPT_HANDLE_3": ""}
	for _, step := range steps {
		a := s.take(step.name, step.status, words)
		answers[step.name] = a
		switch step.name {
		case "create-token":
			words["TOKEN_TO_REVOKE"] = field[string](s, a.Body, "access_token")
		case "send-message":
			words["MESSAGE_ID"] = field[map[string]any](s, a.Body, "result")["message_id"].(string)
		case "start-move":
			words["MOVE_ID"] = field[map[string]any](s, a.Body, "move")["id"].(string)
		case "receive-messages":
			receipts := receiptsOf(s, a)
			for len(receipts) < 3 { // each time those of one shard
				receipts = append(receipts, receiptsOf(s, s.take(step.name, step.status, words))...)
			}
			words["RECEIPT_HANDLE_1"], words["RECEIPT_HANDLE_2"], words["RECEIPT_HANDLE_3"] = receipts[0], receipts[1], receipts[2]
		}
	}
	return answers
}

// take runs one step.
func (s *story) take(name string, status int, words map[string]string) response {
	s.Helper()
	replace := []string{"Bearer TOKEN", "Bearer " + s.token,
		"ACCESS_KEY_ID_COLON_SECRET_IN_BASE64", base64.StdEncoding.EncodeToString([]byte(s.pair.ID + ":" + s.pair.Secret))}
	for word, value := range words {
		replace = append(replace, word, value)
	}
	e := s.event(name, replace...)
	if s.edit != nil {
		s.edit(name, &e)
	}
	a := s.does(name, e)
	if a.StatusCode != status || strings.Contains(a.Body, `"error":`) {
		s.Fatalf("%s: %d %s, want %d", name, a.StatusCode, a.Body, status)
	}
	return a
}

func receiptsOf(s *story, a response) (all []string) {
	for _, m := range field[[]map[string]any](s, a.Body, "messages") {
		all = append(all, m["receipt_handle"].(string))
	}
	return all
}

// field reads one member of a JSON object.
func field[T any](s *story, text, name string) (v T) {
	s.Helper()
	var all map[string]json.RawMessage
	s.must(json.Unmarshal([]byte(text), &all))
	s.must(json.Unmarshal(all[name], &v))
	return v
}

// cold runs each step in a process of its own.
func (s *story) cold(name string, e event) response { return s.process(endpoints()[name]).ask(e) }

// sign signs an event as a client signs its request, and makes it count once.
func (s *story) sign(e *event, encoded func(string) string, n int) {
	r, err := request(context.Background(), e, encoded)
	s.must(err)
	s.must(auth.Credentials{ID: s.pair.ID, Secret: s.pair.Secret, Region: "eu-west-1"}.Sign(r, []byte(e.Body), time.UnixMilli(int64(s.now())), fmt.Sprint("nonce-", n)))
	for _, h := range []string{"Authorization", "X-Date", "X-Nonce", "X-Content-Sha256"} {
		if v := r.Header.Get(h); v != "" {
			e.Headers[strings.ToLower(h)] = v
		}
	}
	e.Headers["idempotency-key"] = fmt.Sprint("key-", n)
}

// body changes the members of an event's JSON body.
func (s *story) body(e *event, members map[string]any) {
	var in map[string]any
	s.must(json.Unmarshal([]byte(e.Body), &in))
	for name, v := range members {
		in[name] = v
	}
	text, err := json.Marshal(in)
	s.must(err)
	e.Body = string(text)
}

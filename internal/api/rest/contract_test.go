package rest

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/gorillamux"

	"github.com/leaselog/leaselog/internal/broker"
	"github.com/leaselog/leaselog/internal/fault"
)

var update = flag.Bool("update", false, "write openapi.json from openapi.yaml")

// contract is the document, and a router over it. Its answers are closed: the contract lets a newer server say more,
// but a field that this server sends must be in it.
type contract struct {
	doc    *openapi3.T
	router routers.Router
}

var theContract = sync.OnceValues(func() (*contract, error) {
	doc, err := openapi3.NewLoader().LoadFromData(contractYAML)
	if err != nil {
		return nil, err
	}
	if err := doc.Validate(context.Background()); err != nil {
		return nil, err
	}
	for _, s := range answers(doc) {
		shut(s, map[*openapi3.Schema]bool{})
	}
	router, err := gorillamux.NewRouter(doc)
	return &contract{doc, router}, err
})

func loadContract(t testing.TB) *contract {
	t.Helper()
	c, err := theContract()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// answers are the schemas of every body that the contract knows.
func answers(doc *openapi3.T) (all []*openapi3.SchemaRef) {
	for _, item := range doc.Paths.Map() {
		for _, op := range item.Operations() {
			for _, r := range op.Responses.Map() {
				for _, media := range r.Value.Content {
					all = append(all, media.Schema)
				}
			}
		}
	}
	return all
}

// shut closes the objects of an answer. Parts of an allOf each know a part of the fields and stay open.
func shut(ref *openapi3.SchemaRef, seen map[*openapi3.Schema]bool) {
	if ref == nil || seen[ref.Value] {
		return
	}
	s := ref.Value
	seen[s] = true
	if len(s.Properties) > 0 && s.AdditionalProperties.Schema == nil {
		no := false
		s.AdditionalProperties.Has = &no
	}
	for _, p := range s.Properties {
		shut(p, seen)
	}
	for _, p := range s.OneOf {
		shut(p, seen)
	}
	shut(s.Items, seen)
	shut(s.AdditionalProperties.Schema, seen)
}

// hold demands that an answer is one that the contract knows. What the contract has no route for is left to
// [checkAnswer]. A request that was taken must be one that the contract allows.
func (c *contract) hold(r *http.Request, body []byte, a *httptest.ResponseRecorder) error {
	route, params, err := c.router.FindRoute(r)
	if err != nil || route.Operation.Extensions["x-endpoint"] == nil {
		return nil
	}
	if a.Code == http.StatusMethodNotAllowed || a.Code == http.StatusNotFound && strings.Contains(a.Body.String(), "nothing at this path") {
		return nil // a host without this operation
	}
	in := &openapi3filter.RequestValidationInput{Request: r, PathParams: params, Route: route}
	options := &openapi3filter.Options{IncludeResponseStatus: true, AuthenticationFunc: openapi3filter.NoopAuthenticationFunc}
	err = openapi3filter.ValidateResponse(context.Background(), &openapi3filter.ResponseValidationInput{RequestValidationInput: in,
		Status: a.Code, Header: a.Header(), Body: io.NopCloser(bytes.NewReader(a.Body.Bytes())), Options: options})
	if err != nil {
		return fmt.Errorf("the answer is not one of the contract's: %w", err)
	}
	if a.Code >= 300 || beyond(r) {
		return nil
	}
	in.Request, in.Options = r.Clone(context.Background()), options
	in.Request.Body = io.NopCloser(bytes.NewReader(body))
	if !strings.HasPrefix(r.URL.Path, "/v1/oauth/") {
		in.Request.Header.Set("Content-Type", "application/json") // what it is read as
	}
	if len(bytes.TrimSpace(body)) == 0 {
		in.Request.Body = http.NoBody
	}
	if err := openapi3filter.ValidateRequest(context.Background(), in); err != nil {
		return fmt.Errorf("the request was taken and is not one of the contract's: %w", err)
	}
	return nil
}

// beyond tells requests that the validator cannot read: compressed ones, exchanges whose content type is guessed, and
// a limit of more digits than an int64 has.
func beyond(r *http.Request) bool {
	return r.Header.Get("Content-Encoding") != "" || len(r.URL.Query().Get("limit")) > 18 ||
		strings.HasPrefix(r.URL.Path, "/v1/oauth/") && r.Header.Get("Content-Type") == ""
}

// serve answers a request and holds the answer to everything that all answers keep.
func (c *contract) serve(h http.Handler, r *http.Request) (*httptest.ResponseRecorder, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	a := httptest.NewRecorder()
	h.ServeHTTP(a, r)
	if err := checkAnswer(a); err != nil {
		return a, err
	}
	return a, c.hold(r, body, a)
}

// TestContract holds the document sound and its two forms equal; -update writes the second.
func TestContract(t *testing.T) {
	c := loadContract(t)
	fresh, err := openapi3.NewLoader().LoadFromData(contractYAML)
	if err != nil {
		t.Fatal(err)
	}
	want, err := json.MarshalIndent(fresh, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	want = append(want, '\n')
	if *update {
		if err := os.WriteFile("openapi.json", want, 0o644); err != nil {
			t.Fatal(err)
		}
	} else if !bytes.Equal(want, contractJSON) {
		t.Error("openapi.json is older than openapi.yaml: go test ./internal/api/rest -run TestContract -update")
	}
	h := serving(t, new(fake))
	for path, text := range map[string]string{"/v1/openapi.yaml": string(contractYAML), "/v1/openapi.json": string(contractJSON)} {
		a := httptest.NewRecorder()
		h.ServeHTTP(a, httptest.NewRequest("GET", path, nil)) // without credentials
		if a.Code != 200 || a.Body.String() != text || !uuidForm.MatchString(a.Header().Get("X-Request-Id")) {
			t.Errorf("%s: %d %v", path, a.Code, a.Header())
		}
	}
	if c.doc.Info.Version != "1" {
		t.Errorf("version %q", c.doc.Info.Version)
	}
}

// TestContractListsTheEndpoints holds the two lists equal, in both directions.
func TestContractListsTheEndpoints(t *testing.T) {
	listed := map[string]string{}
	for path, item := range loadContract(t).doc.Paths.Map() {
		for method, op := range item.Operations() {
			listed[fmt.Sprint(op.Extensions["x-endpoint"])] = method + " " + path
			if camel(fmt.Sprint(op.Extensions["x-endpoint"])) != op.OperationID {
				t.Errorf("%s %s: operationId %s", method, path, op.OperationID)
			}
			if op.Responses.Status(401) == nil || op.Responses.Status(500) == nil || op.Responses.Status(503) == nil {
				t.Errorf("%s does not know 401, 500 and 503", op.OperationID)
			}
		}
	}
	served := map[string]string{}
	for _, e := range Endpoints() {
		served[e.Name] = e.Method + " " + e.Path
	}
	if !maps.Equal(listed, served) {
		t.Errorf("the contract has\n%v\nand Endpoints()\n%v", listed, served)
	}
}

// camel gives create-queue as createQueue.
func camel(name string) string {
	words := strings.Split(name, "-")
	for i, w := range words[1:] {
		words[i+1] = strings.ToUpper(w[:1]) + w[1:]
	}
	return strings.Join(words, "")
}

// TestContractHasEveryError: each wire error's code is an answer of its status somewhere, and the contract has no code
// that section 6 of the API page does not have.
func TestContractHasEveryError(t *testing.T) {
	doc := loadContract(t).doc
	known := map[string]bool{}
	for name, r := range doc.Components.Responses {
		for _, code := range codesOf(r.Value) {
			known[code] = true
			_ = name
		}
	}
	for _, w := range wires {
		answered := false
		for _, item := range doc.Paths.Map() {
			for _, op := range item.Operations() {
				r := op.Responses.Status(w.status)
				answered = answered || r != nil && slices.Contains(codesOf(r.Value), w.code)
			}
		}
		if !answered {
			t.Errorf("no operation answers %d %s", w.status, w.code)
		}
	}
	page := "INVALID_INPUT QUEUE_MESSAGE_TOO_LARGE UNAUTHORIZED ACCESS_DENIED QUEUE_QUOTA_EXCEEDED QUEUE_LIMIT_EXCEEDED NOT_FOUND METHOD_NOT_ALLOWED " +
		"REQUEST_TOO_LARGE QUEUE_ALREADY_EXISTS QUEUE_RECEIPT_HANDLE_EXPIRED IDEMPOTENCY_KEY_IN_USE IDEMPOTENCY_KEY_MISMATCH KMS_KEY_UNAVAILABLE INTERNAL UNAVAILABLE"
	all := doc.Components.Schemas["Error"].Value.Properties["error"].Value.Properties["code"].Value.Enum
	if got := strings.Trim(fmt.Sprint(all), "[]"); got != page {
		t.Errorf("codes are %s", got)
	}
	for _, code := range strings.Fields(page) {
		if !known[code] {
			t.Errorf("%s is in no answer", code)
		}
	}
	for _, e := range []error{unrouted("GET", ""), unrouted("GET", "POST"), tooLong(), unsupported("br")} {
		if r := e.(*refusal); !slices.Contains(strings.Fields(page), r.code) {
			t.Errorf("%s is not in the contract", r.code)
		}
	}
	if len(wires) != len(fault.Codes) {
		t.Error("the table is not whole")
	}
}

// codesOf gives the codes of an error answer of the platform's form.
func codesOf(r *openapi3.Response) (codes []string) {
	media := r.Content.Get("application/json")
	if media == nil {
		return nil
	}
	for _, part := range media.Schema.Value.AllOf {
		if e := part.Value.Properties["error"]; e != nil && e.Value.Properties["code"] != nil && part.Ref == "" {
			for _, code := range e.Value.Properties["code"].Value.Enum {
				codes = append(codes, code.(string))
			}
		}
	}
	return codes
}

// TestContractStatesTheLimits holds every number of the contract to limits.go: the ranges by the field's name wherever
// it stands, the others by their place.
func TestContractStatesTheLimits(t *testing.T) {
	doc := loadContract(t).doc
	schemas := doc.Components.Schemas
	spans := map[string]span{}
	for _, s := range []span{visibilitySpan, retentionSpan, maxBytesSpan, delaySpan, waitSpan, keyReuseSpan, receivesSpan, messagesSpan, pollSpan, rateSpan, ageSpan} {
		spans[s.name] = s
	}
	found := map[string]int{}
	for where, schema := range schemas {
		ranges(t, where, schema, spans, found)
	}
	for name := range spans {
		if found[name] == 0 {
			t.Errorf("%s has no range in the contract", name)
		}
	}
	create := schemas["CreateQueue"].Value.Properties
	for name, want := range map[string]int{"visibility_timeout_seconds": visibilityDefault, "message_retention_seconds": retentionDefault,
		"max_message_bytes": maxBytesDefault, "delay_seconds": 0, "receive_wait_time_seconds": 0, "kms_data_key_reuse_period_seconds": keyReuseDefault} {
		if got := create[name].Value.Default; got != float64(want) {
			t.Errorf("the default of %s is %v, not %d", name, got, want)
		}
	}
	send := schemas["SendMessage"].Value.Properties
	for what, pair := range map[string][2]uint64{
		"name":           {*schemas["QueueName"].Value.MaxLength, nameBytesMax},
		"entry id":       {*schemas["SendEntry"].Value.Properties["id"].Value.MaxLength, entryIDMax},
		"group":          {*send["message_group_id"].Value.MaxLength, groupMax},
		"dedup":          {*send["message_deduplication_id"].Value.MaxLength, groupMax},
		"key":            {*doc.Components.Parameters["IdempotencyKey"].Value.Schema.Value.MaxLength, idempotencyKeyMax},
		"tags":           {*schemas["Tags"].Value.MaxProps, tagsMax},
		"tag value":      {*schemas["Tags"].Value.AdditionalProperties.Schema.Value.MaxLength, tagValueMax},
		"list":           {uint64(*schemas["QueuesMeta"].Value.Properties["limit"].Value.Max), listMax},
		"peek":           {uint64(*schemas["MessagesMeta"].Value.Properties["limit"].Value.Max), peekMax},
		"depth":          {uint64(*schemas["Queue"].Value.Properties["depth"].Value.Properties["approximate_available"].Value.Max), depthMax},
		"moves":          {*doc.Paths.Value(movesPath).Get.Responses.Status(200).Value.Content["application/json"].Schema.Value.Properties["moves"].Value.MaxItems, movesMax},
		"depths":         {*doc.Paths.Value(depthsPath).Get.Responses.Status(200).Value.Content["application/json"].Schema.Value.Properties["depths"].Value.MaxItems, depthsMax},
		"depths default": {limitDefault(doc, depthsPath), depthsDefault},
		"moves default":  {limitDefault(doc, movesPath), movesDefault},
		"attributes":     {*schemas["StartMove"].Value.Properties["attributes"].Value.MaxProps, broker.AttributesMax},
		"body pattern":   {*schemas["StartMove"].Value.Properties["body_matches"].Value.MaxLength, broker.BodyPatternMax},
		"group of move":  {*schemas["StartMove"].Value.Properties["message_group_id"].Value.MaxLength, groupMax},
		"list default":   {limitDefault(doc, "/v1/queues"), listDefault},
		"peek default":   {limitDefault(doc, messagesPath), peekDefault},
		"batch entries":  {*doc.Paths.Value(messagesPath + "/batch").Post.RequestBody.Value.Content["application/json"].Schema.Value.Properties["entries"].Value.MaxItems, batchEntriesMax},
		"receive":        {*doc.Paths.Value(messagesPath + "/receive").Post.Responses.Status(200).Value.Content["application/json"].Schema.Value.Properties["messages"].Value.MaxItems, batchEntriesMax},
	} {
		if pair[0] != pair[1] {
			t.Errorf("%s: the contract has %d, limits.go %d", what, pair[0], pair[1])
		}
	}
	text := string(contractYAML)
	for _, sentence := range []string{fmt.Sprintf("has more than %d bytes", bodyBytesMax), fmt.Sprintf("holds at most %d bytes", answerBytesMax),
		fmt.Sprintf("Keys have 1 to %d characters", tagKeyMax), fmt.Sprintf("Names have 1 to %d characters", attributeNameMax),
		fmt.Sprintf("stops at %d;", depthMax), fmt.Sprintf("more than %d counts as", listMax), fmt.Sprintf("more than %d counts as", peekMax)} {
		if !strings.Contains(text, sentence) {
			t.Errorf("the contract does not say %q", sentence)
		}
	}
}

func limitDefault(doc *openapi3.T, path string) uint64 {
	return uint64(doc.Paths.Value(path).Get.Parameters.GetByInAndName("query", "limit").Schema.Value.Default.(float64))
}

// ranges compares the numbers of one schema and of what is inside it. Entries of batches say theirs in words, since a
// number out of range fails the entry and not the request.
func ranges(t *testing.T, where string, ref *openapi3.SchemaRef, spans map[string]span, found map[string]int) {
	t.Helper()
	for name, p := range ref.Value.Properties {
		s, has := spans[name]
		if has && p.Value.Max != nil {
			found[name]++
			if p.Value.Min == nil || *p.Value.Min != float64(s.low) || *p.Value.Max != float64(s.high) {
				t.Errorf("%s.%s is not %v", where, name, s)
			}
		} else if want := fmt.Sprintf("%d to %d", s.low, s.high); has && p.Value.Description != want {
			t.Errorf("%s.%s says %q, not %q", where, name, p.Value.Description, want)
		}
		if p.Ref == "" {
			ranges(t, where+"."+name, p, spans, found)
		}
	}
}

// TestCodingsOnEveryRoute holds G10 for each operation that the contract gives a body: gzip is read, a body that is not
// what the header says is 400, another coding is 415. The token endpoint reads nothing that is compressed, and says
// that the exchange is malformed rather than that the credentials are wrong.
func TestCodingsOnEveryRoute(t *testing.T) {
	c := loadContract(t)
	h := serving(t, new(fake))
	expect(t, h, "POST", "/v1/queues", `{"name":"q"}`, 201)
	routes := 0
	for path, item := range c.doc.Paths.Map() {
		for method, op := range item.Operations() {
			if op.RequestBody == nil || op.OperationID == "revokeToken" {
				continue
			}
			routes++
			for name, try := range map[string]struct {
				coding string
				body   []byte
				want   int
			}{
				"gzip of JSON that is no object": {"gzip", compressed([]byte(`7`)), 400},
				"plain under gzip":               {"gzip", []byte(`{"a":1}`), 400},
				"truncated":                      {"gzip", compressed([]byte(`{"name":"x"}`))[:15], 400},
				"another coding":                 {"br", []byte(`{}`), 415},
				"two codings":                    {"gzip, gzip", []byte(`{}`), 415},
			} {
				r := httptest.NewRequest(method, strings.ReplaceAll(path, "{queue_id}", "q"), bytes.NewReader(try.body))
				r.Header.Set("Authorization", "Bearer test")
				r.Header.Set("Content-Encoding", try.coding)
				if op.OperationID == "createToken" {
					r.Header.Set("Authorization", "Basic YTpi")
					r.Header.Set("Content-Type", "application/json")
					try.want = 400
				}
				if a, err := c.serve(h, r); err != nil || a.Code != try.want {
					t.Errorf("%s, %s: %d, want %d: %v %s", op.OperationID, name, a.Code, try.want, err, a.Body)
				}
			}
		}
	}
	if routes != 10 {
		t.Errorf("%d routes with a body", routes)
	}
}

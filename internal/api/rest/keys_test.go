package rest

import (
	"fmt"
	"testing"
	"time"

	"github.com/leaselog/leaselog/internal/envelope/envelopetest"
)

const (
	blueID  = "00000000-0000-4000-8000-00000000b10e"
	greenID = "00000000-0000-4000-8000-0000000093e4"
)

// inVault runs a test with keys of customers that can be disabled.
func inVault(t *testing.T, test func(r *real, vault *envelopetest.Keys)) {
	t.Helper()
	inReal(t, func(r *real) {
		vault := envelopetest.New(map[string]string{"blue": blueID, "green": greenID})
		r.vault = vault
		r.restart()
		test(r, vault)
	})
}

// wantKey wants both fields of a queue's answer, or none for the platform's key.
func (r *real) wantKey(q map[string]any, id, name string) {
	r.t.Helper()
	crn := ""
	if id != "" {
		crn = "crn:kms:" + regionDefault + ":" + account(q) + ":key/" + name
	}
	r.want(q, "queue.kms_key_id", id, "queue.kms_key.id", id, "queue.kms_key.name", name, "queue.kms_key.crn", crn)
}

// account is the one in a queue's CRN.
func account(q map[string]any) string {
	c, _ := parseCRN(get(q, "queue.crn"))
	return c.account
}

// Both dialects name, show, change and remove a customer's key (section 3).
func TestCustomerKeys(t *testing.T) {
	inVault(t, func(r *real, _ *envelopetest.Keys) {
		q := r.call("POST", "/v1/queues", `{"name":"q","kms_key":"blue"}`, 201)
		r.wantKey(q, blueID, "blue")
		crn := func(name string) string { return "crn:kms:" + regionDefault + ":" + account(q) + ":key/" + name }
		for i, step := range []struct{ body, id, name string }{
			{`{"clear_kms_key":true}`, "", ""},
			{`{"kms_key_id":"` + greenID + `"}`, greenID, "green"},
			{`{"kms_key":null}`, "", ""},
			{`{"kms_key":"` + crn("blue") + `"}`, blueID, "blue"},
			{`{"kms_key_id":null}`, blueID, "blue"},
			{`{"kms_key":"green","kms_key_id":"` + greenID + `"}`, greenID, "green"},
			{`{"clear_kms_key":false}`, greenID, "green"},
			{`{"kms_key":"` + blueID + `"}`, blueID, "blue"},
		} {
			r.call("POST", "/v1/queues/q/messages", fmt.Sprintf(`{"body":"m%d"}`, i), 200)
			r.wantKey(r.call("PATCH", "/v1/queues/q", step.body, 200), step.id, step.name)
		}
		before := r.call("GET", "/v1/queues/q", "", 200)
		time.Sleep(time.Second)
		for _, bad := range []string{
			`{"kms_key":"red"}`, `{"kms_key":""}`, `{"kms_key_id":"blue"}`, `{"kms_key_id":"` + blueID[:35] + `f"}`,
			`{"kms_key":"crn:kms:elsewhere:` + account(q) + `:key/blue"}`, `{"kms_key":"crn:queue:x:y:queue/z"}`, `{"kms_key":"crn:"}`,
			`{"kms_key":"blue","kms_key_id":"` + greenID + `"}`, `{"clear_kms_key":true,"kms_key":"blue"}`,
			`{"kms_key":null,"kms_key_id":"` + greenID + `"}`, `{"kms_key":"red","visibility_timeout_seconds":7}`,
		} {
			r.call("PATCH", "/v1/queues/q", bad, 400)
		}
		r.call("POST", "/v1/queues", `{"name":"p","kms_key":"red"}`, 400)
		after := r.call("GET", "/v1/queues/q", "", 200)
		if untimed(fmt.Sprint(before)) != untimed(fmt.Sprint(after)) {
			t.Errorf("%v became %v", before, after)
		}
		if found := r.call("POST", "/v1/queues/q/messages/receive", `{"max_messages":10}`, 200); len(rows(found)) != 8 {
			t.Errorf("received %v", found)
		}
	})
}

// A disabled key is told as KMS_KEY_UNAVAILABLE; peek shows rows without bodies, and all works again when it is back.
func TestKeyUnavailable(t *testing.T) {
	inVault(t, func(r *real, vault *envelopetest.Keys) {
		r.call("POST", "/v1/queues", `{"name":"q","kms_key":"blue","kms_data_key_reuse_period_seconds":60}`, 201)
		r.call("POST", "/v1/queues/q/messages", `{"body":"1"}`, 200)
		vault.Disable("blue")
		r.call("POST", "/v1/queues/q/messages", `{"body":"2"}`, 200)
		time.Sleep(61 * time.Second)
		v := r.call("POST", "/v1/queues/q/messages", `{"body":"3"}`, 409)
		r.want(v, "error.code", "KMS_KEY_UNAVAILABLE")
		v = r.call("POST", "/v1/queues/q/messages/receive", `{}`, 409)
		r.want(v, "error.code", "KMS_KEY_UNAVAILABLE")
		v = r.call("GET", "/v1/queues/q/messages", "", 200)
		r.want(v, "messages.0.body", "", "messages.1.visibility", "available")
		r.call("PATCH", "/v1/queues/q", `{"visibility_timeout_seconds":5}`, 200)
		vault.Enable("blue")
		time.Sleep(2 * time.Second)
		if found := r.call("POST", "/v1/queues/q/messages/receive", `{"max_messages":10}`, 200); len(rows(found)) != 2 {
			t.Errorf("received %v", found)
		}
	})
}

func rows(found map[string]any) []any {
	all, _ := found["messages"].([]any)
	return all
}

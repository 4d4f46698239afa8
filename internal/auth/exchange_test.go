package auth

import (
	"encoding/json"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// TestExchangeOfKeys holds the token endpoint to section 2.1 with keys that are verified.
func TestExchangeOfKeys(t *testing.T) {
	const form, jsonType = "application/x-www-form-urlencoded", "application/json"
	w := newWorld(t)
	k, static := w.key(NewKey{}), w.key(NewKey{Kind: Static})
	part := static.Token[len(static.Token)-secretChars:]
	asJSON, err := json.Marshal(map[string]any{"grant_type": "client_credentials", "client_id": k.ID, "client_secret": k.Secret, "duration_seconds": 7200})
	w.ok("marshal", err)
	for _, c := range []struct {
		name, kind, body string
		basic            [2]string
		status           int
		code             string
		seconds          int
	}{
		{"as the SDKs send it", form, "grant_type=client_credentials", [2]string{k.ID, k.Secret}, 200, "", 3600},
		{"pair in the form", form, "grant_type=client_credentials&client_id=" + k.ID + "&client_secret=" + k.Secret, [2]string{}, 200, "", 3600},
		{"JSON", jsonType, string(asJSON), [2]string{}, 200, "", 7200},
		{"too short", form, "grant_type=client_credentials&duration_seconds=1", [2]string{k.ID, k.Secret}, 200, "", 900},
		{"too long", form, "grant_type=client_credentials&duration_seconds=99999999999999999999", [2]string{k.ID, k.Secret}, 200, "", 43200},
		{"the header goes first", form, "grant_type=client_credentials&client_id=" + k.ID + "&client_secret=" + k.Secret, [2]string{k.ID, "x"}, 401, "invalid_client", 0},
		{"a wrong secret", form, "grant_type=client_credentials", [2]string{k.ID, k.Secret + "x"}, 401, "invalid_client", 0},
		{"a part of it", form, "grant_type=client_credentials", [2]string{k.ID, k.Secret[:len(k.Secret)-1]}, 401, "invalid_client", 0},
		{"another key's", form, "grant_type=client_credentials", [2]string{static.ID, k.Secret}, 401, "invalid_client", 0},
		{"a static key", form, "grant_type=client_credentials", [2]string{static.ID, part}, 401, "invalid_client", 0},
		{"no key", form, "grant_type=client_credentials", [2]string{"nobody", k.Secret}, 401, "invalid_client", 0},
		{"no secret", form, "grant_type=client_credentials", [2]string{k.ID, ""}, 401, "invalid_client", 0},
		{"another grant", form, "grant_type=refresh_token", [2]string{k.ID, k.Secret}, 400, "unsupported_grant_type", 0},
		{"no grant", form, "", [2]string{k.ID, k.Secret}, 400, "invalid_request", 0},
	} {
		r := httptest.NewRequest("POST", "/v1/oauth/token", strings.NewReader(c.body))
		r.Header.Set("Content-Type", c.kind)
		if c.basic != [2]string{} {
			r.SetBasicAuth(c.basic[0], c.basic[1])
		}
		a := httptest.NewRecorder()
		w.v.Exchange(a, r)
		var got struct {
			Token   string `json:"access_token"`
			Type    string `json:"token_type"`
			Seconds int    `json:"expires_in"`
			Error   string `json:"error"`
		}
		if err := json.Unmarshal(a.Body.Bytes(), &got); err != nil || a.Code != c.status || got.Error != c.code || got.Seconds != c.seconds {
			t.Errorf("%s: %d %s, %v", c.name, a.Code, a.Body, err)
			continue
		}
		if c.status == 200 {
			w.good(c.name, got.Token, time.Duration(c.seconds)*time.Second)
		}
	}
}

// good holds a token to its lifetime.
func (w *world) good(what, token string, lasts time.Duration) {
	w.t.Helper()
	before := w.now
	w.pass(lasts - time.Millisecond)
	_, err := w.as(token)
	w.ok(what, err)
	w.pass(time.Millisecond)
	_, err = w.as(token)
	w.refused(what, err, "expired")
	w.now = before
}

// TestOpening: everybody, until it is closed; then keys, and no way back.
func TestOpening(t *testing.T) {
	w := newWorld(t)
	o := NewOpening(w.v)
	as := func(token string) error {
		r := httptest.NewRequest("GET", "/", nil)
		r.Header.Set("Authorization", "Bearer "+token)
		_, err := o.Authenticate(r)
		return err
	}
	w.ok("anything", as("anything"))
	w.ok("a nonce", o.Once(t.Context(), Nonce{}))
	token := w.mustToken(w.key(NewKey{}))
	if !o.Close() || o.Close() {
		t.Error("closing does not say when it did so")
	}
	w.refused("anything, later", as("anything"), "not one of")
	w.ok("a key's", as(token))
}

package auth

import (
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/leaselog/leaselog/internal/fault"
)

// TestTokensEnd: at their expiry, and when they are revoked.
func TestTokensEnd(t *testing.T) {
	w := newWorld(t)
	k := w.key(NewKey{})
	token := w.mustToken(k)
	w.pass(time.Hour - time.Millisecond)
	caller, err := w.as(token)
	w.ok("just before its end", err)
	w.pass(time.Millisecond)
	_, err = w.as(token)
	w.refused("at its end", err, "expired")

	token = w.mustToken(k)
	_, err = w.as(token)
	w.ok("a new one", err)
	w.ok("revoke", w.d.revoke(t.Context(), caller, token))
	_, err = w.as(token)
	w.refused("a revoked one", err, "revoked")
	_, err = asWith(&Verifier{Directory: w.another(w.log)}, token, "")
	w.refused("a revoked one elsewhere", err, "revoked")
	w.ok("revoke again", w.d.revoke(t.Context(), caller, token))
	_, err = w.as(w.mustToken(k))
	w.ok("another of the same key", err)
}

// TestRevokingOthersTokens: no error, and no effect (RFC 7009, section 2.2).
func TestRevokingOthersTokens(t *testing.T) {
	w := newWorld(t)
	_, err := w.d.CreateAccount(t.Context(), "acme")
	w.ok("create", err)
	victim, mine := w.mustToken(w.key(NewKey{})), w.mustToken(w.key(NewKey{Account: "acme"}))
	caller, err := w.as(mine)
	w.ok("mine", err)
	for _, body := range []string{`{"token":"` + victim + `"}`, `{"token":"nonsense"}`} {
		a := httptest.NewRecorder()
		err := w.v.Revoke(a, httptest.NewRequest("POST", "/v1/oauth/revoke", strings.NewReader(body)), caller)
		if err != nil || a.Code != 204 {
			t.Errorf("%d, %v", a.Code, err)
		}
	}
	_, err = w.as(victim)
	w.ok("the other's token", err)
	for _, body := range []string{"", "{}", "[]", `{"token":""}`} {
		err := w.v.Revoke(httptest.NewRecorder(), httptest.NewRequest("POST", "/v1/oauth/revoke", strings.NewReader(body)), caller)
		if !fault.Is(err, fault.Invalid) {
			t.Errorf("%q: %v", body, err)
		}
	}
	r := httptest.NewRequest("POST", "/v1/oauth/revoke", strings.NewReader("token="+mine))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	w.ok("a form", w.v.Revoke(httptest.NewRecorder(), r, caller))
	_, err = w.as(mine)
	w.refused("my own", err, "revoked")
}

// TestForgedTokens changes every character of a good token: none of the results is taken, and all are answered alike.
func TestForgedTokens(t *testing.T) {
	w := newWorld(t)
	token := w.mustToken(w.key(NewKey{}))
	for i := range len(token) {
		c := byte('A')
		if token[i] == c {
			c = 'B'
		}
		_, err := w.as(token[:i] + string(c) + token[i+1:])
		w.refused("changed", err, "not one of this server's")
	}
	foreign := newWorld(t)
	d, err := NewDirectory(Config{Log: w.log, Secret: [32]byte{2}, Now: w.d.Now, Rand: w.d.Rand})
	w.ok("open", err)
	foreign.d = d
	_, err = w.as(foreign.mustToken(foreign.key(NewKey{})))
	w.refused("of another deployment", err, "not one of this server's")
}

// TestStaticTokens: as good as the key, and no pair.
func TestStaticTokens(t *testing.T) {
	w := newWorld(t)
	k := w.key(NewKey{Kind: Static})
	if k.Secret != "" || !strings.HasPrefix(k.Token, staticPrefix) {
		t.Fatal("a static key shows something else than its token")
	}
	w.pass(1000 * 24 * time.Hour)
	caller, err := w.as(k.Token)
	if err != nil || caller.Key != k.ID {
		t.Errorf("%+v, %v", caller, err)
	}
	part := k.Token[len(k.Token)-secretChars:]
	if _, code := w.token(k.ID, part); code != "invalid_client" {
		t.Errorf("its secret is taken as a pair's: %q", code)
	}
	pair := w.key(NewKey{})
	_, err = w.as(staticPrefix + pair.ID + "_" + pair.Secret)
	w.refused("a pair's secret as a static token", err, "not one of")
	_, err = w.as(k.Token[:len(k.Token)-1] + "!")
	w.refused("a wrong one", err, "not one of")
	next, err := w.d.RotateKey(t.Context(), k.ID, time.Hour)
	w.ok("rotate", err)
	for _, text := range []string{k.Token, next.Token} {
		_, err = w.as(text)
		w.ok("within the grace", err)
	}
	w.pass(time.Hour)
	_, err = w.as(k.Token)
	w.refused("after the grace", err, "not one of")
	_, err = w.d.EnableKey(t.Context(), k.ID, false)
	w.ok("disable", err)
	_, err = w.as(next.Token)
	w.refused("disabled", err, "disabled")
}

// TestSelectedAccount: by handle or id the own one, and everything else is foreign, whether it exists or not.
func TestSelectedAccount(t *testing.T) {
	w := newWorld(t)
	token := w.mustToken(w.key(NewKey{}))
	other, err := w.d.CreateAccount(t.Context(), "acme")
	w.ok("create", err)
	own, err := w.d.Accounts(t.Context())
	w.ok("list", err)
	for _, a := range own {
		if a.Handle != "local" {
			continue
		}
		for _, ref := range []string{"", "local", a.ID, strings.ToUpper(a.ID)} {
			if c, err := asWith(w.v, token, ref); err != nil || c.Foreign || c.Account != "local" {
				t.Errorf("%q: %+v, %v", ref, c, err)
			}
		}
	}
	for _, ref := range []string{"acme", other.ID, "nobody", "Local"} {
		if c, err := asWith(w.v, token, ref); err != nil || !c.Foreign || c.Account != ref {
			t.Errorf("%q: %+v, %v", ref, c, err)
		}
	}
}

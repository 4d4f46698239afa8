package auth

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/leaselog/leaselog/internal/eventlog"
	"github.com/leaselog/leaselog/internal/fault"
)

// TestAccounts: made once, listed, disabled, and deleted only when nothing is in them.
func TestAccounts(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	a, err := w.d.CreateAccount(ctx, "acme")
	w.ok("create", err)
	for handle, code := range map[string]fault.Code{"acme": fault.Exists, "": fault.Invalid, "Acme": fault.Invalid, "-a": fault.Invalid, "a/b": fault.Invalid,
		strings.Repeat("a", 64): fault.Invalid, a.ID: fault.Invalid} {
		if _, err := w.d.CreateAccount(ctx, handle); !fault.Is(err, code) {
			t.Errorf("create %q: %v", handle, err)
		}
	}
	k := w.key(NewKey{Account: a.ID})
	if k.Account != "acme" {
		t.Errorf("the key is of %q", k.Account)
	}
	if err := w.d.DeleteAccount(ctx, "acme"); !fault.Is(err, fault.Exists) {
		t.Errorf("deleted with a key in it: %v", err)
	}
	w.ok("delete the key", w.d.DeleteKey(ctx, k.ID))
	full := true
	w.d.HasQueues = func(context.Context, string) (bool, error) { return full, nil }
	if err := w.d.DeleteAccount(ctx, "acme"); !fault.Is(err, fault.Exists) {
		t.Errorf("deleted with queues in it: %v", err)
	}
	full = false
	w.ok("delete", w.d.DeleteAccount(ctx, "acme"))
	if err := w.d.DeleteAccount(ctx, "acme"); !fault.Is(err, fault.NotFound) {
		t.Errorf("deleted twice: %v", err)
	}
	again, err := w.d.CreateAccount(ctx, "acme")
	if err != nil || again.ID == a.ID {
		t.Errorf("the handle is not free again: %+v, %v", again, err)
	}
	all, err := w.d.Accounts(ctx)
	if err != nil || len(all) != 1 || all[0] != again {
		t.Errorf("%+v, %v", all, err)
	}
}

// TestKeys walks a key's whole life, with what its secret and its token open at each step.
func TestKeys(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	first := w.key(NewKey{})
	token := w.mustToken(first)
	caller, err := w.as(token)
	if err != nil || caller.Account != "local" || caller.Foreign || caller.Key != first.ID || caller.Limited() {
		t.Fatalf("%+v, %v", caller, err)
	}

	_, err = w.d.EnableKey(ctx, first.ID, false)
	w.ok("disable", err)
	_, err = w.as(token)
	w.refused("a disabled key's token", err, "disabled")
	if _, code := w.token(first.ID, first.Secret); code != "invalid_client" {
		t.Errorf("a disabled key's exchange: %q", code)
	}
	_, err = w.d.EnableKey(ctx, first.ID, true)
	w.ok("enable", err)
	_, err = w.as(token)
	w.ok("an enabled key's token", err)

	second, err := w.d.RotateKey(ctx, first.ID, 30*time.Minute)
	w.ok("rotate", err)
	if second.ID != first.ID || second.Secret == first.Secret || second.Rotated == nil {
		t.Errorf("%#v", second.Key)
	}
	newer := w.mustToken(second)
	late := w.mustToken(first) // within the grace the former secret opens
	for name, text := range map[string]string{"of before": token, "of the former secret": late, "of the new secret": newer} {
		_, err = w.as(text)
		w.ok(name, err)
	}
	w.pass(29*time.Minute + 59*time.Second)
	_, err = w.as(late)
	w.ok("just before the grace ends", err)
	w.pass(time.Second)
	_, err = w.as(late)
	w.refused("after the grace", err, "rotated")
	if _, code := w.token(first.ID, first.Secret); code != "invalid_client" {
		t.Errorf("the former secret after its grace: %q", code)
	}

	third, err := w.d.RotateKey(ctx, first.ID, 0)
	w.ok("rotate at once", err)
	if _, code := w.token(first.ID, second.Secret); code != "invalid_client" {
		t.Errorf("the former secret without grace: %q", code)
	}
	text := w.mustToken(third)
	w.ok("delete", w.d.DeleteKey(ctx, first.ID))
	_, err = w.as(text)
	w.refused("a deleted key's token", err, "deleted")
	if _, code := w.token(first.ID, third.Secret); code != "invalid_client" {
		t.Errorf("a deleted key's exchange: %q", code)
	}
	for what, err := range map[string]error{"delete": w.d.DeleteKey(ctx, first.ID), "delete nonsense": w.d.DeleteKey(ctx, "x")} {
		if !fault.Is(err, fault.NotFound) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// TestADisabledAccount: its keys open nothing, and the exchange says so (API page, section 2.1).
func TestADisabledAccount(t *testing.T) {
	w := newWorld(t)
	k := w.key(NewKey{})
	token := w.mustToken(k)
	_, err := w.d.EnableAccount(t.Context(), "local", false)
	w.ok("disable", err)
	_, err = w.as(token)
	w.refused("a token", err, "account local is disabled")
	_, err = w.v.Authenticate(w.signed(k, request("GET", "/", ""), "n"))
	w.refused("a signature", err, "account local is disabled")
	if _, code := w.token(k.ID, k.Secret); code != "invalid_grant" {
		t.Errorf("the exchange: %q", code)
	}
	if _, code := w.token(k.ID, "llsk_wrong"); code != "invalid_client" {
		t.Errorf("the exchange with a wrong secret: %q", code)
	}
	_, err = w.d.EnableAccount(t.Context(), "local", true)
	w.ok("enable", err)
	_, err = w.as(token)
	w.ok("afterwards", err)
}

// TestChangesOfOthersCountSoon: what another process changed counts after CacheAge at the latest; until then a key is
// not read again, however often it is used.
func TestChangesOfOthersCountSoon(t *testing.T) {
	w := newWorld(t)
	counted := &counting{Log: w.log}
	v := &Verifier{Directory: w.another(counted), Region: "local"}
	token := w.mustToken(w.key(NewKey{}))
	other := w.mustToken(w.key(NewKey{}))
	for range 10 {
		_, err := asWith(v, token, "")
		w.ok("the token", err)
	}
	if counted.reads != 3 { // key, account, revocation
		t.Errorf("%d reads for ten requests", counted.reads)
	}
	keys, _ := w.d.Keys(t.Context(), "")
	_, err := w.d.EnableKey(t.Context(), keys[0].ID, false)
	w.ok("disable", err)
	_, err = w.d.EnableKey(t.Context(), keys[1].ID, false)
	w.ok("disable", err)
	w.pass(cacheAgeDefault)
	for _, text := range []string{token, other} {
		_, err = asWith(v, text, "")
		w.refused("when what was read is old", err, "disabled")
	}
}

type counting struct {
	eventlog.Log
	reads int
}

func (c *counting) Claim(ctx context.Context, key string) (eventlog.Claim, bool, error) {
	c.reads++
	return c.Log.Claim(ctx, key)
}

// TestGuessingIdsReadsNothing: an id that was never given out is refused without a look at the store.
func TestGuessingIdsReadsNothing(t *testing.T) {
	w := newWorld(t)
	k := w.key(NewKey{})
	counted := &counting{Log: w.log}
	d := w.another(counted)
	guess := keyID{1, 2, 3}.String()
	_, unknown := d.exchange(t.Context(), exchange{id: guess, secret: k.Secret}, 3600)
	if counted.reads != 0 {
		t.Errorf("%d reads", counted.reads)
	}
	_, wrong := d.exchange(t.Context(), exchange{id: k.ID, secret: strings.Repeat("x", secretChars)}, 3600)
	if *unknown != *wrong {
		t.Errorf("an unknown key is answered %v, a wrong secret %v", unknown, wrong)
	}
}

// slow is a log on which a read ends after something else has happened.
type slow struct {
	eventlog.Log
	meanwhile func()
}

func (s *slow) Claim(ctx context.Context, key string) (eventlog.Claim, bool, error) {
	c, ok, err := s.Log.Claim(ctx, key)
	if f := s.meanwhile; f != nil && strings.HasPrefix(key, keyPrefix) {
		s.meanwhile = nil
		f()
	}
	return c, ok, err
}

// TestASlowReaderBringsNothingBack: a key that is disabled while it is being read is not remembered as active.
func TestASlowReaderBringsNothingBack(t *testing.T) {
	w := newWorld(t)
	k := w.key(NewKey{})
	token := w.mustToken(k)
	log := &slow{Log: w.log}
	v := &Verifier{Directory: w.another(log), Region: "local"}
	log.meanwhile = func() {
		_, err := v.Directory.EnableKey(t.Context(), k.ID, false)
		w.ok("disable", err)
	}
	_, err := asWith(v, token, "")
	w.ok("a request that came before", err)
	_, err = asWith(v, token, "")
	w.refused("the next one", err, "disabled")
}

// TestALateChangeBringsNothingBack: an edit that was decided before a deletion and committed after it finds no key.
func TestALateChangeBringsNothingBack(t *testing.T) {
	w := newWorld(t)
	k := w.key(NewKey{})
	log := &slow{Log: w.log, meanwhile: func() { w.ok("delete", w.d.DeleteKey(t.Context(), k.ID)) }}
	if _, err := w.another(log).EnableKey(t.Context(), k.ID, false); !fault.Is(err, fault.NotFound) {
		t.Errorf("the edit: %v", err)
	}
	if keys, err := w.d.Keys(t.Context(), ""); err != nil || len(keys) != 0 {
		t.Errorf("%v, %v", keys, err)
	}
}

// TestNothingSecretIsShown looks for secrets in everything that is printed, encoded, stored or refused.
func TestNothingSecretIsShown(t *testing.T) {
	w := newWorld(t)
	k := w.key(NewKey{})
	s := w.key(NewKey{Kind: Static})
	token := w.mustToken(k)
	_, err := w.as(token)
	w.ok("the token", err)
	var seen strings.Builder
	stored, err := w.log.Claims(t.Context(), "", "", 1000)
	w.ok("claims", err)
	for _, c := range stored {
		seen.WriteString(c.Key + string(c.Value))
	}
	for _, e := range w.d.keys {
		fmt.Fprintf(&seen, "%v %+v %#v %v", e, e, e, e.current)
	}
	fmt.Fprintf(&seen, "%v %+v %#v %v %+v %#v %v %#v", w.d, w.d, w.d, k, k, k, w.v, w.v)
	for _, text := range []string{token + "x", token[:len(token)-1] + "A", s.Token + "x", s.Token[:len(s.Token)-1], tokenPrefix + token, k.Secret} {
		_, err := w.as(text)
		fmt.Fprintf(&seen, "%v %+v", err, err)
	}
	for _, hidden := range []string{k.Secret, k.Secret[len(secretPrefix):], s.Token, s.Token[len(s.Token)-20:], token, token[20:60], numbers(k.Secret), numbers(s.Token)} {
		if strings.Contains(seen.String(), hidden) {
			t.Errorf("a secret is shown: %q", hidden)
		}
	}
}

// numbers is how a slice of bytes is printed.
func numbers(text string) string { return strings.Trim(fmt.Sprint([]byte(text)[10:30]), "[]") }

// TestSecretsAreBound: a sealed secret opens only in its own record and rotation.
func TestSecretsAreBound(t *testing.T) {
	w := newWorld(t)
	a, b := keyID{1}, keyID{2}
	sealed, err := w.d.vault.close(w.d.Rand, a, 1, secretOf("x"))
	w.ok("close", err)
	if s, err := w.d.vault.open(a, 1, sealed); err != nil || !s.is("x") {
		t.Errorf("%v", err)
	}
	for name, open := range map[string]func() (secret, error){
		"another key":      func() (secret, error) { return w.d.vault.open(b, 1, sealed) },
		"another rotation": func() (secret, error) { return w.d.vault.open(a, 0, sealed) },
		"too short":        func() (secret, error) { return w.d.vault.open(a, 1, sealed[:3]) },
	} {
		if _, err := open(); err == nil {
			t.Errorf("%s opens it", name)
		}
	}
}

// TestAFailingStore: nothing is decided without it, and the exchange says that it is for now.
func TestAFailingStore(t *testing.T) {
	w := newWorld(t)
	k := w.key(NewKey{})
	token := w.mustToken(k)
	d := w.another(failing{w.log})
	if _, refused := d.exchange(t.Context(), exchange{id: k.ID, secret: k.Secret}, 3600); refused == nil || refused.status != 503 || refused.code != "temporarily_unavailable" {
		t.Errorf("the exchange: %v", refused)
	}
	if _, err := asWith(&Verifier{Directory: d}, token, ""); !fault.Is(err, fault.Unavailable) {
		t.Errorf("the token: %v", err)
	}
	if _, err := d.CreateAccount(t.Context(), "x"); !fault.Is(err, fault.Unavailable) {
		t.Errorf("create: %v", err)
	}
}

type failing struct{ eventlog.Log }

func (failing) Claim(context.Context, string) (eventlog.Claim, bool, error) {
	return eventlog.Claim{}, false, fmt.Errorf("the disk is gone")
}

func TestConfigNamesEveryProblem(t *testing.T) {
	_, err := NewDirectory(Config{})
	for _, part := range []string{"Log", "Now", "Rand", "Secret"} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%v does not name %s", err, part)
		}
	}
}

// TestNewKeysAreChecked: what is wrong with a key is said before anything is written.
func TestNewKeysAreChecked(t *testing.T) {
	w := newWorld(t)
	for name, c := range map[string]struct {
		n    NewKey
		code fault.Code
	}{
		"kind":    {NewKey{Kind: "root"}, fault.Invalid},
		"label":   {NewKey{Label: "a\nb"}, fault.Invalid},
		"policy":  {NewKey{Policies: [][]byte{[]byte("{}")}}, fault.Invalid},
		"account": {NewKey{Account: "nobody"}, fault.NotFound},
	} {
		if _, err := w.d.CreateKey(t.Context(), c.n); !fault.Is(err, c.code) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if has, err := w.d.HasKeys(t.Context()); has || err != nil {
		t.Errorf("there are keys: %v", err)
	}
	if _, err := w.d.RotateKey(t.Context(), "x", GraceMax+1); !fault.Is(err, fault.Invalid) {
		t.Errorf("grace: %v", err)
	}
}

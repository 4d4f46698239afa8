package auth

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/leaselog/leaselog/internal/fault"
)

// The token endpoint, API page section 2.1. Its errors have their own envelope, which is not the platform's.

// Lifetimes of a token in seconds: what is asked for is clamped into this range.
const (
	tokenSecondsMin     = 900
	tokenSecondsDefault = 3600
	tokenSecondsMax     = 43200
)

// exchangeBytesMax bounds the body of an exchange; a real one has some hundred bytes.
const exchangeBytesMax = 64 << 10

// grantError is a refused exchange: an OAuth code and a sentence.
type grantError struct {
	status      int
	code        string
	description string
	cause       error // for the log, where the failure is ours
}

func (e *grantError) Error() string { return e.code + ": " + e.description }

func refusal(status int, code, description string) *grantError {
	return &grantError{status: status, code: code, description: description}
}

func malformed(description string) *grantError {
	return refusal(http.StatusBadRequest, "invalid_request", description)
}

// exchange is what a client asks for, in either encoding.
type exchange struct {
	grant, id, secret, seconds string
}

// Exchange answers POST /v1/oauth/token: any key pair is given a token, which is random and means nothing, because
// [Development.Authenticate] takes every token.
func (d Development) Exchange(w http.ResponseWriter, r *http.Request) {
	_, seconds, err := asked(r)
	if err != nil {
		refuse(w, err)
		return
	}
	grant(w, "development."+rand.Text(), seconds)
}

// Revoke answers POST /v1/oauth/revoke. There is nothing to revoke where every token is taken.
func (d Development) Revoke(w http.ResponseWriter, _ *http.Request, _ Caller) error {
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// Exchange answers POST /v1/oauth/token: a token for an access key's id and secret (section 2.1).
func (v *Verifier) Exchange(w http.ResponseWriter, r *http.Request) {
	e, seconds, refused := asked(r)
	if refused != nil {
		refuse(w, refused)
		return
	}
	text, refused := v.Directory.exchange(r.Context(), e, seconds)
	if refused != nil {
		if refused.cause != nil && v.Logger != nil {
			v.Logger.Error("a token exchange failed", "error", refused.cause)
		}
		refuse(w, refused)
		return
	}
	grant(w, text, seconds)
}

// exchange verifies a key pair. An unknown key is answered like a wrong secret, and costs the same: whether an id was
// given out is known without the store, and what is there is compared with the decoy's secrets otherwise.
func (d *Directory) exchange(ctx context.Context, e exchange, seconds int) (string, *grantError) {
	found := d.decoy
	if k, ok := parseKeyID(e.id); ok {
		var err error
		if found, err = d.find(ctx, k); err != nil {
			return "", notNow(err)
		}
	}
	generation, ok := found.opens(e.secret, Pair, d.Now())
	switch {
	case !ok:
		return "", refusal(http.StatusUnauthorized, "invalid_client", "the access key id or its secret is wrong")
	case found.record.Disabled != 0:
		return "", refusal(http.StatusUnauthorized, "invalid_client", "the access key is disabled")
	case found.account.Disabled != 0:
		return "", refusal(http.StatusForbidden, "invalid_grant", "the account is disabled")
	}
	text, err := d.grant(found, generation, seconds)
	if err != nil {
		return "", notNow(err)
	}
	return text, nil
}

// notNow is a failure of ours. Its cause is not told; clients do not repeat an exchange.
func notNow(cause error) *grantError {
	e := refusal(http.StatusServiceUnavailable, "temporarily_unavailable", "the access keys cannot be read now; try again")
	e.cause = cause
	return e
}

// Revoke answers POST /v1/oauth/revoke: the token in the body, of the caller's account, is refused from then on. What
// is no such token needs no revoking, which is a success (RFC 7009, section 2.2). Faults: Invalid for a body that names
// no token.
func (v *Verifier) Revoke(w http.ResponseWriter, r *http.Request, caller Caller) error {
	text, err := revocation(r)
	if err != nil {
		return err
	}
	if err := v.Directory.revoke(r.Context(), caller, text); err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// revocation reads the token from a form or JSON.
func revocation(r *http.Request) (string, error) {
	body, err := io.ReadAll(io.LimitReader(r.Body, exchangeBytesMax+1))
	if err != nil || len(body) > exchangeBytesMax {
		return "", fault.New(fault.Invalid, "the body could not be read, or is longer than %d bytes", exchangeBytesMax)
	}
	var in struct {
		Token string `json:"token"`
	}
	if isForm(r) {
		if form, err := url.ParseQuery(string(body)); err == nil {
			in.Token = form.Get("token")
		}
	} else if err := json.Unmarshal(body, &in); err != nil {
		return "", fault.New(fault.Invalid, "the body must be a JSON object with the token, or a form")
	}
	if in.Token == "" {
		return "", fault.New(fault.Invalid, "token is missing; send the token that is to be revoked")
	}
	return in.Token, nil
}

func isForm(r *http.Request) bool {
	kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	return kind == "application/x-www-form-urlencoded"
}

// asked reads an exchange and the lifetime that its token is due.
func asked(r *http.Request) (e exchange, seconds int, refused *grantError) {
	if e, refused = readExchange(r); refused != nil {
		return e, 0, refused
	}
	if refused = e.basic(r.Header.Get("Authorization"), r); refused != nil {
		return e, 0, refused
	}
	switch {
	case e.grant == "":
		return e, 0, malformed("grant_type is missing; send grant_type=client_credentials")
	case e.grant != "client_credentials":
		return e, 0, refusal(http.StatusBadRequest, "unsupported_grant_type", "grant_type must be client_credentials")
	case e.id == "" || e.secret == "":
		return e, 0, refusal(http.StatusUnauthorized, "invalid_client", "send the access key id and its secret, as a Basic header or as client_id and client_secret")
	}
	seconds, refused = lifetime(e.seconds)
	return e, seconds, refused
}

// readExchange reads a form or, where the content type says so, JSON.
func readExchange(r *http.Request) (e exchange, refused *grantError) {
	body, err := io.ReadAll(io.LimitReader(r.Body, exchangeBytesMax+1))
	if err != nil || len(body) > exchangeBytesMax {
		return e, malformed("the body could not be read, or is longer than 65536 bytes")
	}
	if kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type")); kind == "application/json" {
		return readJSON(body)
	}
	form, err := url.ParseQuery(string(body))
	if err != nil {
		return e, malformed("the body is not a form; send application/x-www-form-urlencoded or application/json")
	}
	return exchange{form.Get("grant_type"), form.Get("client_id"), form.Get("client_secret"), form.Get("duration_seconds")}, nil
}

func readJSON(body []byte) (e exchange, refused *grantError) {
	var in struct {
		Grant   string      `json:"grant_type"`
		ID      string      `json:"client_id"`
		Secret  string      `json:"client_secret"`
		Seconds json.Number `json:"duration_seconds"`
	}
	if err := json.Unmarshal(body, &in); err != nil {
		return e, malformed("the body is not a JSON object with strings for grant_type, client_id and client_secret")
	}
	return exchange{in.Grant, in.ID, in.Secret, in.Seconds.String()}, nil
}

// basic takes the key pair of a Basic header, which goes before one in the body.
func (e *exchange) basic(header string, r *http.Request) *grantError {
	if header == "" {
		return nil
	}
	id, secret, ok := r.BasicAuth()
	if !ok {
		return malformed("the Authorization header of an exchange must be Basic with base64 of id, colon and secret")
	}
	e.id, e.secret = id, secret
	return nil
}

// lifetime clamps what was asked for; a number beyond any integer counts as the largest.
func lifetime(asked string) (int, *grantError) {
	if asked == "" {
		return tokenSecondsDefault, nil
	}
	n, err := strconv.Atoi(asked)
	if err != nil && (!errors.Is(err, strconv.ErrRange) || strings.HasPrefix(asked, "-")) {
		return 0, malformed("duration_seconds must be a whole number from 900 to 43200")
	}
	return min(max(n, tokenSecondsMin), tokenSecondsMax), nil
}

// grant answers with a token.
func grant(w http.ResponseWriter, text string, seconds int) {
	write(w, http.StatusOK, map[string]any{"access_token": text, "token_type": schemeBearer, "expires_in": seconds})
}

func refuse(w http.ResponseWriter, e *grantError) {
	if e.status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", "Basic")
	}
	write(w, e.status, map[string]any{"error": e.code, "error_description": e.description})
}

// write answers JSON that no cache may keep.
func write(w http.ResponseWriter, status int, answer map[string]any) {
	body, _ := json.Marshal(answer) // strings and ints cannot fail
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	w.Write(body)
}

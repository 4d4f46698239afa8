package auth

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"strings"
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
}

func (e *grantError) Error() string { return e.code + ": " + e.description }

func malformed(description string) *grantError {
	return &grantError{http.StatusBadRequest, "invalid_request", description}
}

// exchange is what a client asks for, in either encoding.
type exchange struct {
	grant, id, secret, seconds string
}

// Exchange answers POST /v1/oauth/token: any key pair is given a token, which is random and means nothing, because
// [Development.Authenticate] takes every token.
func (d Development) Exchange(w http.ResponseWriter, r *http.Request) {
	seconds, err := granted(r)
	if err != nil {
		refuse(w, err)
		return
	}
	write(w, http.StatusOK, map[string]any{
		"access_token": "development." + rand.Text(),
		"token_type":   schemeBearer,
		"expires_in":   seconds,
	})
}

// Revoke answers POST /v1/oauth/revoke. There is nothing to revoke where every token is taken.
func (d Development) Revoke(w http.ResponseWriter, r *http.Request) {
	w.WriteHeader(http.StatusNoContent)
}

// granted gives the lifetime of the token that a request is due.
func granted(r *http.Request) (seconds int, refused *grantError) {
	e, refused := readExchange(r)
	if refused != nil {
		return 0, refused
	}
	if refused = e.basic(r.Header.Get("Authorization"), r); refused != nil {
		return 0, refused
	}
	switch {
	case e.grant == "":
		return 0, malformed("grant_type is missing; send grant_type=client_credentials")
	case e.grant != "client_credentials":
		return 0, &grantError{http.StatusBadRequest, "unsupported_grant_type", "grant_type must be client_credentials"}
	case e.id == "" || e.secret == "":
		return 0, &grantError{http.StatusUnauthorized, "invalid_client", "send the access key id and its secret, as a Basic header or as client_id and client_secret"}
	}
	return lifetime(e.seconds)
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

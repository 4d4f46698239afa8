package auth

import (
	"encoding/json"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestExchange holds the token endpoint to section 2.1; the wire scripts of internal/api/rest go through it as well.
func TestExchange(t *testing.T) {
	const form, jsonType = "application/x-www-form-urlencoded", "application/json"
	const pair = "&client_id=a&client_secret=b"
	for _, c := range []struct {
		name, kind, body string
		basic            bool
		status           int
		code             string
		seconds          float64
	}{
		{"as the SDKs send it", form, "grant_type=client_credentials", true, 200, "", 3600},
		{"pair in the form", form, "grant_type=client_credentials" + pair, false, 200, "", 3600},
		{"JSON", jsonType, `{"grant_type":"client_credentials","client_id":"a","client_secret":"b","duration_seconds":7200}`, false, 200, "", 7200},
		{"JSON with null", jsonType, `{"grant_type":"client_credentials","duration_seconds":null}`, true, 200, "", 3600},
		{"too short", form, "grant_type=client_credentials&duration_seconds=-5", true, 200, "", 900},
		{"too long", form, "grant_type=client_credentials&duration_seconds=100000", true, 200, "", 43200},
		{"not a number", form, "grant_type=client_credentials&duration_seconds=1.5", true, 400, "invalid_request", 0},
		{"no pair", form, "grant_type=client_credentials", false, 401, "invalid_client", 0},
		{"no secret", form, "grant_type=client_credentials&client_id=a", false, 401, "invalid_client", 0},
		{"another grant", form, "grant_type=authorization_code", true, 400, "unsupported_grant_type", 0},
		{"no grant", form, "", true, 400, "invalid_request", 0},
		{"bad form", form, "%zz", true, 400, "invalid_request", 0},
		{"bad JSON", jsonType, "{", true, 400, "invalid_request", 0},
		{"too much", form, strings.Repeat("x", exchangeBytesMax+1), true, 400, "invalid_request", 0},
	} {
		r := httptest.NewRequest("POST", "/v1/oauth/token", strings.NewReader(c.body))
		r.Header.Set("Content-Type", c.kind)
		if c.basic {
			r.SetBasicAuth("AK", "se:cret")
		}
		a := httptest.NewRecorder()
		Development{}.Exchange(a, r)
		var got struct {
			Token       string  `json:"access_token"`
			Type        string  `json:"token_type"`
			Seconds     float64 `json:"expires_in"`
			Error       string  `json:"error"`
			Description string  `json:"error_description"`
		}
		if err := json.Unmarshal(a.Body.Bytes(), &got); err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		if a.Code != c.status || got.Error != c.code || got.Seconds != c.seconds || (got.Description == "") != (c.code == "") {
			t.Errorf("%s: %d %s", c.name, a.Code, a.Body)
		}
		if c.code == "" && (got.Type != "Bearer" || got.Token == "" || strings.ContainsFunc(got.Token, func(r rune) bool { return r <= ' ' || r > '~' })) {
			t.Errorf("%s: %s", c.name, a.Body)
		}
	}
}

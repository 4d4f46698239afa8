package api

import (
	"net/url"
	"testing"
)

// TestRouter: raw segments are split first and decoded after; nothing is cleaned; a fixed segment goes before a param.
func TestRouter(t *testing.T) {
	var r Router[string]
	r.Add("GET", "/v1/queues", "list")
	r.Add("POST", "/v1/queues", "create")
	r.Add("GET", "/v1/queues/{q}", "describe")
	r.Add("GET", "/v1/queues/{q}/messages", "peek")
	r.Add("GET", "/v1/queues/special", "special")
	r.Add("GET", "/a/{x}/b/{y}", "two")
	for _, c := range []struct {
		method, target     string
		value, allow       string
		firstParam, second string
	}{
		{"GET", "/v1/queues", "list", "GET, POST", "", ""},
		{"POST", "/v1/queues?x=/y", "create", "GET, POST", "", ""},
		{"DELETE", "/v1/queues", "", "GET, POST", "", ""},
		{"GET", "/v1/queues/a%2Fb", "describe", "GET", "a/b", ""},
		{"GET", "/v1/queues/a%2fb/messages", "peek", "GET", "a/b", ""},
		{"GET", "/v1/queues/a%252Fb", "describe", "GET", "a%2Fb", ""},
		{"GET", "/v1/queues/a%2Fb%252Fc", "describe", "GET", "a/b%2Fc", ""},
		{"GET", "/v1/queues/crn%3Aqueue", "describe", "GET", "crn:queue", ""},
		{"GET", "/v1/queues/a+b", "describe", "GET", "a+b", ""},
		{"GET", "/v1/queues/%20", "describe", "GET", " ", ""},
		{"GET", "/v1/queues/special", "special", "GET", "", ""},
		{"GET", "/v1/queues/special/messages", "", "", "", ""},
		{"GET", "/%76%31/queues", "list", "GET, POST", "", ""},
		{"GET", "/a/1/b/2", "two", "GET", "1", "2"},
		{"GET", "/v1/queues/", "", "", "", ""},
		{"GET", "/v1/queues/..", "describe", "GET", "..", ""},
		{"GET", "//v1/queues", "", "", "", ""},
		{"GET", "/v1/queues/a//messages", "", "", "", ""},
		{"GET", "/", "", "", "", ""},
		{"GET", "/v2", "", "", "", ""},
		{"GET", "*", "", "", "", ""},
	} {
		u, err := url.Parse(c.target)
		if err != nil {
			t.Fatal(err)
		}
		m := r.Find(c.method, u)
		if m.Value != c.value || m.Found != (c.value != "") || m.Allow != c.allow {
			t.Errorf("%s %s: %+v", c.method, c.target, m)
		}
		if m.Found && (m.Params[0] != c.firstParam || m.Params[1] != c.second) {
			t.Errorf("%s: params %q", c.target, m.Params)
		}
	}
}

func TestRouterRefusesSlips(t *testing.T) {
	for name, slip := range map[string]func(*Router[int]){
		"twice":    func(r *Router[int]) { r.Add("GET", "/a/{x}", 1); r.Add("GET", "/a/{y}", 2) },
		"too many": func(r *Router[int]) { r.Add("GET", "/{a}/{b}/{c}/{d}/{e}", 1) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Error(name)
				}
			}()
			slip(new(Router[int]))
		}()
	}
}

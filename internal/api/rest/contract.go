package rest

import (
	_ "embed" // the contract
	"net/http"
	"strconv"
)

// The contract is written by hand as YAML, which people read; the JSON beside it is made from it by
// `go test ./internal/api/rest -run TestContract -update`, so that the program needs no YAML reader. Both are served to
// whoever asks: the document holds nothing of a user's.
var (
	//go:embed openapi.yaml
	contractYAML []byte
	//go:embed openapi.json
	contractJSON []byte
)

// contracts are the routes of the contract. They are no operations of the API: it does not list them, and they have
// no function of their own.
func contracts() []*operation {
	return []*operation{
		{name: "contract", method: http.MethodGet, path: "/v1/openapi.json", access: public,
			run: func(c *call) error { return c.document("application/json", contractJSON) }},
		{name: "contract", method: http.MethodGet, path: "/v1/openapi.yaml", access: public,
			run: func(c *call) error { return c.document("application/yaml", contractYAML) }},
	}
}

// document answers with a text that is the same for everybody.
func (c *call) document(kind string, text []byte) error {
	c.stamp()
	h := c.w.Header()
	h.Set("Content-Type", kind)
	h.Set("Content-Length", strconv.Itoa(len(text)))
	c.sent, c.served.Status = true, http.StatusOK
	c.w.WriteHeader(http.StatusOK)
	c.w.Write(text)
	return nil
}

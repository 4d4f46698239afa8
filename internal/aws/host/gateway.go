package host

import (
	"bytes"
	"context"
	"encoding/base64"
	"io"
	"net/http"
	"net/url"
	"strings"
	"unicode/utf8"

	"github.com/aws/aws-lambda-go/events"

	"github.com/leaselog/leaselog/internal/fault"
)

// plainBytesMax bounds a body that is answered as text: as a JSON string it may become six times as long, and an answer
// of Lambda has at most 6 MB. In base64 it grows by a third, whatever is in it.
const plainBytesMax = 1 << 20

// request makes of an event what a server would have got. The payload is of format 2.0, from an HTTP API or a function's
// URL (https://docs.aws.amazon.com/apigateway/latest/developerguide/http-api-develop-integrations-lambda.html). Headers
// that were sent several times come joined by commas and stay so, since nobody can tell those commas from others. Beside
// an error there is a request without a body, to be answered with it.
func request(ctx context.Context, e *events.APIGatewayV2HTTPRequest, encoded func(string) string) (*http.Request, error) {
	body, err := []byte(e.Body), error(nil)
	if e.IsBase64Encoded {
		if body, err = base64.StdEncoding.DecodeString(e.Body); err != nil {
			body, err = nil, fault.Because(fault.Invalid, err, "the event says that its body is base64, and it is not")
		}
	}
	r := &http.Request{Method: e.RequestContext.HTTP.Method, URL: target(encoded(e.RawPath), e.RawQueryString), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: make(http.Header, len(e.Headers)+1), Body: io.NopCloser(bytes.NewReader(body)), ContentLength: int64(len(body)),
		Host: e.RequestContext.DomainName, RemoteAddr: e.RequestContext.HTTP.SourceIP}
	for name, value := range e.Headers {
		if strings.EqualFold(name, "Host") {
			r.Host = value
			continue
		}
		r.Header.Set(name, value)
	}
	if len(e.Cookies) > 0 {
		r.Header.Set("Cookie", strings.Join(e.Cookies, "; "))
	}
	r.RequestURI = r.URL.RequestURI()
	return r.WithContext(ctx), err
}

// target keeps a path as it came, encoded or not. A function's URL gives it as the client sent it, an HTTP API decoded.
func target(path, query string) *url.URL {
	plain, err := url.PathUnescape(path)
	if err != nil {
		return &url.URL{Path: path, RawQuery: query} // it was decoded, and holds a percent sign
	}
	return &url.URL{Path: plain, RawPath: path, RawQuery: query}
}

// answer collects what a handler writes.
type answer struct {
	header http.Header
	sent   http.Header // as it was when the status was written
	status int
	body   bytes.Buffer
}

func newAnswer() *answer { return &answer{header: http.Header{}} }

// Header implements [http.ResponseWriter].
func (a *answer) Header() http.Header { return a.header }

// WriteHeader implements [http.ResponseWriter].
func (a *answer) WriteHeader(status int) {
	if a.status == 0 {
		a.status, a.sent = status, a.header.Clone()
	}
}

// Write implements [http.ResponseWriter].
func (a *answer) Write(b []byte) (int, error) {
	a.WriteHeader(http.StatusOK)
	return a.body.Write(b)
}

// response makes the event's answer. Format 2.0 has one value for a header, and cookies apart.
func (a *answer) response() events.APIGatewayV2HTTPResponse {
	a.WriteHeader(http.StatusOK) // a handler that wrote nothing
	out := events.APIGatewayV2HTTPResponse{StatusCode: a.status, Headers: make(map[string]string, len(a.sent)), Cookies: a.sent.Values("Set-Cookie")}
	for name, values := range a.sent {
		if name != "Set-Cookie" {
			out.Headers[name] = strings.Join(values, ",")
		}
	}
	if a.body.Len() <= plainBytesMax && utf8.Valid(a.body.Bytes()) {
		out.Body = a.body.String()
		return out
	}
	out.Body, out.IsBase64Encoded = base64.StdEncoding.EncodeToString(a.body.Bytes()), true
	return out
}

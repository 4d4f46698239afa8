package auth

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/leaselog/leaselog/internal/fault"
)

// The signature of the API page, section 2.2: close to AWS SigV4, with a nonce. Numbers in comments are those of its
// list of decisions.
const (
	scopeService    = "basaltic"
	scopeTerminator = "basaltic_request"
	regionGlobal    = "global"
	dateLayout      = "20060102T150405Z"
	dayChars        = 8

	headerDate    = "X-Date"
	headerNonce   = "X-Nonce"
	headerContent = "X-Content-Sha256"
	headerToken   = "X-Amz-Security-Token" // the name is literal

	unsignedPayload = "UNSIGNED-PAYLOAD"

	// signatureAge is how far X-Date may be from now, to either side; the end itself is too old, so that a nonce's
	// claim, which lasts twice as long, outlives the last instant at which its signature is taken.
	signatureAge = 5 * time.Minute
	nonceAge     = 2 * signatureAge

	nonceCharsMax    = 128 // of a claim's key
	signedHeadersMax = 32
)

// Payload says what stands for the body in a canonical request when X-Content-Sha256 was not sent.
type Payload string

const (
	// PayloadUnsigned is the literal UNSIGNED-PAYLOAD: the body is not bound.
	PayloadUnsigned Payload = "unsigned"
	// PayloadEmpty is the hash of the empty string, whatever the body.
	PayloadEmpty Payload = "empty"
	// PayloadBody is the body's hash.
	PayloadBody Payload = "body"
)

// Variations are what a verifier accepts where the documents leave the canonical form open (8). Each binds the same
// request to the same secret; the first of each is what our signer sends.
type Variations struct {
	Prefixes []string // before the secret, at the head of the key chain
	Payloads []Payload
}

// VariationsDefault are all that the documents could mean.
var VariationsDefault = Variations{
	Prefixes: []string{"BASALTIC", "AWS4", ""},
	Payloads: []Payload{PayloadUnsigned, PayloadEmpty, PayloadBody},
}

// signature is the Authorization header of the scheme, taken apart.
type signature struct {
	key, date, region string
	headers           []string
	sum               [sha256.Size]byte
}

var errSignature = errors.New(schemeSignature + " Credential=<access key id>/<date>/<region>/" + scopeService + "/" + scopeTerminator +
	", SignedHeaders=host;x-date;x-nonce, Signature=<64 hexadecimal digits>")

// parseSignature reads what follows the scheme's name. Blanks around the commas are free.
func parseSignature(text string) (s signature, err error) {
	fields := map[string]string{}
	for part := range strings.SplitSeq(text, ",") {
		name, value, ok := strings.Cut(strings.Trim(part, " \t"), "=")
		if _, twice := fields[name]; !ok || twice || len(fields) == 3 {
			return s, errSignature
		}
		fields[name] = value
	}
	scope := strings.Split(fields["Credential"], "/")
	if len(fields) != 3 || len(scope) != 5 || scope[3] != scopeService || scope[4] != scopeTerminator {
		return s, errSignature
	}
	s.key, s.date, s.region = scope[0], scope[1], scope[2]
	s.headers = strings.Split(fields["SignedHeaders"], ";")
	sum, err := hex.DecodeString(fields["Signature"])
	if err != nil || len(sum) != len(s.sum) || strings.ToLower(fields["Signature"]) != fields["Signature"] {
		return s, errSignature
	}
	copy(s.sum[:], sum)
	return s, s.checkHeaders()
}

// checkHeaders holds the list to (1): sorted, each once, and what every signature must cover.
func (s *signature) checkHeaders() error {
	if len(s.headers) > signedHeadersMax || !slices.IsSorted(s.headers) || len(slices.Compact(slices.Clone(s.headers))) != len(s.headers) {
		return errors.New("SignedHeaders must be sorted, without repeats")
	}
	for _, h := range s.headers {
		if h == "" || strings.Trim(h, "abcdefghijklmnopqrstuvwxyz0123456789-_") != "" {
			return errors.New("SignedHeaders must be lower-case names joined by semicolons")
		}
	}
	for _, h := range []string{"host", "x-date", "x-nonce"} {
		if !slices.Contains(s.headers, h) {
			return errors.New("SignedHeaders must hold host, x-date and x-nonce")
		}
	}
	return nil
}

// canonical gives the canonical request (5) up to the payload's hash, which goes behind it.
func canonical(r *http.Request, signed []string) ([]byte, error) {
	b := append([]byte(r.Method), '\n')
	b, err := appendURI(b, r.URL.EscapedPath())
	if err != nil {
		return nil, err
	}
	if b, err = appendQuery(append(b, '\n'), r.URL.RawQuery); err != nil {
		return nil, err
	}
	b = append(b, '\n')
	for _, name := range signed {
		value, err := headerValue(r, name)
		if err != nil {
			return nil, err
		}
		b = append(append(append(append(b, name...), ':'), value...), '\n')
	}
	b = append(b, '\n')
	return append(append(b, strings.Join(signed, ";")...), '\n'), nil
}

// appendURI encodes each segment once (3).
func appendURI(b []byte, path string) ([]byte, error) {
	if path == "" {
		return append(b, '/'), nil
	}
	for i, segment := range strings.Split(path, "/") {
		if i > 0 {
			b = append(b, '/')
		}
		plain, err := url.PathUnescape(segment)
		if err != nil {
			return nil, errors.New("the path has a bad percent escape")
		}
		b = appendEncoded(b, plain)
	}
	return b, nil
}

// appendQuery sorts the pairs by encoded name and value (3). A plus is a blank, as where the query is read.
func appendQuery(b []byte, query string) ([]byte, error) {
	var pairs []string
	for pair := range strings.SplitSeq(query, "&") {
		if pair == "" {
			continue
		}
		name, value, _ := strings.Cut(pair, "=")
		k, err := url.QueryUnescape(name)
		v, err2 := url.QueryUnescape(value)
		if err != nil || err2 != nil {
			return nil, errors.New("the query has a bad percent escape")
		}
		// No encoded byte sorts before the separator, so that sorting pairs sorts by name and then by value.
		pairs = append(pairs, string(appendEncoded(append(appendEncoded(nil, k), 0), v)))
	}
	slices.Sort(pairs)
	for i, p := range pairs {
		if i > 0 {
			b = append(b, '&')
		}
		b = append(b, strings.Replace(p, "\x00", "=", 1)...)
	}
	return b, nil
}

// appendEncoded percent-encodes every byte that is not unreserved.
func appendEncoded(b []byte, s string) []byte {
	const digits = "0123456789ABCDEF"
	for i := range len(s) {
		c := s[i]
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '.' || c == '_' || c == '~' {
			b = append(b, c)
		} else {
			b = append(b, '%', digits[c>>4], digits[c&15])
		}
	}
	return b
}

// headerValue gives a signed header's value (2). net/http keeps host and length apart from the others.
func headerValue(r *http.Request, name string) (string, error) {
	switch name {
	case "host":
		if r.Host == "" {
			return r.URL.Host, nil
		}
		return r.Host, nil
	case "content-length":
		return strconv.FormatInt(max(r.ContentLength, 0), 10), nil
	}
	values := r.Header.Values(name)
	if len(values) == 0 {
		return "", fmt.Errorf("the signed header %s was not sent", name)
	}
	trimmed := make([]string, len(values))
	for i, v := range values {
		trimmed[i] = strings.Trim(v, " \t")
	}
	return strings.Join(trimmed, ","), nil
}

// scope is what a signing key is derived for.
type scope struct{ prefix, day, region string }

// signingKey gives the end of the key chain (7).
func signingKey(s secret, of scope) []byte {
	key := []byte(of.prefix + s())
	for _, part := range []string{of.day, of.region, scopeService, scopeTerminator} {
		key = chain(key, []byte(part))
	}
	return key
}

// stringToSign gives (6) for a canonical request and its payload's hash.
func stringToSign(at, region string, request []byte, payload string) []byte {
	return []byte(schemeSignature + "\n" + at + "\n" + at[:dayChars] + "/" + region + "/" + scopeService + "/" + scopeTerminator + "\n" +
		hexSum(append(request[:len(request):len(request)], payload...)))
}

// sign gives the signature over a canonical request and its payload's hash.
func sign(prefix string, s secret, at, region string, request []byte, payload string) [sha256.Size]byte {
	key := signingKey(s, scope{prefix, at[:dayChars], region})
	return [sha256.Size]byte(chain(key, stringToSign(at, region, request, payload)))
}

func chain(key, text []byte) []byte {
	m := hmac.New(sha256.New, key)
	m.Write(text)
	return m.Sum(nil)
}

// Credentials are what a client signs with.
type Credentials struct {
	ID, Secret string
	Region     string // of the server, or "global"
}

// Sign signs a request with its body, for our own client. It sets X-Date, X-Nonce and X-Content-Sha256, which binds
// the body, and Authorization. The nonce must be new for every request, a repeat of the same one included.
func (c Credentials) Sign(r *http.Request, body []byte, now time.Time, nonce string) error {
	at := now.UTC().Format(dateLayout)
	r.Header.Set(headerDate, at)
	r.Header.Set(headerNonce, nonce)
	r.Header.Set(headerContent, hexSum(body))
	signed := []string{"host", "x-content-sha256", "x-date", "x-nonce"}
	request, err := canonical(r, signed)
	if err != nil {
		return err
	}
	sum := sign(VariationsDefault.Prefixes[0], secretOf(c.Secret), at, c.Region, request, hexSum(body))
	r.Header.Set("Authorization", authorization(c.ID, at, c.Region, signed, sum))
	return nil
}

func authorization(key, at, region string, signed []string, sum [sha256.Size]byte) string {
	return fmt.Sprintf("%s Credential=%s/%s/%s/%s/%s, SignedHeaders=%s, Signature=%x", schemeSignature,
		key, at[:dayChars], region, scopeService, scopeTerminator, strings.Join(signed, ";"), sum)
}

// unsigned is the answer to what is wrong with the form of a signature.
func unsigned(format string, args ...any) error {
	return fault.New(fault.Unauthorized, format, args...)
}

// readBody takes the whole body, and puts it back for whoever reads it next. The error of a body beyond most is
// *[http.MaxBytesError].
func readBody(r *http.Request, most int64) ([]byte, error) {
	if r.Body == nil || r.Body == http.NoBody {
		return nil, nil
	}
	body, err := io.ReadAll(http.MaxBytesReader(nil, r.Body, most))
	if err != nil {
		if _, is := errors.AsType[*http.MaxBytesError](err); is {
			return nil, err
		}
		return nil, fault.Because(fault.Invalid, err, "the body could not be read to its end")
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	return body, nil
}

package auth

import (
	"context"
	"crypto/hmac"
	"crypto/subtle"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/leaselog/leaselog/internal/fault"
)

// bodyBytesMax bounds a body that is hashed, as the dialects bound those that they read.
const bodyBytesMax = 16 << 20

// Verifier says who makes a request, by its token or its signature.
type Verifier struct {
	Directory *Directory
	// Region is the server's: signatures are for it or for "global".
	Region string
	// Variations of signatures that are taken; empty: [VariationsDefault].
	Variations Variations
	// Logger gets what the token endpoint cannot tell its callers; nil: nothing is logged.
	Logger *slog.Logger
}

// Authenticate gives the caller of a request. It has no effect: the nonce is the caller's, to be claimed with the
// request's effect. A body that a signature speaks of is read and put back. Faults: Unauthorized; Unavailable; Invalid
// where the body breaks off. A body that is too long is an *[http.MaxBytesError].
func (v *Verifier) Authenticate(r *http.Request) (Caller, error) {
	scheme, credential, err := credentials(r)
	if err != nil {
		return Caller{}, err
	}
	var e *entry
	var nonce Nonce
	if strings.EqualFold(scheme, schemeBearer) {
		e, err = v.Directory.bearer(r.Context(), credential)
	} else {
		e, nonce, err = v.signed(r, credential)
	}
	if err != nil {
		return Caller{}, err
	}
	c := e.caller(r.Header.Get("X-Account-Id"))
	c.Nonce = nonce
	return c, nil
}

// caller acts on the account that a request selects, by id or handle; on the key's own where it selects none. A key
// has rights in its own account only, and whether another one exists is not looked up.
func (e *entry) caller(selected string) Caller {
	c := Caller{Account: e.account.Handle, Key: e.record.ID.String(), policies: e.policies, account: e.account.ID}
	if selected != "" && selected != c.Account && !strings.EqualFold(selected, e.account.ID.String()) {
		c.Account, c.Foreign = selected, true
	}
	return c
}

// signed gives the key of a signed request, in the order of section 2.2, point 9: form, scope, clock, key and
// signature, body. The nonce comes last, and is the caller's.
func (v *Verifier) signed(r *http.Request, credential string) (*entry, Nonce, error) {
	s, err := parseSignature(credential)
	if err != nil {
		return nil, Nonce{}, unsigned("the signature cannot be read: it must be %v", err)
	}
	at, nonce, err := v.judgeForm(r, &s)
	if err != nil {
		return nil, Nonce{}, err
	}
	request, err := canonical(r, s.headers)
	if err != nil {
		return nil, Nonce{}, unsigned("the request cannot have been signed: %v", err)
	}
	e, err := v.signer(r, &s, at, request)
	if err != nil {
		return nil, Nonce{}, err
	}
	if err := e.usable(); err != nil {
		return nil, Nonce{}, err
	}
	if err := v.judgeBody(r); err != nil {
		return nil, Nonce{}, err
	}
	return e, v.nonce(r.Method, e, nonce), nil
}

// judgeForm checks everything that can be checked without the key.
func (v *Verifier) judgeForm(r *http.Request, s *signature) (at, nonce string, err error) {
	if len(r.Header.Values(headerToken)) > 0 {
		return "", "", unsigned("this server has no temporary credentials; leave %s out", headerToken)
	}
	if at, err = single(r, headerDate); err != nil {
		return "", "", err
	}
	if nonce, err = single(r, headerNonce); err != nil {
		return "", "", err
	}
	if nonce == "" || len(nonce) > nonceCharsMax || strings.ContainsFunc(nonce, func(c rune) bool { return c <= ' ' || c > '~' }) {
		return "", "", unsigned("%s must be 1 to %d printable ASCII characters without blanks", headerNonce, nonceCharsMax)
	}
	date, err := time.Parse(dateLayout, at)
	switch {
	case err != nil || len(at) != len(dateLayout):
		return "", "", unsigned("%s must look like 20260131T235959Z, in UTC", headerDate)
	case s.date != at[:dayChars]:
		return "", "", unsigned("the date in Credential must be the first 8 characters of %s", headerDate)
	case s.region != v.Region && s.region != regionGlobal:
		return "", "", unsigned("the region in Credential must be %s or %s", v.Region, regionGlobal)
	}
	if age := time.UnixMilli(int64(v.Directory.Now())).Sub(date); age >= signatureAge || age < -signatureAge {
		return "", "", unsigned("%s is %s away from this server's clock, more than %s; set your clock, or sign just before sending",
			headerDate, age.Abs().Round(time.Second), signatureAge)
	}
	return at, nonce, nil
}

// single gives a header that must be there once, since two could be read as either.
func single(r *http.Request, name string) (string, error) {
	values := r.Header.Values(name)
	if len(values) != 1 {
		return "", unsigned("the header %s must be sent once with a signature, not %d times", name, len(values))
	}
	return strings.Trim(values[0], " \t"), nil
}

// signer finds the key whose secret made the signature. An unknown key costs what a wrong signature costs: the same
// sums under the decoy's secrets.
func (v *Verifier) signer(r *http.Request, s *signature, at string, request []byte) (*entry, error) {
	d := v.Directory
	e := d.decoy
	if k, ok := parseKeyID(s.key); ok {
		var err error
		if e, err = d.find(r.Context(), k); err != nil {
			return nil, err
		}
	}
	former, err := v.try(r, s, &e.currentKeys, at, request)
	if err == nil && former == 0 {
		former, err = v.try(r, s, &e.formerKeys, at, request)
		former <<= 1
	}
	switch {
	case err != nil:
		return nil, err
	case e.record == nil, e.record.Kind != Pair, former == 0, former == 2 && !e.has(e.record.Generation-1, d.Now()):
		return nil, unsigned("the signature is not right for this access key and request")
	}
	return e, nil
}

// try says 1 when a secret made the signature in one of the variations, otherwise 0. The body is read at the last.
func (v *Verifier) try(r *http.Request, s *signature, keys *signingKeys, at string, request []byte) (right int, err error) {
	variations := v.Variations
	if len(variations.Prefixes) == 0 || len(variations.Payloads) == 0 {
		variations = VariationsDefault
	}
	payloads := variations.Payloads
	sent := r.Header.Get(headerContent)
	if sent != "" {
		payloads = payloads[:1] // what is sent stands for it
	}
	for _, p := range payloads {
		payload := sent
		if payload == "" {
			if payload, err = payloadOf(r, p); err != nil {
				return 0, err
			}
		}
		text := stringToSign(at, s.region, request, payload)
		for _, prefix := range variations.Prefixes {
			sum := chain(keys.get(scope{prefix, s.date, s.region}), text)
			if right |= subtle.ConstantTimeCompare(sum, s.sum[:]); right == 1 {
				return right, nil
			}
		}
	}
	return 0, nil
}

// signingKeys remembers what is derived from one secret, for as long as its entry lives: the chain costs as much as the
// rest of a verification. Dates and regions are checked before, so there are few.
type signingKeys struct {
	of   secret
	keys sync.Map // of scope
}

func (k *signingKeys) get(s scope) []byte {
	if key, ok := k.keys.Load(s); ok {
		return key.([]byte)
	}
	key := signingKey(k.of, s)
	k.keys.Store(scope{strings.Clone(s.prefix), strings.Clone(s.day), strings.Clone(s.region)}, key)
	return key
}

// guessedBytesMax bounds a body that is read before it is known who sent it.
const guessedBytesMax = 4 << 20

func payloadOf(r *http.Request, p Payload) (string, error) {
	switch p {
	case PayloadEmpty:
		return hexSum(nil), nil
	case PayloadBody:
		body, err := readBody(r, guessedBytesMax)
		return hexSum(body), err
	}
	return unsignedPayload, nil
}

// judgeBody holds the body to the hash that was signed.
func (v *Verifier) judgeBody(r *http.Request) error {
	sent := r.Header.Values(headerContent)
	if len(sent) == 0 || len(sent) == 1 && sent[0] == "" {
		return nil
	}
	body, err := readBody(r, bodyBytesMax)
	if err != nil {
		return err
	}
	if len(sent) != 1 || !hmac.Equal([]byte(sent[0]), []byte(hexSum(body))) {
		return unsigned("%s must be the lower-case hex SHA-256 of the body as it was sent", headerContent)
	}
	return nil
}

// nonce gives the claim that a request stands for; one that changes nothing needs none.
func (v *Verifier) nonce(method string, e *entry, nonce string) Nonce {
	if !slices.Contains([]string{http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete}, method) {
		return Nonce{}
	}
	return Nonce{Key: nonceClaim(e.record.ID.String(), nonce), Until: int64(v.Directory.Now()) + nonceAge.Milliseconds()}
}

// Once writes a nonce alone; see [Directory.Once].
func (v *Verifier) Once(ctx context.Context, n Nonce) error { return v.Directory.Once(ctx, n) }

// credentials takes the Authorization header apart. A missing header, an unknown scheme and a scheme without anything
// after it are Unauthorized.
func credentials(r *http.Request) (scheme, credential string, err error) {
	header := r.Header.Get("Authorization")
	if header == "" {
		return "", "", fault.New(fault.Unauthorized, "the Authorization header is missing; send %s <token> or a %s signature",
			schemeBearer, schemeSignature)
	}
	scheme, credential, _ = strings.Cut(header, " ")
	if !strings.EqualFold(scheme, schemeBearer) && !strings.EqualFold(scheme, schemeSignature) {
		return "", "", fault.New(fault.Unauthorized, "the Authorization scheme must be %s or %s", schemeBearer, schemeSignature)
	}
	if credential = strings.TrimSpace(credential); credential == "" {
		return "", "", fault.New(fault.Unauthorized, "the Authorization header names its scheme but holds no credential")
	}
	return scheme, credential, nil
}

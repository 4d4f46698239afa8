package auth

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"io"
	"strings"

	"github.com/leaselog/leaselog/events"
	"github.com/leaselog/leaselog/internal/eventlog"
	"github.com/leaselog/leaselog/internal/fault"
)

// Two kinds of bearer tokens. One is got for a key pair and says all of itself: access key, account, rotation, end and
// id, under the deployment's MAC, so that a forged one is refused without a look at the store. The other is a static
// key's id and secret, and as good as the key.
const (
	tokenPrefix  = "llat_"
	staticPrefix = "llst_"

	// format 1, key id 16, account 16, generation 4, end in milliseconds 8, token id 16.
	tokenFormat = 1
	tokenBody   = 1 + 16 + 16 + 4 + 8 + 16
	tokenBytes  = tokenBody + sha256.Size
	tokenChars  = len(tokenPrefix) + (tokenBytes*8+5)/6
)

// token is what a bearer token says.
type token struct {
	key        keyID
	account    id
	generation uint32
	end        events.Instant
	id         id
}

// mint gives the text of a token.
func (v *vault) mint(t token) string {
	b := make([]byte, 0, tokenBytes)
	b = append(append(append(b, tokenFormat), t.key[:]...), t.account[:]...)
	b = binary.BigEndian.AppendUint32(b, t.generation)
	b = binary.BigEndian.AppendUint64(b, uint64(t.end))
	b = append(b, t.id[:]...)
	sum := v.tags.sum(b)
	return tokenPrefix + base64.RawURLEncoding.EncodeToString(append(b, sum[:]...))
}

// readToken reads a token that was minted here, and nothing else.
func (v *vault) readToken(text string) (t token, ok bool) {
	var b [tokenBytes]byte
	if len(text) != tokenChars || !strings.HasPrefix(text, tokenPrefix) {
		return t, false
	}
	if n, err := base64.RawURLEncoding.Decode(b[:], []byte(text[len(tokenPrefix):])); err != nil || n != tokenBytes {
		return t, false
	}
	sum := v.tags.sum(b[:tokenBody])
	if !hmac.Equal(sum[:], b[tokenBody:]) || b[0] != tokenFormat {
		return t, false
	}
	copy(t.key[:], b[1:])
	copy(t.account[:], b[17:])
	t.generation = binary.BigEndian.Uint32(b[33:])
	t.end = events.Instant(binary.BigEndian.Uint64(b[37:]))
	copy(t.id[:], b[45:])
	return t, true
}

func staticToken(k keyID, s secret) string { return staticPrefix + k.String() + "_" + s() }

// readStatic takes a static token apart; a text of the wrong shape is none.
func readStatic(text string) (k keyID, s string, ok bool) {
	rest, ok := strings.CutPrefix(text, staticPrefix)
	if !ok || len(rest) != keyIDChars+1+secretChars || rest[keyIDChars] != '_' {
		return k, "", false
	}
	k, ok = parseKeyID(rest[:keyIDChars])
	return k, rest[keyIDChars+1:], ok
}

// errToken is the answer to every token that is not good. That it is expired or revoked is told to its holder alone,
// who has shown a right MAC.
func errToken(why string) error {
	return fault.New(fault.Unauthorized, "the bearer token is %s; get a new one for your access key", why)
}

// bearer gives the key that a token opens. Faults: Unauthorized; Unavailable.
func (d *Directory) bearer(ctx context.Context, text string) (*entry, error) {
	if strings.HasPrefix(text, staticPrefix) {
		return d.static(ctx, text)
	}
	t, ok := d.vault.readToken(text)
	if !ok {
		return nil, errToken("not one of this server's")
	}
	now := d.Now()
	if t.end <= now {
		return nil, errToken("expired")
	}
	e, err := d.find(ctx, t.key)
	if err != nil {
		return nil, err
	}
	if e.record == nil || e.record.Account != t.account || !e.has(t.generation, now) {
		return nil, errToken("of a key that was deleted or rotated")
	}
	if revoked, err := d.revoked(ctx, t); err != nil || revoked {
		if revoked {
			err = errToken("revoked")
		}
		return nil, err
	}
	return e, e.usable()
}

// has says whether a generation's secret is good at an instant.
func (e *entry) has(generation uint32, now events.Instant) bool {
	r := e.record
	return generation == r.Generation || generation+1 == r.Generation && r.Former != nil && now < r.FormerUntil
}

// usable refuses a key that is disabled, to somebody who has shown that it is theirs.
func (e *entry) usable() error {
	switch {
	case e.record.Disabled != 0:
		return fault.New(fault.Unauthorized, "the access key %s is disabled", e.record.ID)
	case e.account.Disabled != 0:
		return fault.New(fault.Unauthorized, "the account %s is disabled", e.account.Handle)
	}
	return nil
}

// static gives the key that a static token names. Both secrets are compared, also those of a key that is not there.
func (d *Directory) static(ctx context.Context, text string) (*entry, error) {
	k, s, ok := readStatic(text)
	if !ok {
		return nil, errToken("not one of this server's")
	}
	e, err := d.find(ctx, k)
	if err != nil {
		return nil, err
	}
	if _, ok := e.opens(s, Static, d.Now()); !ok {
		return nil, errToken("not one of this server's")
	}
	return e, e.usable()
}

// opens says whether a secret is the key's, and of which generation. It takes as long for the decoy.
func (e *entry) opens(given string, as Kind, now events.Instant) (generation uint32, ok bool) {
	current, former := e.current.is(given), e.former.is(given)
	if e.record == nil || e.record.Kind != as {
		return 0, false
	}
	if current {
		return e.record.Generation, true
	}
	before := e.record.Generation - 1
	return before, former && e.has(before, now)
}

// grant makes a token for a key and a generation of its secret.
func (d *Directory) grant(e *entry, generation uint32, seconds int) (string, error) {
	t := token{key: e.record.ID, account: e.record.Account, generation: generation, end: d.Now().Add(uint32(seconds))}
	if _, err := io.ReadFull(d.Rand, t.id[:]); err != nil {
		return "", err
	}
	return d.vault.mint(t), nil
}

// revoked says whether a token was revoked. What is read of it counts for CacheAge.
func (d *Directory) revoked(ctx context.Context, t token) (bool, error) {
	now := d.Now()
	d.mu.RLock()
	known := d.tokens[t.id]
	d.mu.RUnlock()
	if known.until > now {
		return known.revoked, nil
	}
	began := d.begin()
	c, ok, err := d.Log.Claim(ctx, revokedClaim(t.id))
	if err != nil {
		return false, unavailable(err)
	}
	s := tokenState{revoked: ok && c.Until > int64(now), until: began.until}
	d.remember(began, func() {
		makeRoom(d.tokens, cachedTokensMax)
		d.tokens[t.id] = s
	})
	return s.revoked, nil
}

// revoke makes a token useless, where it is one of the caller's account; otherwise there is nothing to do, which is no
// error (RFC 7009, section 2.2). The claim stands until the token's end.
func (d *Directory) revoke(ctx context.Context, caller Caller, text string) error {
	t, ok := d.vault.readToken(text)
	if !ok || t.account != caller.account || t.end <= d.Now() {
		return nil
	}
	err := d.alone(ctx, eventlog.Claim{Key: revokedClaim(t.id), Until: int64(t.end)})
	d.mu.Lock()
	d.changes++ // also without an answer: it may have taken effect
	delete(d.tokens, t.id)
	d.mu.Unlock()
	if err == errAgain { // it was revoked before
		return nil
	}
	return err
}

// Once writes a nonce's claim alone. Faults: Unauthorized when it stands already, which makes the request a replay.
func (d *Directory) Once(ctx context.Context, n Nonce) error {
	err := d.alone(ctx, eventlog.Claim{Key: n.Key, Until: n.Until})
	if err == errAgain {
		return errReplayed()
	}
	return err
}

// alone commits one claim that must be free. errAgain: it is not.
func (d *Directory) alone(ctx context.Context, claim eventlog.Claim) error {
	c := eventlog.Commit{At: int64(d.Now())}
	if _, err := io.ReadFull(d.Rand, c.Writer[:]); err != nil {
		return err
	}
	claim.Holder = hex.EncodeToString(c.Writer[:])
	c.Claims = []eventlog.Claim{claim}
	return d.commit(ctx, c)
}

func errReplayed() error {
	return fault.New(fault.Unauthorized, "this request was seen before; sign each request anew, with an X-Nonce of its own")
}

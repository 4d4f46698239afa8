package auth

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/leaselog/leaselog/events"
	"github.com/leaselog/leaselog/internal/eventlog"
)

// Accounts and keys are claims without an end: account/<id>, handle/<handle> that leads to it, and key/<key id>. What
// is deleted is given up, and its value taken away at once. revoked/<token id> and nonce/<key id>/<nonce> lapse.
const (
	accountPrefix = "account/"
	handlePrefix  = "handle/"
	keyPrefix     = "key/"
	revokedPrefix = "revoked/"
	noncePrefix   = "nonce/"
)

func accountClaim(a id) string            { return fmt.Sprintf("%s%x", accountPrefix, a[:]) }
func handleClaim(handle string) string    { return handlePrefix + handle }
func keyClaim(k keyID) string             { return keyPrefix + k.String() }
func revokedClaim(token id) string        { return fmt.Sprintf("%s%x", revokedPrefix, token[:]) }
func nonceClaim(key, nonce string) string { return noncePrefix + key + "/" + nonce }

// accountRecord is the value of account/<id>.
type accountRecord struct {
	ID       id             `cbor:"1,keyasint"`
	Handle   string         `cbor:"2,keyasint"`
	Created  events.Instant `cbor:"3,keyasint"`
	Disabled events.Instant `cbor:"4,keyasint,omitempty"` // 0: active

	version uint64 // of the claim that held this record
}

// keyRecord is the value of key/<key id>. Secrets in it are sealed, see [vault.close].
type keyRecord struct {
	ID       keyID          `cbor:"1,keyasint"`
	Account  id             `cbor:"2,keyasint"`
	Kind     Kind           `cbor:"3,keyasint"`
	Label    string         `cbor:"4,keyasint,omitempty"`
	Policies [][]byte       `cbor:"5,keyasint,omitempty"` // documents, as they were given
	Created  events.Instant `cbor:"6,keyasint"`
	Disabled events.Instant `cbor:"7,keyasint,omitempty"` // 0: active
	Rotated  events.Instant `cbor:"8,keyasint,omitempty"` // 0: never
	// Generation counts the rotations. A token belongs to the one whose secret it was got with.
	Generation uint32 `cbor:"9,keyasint"`
	Secret     []byte `cbor:"10,keyasint"`
	// Former is the secret before the last rotation; it opens until FormerUntil.
	Former      []byte         `cbor:"11,keyasint,omitempty"`
	FormerUntil events.Instant `cbor:"12,keyasint,omitempty"`

	version uint64
}

// Kind says how a key is used.
type Kind string

const (
	// Pair is an id and a secret, for the token endpoint and for signatures.
	Pair Kind = "pair"
	// Static is one text to send as a bearer token, for clients that take nothing else. It does not expire.
	Static Kind = "token"
)

// The states of accounts and keys.
const (
	active   = "active"
	disabled = "disabled"
)

// Account is what is told of an account.
type Account struct {
	ID      string    `json:"id"`
	Handle  string    `json:"handle"`
	Status  string    `json:"status"`
	Created time.Time `json:"created_at"`
}

// Key is what is told of a key: everything but its secrets.
type Key struct {
	ID       string            `json:"access_key_id"`
	Account  string            `json:"account"` // handle
	Kind     Kind              `json:"kind"`
	Label    string            `json:"label,omitempty"`
	Status   string            `json:"status"`
	Policies []json.RawMessage `json:"policies,omitempty"`
	Created  time.Time         `json:"created_at"`
	Rotated  *time.Time        `json:"rotated_at,omitempty"`
	// FormerUntil is until when the secret before the last rotation still opens.
	FormerUntil *time.Time `json:"former_secret_until,omitempty"`
}

// Issued is a key with its secret, which is told once.
type Issued struct {
	Key
	Secret string `json:"secret_access_key,omitempty"` // of a pair
	Token  string `json:"token,omitempty"`             // of a static token: the whole text to send
}

// Format keeps the secret from whoever prints the value as a whole.
func (i Issued) Format(f fmt.State, _ rune) { fmt.Fprintf(f, "access key %s (secret not shown)", i.ID) }

func status(off events.Instant) string {
	if off != 0 {
		return disabled
	}
	return active
}

func when(i events.Instant) time.Time { return time.UnixMilli(int64(i)).UTC() }

func (r *accountRecord) told() Account {
	return Account{ID: r.ID.String(), Handle: r.Handle, Status: status(r.Disabled), Created: when(r.Created)}
}

func (r *keyRecord) told(handle string, now events.Instant) Key {
	k := Key{ID: r.ID.String(), Account: handle, Kind: r.Kind, Label: r.Label, Status: status(r.Disabled), Created: when(r.Created)}
	for _, p := range r.Policies {
		k.Policies = append(k.Policies, p)
	}
	if r.Rotated != 0 {
		at := when(r.Rotated)
		k.Rotated = &at
	}
	if r.Former != nil && now < r.FormerUntil {
		until := when(r.FormerUntil)
		k.FormerUntil = &until
	}
	return k
}

func (r *accountRecord) set(holder string) eventlog.Claim {
	return standing(accountClaim(r.ID), holder, events.EncodeRecord(r), r.version)
}

func (r *keyRecord) set(holder string) eventlog.Claim {
	return standing(keyClaim(r.ID), holder, events.EncodeRecord(r), r.version)
}

// standing is a claim without an end in place of the version that was read; 0: of none.
func standing(key, holder string, value []byte, version uint64) eventlog.Claim {
	return eventlog.Claim{Key: key, Holder: holder, Until: eventlog.Forever, Value: value, If: version}
}

// givenUp ends a claim, and takes its value away. It is held for another day, though nobody takes it for standing: a
// change that was decided before and is committed after must find it taken, and not bring the record back.
func givenUp(key, holder string, version uint64, now events.Instant) eventlog.Claim {
	return eventlog.Claim{Key: key, Holder: holder, Until: int64(now.Add(daySeconds)), If: version}
}

const daySeconds = 24 * 3600

// decode reads a claim that stands into a record.
func decode(c eventlog.Claim, into any) error {
	if err := events.DecodeRecord(c.Value, into); err != nil {
		return fmt.Errorf("%w: %s: %w", eventlog.ErrCorrupt, c.Key, err)
	}
	return nil
}

package auth

import (
	"context"
	"errors"
	"slices"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/leaselog/leaselog/events"
	"github.com/leaselog/leaselog/internal/eventlog"
	"github.com/leaselog/leaselog/internal/fault"
)

// AccountDefault is the account that a key belongs to unless another is named. It is the one of development mode, so
// that what was made there is there when real keys come, and it is made with its first key.
const AccountDefault = accountDefault

// labelCharsMax bounds what people write on a key.
const labelCharsMax = 128

// The grace of a rotation: how long the former secret opens.
const (
	GraceDefault = 24 * time.Hour
	GraceMax     = 7 * 24 * time.Hour // longer, and nobody remembers that two secrets open
)

// NewKey asks for a key.
type NewKey struct {
	Account  string   `json:"account"`  // id or handle; default [AccountDefault]
	Kind     Kind     `json:"kind"`     // default [Pair]
	Label    string   `json:"label"`    // for people
	Policies [][]byte `json:"policies"` // documents; none: everything in the account
}

func (n *NewKey) check() error {
	if n.Account == "" {
		n.Account = AccountDefault
	}
	if n.Kind == "" {
		n.Kind = Pair
	}
	if n.Kind != Pair && n.Kind != Static {
		return fault.New(fault.Invalid, "a key's kind must be %q or %q, not %q", Pair, Static, n.Kind)
	}
	if utf8.RuneCountInString(n.Label) > labelCharsMax || !utf8.ValidString(n.Label) || slices.ContainsFunc([]rune(n.Label), unicode.IsControl) {
		return fault.New(fault.Invalid, "a label must have at most %d characters, without control characters", labelCharsMax)
	}
	_, err := ParsePolicies(n.Policies)
	return err
}

// CreateKey makes a key and gives its secret, which is told this once. Faults: Invalid; NotFound for the account.
func (d *Directory) CreateKey(ctx context.Context, n NewKey) (Issued, error) {
	if err := n.check(); err != nil {
		return Issued{}, err
	}
	r := &keyRecord{Kind: n.Kind, Label: n.Label, Policies: n.Policies, Created: d.Now()}
	s, err := d.seal(r, true)
	if err != nil {
		return Issued{}, err
	}
	var of *accountRecord
	err = d.change(ctx, func(holder string) (claims []eventlog.Claim, err error) {
		if of, claims, err = d.keyAccount(ctx, n.Account, holder); err != nil {
			return nil, err
		}
		r.Account = of.ID
		return append(claims, r.set(holder)), nil
	})
	if err != nil {
		return Issued{}, err
	}
	return issue(r, of.Handle, d.Now(), s), nil
}

// keyAccount finds the account of a new key, and gives the claim that keeps it from being deleted meanwhile.
func (d *Directory) keyAccount(ctx context.Context, ref, holder string) (*accountRecord, []eventlog.Claim, error) {
	r, err := d.account(ctx, ref)
	if err == nil {
		return r, []eventlog.Claim{r.set(holder)}, nil
	}
	if !fault.Is(err, fault.NotFound) || ref != AccountDefault {
		return nil, nil, err
	}
	n, err := d.handle(ctx, ref)
	if err != nil {
		return nil, nil, err
	}
	return d.newAccount(n, holder)
}

// seal puts a fresh secret into a record, and an id where it has none.
func (d *Directory) seal(r *keyRecord, fresh bool) (s secret, err error) {
	if fresh {
		if r.ID, err = d.vault.newKeyID(d.Rand); err != nil {
			return nil, err
		}
	}
	if s, err = newSecret(d.Rand); err != nil {
		return nil, err
	}
	r.Secret, err = d.vault.close(d.Rand, r.ID, r.Generation, s)
	return s, err
}

// issue tells a key with its secret.
func issue(r *keyRecord, handle string, now events.Instant, s secret) Issued {
	i := Issued{Key: r.told(handle, now)}
	if r.Kind == Static {
		i.Token = staticToken(r.ID, s)
	} else {
		i.Secret = s()
	}
	return i
}

// Keys lists the keys of an account, by id or handle; of all where it is empty. Faults: NotFound.
func (d *Directory) Keys(ctx context.Context, account string) ([]Key, error) {
	handles := map[id]string{}
	if account != "" {
		a, err := d.account(ctx, account)
		if err != nil {
			return nil, unavailable(err)
		}
		handles[a.ID] = a.Handle
	} else if err := d.each(ctx, accountPrefix, func(c eventlog.Claim) (bool, error) {
		a := new(accountRecord)
		err := decode(c, a)
		handles[a.ID] = a.Handle
		return true, err
	}); err != nil {
		return nil, err
	}
	all := []Key{}
	err := d.each(ctx, keyPrefix, func(c eventlog.Claim) (bool, error) {
		r := new(keyRecord)
		err := decode(c, r)
		if handle, ok := handles[r.Account]; ok {
			all = append(all, r.told(handle, d.Now()))
		}
		return true, err
	})
	slices.SortFunc(all, func(a, b Key) int { return a.Created.Compare(b.Created) })
	return all, err
}

// errKeep says that a key is already as it should be.
var errKeep = errors.New("nothing to change")

// edit changes a key's record and gives it with its account's handle. Faults: NotFound, and what f gives.
func (d *Directory) edit(ctx context.Context, ref string, f func(*keyRecord) error) (r *keyRecord, handle string, err error) {
	k, ok := parseKeyID(ref)
	if !ok {
		return nil, "", errNoKey(ref)
	}
	err = d.change(ctx, func(holder string) ([]eventlog.Claim, error) {
		if r, err = d.readKey(ctx, k); err != nil {
			return nil, err
		}
		if r == nil {
			return nil, errNoKey(ref)
		}
		a, err := d.readAccount(ctx, r.Account)
		if err != nil || a == nil {
			return nil, errors.Join(err, errNoKey(ref))
		}
		handle = a.Handle
		switch err := f(r); err {
		case nil:
			return []eventlog.Claim{r.set(holder)}, nil
		case errKeep:
			return nil, nil
		default:
			return nil, err
		}
	})
	return r, handle, err
}

func errNoKey(ref string) error {
	return fault.New(fault.NotFound, "there is no access key %q; list them to see their ids", ref)
}

// EnableKey lets a key open again, or no more; its tokens too. Faults: NotFound.
func (d *Directory) EnableKey(ctx context.Context, ref string, enable bool) (Key, error) {
	r, handle, err := d.edit(ctx, ref, func(r *keyRecord) error {
		if (r.Disabled == 0) == enable {
			return errKeep
		}
		r.Disabled = d.Now()
		if enable {
			r.Disabled = 0
		}
		return nil
	})
	if err != nil {
		return Key{}, err
	}
	return r.told(handle, d.Now()), nil
}

// RotateKey gives a key a new secret. The former one, and the tokens got with it, are good for the grace and no longer.
// Faults: Invalid; NotFound.
func (d *Directory) RotateKey(ctx context.Context, ref string, grace time.Duration) (Issued, error) {
	if grace < 0 || grace > GraceMax {
		return Issued{}, fault.New(fault.Invalid, "the grace of a rotation must be 0 to %s, not %s", "168h", grace)
	}
	var s secret
	r, handle, err := d.edit(ctx, ref, func(r *keyRecord) (err error) {
		r.Former, r.FormerUntil = r.Secret, d.Now()+events.Instant(grace.Milliseconds())
		if grace == 0 {
			r.Former, r.FormerUntil = nil, 0
		}
		r.Generation++
		r.Rotated = d.Now()
		s, err = d.seal(r, false)
		return err
	})
	if err != nil {
		return Issued{}, err
	}
	return issue(r, handle, d.Now(), s), nil
}

// SetPolicies replaces a key's policies; none lets it do everything in its account. Faults: Invalid; NotFound.
func (d *Directory) SetPolicies(ctx context.Context, ref string, documents [][]byte) (Key, error) {
	if _, err := ParsePolicies(documents); err != nil {
		return Key{}, err
	}
	r, handle, err := d.edit(ctx, ref, func(r *keyRecord) error {
		r.Policies = documents
		return nil
	})
	if err != nil {
		return Key{}, err
	}
	return r.told(handle, d.Now()), nil
}

// DeleteKey removes a key for good. Faults: NotFound.
func (d *Directory) DeleteKey(ctx context.Context, ref string) error {
	k, ok := parseKeyID(ref)
	if !ok {
		return errNoKey(ref)
	}
	return d.change(ctx, func(holder string) ([]eventlog.Claim, error) {
		r, err := d.readKey(ctx, k)
		if err != nil {
			return nil, err
		}
		if r == nil {
			return nil, errNoKey(ref)
		}
		return []eventlog.Claim{givenUp(keyClaim(k), holder, r.version, d.Now())}, nil
	})
}

package auth

import (
	"context"
	"io"
	"strings"

	"github.com/leaselog/leaselog/events"
	"github.com/leaselog/leaselog/internal/eventlog"
	"github.com/leaselog/leaselog/internal/fault"
)

// handleBytesMax is what a label of a host name may have, since a handle stands in names of resources.
const handleBytesMax = 63

// checkHandle says what is wrong with a handle. It stands in CRNs and in keys of claims, so its characters are few; one
// that could be read as an account's id is refused.
func checkHandle(handle string) error {
	if handle == "" || len(handle) > handleBytesMax {
		return fault.New(fault.Invalid, "an account's handle must have 1 to %d characters, not %d", handleBytesMax, len(handle))
	}
	if strings.Trim(handle, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" || handle[0] == '-' || handle[len(handle)-1] == '-' {
		return fault.New(fault.Invalid, "an account's handle is made of a-z, 0-9 and dashes inside, not %q", handle)
	}
	if _, is := events.ParseUUID(handle); is {
		return fault.New(fault.Invalid, "an account's handle must not be a UUID, which would name an account by its id")
	}
	return nil
}

// CreateAccount makes an account. Faults: Invalid; Exists.
func (d *Directory) CreateAccount(ctx context.Context, handle string) (Account, error) {
	if err := checkHandle(handle); err != nil {
		return Account{}, err
	}
	var r *accountRecord
	err := d.change(ctx, func(holder string) ([]eventlog.Claim, error) {
		name, err := d.handle(ctx, handle)
		if err != nil {
			return nil, err
		}
		if name.taken() {
			return nil, fault.New(fault.Exists, "the account %q exists already", handle)
		}
		var claims []eventlog.Claim
		r, claims, err = d.newAccount(name, holder)
		return claims, err
	})
	if err != nil {
		return Account{}, err
	}
	return r.told(), nil
}

// name is a handle's claim as it was read: an id stands in it, or nothing.
type name struct{ eventlog.Claim }

func (n name) taken() bool    { return n.Until == eventlog.Forever }
func (n name) handle() string { return strings.TrimPrefix(n.Key, handlePrefix) }

func (d *Directory) handle(ctx context.Context, handle string) (name, error) {
	c, ok, err := d.Log.Claim(ctx, handleClaim(handle))
	if !ok {
		c = eventlog.Claim{Key: handleClaim(handle)}
	}
	return name{c}, err
}

// newAccount gives the claims that make an account under a handle which is free.
func (d *Directory) newAccount(n name, holder string) (*accountRecord, []eventlog.Claim, error) {
	r := &accountRecord{Handle: n.handle(), Created: d.Now()}
	if err := d.random(&r.ID); err != nil {
		return nil, nil, err
	}
	return r, []eventlog.Claim{r.set(holder), standing(n.Key, holder, r.ID[:], n.Version)}, nil
}

// random makes a UUID of version 4.
func (d *Directory) random(i *id) error {
	_, err := io.ReadFull(d.Rand, i[:])
	i[6], i[8] = i[6]&0x0f|0x40, i[8]&0x3f|0x80
	return err
}

// account finds an account by id or handle. Faults: NotFound.
func (d *Directory) account(ctx context.Context, ref string) (*accountRecord, error) {
	a, is := events.ParseUUID(ref)
	if !is {
		n, err := d.handle(ctx, ref)
		if err != nil {
			return nil, err
		}
		if !n.taken() {
			return nil, errNoAccount(ref)
		}
		copy(a[:], n.Value)
	}
	r, err := d.readAccount(ctx, a)
	if err == nil && r == nil {
		err = errNoAccount(ref)
	}
	return r, err
}

func errNoAccount(ref string) error {
	return fault.New(fault.NotFound, "there is no account %q", ref)
}

// Accounts lists all accounts.
func (d *Directory) Accounts(ctx context.Context) ([]Account, error) {
	all := []Account{}
	err := d.each(ctx, accountPrefix, func(c eventlog.Claim) (bool, error) {
		r := new(accountRecord)
		err := decode(c, r)
		all = append(all, r.told())
		return true, err
	})
	return all, err
}

// EnableAccount lets an account's keys open again, or no more. Faults: NotFound.
func (d *Directory) EnableAccount(ctx context.Context, ref string, enable bool) (Account, error) {
	var r *accountRecord
	err := d.change(ctx, func(holder string) (_ []eventlog.Claim, err error) {
		if r, err = d.account(ctx, ref); err != nil || (r.Disabled == 0) == enable {
			return nil, err
		}
		r.Disabled = d.Now()
		if enable {
			r.Disabled = 0
		}
		return []eventlog.Claim{r.set(holder)}, nil
	})
	if err != nil {
		return Account{}, err
	}
	return r.told(), nil
}

// DeleteAccount removes an account that has neither keys nor queues. Its handle is free again, and the next account of
// that name has another id. Faults: NotFound; Exists when something is in it.
func (d *Directory) DeleteAccount(ctx context.Context, ref string) error {
	return d.change(ctx, func(holder string) ([]eventlog.Claim, error) {
		r, err := d.account(ctx, ref)
		if err != nil {
			return nil, err
		}
		if err := d.checkEmpty(ctx, r); err != nil {
			return nil, err
		}
		n, err := d.handle(ctx, r.Handle)
		if err != nil {
			return nil, err
		}
		// A key that is made meanwhile sets the record too, so that one of the two decides again.
		now := d.Now()
		return []eventlog.Claim{givenUp(accountClaim(r.ID), holder, r.version, now), givenUp(n.Key, holder, n.Version, now)}, nil
	})
}

func (d *Directory) checkEmpty(ctx context.Context, r *accountRecord) error {
	keys, err := d.Keys(ctx, r.Handle)
	if err != nil {
		return err
	}
	if len(keys) > 0 {
		return fault.New(fault.Exists, "the account %q still has access keys (%d); delete them first, for instance %s", r.Handle, len(keys), keys[0].ID)
	}
	if d.HasQueues == nil {
		return nil
	}
	has, err := d.HasQueues(ctx, r.Handle)
	if err == nil && has {
		err = fault.New(fault.Exists, "the account %q still has queues; delete them first", r.Handle)
	}
	return err
}

package auth

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/leaselog/leaselog/events"
	"github.com/leaselog/leaselog/internal/eventlog"
	"github.com/leaselog/leaselog/internal/fault"
)

// Config says what a directory works with.
type Config struct {
	Log eventlog.Log
	// Secret is the deployment's, the same in every process. All that is sealed or authenticated here is under keys
	// that are derived from it.
	Secret [32]byte
	Now    func() events.Instant
	Rand   io.Reader // crypto/rand.Reader outside tests
	// CacheAge is how long a key, an account and the absence of a revocation are trusted after they were read: what
	// another process changed counts at the latest then. Changes made here count at once. Default 3 s.
	CacheAge time.Duration
	// HasQueues says whether an account, by its handle, has queues: then it is not deleted.
	HasQueues func(ctx context.Context, handle string) (bool, error)
}

const cacheAgeDefault = 3 * time.Second

// Bounds of what is remembered. A key takes about a kilobyte, a token that was not revoked about a hundred bytes.
const (
	cachedKeysMax   = 4_096
	cachedTokensMax = 65_536
)

// Directory keeps accounts and access keys in the log. It may be used by many goroutines, and many directories may work
// on one log.
type Directory struct {
	Config
	vault *vault
	decoy *entry

	mu      sync.RWMutex // guards what follows
	changes uint64       // made by this directory
	keys    map[keyID]*entry
	tokens  map[id]tokenState
}

// entry is a key as it was read, ready for use.
type entry struct {
	record   *keyRecord     // nil: there is none
	account  *accountRecord // the key's
	policies *Policies
	current  secret
	former   secret // of the right length always, so that comparing takes the same time
	until    events.Instant

	currentKeys, formerKeys signingKeys
}

// tokenState says what is known of a token until an instant.
type tokenState struct {
	revoked bool
	until   events.Instant
}

// NewDirectory makes a directory and reports every problem of its configuration at once.
func NewDirectory(c Config) (*Directory, error) {
	var problems []error
	for what, missing := range map[string]bool{"Log": c.Log == nil, "Now": c.Now == nil, "Rand": c.Rand == nil, "Secret": c.Secret == [32]byte{}} {
		if missing {
			problems = append(problems, errors.New("auth: Config."+what+" is missing"))
		}
	}
	if len(problems) > 0 {
		return nil, errors.Join(problems...)
	}
	if c.CacheAge == 0 {
		c.CacheAge = cacheAgeDefault
	}
	v, err := newVault(c.Secret[:])
	if err != nil {
		return nil, err
	}
	c.Secret = [32]byte{}
	d := &Directory{Config: c, vault: v, keys: map[keyID]*entry{}, tokens: map[id]tokenState{}}
	d.decoy, err = d.newDecoy()
	return d, err
}

// Format prints nothing of what is inside.
func (*Directory) Format(f fmt.State, _ rune) {
	io.WriteString(f, "directory of access keys (not shown)")
}

// newDecoy makes what stands in for a key that does not exist: its secrets are random and nobody's.
func (d *Directory) newDecoy() (*entry, error) {
	current, err := newSecret(d.Rand)
	if err != nil {
		return nil, err
	}
	former, err := newSecret(d.Rand)
	e := &entry{current: current, former: former}
	e.currentKeys.of, e.formerKeys.of = current, former
	return e, err
}

// find gives a key as it is now, or was at most CacheAge ago. What was never given out, or is gone, gives the decoy:
// callers work with it as with any key and refuse in the end, so that both take the same time. An error is a fault
// Unavailable.
func (d *Directory) find(ctx context.Context, k keyID) (*entry, error) {
	if !d.vault.issued(k) {
		return d.decoy, nil
	}
	d.mu.RLock()
	e := d.keys[k]
	d.mu.RUnlock()
	if e == nil || e.until <= d.Now() {
		var err error
		if e, err = d.load(ctx, k); err != nil {
			return nil, unavailable(err)
		}
	}
	if e.record == nil {
		return d.decoy, nil
	}
	return e, nil
}

// unavailable makes an error of the log a fault; what is one already, or no error, stays as it is.
func unavailable(err error) error {
	if _, is := errors.AsType[*fault.Error](err); is || err == nil || errors.Is(err, eventlog.ErrCorrupt) {
		return err
	}
	return fault.Because(fault.Unavailable, err, "the access keys cannot be read now; nothing was done, try again")
}

// load reads a key with its account and remembers them.
func (d *Directory) load(ctx context.Context, k keyID) (*entry, error) {
	began := d.begin()
	r, err := d.readKey(ctx, k)
	if err != nil {
		return nil, err
	}
	e := new(entry)
	if r != nil {
		a, err := d.readAccount(ctx, r.Account)
		if err != nil {
			return nil, err
		}
		if a == nil {
			return nil, fmt.Errorf("%w: the account of access key %s is missing", eventlog.ErrCorrupt, k)
		}
		if e, err = d.ready(r, a); err != nil {
			return nil, err
		}
	}
	e.until = began.until
	d.remember(began, func() {
		makeRoom(d.keys, cachedKeysMax)
		d.keys[k] = e
	})
	return e, nil
}

// ready opens the secrets and reads the policies.
func (d *Directory) ready(r *keyRecord, a *accountRecord) (*entry, error) {
	e := &entry{record: r, account: a, former: d.decoy.former}
	var err error
	if e.current, err = d.vault.open(r.ID, r.Generation, r.Secret); err != nil {
		return nil, fmt.Errorf("the secret of access key %s was sealed by another key file, or changed: %w", r.ID, err)
	}
	if r.Former != nil {
		if e.former, err = d.vault.open(r.ID, r.Generation-1, r.Former); err != nil {
			return nil, fmt.Errorf("the former secret of access key %s: %w", r.ID, err)
		}
	}
	e.currentKeys.of, e.formerKeys.of = e.current, e.former
	e.policies, err = ParsePolicies(r.Policies)
	return e, err
}

// reading is the beginning of a look at the log.
type reading struct {
	changes uint64
	until   events.Instant // how long what is read counts
}

func (d *Directory) begin() reading {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return reading{d.changes, d.Now() + events.Instant(d.CacheAge.Milliseconds())}
}

// remember keeps what was read, unless something was changed here meanwhile: a slow reader must not bring a disabled
// key back.
func (d *Directory) remember(began reading, keep func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.changes == began.changes {
		keep()
	}
}

// changed makes every later request read anew. Changes are rare, and a reading takes microseconds.
func (d *Directory) changed() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.changes++
	clear(d.keys)
	clear(d.tokens)
}

// makeRoom drops something, whatever comes first, from a map that is full.
func makeRoom[K comparable, V any](m map[K]V, most int) {
	if len(m) < most {
		return
	}
	for k := range m {
		delete(m, k)
		if len(m) < most {
			return
		}
	}
}

// readKey gives a key's record, nil where there is none.
func (d *Directory) readKey(ctx context.Context, k keyID) (*keyRecord, error) {
	c, ok, err := d.Log.Claim(ctx, keyClaim(k))
	if err != nil || !ok || c.Until != eventlog.Forever {
		return nil, err
	}
	r := &keyRecord{version: c.Version}
	return r, decode(c, r)
}

func (d *Directory) readAccount(ctx context.Context, a id) (*accountRecord, error) {
	c, ok, err := d.Log.Claim(ctx, accountClaim(a))
	if err != nil || !ok || c.Until != eventlog.Forever {
		return nil, err
	}
	r := &accountRecord{version: c.Version}
	return r, decode(c, r)
}

// each gives the claims that stand under a prefix, until f wants no more.
func (d *Directory) each(ctx context.Context, prefix string, f func(eventlog.Claim) (more bool, err error)) error {
	const page = 256
	for after := ""; ; {
		claims, err := d.Log.Claims(ctx, prefix, after, page)
		if err != nil {
			return unavailable(err)
		}
		for _, c := range claims {
			after = c.Key
			if c.Until != eventlog.Forever {
				continue // it was given up
			}
			if more, err := f(c); err != nil || !more {
				return err
			}
		}
		if len(claims) < page {
			return nil
		}
	}
}

// HasKeys says whether there is any key, active or not.
func (d *Directory) HasKeys(ctx context.Context) (found bool, err error) {
	err = d.each(ctx, keyPrefix, func(eventlog.Claim) (bool, error) {
		found = true
		return false, nil
	})
	return found, err
}

// errAgain makes change decide once more.
var errAgain = errors.New("something else was changed meanwhile")

// change decides on claims and commits them, again and again until nothing comes between. No claims: nothing to do.
func (d *Directory) change(ctx context.Context, decide func(holder string) ([]eventlog.Claim, error)) error {
	for {
		c := eventlog.Commit{At: int64(d.Now())}
		if _, err := io.ReadFull(d.Rand, c.Writer[:]); err != nil {
			return err
		}
		var err error
		if c.Claims, err = decide(hex.EncodeToString(c.Writer[:])); err != nil || len(c.Claims) == 0 {
			return unavailable(err)
		}
		err = d.commit(ctx, c)
		d.changed() // also without an answer: it may have taken effect
		if !errors.Is(err, errAgain) {
			return err
		}
	}
}

// attemptsMax bounds how often a commit without an answer is repeated while somebody waits for it.
const attemptsMax = 10

// commit writes claims. A commit without an answer is repeated as it is. errAgain: something else stands there.
func (d *Directory) commit(ctx context.Context, c eventlog.Commit) error {
	var err error
	for range attemptsMax {
		if err = d.Log.Commit(ctx, c); err == nil {
			return nil
		}
		if _, conflict := errors.AsType[*eventlog.Conflict](err); conflict {
			return errAgain
		}
		if _, refused := errors.AsType[*eventlog.Refused](err); refused {
			return unavailable(err)
		}
		if ctx.Err() != nil {
			break
		}
	}
	return fault.Because(fault.Unconfirmed, err, "the store has not confirmed the change; look whether it took effect before you repeat it")
}

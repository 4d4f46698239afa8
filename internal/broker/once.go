package broker

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"slices"
	"sync/atomic"

	"github.com/leaselog/leaselog/events"
	"github.com/leaselog/leaselog/internal/eventlog"
	"github.com/leaselog/leaselog/internal/fault"
)

// Once says that a command counts once: its claims are in the commit of its effect, never before and never after.
type Once struct {
	Account string
	// Key is the caller's idempotency key, empty for none. Print tells one request from another: a repeat under the
	// same key and print is answered as the first was, another print is the fault KeyMismatch.
	Key   string
	Print []byte
	// Nonce is the key of a claim that nobody may hold, until NonceUntil; empty for none. A replay is Unauthorized.
	Nonce      string
	NonceUntil events.Instant
}

type onceKey struct{}

// With makes the use case that gets the context count once. It is a value of the context since it belongs to the
// request and not to any one command.
func With(ctx context.Context, o Once) context.Context { return context.WithValue(ctx, onceKey{}, o) }

// keyed says whether the request has an idempotency key.
func keyed(ctx context.Context) bool {
	o, _ := ctx.Value(onceKey{}).(Once)
	return o.Key != ""
}

// rememberAnswer is how long an answer is kept for repeats, in milliseconds (Basaltic 8).
const rememberAnswer = 24 * 60 * 60 * 1000

// once is a Once in this process.
type once struct {
	Once
	claim   string // key of the answer's claim; empty: none
	holder  string
	spent   atomic.Bool // a claim of it stands, and another command set it
	written atomic.Bool // its claims stand
}

// errSpent says that a claim of the command stands already.
var errSpent = errors.New("the command was carried out before")

// once gives what the context asks for, and nil where it asks for nothing.
func (b *Broker) once(ctx context.Context) *once {
	o, _ := ctx.Value(onceKey{}).(Once)
	if o.Key == "" && o.Nonce == "" {
		return nil
	}
	c := &once{Once: o}
	_, c.holder = b.newWriter()
	if o.Key != "" {
		m := hmac.New(sha256.New, b.ReceiptKey[:])
		m.Write([]byte("once\x00" + o.Account + "\x00" + o.Key))
		c.claim = "once/" + hex.EncodeToString(m.Sum(nil)[:16]) // the key itself is the caller's, and not to be read
	}
	return c
}

// claims gives the claims of a command with the answer to remember; nil remembers none.
func (o *once) claims(b *Broker, a *answer, until events.Instant) (claims []eventlog.Claim, err error) {
	if o == nil {
		return nil, nil
	}
	if o.Nonce != "" && !o.written.Load() { // a receive goes on to another shard when its leases ended before it was told
		claims = append(claims, eventlog.Claim{Key: o.Nonce, Holder: o.holder, Until: int64(o.NonceUntil)})
	}
	if o.claim != "" && a != nil {
		a.Print = o.Print
		value, err := b.sealAnswer(o.claim, a)
		if err != nil {
			return nil, err
		}
		claims = append(claims, eventlog.Claim{Key: o.claim, Holder: o.holder, Until: int64(until), Value: value})
	}
	return claims, nil
}

// meets notes whether one of the claims that a commit met belongs to the command and was set by another.
func (o *once) meets(c *eventlog.Conflict, now events.Instant) {
	for _, claim := range c.Claims {
		if (claim.Key == o.claim || claim.Key == o.Nonce) && claim.Holder != o.holder && claim.Until > int64(now) {
			o.spent.Store(true)
		}
	}
}

// answer is what is remembered of a command: ids, never bodies.
type answer struct {
	Print   []byte     `cbor:"1,keyasint"`
	Code    fault.Code `cbor:"2,keyasint,omitempty"` // of the fault that was the answer
	Message string     `cbor:"3,keyasint,omitempty"`
	Result  []byte     `cbor:"4,keyasint,omitempty"`

	version uint64 // of the claim that holds it
}

// answerAEAD seals answers under a key that is derived from that of the receipts.
func (b *Broker) answerAEAD() (cipher.AEAD, error) {
	key, err := hkdf.Key(sha256.New, b.ReceiptKey[:], nil, "leaselog stored answers", 32)
	if err != nil {
		return nil, err
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCMWithRandomNonce(block)
}

func (b *Broker) sealAnswer(key string, a *answer) ([]byte, error) {
	aead, err := b.answerAEAD()
	if err != nil {
		return nil, err
	}
	return aead.Seal(nil, nil, events.EncodeRecord(a), []byte(key)), nil
}

func (b *Broker) openAnswer(c eventlog.Claim) (*answer, error) {
	aead, err := b.answerAEAD()
	if err != nil {
		return nil, err
	}
	plain, err := aead.Open(nil, nil, c.Value, []byte(c.Key))
	if err != nil {
		return nil, err
	}
	a := new(answer)
	return a, events.DecodeRecord(plain, a)
}

// prior gives the answer that the first request under the same key got, nil where this is the first.
// Faults: KeyMismatch; Unauthorized for a nonce that was used.
func (b *Broker) prior(ctx context.Context, o *once) (*answer, error) {
	if o.Nonce != "" {
		c, ok, err := b.Log.Claim(ctx, o.Nonce)
		if err != nil {
			return nil, storeFault(err)
		}
		if ok && c.Until > int64(b.Now()) && c.Holder != o.holder {
			return nil, fault.New(fault.Unauthorized, "this request was seen before; sign each request anew, with an X-Nonce of its own")
		}
	}
	if o.claim == "" {
		return nil, nil
	}
	c, ok, err := b.Log.Claim(ctx, o.claim)
	if err != nil || !ok || c.Until <= int64(b.Now()) {
		return nil, storeFault(err)
	}
	a, err := b.openAnswer(c)
	if err != nil {
		return nil, err
	}
	a.version = c.Version
	if !hmac.Equal(a.Print, o.Print) {
		return nil, fault.New(fault.KeyMismatch, "the Idempotency-Key was used for another request; use a new key for a new request")
	}
	return a, nil
}

// counted runs a use case so that it counts once where its context asks for that. keep gives what is to be remembered
// of a result, nil for nothing; again makes a result of it, and says false where that does not hold any more.
// Most requests are the first with their claims, which the commit of their effect finds out anyway; so where looking
// costs, a use case that says optimistic looks only when it has met another's. It must call first before it does
// anything whose commit does not hold the claims.
func counted[T any](ctx context.Context, b *Broker, optimistic bool, keep func(T) []byte, again func([]byte) (T, bool, error), run func(*once) (T, error)) (none T, err error) {
	o := b.once(ctx)
	if o == nil {
		return run(nil)
	}
	for attempt := 0; ; attempt++ {
		var a *answer
		if b.Exclusive || !optimistic || attempt > 0 {
			if a, err = b.prior(ctx, o); err != nil {
				return none, err
			}
		}
		if a != nil {
			if v, holds, err := repeated(a, again); holds || err != nil {
				return v, err
			}
			if err := b.giveUp(ctx, o, a.version); err != nil {
				return none, err
			}
		}
		v, err := run(o)
		if !o.written.Load() && !errors.Is(err, errSpent) {
			err = b.afterwards(ctx, o, outcomeOf(v, err, keep), err)
		}
		if !errors.Is(err, errSpent) {
			return v, err
		}
		o.spent.Store(false) // another was first: the next look finds its answer
	}
}

// first gives errSpent where a command was carried out before, and did not look yet.
func (b *Broker) first(ctx context.Context, o *once) error {
	if o == nil || b.Exclusive {
		return nil
	}
	a, err := b.prior(ctx, o)
	if err == nil && a != nil {
		err = errSpent
	}
	return err
}

func repeated[T any](a *answer, again func([]byte) (T, bool, error)) (v T, holds bool, err error) {
	if a.Code != "" {
		return v, true, fault.New(a.Code, "%s", a.Message)
	}
	return again(a.Result)
}

// outcomeOf gives what is to be remembered of a result or a lasting fault, nil for nothing.
func outcomeOf[T any](v T, err error, keep func(T) []byte) *answer {
	if err != nil {
		if !remembered(err) {
			return nil
		}
		f := fault.Of(err)
		return &answer{Code: f.Code, Message: f.Message}
	}
	if r := keep(v); r != nil {
		return &answer{Result: r}
	}
	return nil
}

// bare is counted for a use case without a result.
func (b *Broker) bare(ctx context.Context, run func(*once) error) error {
	nothing := struct{}{}
	_, err := counted(ctx, b, false, func(struct{}) []byte { return []byte{} }, func([]byte) (struct{}, bool, error) { return nothing, true, nil },
		func(o *once) (struct{}, error) { return nothing, run(o) })
	return err
}

// Refused makes a refusal that came before any command count once, as the context asks: it gives the fault to answer
// with, which is an earlier one under the same key.
func (b *Broker) Refused(ctx context.Context, err error) error {
	return b.bare(ctx, func(*once) error { return err })
}

// giveUp frees the claim of an answer that does not hold any more, and not that of a repeat that came between.
func (b *Broker) giveUp(ctx context.Context, o *once, version uint64) error {
	w, _ := b.newWriter()
	err := b.settle(ctx, eventlog.Commit{Writer: w, At: int64(b.Now()), Claims: []eventlog.Claim{{Key: o.claim, Holder: o.holder, If: version}}})
	if isConflict(err) {
		return nil // another repeat was first; the next look tells
	}
	return storeFault(err)
}

// afterwards writes alone the claims of a command that had no commit of its own: it was refused, or changed nothing.
// It gives the command's own fault on, or errSpent where a claim stands already.
func (b *Broker) afterwards(ctx context.Context, o *once, a *answer, err error) error {
	if a == nil && o.claim != "" { // it found nothing, perhaps because another was first
		if first, looking := b.prior(ctx, o); err != nil && fault.Is(looking, fault.Unavailable) {
			return err // which may be Unconfirmed: that this look failed does not mean that nothing was done
		} else if looking != nil {
			return looking
		} else if first != nil {
			return errSpent
		}
	}
	claims, sealing := o.claims(b, a, b.Now()+rememberAnswer)
	if sealing != nil || len(claims) == 0 {
		return errors.Join(err, sealing)
	}
	w, _ := b.newWriter()
	c := b.settle(ctx, eventlog.Commit{Writer: w, At: int64(b.Now()), Claims: claims})
	switch {
	case o.spentBy(c, b.Now()):
		return errSpent
	case c == nil || err != nil:
		return err
	}
	return storeFault(c)
}

// remembered says whether a fault is the lasting answer of a request. One that may pass by itself is not.
func remembered(err error) bool {
	switch fault.Of(err).Code {
	case fault.Invalid, fault.TooLarge, fault.NotFound, fault.Exists, fault.ForeignLease, fault.LeaseEnded:
		return true
	}
	return false
}

// spentBy says whether an error is a conflict with the claims of a command that counts once.
func (o *once) spentBy(err error, now events.Instant) bool {
	var c *eventlog.Conflict
	if o == nil || !errors.As(err, &c) {
		return false
	}
	o.meets(c, now)
	return o.spent.Load()
}

// counts is the part of a command that counts once.
type counts struct {
	once *once
	kept func() *answer // what is remembered of it, once it is decided
}

func (c *counts) counted() *counts { return c }

// countable is a command that may count once.
type countable interface{ counted() *counts }

func onceOf(c command) *counts {
	if k, ok := c.(countable); ok && k.counted().once != nil {
		return k.counted()
	}
	return nil
}

// counting says whether a command that counts once may be decided in this group: not when it was carried out before,
// not beside another with the same claims, from which it is answered afterwards, and not where the commit is full.
func (g *group) counting(c command) error {
	k := onceOf(c)
	if k == nil {
		return nil
	}
	if k.once.spent.Load() {
		return errSpent
	}
	if most := g.b.CommitItems; most > 0 && appendsMost+len(g.claims)+claimsMost > most {
		return errLater
	}
	for _, claim := range g.claims {
		if claim.Key == k.once.claim || claim.Key == k.once.Nonce {
			return errLater
		}
	}
	return nil
}

// claim adds the claims of a command that was decided to the commit.
func (g *group) claim(c command, err error) error {
	k := onceOf(c)
	if k == nil || err != nil {
		return err
	}
	until := g.at + rememberAnswer
	if r, ok := c.(*receive); ok {
		if len(r.taken) == 0 {
			return nil // another shard may have something, and its commit takes the claims; otherwise they follow alone
		}
		until = min(r.until, g.at+keptReceiveMost)
	}
	claims, err := k.once.claims(g.b, k.kept(), until)
	g.claims = append(g.claims, claims...)
	return err
}

// met tells those whose claims stand already: they are answered from the first.
func (g *group) met(err error) {
	g.outdated(err)
	for _, c := range g.all() {
		if k := onceOf(c); k != nil {
			k.once.spentBy(err, g.now)
		}
	}
}

// counted notes whose claims stand now.
func (g *group) counted() {
	for _, c := range g.all() {
		if k := onceOf(c); k != nil && slices.ContainsFunc(g.claims, func(c eventlog.Claim) bool { return c.Holder == k.once.holder }) {
			k.once.written.Store(true)
		}
	}
}

// all gives the commands that were decided, and the parked receives that were served.
func (g *group) all() []command {
	all := slices.Clone(g.decided)
	for _, p := range g.served {
		all = append(all, p)
	}
	return all
}

// settleOnce commits what is not a shard's, with the claims of a command that counts once. It gives errSpent where
// that was carried out before.
func (b *Broker) settleOnce(ctx context.Context, o *once, c eventlog.Commit, result func() []byte) error {
	if o == nil {
		return b.settle(ctx, c)
	}
	claims, err := o.claims(b, &answer{Result: result()}, b.Now()+rememberAnswer)
	if err != nil {
		return err
	}
	c.Claims = append(c.Claims, claims...)
	err = b.settle(ctx, c)
	if err == nil {
		o.written.Store(true)
	}
	if o.spentBy(err, b.Now()) {
		return errSpent
	}
	return err
}

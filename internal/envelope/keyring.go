package envelope

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/leaselog/leaselog/events"
	"github.com/leaselog/leaselog/internal/eventlog"
	"github.com/leaselog/leaselog/internal/fault"
)

const (
	// format is the first byte of the associated data. Another one would be another way to seal.
	format  = 1
	keySize = 32
	// A data key is replaced after a day, so that what one key opens is bounded, or after sealsMax blocks, far below
	// the 2^32 at which random nonces of 96 bits begin to be likely to repeat (NIST SP 800-38D, 8.3).
	wornSeconds = 24 * 60 * 60
	sealsMax    = 1 << 30
)

// ErrVersion is in the chain of an error about a key version that the ring does not have. A ring that was read
// earlier may lack a version that another process has added: read the queue's record again.
var ErrVersion = errors.New("the queue's key ring has no such version")

// Place is where an entry stands. It is authenticated, so that a sealed entry opens nowhere else.
type Place struct {
	Stream string
	Seq    uint64
}

// Keyring seals, opens and hashes with the keys of one queue. All methods may be called by many goroutines at once.
//
// A key is unwrapped when it is first used and kept for reuseSeconds, judged by the now of each call; 0 keeps it for no
// later call. Calls that need a key at the same time wait for one unwrapping, and all get its outcome. Whatever keeps
// a key from being unwrapped is the fault KeyLost.
type Keyring struct {
	keys    Keys
	context Context
	name    slot[*hasher]
	mu      sync.Mutex                 // held while data is replaced
	data    atomic.Pointer[[]*dataKey] // in rising order of version, never empty
	nonces  nonces
}

type dataKey struct {
	slot[cipher.AEAD]
	version uint32
	created events.Instant
	seals   atomic.Uint64
}

// Open gives the keyring of a queue. It unwraps nothing yet. rand gives the nonces: crypto/rand.Reader outside tests,
// read in bulk and not by two goroutines of one keyring at once. Its error is about a damaged ring: ErrCorrupt.
func Open(keys Keys, rand io.Reader, deployment string, queue events.QueueID, ring Ring) (*Keyring, error) {
	if err := ring.check(queue); err != nil {
		return nil, err
	}
	c := Context{Deployment: deployment, Queue: queue}
	k := &Keyring{keys: keys, context: c, nonces: nonces{rand: rand}}
	k.name.unwrap = unwrapper(keys, c, ring.Name, func(key []byte) (*hasher, error) { return newHasher(key), nil })
	k.take(ring)
	return k, nil
}

// Queue is whose keys these are.
func (k *Keyring) Queue() events.QueueID { return k.context.Queue }

// Renew goes on with a ring that was read later. A ring whose newest version is known changes nothing, since whoever
// read it may be behind. Keys that are unwrapped stay so, for the rest of their reuse period. ErrCorrupt as of [Open].
func (k *Keyring) Renew(ring Ring) error {
	if err := ring.check(k.context.Queue); err != nil {
		return err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if ring.Current() > k.Current() {
		k.take(ring)
	}
	return nil
}

// take makes the ring's versions those of the keyring.
func (k *Keyring) take(ring Ring) {
	data := make([]*dataKey, len(ring.Versions))
	for i, v := range ring.Versions {
		if data[i] = k.version(v.Version); data[i] == nil {
			data[i] = &dataKey{version: v.Version, created: v.Created}
			data[i].unwrap = unwrapper(k.keys, k.context, v, newAEAD)
		}
	}
	k.data.Store(&data)
}

// unwrapper gives the function that unwraps v and makes of it what it is used as.
func unwrapper[T any](keys Keys, c Context, v Version, use func(key []byte) (T, error)) func(context.Context) (T, error) {
	c.Version = v.Version
	return func(ctx context.Context) (made T, err error) {
		key, err := keys.Unwrap(ctx, v.Ref, v.Wrapped, c)
		defer clear(key) // what is made of it has a copy
		if err == nil && len(key) != keySize {
			err = fmt.Errorf("unwrapped to %d bytes, not %d", len(key), keySize)
		}
		if err == nil {
			made, err = use(key)
		}
		if err != nil {
			return made, fmt.Errorf("unwrapping key version %d of queue %s: %w", c.Version, c.Queue, lost(err))
		}
		return made, nil
	}
}

// lost makes a KeyLost of every failure; one that is KeyLost already knows better why.
func lost(err error) error {
	if fault.Is(err, fault.KeyLost) {
		return err
	}
	return fault.Because(fault.KeyLost, err, "the queue's key cannot be used now; nothing is lost, and the queue works again as soon as its key does")
}

func newAEAD(key []byte) (cipher.AEAD, error) {
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCM(block)
}

// Current is the version to seal with.
func (k *Keyring) Current() uint32 { return k.current().version }

func (k *Keyring) current() *dataKey {
	data := *k.data.Load()
	return data[len(data)-1]
}

// Worn says whether the current version has served its time. Its seals are counted by each keyring for itself, so
// where many processes seal it is the day that counts.
func (k *Keyring) Worn(now events.Instant) bool {
	d := k.current()
	return now >= d.created.Add(wornSeconds) || d.seals.Load() >= sealsMax
}

// Hash is the keyed hash of parts under a label, the same for as long as the queue lives, and never zero. Other
// labels, and parts that are cut elsewhere, give other hashes. Faults: KeyLost.
func (k *Keyring) Hash(ctx context.Context, now events.Instant, reuseSeconds uint32, label string, parts ...string) (events.Hash, error) {
	h, err := k.name.use(ctx, now, reuseSeconds)
	if err != nil {
		return events.Hash{}, err
	}
	return h.hash(label, parts), nil
}

// Seal encrypts plain, and binds it to its queue, place and header. The result is nonce, ciphertext and tag, 28 bytes
// more than plain; of an empty plain it is a MAC of the header. Faults: KeyLost. ErrVersion for a version that the
// ring lacks.
func (k *Keyring) Seal(ctx context.Context, now events.Instant, reuseSeconds uint32, place Place, version uint32, header, plain []byte) ([]byte, error) {
	d := k.version(version)
	if d == nil {
		return nil, fmt.Errorf("sealing entry %d of %s under version %d: %w", place.Seq, place.Stream, version, ErrVersion)
	}
	aead, err := d.use(ctx, now, reuseSeconds)
	if err != nil {
		return nil, err
	}
	sealed := make([]byte, nonceSize, nonceSize+len(plain)+tagSize)
	if err := k.nonces.next(sealed); err != nil {
		return nil, err
	}
	d.seals.Add(1)
	ad := k.associated(place, header)
	defer free(ad)
	return aead.Seal(sealed, sealed, plain, *ad), nil
}

// Open gives back what Seal was given, and leaves sealed as it is. Faults: KeyLost. ErrCorrupt when anything differs
// from what was sealed; ErrVersion, and ErrCorrupt behind it, for a version that the ring lacks.
func (k *Keyring) Open(ctx context.Context, now events.Instant, reuseSeconds uint32, place Place, version uint32, header, sealed []byte) ([]byte, error) {
	d := k.version(version)
	if d == nil {
		return nil, fmt.Errorf("entry %d of %s is sealed under version %d: %w: %w", place.Seq, place.Stream, version, ErrVersion, eventlog.ErrCorrupt)
	}
	aead, err := d.use(ctx, now, reuseSeconds)
	if err != nil {
		return nil, err
	}
	ad := k.associated(place, header)
	defer free(ad)
	if len(sealed) >= nonceSize+tagSize {
		if plain, err := aead.Open(nil, sealed[:nonceSize], sealed[nonceSize:], *ad); err == nil {
			return plain, nil
		}
	}
	return nil, fmt.Errorf("entry %d of %s does not open under key version %d: %w", place.Seq, place.Stream, version, eventlog.ErrCorrupt)
}

// Usable says whether a version's key may be used now, for what it has opened before and is kept in memory: that may be
// shown for no longer than the key itself. Faults: KeyLost. ErrVersion for a version that the ring lacks.
func (k *Keyring) Usable(ctx context.Context, now events.Instant, reuseSeconds uint32, version uint32) error {
	d := k.version(version)
	if d == nil {
		return fmt.Errorf("key version %d: %w", version, ErrVersion)
	}
	_, err := d.use(ctx, now, reuseSeconds)
	return err
}

// Lapse forgets the keys that may no longer be used, so that an idle queue's do not stay in memory until its next use.
// With 0 seconds it forgets all, as is due before a ring is destroyed.
func (k *Keyring) Lapse(now events.Instant, reuseSeconds uint32) {
	k.name.lapse(now, reuseSeconds)
	for _, d := range *k.data.Load() {
		d.lapse(now, reuseSeconds)
	}
}

// version looks from the end: nearly every call is about the newest.
func (k *Keyring) version(version uint32) *dataKey {
	all := k.data.Load()
	if all == nil {
		return nil
	}
	for _, d := range slices.Backward(*all) {
		if d.version == version {
			return d
		}
	}
	return nil
}

// scratch holds buffers for associated data; through the cipher's interface one on the stack would escape.
var scratch = sync.Pool{New: func() any { return new([]byte) }}

// scratchBytesMax keeps the buffer of a rare large header from staying.
const scratchBytesMax = 16 << 10

// associated gives the bytes that are authenticated and not encrypted, each of variable length after its length.
func (k *Keyring) associated(p Place, header []byte) *[]byte {
	ad := scratch.Get().(*[]byte)
	b := append((*ad)[:0], format)
	b = append(b, k.context.Queue[:]...)
	b = appendString(b, p.Stream)
	b = binary.BigEndian.AppendUint64(b, p.Seq)
	*ad = appendString(b, header)
	return ad
}

func free(ad *[]byte) {
	if cap(*ad) <= scratchBytesMax {
		scratch.Put(ad)
	}
}

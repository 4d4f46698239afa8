package consumer

import (
	"context"
	"encoding/hex"
	"io"
	"slices"
	"strings"

	"github.com/leaselog/leaselog/internal/eventlog"
)

// leases are the claims by which processes share the shards of a stream: one for each shard that is read, and one for each
// process, so that a new one is known before it has anything. A process that dies leaves them to lapse.
type leases struct {
	log    eventlog.Log
	rand   io.Reader
	prefix string // of the claims' keys, which ends a directory
	me     string
	millis int64
}

const memberPrefix = "process-" // no shard's name begins so

// held is what a look at the claims has shown.
type held struct {
	claims  map[string]eventlog.Claim // by what follows the prefix
	mine    []string                  // shards
	free    []string                  // of those that are to be read
	members int                       // with this one
}

// look reads who has what of the shards that are to be read.
func (l *leases) look(ctx context.Context, now int64, shards []string) (h held, err error) {
	const page = 1000
	all, err := l.log.Claims(ctx, l.prefix, "", page)
	if err != nil {
		return h, err
	}
	h.claims, h.members = map[string]eventlog.Claim{}, 1
	for _, c := range all {
		name := strings.TrimPrefix(c.Key, l.prefix)
		h.claims[name] = c
		switch live := c.Until > now; {
		case live && c.Holder == l.me && !strings.HasPrefix(name, memberPrefix):
			h.mine = append(h.mine, name)
		case live && c.Holder != l.me && strings.HasPrefix(name, memberPrefix):
			h.members++
		}
	}
	for _, s := range shards {
		if c, ok := h.claims[s]; !ok || c.Until <= now {
			h.free = append(h.free, s)
		}
	}
	return h, nil
}

// share says what this process should have more, and what less: as many shards as the others, or one more.
func (h *held) share(shards []string) (take, give []string) {
	for _, s := range h.mine {
		if !slices.Contains(shards, s) {
			give = append(give, s) // it is read to its end
		}
	}
	have := len(h.mine) - len(give)
	fair := (len(shards) + h.members - 1) / h.members
	for _, s := range h.mine {
		if have > fair && slices.Contains(shards, s) {
			give, have = append(give, s), have-1
		}
	}
	return h.free[:min(len(h.free), max(0, fair-have))], give
}

// renew prolongs in one commit what this process has, gives up some of it, and says that it is there.
func (l *leases) renew(ctx context.Context, now int64, h held, give []string) error {
	var claims []eventlog.Claim
	for _, name := range append(h.mine, memberPrefix+l.me) {
		until := now + l.millis
		if slices.Contains(give, name) {
			until = 0
		}
		claims = append(claims, l.claim(h, name, until))
	}
	return l.commit(ctx, now, claims)
}

// take takes a shard that is free. Somebody else may be faster, which is an error here.
func (l *leases) take(ctx context.Context, now int64, h held, shard string) error {
	return l.commit(ctx, now, []eventlog.Claim{l.claim(h, shard, now+l.millis)})
}

func (l *leases) claim(h held, name string, until int64) eventlog.Claim {
	return eventlog.Claim{Key: l.prefix + name, Holder: l.me, Until: until, If: h.claims[name].Version}
}

func (l *leases) commit(ctx context.Context, now int64, claims []eventlog.Claim) error {
	c := eventlog.Commit{At: now, Claims: claims}
	if _, err := io.ReadFull(l.rand, c.Writer[:]); err != nil {
		return err
	}
	return l.log.Commit(ctx, c)
}

// newMember gives a name for this process.
func newMember(rand io.Reader) (string, error) {
	var id [8]byte
	_, err := io.ReadFull(rand, id[:])
	return hex.EncodeToString(id[:]), err
}

package sweep

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/leaselog/leaselog/events"
	"github.com/leaselog/leaselog/internal/broker"
	"github.com/leaselog/leaselog/internal/eventlog"
)

// bookmark is where a chore stands, for every process that may go on with it: the value of the claim sweep/<name>. It
// only spares work. A chore whose bookmark is behind, or lost, does nothing twice.
type bookmark struct {
	After   string         `cbor:"1,keyasint,omitempty"` // the key of the queue behind which it goes on; empty: it begins at the front
	Passes  uint64         `cbor:"2,keyasint,omitempty"` // that went through all queues
	Through events.Instant `cbor:"3,keyasint,omitempty"` // when the last of them ended
	Saved   events.Instant `cbor:"4,keyasint,omitempty"`

	version uint64 // of the claim
}

// bookmarkPrefix is where the claims of bookmarks are.
const bookmarkPrefix = "sweep/"

func (s Site) bookmark(ctx context.Context, c Chore) (b bookmark, err error) {
	claim, ok, err := s.Broker.Log.Claim(ctx, bookmarkPrefix+c.Word())
	if err != nil || !ok {
		return b, err
	}
	if err := events.DecodeRecord(claim.Value, &b); err != nil {
		return b, fmt.Errorf("%w: claim %s: %w", eventlog.ErrCorrupt, claim.Key, err)
	}
	b.version = claim.Version
	return b, nil
}

// set puts b in place of the bookmark that was read. It gives a *eventlog.Conflict where another process was first.
func (s Site) set(ctx context.Context, c Chore, b bookmark) error {
	b.Saved = s.Broker.Now()
	commit := eventlog.Commit{At: int64(b.Saved)}
	if _, err := io.ReadFull(s.Broker.Rand, commit.Writer[:]); err != nil {
		return err
	}
	commit.Claims = []eventlog.Claim{{Key: bookmarkPrefix + c.Word(), Holder: hex.EncodeToString(commit.Writer[:]), Until: eventlog.Forever,
		Value: events.EncodeRecord(b), If: b.version}}
	return s.Broker.Log.Commit(ctx, commit)
}

// save notes how far the run has come: to the end, or behind a queue. Where other processes are on the same pass, what
// they have done is done: the run goes on behind it, and ends with a pass that one of them has ended.
func (r *run) save(ctx context.Context) error {
	for range savesMax {
		b, err := r.site.bookmark(ctx, r.chore)
		if err != nil {
			return err
		}
		switch {
		case b.Passes > r.passes:
			r.through = true
			return nil
		case r.through:
			b.After, b.Passes, b.Through = "", r.passes+1, r.site.Broker.Now()
		case b.After >= r.after:
			r.after = b.After
			return nil
		default:
			b.After = r.after
		}
		var met *eventlog.Conflict
		if err = r.site.set(ctx, r.chore, b); !errors.As(err, &met) {
			return err
		}
	}
	return nil // the others are at it
}

// savesMax bounds how often a bookmark is set anew because another process was first.
const savesMax = 5

// Standing is where a chore stands at a site.
type Standing struct {
	Name    string         `json:"sweep"`
	Does    string         `json:"does"`
	Due     time.Duration  `json:"due"` // how often; 0: never here
	Always  bool           `json:"always"`
	Through events.Instant `json:"through"` // when all queues were last gone through; 0: never
	Half    bool           `json:"half"`    // a pass is under way, or was broken off
	Saved   events.Instant `json:"saved"`   // when anything was heard of it last
}

// Stands says where a chore stands.
func (c Chore) Stands(ctx context.Context, s Site) (Standing, error) {
	b, err := s.bookmark(ctx, c)
	return Standing{c.Name, c.Does, c.Every(s), c.Always, b.Through, b.After != "", b.Saved}, err
}

// Standings says where all chores stand.
func Standings(ctx context.Context, s Site) (all []Standing, err error) {
	for _, c := range Chores() {
		st, err := c.Stands(ctx, s)
		if err != nil {
			return nil, err
		}
		all = append(all, st)
	}
	return all, nil
}

// IsDue says whether it is time for another run. While another process may be at it there is none, unless that has not
// been heard of for a minute.
func (st Standing) IsDue(b *broker.Broker) bool {
	since := time.Duration(b.Now()-st.Through) * time.Millisecond
	quiet := time.Duration(b.Now()-st.Saved) * time.Millisecond
	return st.Due > 0 && (since >= st.Due || since < 0) && (!st.Half || b.Exclusive || quiet >= time.Minute || quiet < 0)
}

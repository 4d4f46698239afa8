package store

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"github.com/leaselog/leaselog/internal/eventlog"
	"github.com/leaselog/leaselog/projections"
)

var _ projections.Store = (*Store)(nil)

// saving is a view on its way to the store: with the next batch of commits, or by itself where none waits. It is never
// waited for until it is on the disk, since what a crash takes is made again.
type saving struct {
	key       string
	data      []byte
	ifVersion uint64
	gone      bool // the view is to go, whatever its version
}

func viewKey(dst []byte, key string) []byte { return append(append(dst, kindView), key...) }

// Load implements [projections.Store].
func (s *Store) Load(ctx context.Context, key string) (projections.Kept, bool, error) {
	var k projections.Kept
	var ok bool
	err := s.read(ctx, func(inst *instance) (err error) {
		k, ok, err = inst.getView(key)
		return err
	})
	if err != nil {
		return projections.Kept{}, false, err
	}
	return k, ok, nil
}

// Save implements [projections.Store]. Its answer says that readers find the view, not that it outlives a crash.
func (s *Store) Save(ctx context.Context, key string, data []byte, ifVersion uint64) error {
	if len(data) > projections.DataBytesMax || len(key) > claimKeyBytesMax {
		return fmt.Errorf("a view has at most %d bytes, and its key %d; these have %d and %d", projections.DataBytesMax, claimKeyBytesMax, len(data), len(key))
	}
	return s.submitView(ctx, &saving{key: key, data: data, ifVersion: ifVersion})
}

// Forget implements [projections.Store].
func (s *Store) Forget(ctx context.Context, key string) error {
	return s.submitView(ctx, &saving{key: key, gone: true})
}

func (s *Store) submitView(ctx context.Context, v *saving) error {
	r := requests.Get().(*request)
	r.view, r.bytes = v, len(v.key)+len(v.data)
	return s.submit(ctx, r)
}

// A view's value is the version of the layout, the version of the view and its data.
const viewFixed = 1 + 8

func (i *instance) getView(key string) (projections.Kept, bool, error) {
	value, closer, err := i.db.Get(viewKey(make([]byte, 0, 1+len(key)), key))
	if errors.Is(err, pebble.ErrNotFound) {
		return projections.Kept{}, false, nil
	}
	if err != nil {
		return projections.Kept{}, false, err
	}
	defer closer.Close()
	if len(value) < viewFixed || value[0] != layoutVersion {
		return projections.Kept{}, false, fmt.Errorf("%w: view %s does not decode", eventlog.ErrCorrupt, key)
	}
	return projections.Kept{Version: binary.BigEndian.Uint64(value[1:]), Data: append([]byte(nil), value[viewFixed:]...)}, true, nil
}

// admitView puts a view into the batch if it follows on the one that is kept. A second one at the same key has to wait for
// the next batch, since what is kept is not read from this one.
func (c *committer) admitView(r *request) {
	v := r.view
	if c.views[v.key] {
		c.carried = append(c.carried, r)
		return
	}
	k, _, err := c.inst.getView(v.key)
	err = readable(err)
	switch {
	case err != nil && !errors.Is(err, eventlog.ErrCorrupt): // damage is written over
	case v.gone:
		err = c.batch.Delete(viewKey(c.keyBuf[:0], v.key), nil)
	case k.Version != v.ifVersion:
		err = projections.ErrChanged
	default:
		c.addView(v)
		err = nil
	}
	if err != nil {
		c.verdicts = append(c.verdicts, verdict{r, err})
		return
	}
	c.views[v.key] = true
	c.kept = append(c.kept, r)
}

func (c *committer) addView(v *saving) {
	key := viewKey(c.keyBuf[:0], v.key)
	op := c.batch.SetDeferred(len(key), viewFixed+len(v.data))
	copy(op.Key, key)
	op.Value[0] = layoutVersion
	binary.BigEndian.PutUint64(op.Value[1:], v.ifVersion+1)
	copy(op.Value[viewFixed:], v.data)
	_ = op.Finish()
}

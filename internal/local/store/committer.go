package store

import (
	"fmt"
	"runtime"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/leaselog/leaselog/internal/eventlog"
)

// committer judges and writes. All its state belongs to its one goroutine, apart from what [shown] shares with
// readers.
type committer struct {
	inst  *instance
	wake  chan struct{}
	tails tails
	batch *pebble.Batch

	// What the batch being made changes.
	touched []*tail
	claims  map[string]claimState // what it changes, and what was looked up for it
	views   map[string]bool

	accepted []*request // in the batch
	kept     []*request // views in the batch
	puzzling []*request // judged only when the batch is on the disk, since their answer may rest on it
	carried  []*request // for the next batch
	verdicts []verdict
	keyBuf   [keyBytesMax]byte
}

type verdict struct {
	request *request
	err     error
}

func (c *committer) init(inst *instance) {
	c.inst, c.wake = inst, make(chan struct{}, 1)
	c.tails.init(tailsMax, &inst.shown)
	c.claims, c.views = map[string]claimState{}, map[string]bool{}
	c.batch = inst.db.NewBatch(pebble.WithInitialSizeBytes(256<<10), pebble.WithMaxRetainedSizeBytes(2*batchBytesMax))
}

// run commits until the store is closed or the instance dead. The goroutine that commits may not come back from a
// dead instance, so this one watches it.
func (i *instance) run() {
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() {
			if p := recover(); p != nil {
				i.fail(fmt.Errorf("panic in the committer: %v", p))
			}
		}()
		i.commitAll()
	}()
	select {
	case <-done:
	case <-i.dead:
	}
}

func (c *committer) commitAll() {
	s := c.inst.store
	for {
		runtime.Gosched() // whoever is about to commit gets into this batch
		taken, more := s.take(c.inst)
		if !more {
			return
		}
		if len(taken) == 0 {
			select {
			case <-c.wake:
			case <-s.quit:
			}
			continue
		}
		if !c.round(taken) {
			return
		}
	}
}

// round brings one flight to its end. It reports false when the instance has failed.
func (c *committer) round(flight []*request) bool {
	c.accepted, c.kept, c.puzzling, c.carried, c.verdicts = c.accepted[:0], c.kept[:0], c.puzzling[:0], c.carried[:0], c.verdicts[:0]
	for _, r := range flight {
		c.admit(r)
	}
	wait := pebble.Sync
	if len(c.accepted) == 0 {
		wait = pebble.NoSync // there is nothing but views
	}
	if !c.write(wait) {
		return false
	}
	for _, r := range c.puzzling {
		c.judge(r)
	}
	if !c.inst.store.land(c.inst, c.carried) {
		return false
	}
	for _, r := range c.accepted {
		r.answer(nil)
	}
	for _, r := range c.kept {
		r.answer(nil)
	}
	for _, v := range c.verdicts {
		v.request.answer(v.err)
	}
	return true
}

// admit puts a request into the batch if nothing stands against it.
func (c *committer) admit(r *request) {
	switch {
	case r.alone != nil:
		c.puzzling = append(c.puzzling, r)
		return
	case r.view != nil:
		c.admitView(r)
		return
	}
	ok, err := c.admitCommit(&r.commit)
	switch {
	case err != nil: // nothing of it is in the batch
		c.verdicts = append(c.verdicts, verdict{r, &eventlog.Refused{Cause: err}})
	case ok:
		c.accepted = append(c.accepted, r)
	default:
		c.puzzling = append(c.puzzling, r)
	}
}

func (c *committer) admitCommit(m *eventlog.Commit) (bool, error) {
	for i := range m.Appends {
		t, err := c.tail(m.Appends[i].Stream)
		if err != nil {
			return false, err
		}
		if t.end.next != m.Appends[i].Seq {
			return false, nil
		}
	}
	for i := range m.Claims {
		st, err := c.claim(m.Claims[i].Key)
		if err != nil {
			return false, err
		}
		// A claim of the same writer is no obstacle to itself where it gives its key up; it must not be set twice.
		if st.writer == m.Writer || !st.free(m.At, m.Claims[i].If) {
			return false, nil
		}
	}
	return true, c.add(m)
}

// add puts an admitted commit into the batch.
func (c *committer) add(m *eventlog.Commit) error {
	for i := range m.Appends {
		a := &m.Appends[i]
		if a.Seq+eventlog.Seq(a.Width) < a.Seq {
			return fmt.Errorf("stream %s is full", a.Stream)
		}
	}
	for i := range m.Appends {
		c.addEntry(m.Writer, &m.Appends[i])
	}
	for i := range m.Claims {
		c.addClaim(m.Writer, &m.Claims[i])
	}
	return nil
}

func (c *committer) addEntry(w eventlog.Writer, a *eventlog.Append) {
	t := c.tails.get(a.Stream)
	if !t.dirty {
		t.dirty = true
		c.touched = append(c.touched, t)
	}
	t.end = tailEnd{next: a.Seq + eventlog.Seq(a.Width), seq: a.Seq, writer: w}
	key := streamKey(c.keyBuf[:0], kindEntry, a.Stream, a.Seq)
	op := c.batch.SetDeferred(len(key), entryBytes(a))
	copy(op.Key, key)
	putEntry(op.Value, w, a)
	_ = op.Finish() // fails only on an indexed batch
}

func (c *committer) addClaim(w eventlog.Writer, m *eventlog.Claim) {
	st := c.claims[m.Key] // was looked up when it was admitted
	st.version, st.until, st.writer = st.version+1, m.Until, w
	c.claims[m.Key] = st
	key := claimKey(c.keyBuf[:0], m.Key)
	op := c.batch.SetDeferred(len(key), claimBytes(m))
	copy(op.Key, key)
	putClaim(op.Value, w, st.version, m)
	_ = op.Finish()
	if m.Until != eventlog.Forever {
		_ = c.batch.Set(lapseKey(c.keyBuf[:0], m.Until, m.Key), nil, nil)
	}
}

// write brings the batch to the disk, and only then lets it count; one of views alone is not waited for. It does not come
// back, or reports false, when the instance has failed.
func (c *committer) write(wait *pebble.WriteOptions) bool {
	if c.batch.Empty() {
		clear(c.claims)
		return true
	}
	c.inst.shown.begin(c.claims)
	began := time.Now()
	c.inst.store.gate.close()
	defer c.inst.store.gate.open()
	if err := c.inst.db.Apply(c.batch, wait); err != nil {
		c.inst.fail(err)
		return false
	}
	select {
	case <-c.inst.dead: // by something else; the batch may stand or not
		return false
	default:
	}
	if synced := c.inst.store.synced; synced != nil && wait.Sync {
		synced(len(c.accepted), c.batch.Len(), time.Since(began))
	}
	c.inst.shown.synced(c.touched)
	clear(c.touched)
	c.touched = c.touched[:0]
	if len(c.claims) > 0 {
		c.claims = map[string]claimState{} // a reader may still look at the old one
	}
	clear(c.views)
	c.tails.trim()
	c.batch.Reset()
	return true
}

package store

import (
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"github.com/leaselog/leaselog/internal/eventlog"
)

// judge finds out what stands against a request that was not admitted, when everything is on the disk. A request
// that nothing stands against any more goes into the next batch.
func (c *committer) judge(r *request) {
	if r.alone != nil {
		if err := r.alone(c); err != nil {
			c.batch.Reset()
			c.verdicts = append(c.verdicts, verdict{r, &eventlog.Refused{Cause: err}})
		} else if c.write(pebble.Sync) {
			c.accepted = append(c.accepted, r)
		}
		return
	}
	free, err := c.judgeCommit(&r.commit)
	if free {
		c.carried = append(c.carried, r)
		return
	}
	c.verdicts = append(c.verdicts, verdict{r, err})
}

// judgeCommit gives the outcome of a commit, or free where it can be applied. One place where its writer stands is
// proof that it was applied: a commit is applied whole, and other places may have changed since.
func (c *committer) judgeCommit(m *eventlog.Commit) (free bool, err error) {
	var found eventlog.Conflict
	taken, gap := false, error(nil)
	for i := range m.Appends {
		a := &m.Appends[i]
		t, err := c.tail(a.Stream)
		switch {
		case err != nil:
			return false, &eventlog.Refused{Cause: err}
		case a.Seq == t.end.next:
			continue
		case a.Seq > t.end.next:
			gap = fmt.Errorf("stream %s ends at %d, an entry at %d would leave a gap", a.Stream, t.end.next, a.Seq)
			continue
		case t.end.seq == a.Seq && t.end.writer == m.Writer:
			return false, nil
		}
		taken = true
		e, ok, err := c.inst.covering(a.Stream, a.Seq)
		switch {
		case err != nil:
			return false, &eventlog.Refused{Cause: err}
		case ok && e.Seq == a.Seq && e.Writer == m.Writer:
			return false, nil
		case ok: // not where it was dropped
			found.Entries = append(found.Entries, e)
		}
	}
	own, err := c.judgeClaims(m, &found)
	switch {
	case err != nil:
		return false, &eventlog.Refused{Cause: err}
	case own:
		return false, nil
	case taken || len(found.Claims) > 0:
		return false, &found
	case gap != nil:
		return false, &eventlog.Refused{Cause: gap}
	}
	return true, nil
}

// judgeClaims adds the claims that stand against m, and tells whether m itself stands.
func (c *committer) judgeClaims(m *eventlog.Commit, found *eventlog.Conflict) (own bool, err error) {
	for i := range m.Claims {
		claim, ok, err := c.inst.getClaim(m.Claims[i].Key)
		if err != nil {
			return false, err
		}
		if ok && claim.Writer == m.Writer {
			return true, nil
		}
		if !stateOf(claim).free(m.At, m.Claims[i].If) {
			found.Claims = append(found.Claims, claim)
		}
	}
	return false, nil
}

// claimState is what decides whether a claim may be set; version 0 where there is none.
type claimState struct {
	version uint64
	until   int64
	writer  eventlog.Writer

	// before is the claim that is on the disk while a batch changes it, version 0 where there is none.
	before eventlog.Claim
}

func stateOf(c eventlog.Claim) claimState {
	return claimState{version: c.Version, until: c.Until, writer: c.Writer, before: c}
}

func (st claimState) free(at int64, replaces uint64) bool {
	return st.version == 0 || st.until <= at || st.version == replaces
}

// claim gives a claim as the batch being made leaves it.
func (c *committer) claim(key string) (claimState, error) {
	if st, ok := c.claims[key]; ok {
		return st, nil
	}
	claim, _, err := c.inst.getClaim(key)
	if err != nil {
		return claimState{}, err
	}
	st := stateOf(claim)
	c.claims[key] = st
	return st, nil
}

// tail gives the end of a stream as the batch being made leaves it.
func (c *committer) tail(s eventlog.Stream) (*tail, error) {
	if t := c.tails.get(s); t != nil {
		return t, nil
	}
	e, ok, err := c.inst.last(s, true)
	if err != nil {
		return nil, err
	}
	end := tailEnd{}
	if ok {
		end = tailEnd{next: e.Next(), seq: e.Seq, writer: e.Writer}
	}
	return c.tails.add(s, end), nil
}

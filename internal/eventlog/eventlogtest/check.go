package eventlogtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/leaselog/leaselog/internal/eventlog"
)

// page is the number of entries or claims that a check reads at once: small, so that reading on is checked too.
const page = 64

// Check re-derives the invariants of a log at rest from the raw entries of the given streams and from the claims,
// and gives the first breach:
//
//   - entries are dense, at least one wide, and begin at 0 or after a recorded drop;
//   - the last entry is never dropped, and Last and Read agree on it;
//   - no writer stands twice in a stream;
//   - snapshots are found in order, and none lies beyond the end of its stream;
//   - claims without a directory, and all others that are listed with them, are in order, have a version and a writer,
//     and are the same when read one by one.
//
// Nobody may write while it reads.
func Check(ctx context.Context, log eventlog.Log, streams ...eventlog.Stream) error {
	for _, name := range streams {
		if _, err := readStream(ctx, log, name); err != nil {
			return fmt.Errorf("stream %s: %w", name, err)
		}
	}
	if err := checkClaims(ctx, log); err != nil {
		return fmt.Errorf("claims: %w", err)
	}
	return nil
}

// contents is all that is left of a stream.
type contents struct {
	entries []eventlog.Entry
	gaps    []gap
	end     eventlog.Seq
}

// gap is a range that was dropped, [from, to).
type gap struct{ from, to eventlog.Seq }

// at gives the entry that begins at seq.
func (c contents) at(seq eventlog.Seq) (eventlog.Entry, bool) {
	for _, e := range c.entries {
		if e.Seq == seq {
			return e, true
		}
	}
	return eventlog.Entry{}, false
}

// readStream reads a stream from 0 to its end and checks it on the way.
func readStream(ctx context.Context, log eventlog.Log, name eventlog.Stream) (contents, error) {
	c, err := readEntries(ctx, log, name)
	if err != nil {
		return c, err
	}
	if err := checkWriters(c.entries); err != nil {
		return c, err
	}
	if err := checkLast(ctx, log, name, c); err != nil {
		return c, err
	}
	return c, checkSnapshots(ctx, log, name, c.end)
}

func readEntries(ctx context.Context, log eventlog.Log, name eventlog.Stream) (contents, error) {
	var c contents
	for {
		entries, err := log.Read(ctx, name, c.end, eventlog.Limits{Entries: page})
		var truncated *eventlog.Truncated
		if errors.As(err, &truncated) {
			if err := checkTruncated(truncated, name, c); err != nil {
				return c, err
			}
			c.gaps = append(c.gaps, gap{c.end, truncated.To})
			c.end = truncated.To
			continue
		}
		if err != nil {
			return c, fmt.Errorf("read at %d: %w", c.end, err)
		}
		if len(entries) == 0 {
			return c, nil
		}
		if len(entries) > page {
			return c, fmt.Errorf("read at %d gave %d entries, at most %d were wanted", c.end, len(entries), page)
		}
		for _, e := range entries {
			if err := checkEntry(e, name, c.end); err != nil {
				return c, err
			}
			c.entries = append(c.entries, e)
			c.end = e.Next()
		}
	}
}

func checkEntry(e eventlog.Entry, name eventlog.Stream, want eventlog.Seq) error {
	switch {
	case e.Stream != name:
		return fmt.Errorf("the entry at %d is of stream %q", e.Seq, e.Stream)
	case e.Seq != want:
		return fmt.Errorf("an entry at %d where %d must follow", e.Seq, want)
	case e.Width == 0:
		return fmt.Errorf("the entry at %d has width 0", e.Seq)
	case e.Writer == eventlog.Writer{}:
		return fmt.Errorf("the entry at %d has no writer", e.Seq)
	}
	return nil
}

func checkTruncated(tr *eventlog.Truncated, name eventlog.Stream, c contents) error {
	switch n := len(c.gaps); {
	case tr.Stream != name:
		return fmt.Errorf("the truncation at %d is of stream %q", c.end, tr.Stream)
	case tr.From > c.end || tr.To <= c.end:
		return fmt.Errorf("read at %d says that [%d, %d) was dropped", c.end, tr.From, tr.To)
	case n > 0 && c.gaps[n-1].to == c.end:
		return fmt.Errorf("dropped ranges [%d, %d) and [%d, %d) are not merged", c.gaps[n-1].from, c.end, c.end, tr.To)
	}
	return nil
}

// checkWriters finds a writer that stands at two places: a commit has at most one append per stream.
func checkWriters(entries []eventlog.Entry) error {
	seen := make(map[eventlog.Writer]eventlog.Seq, len(entries))
	for _, e := range entries {
		if before, ok := seen[e.Writer]; ok {
			return fmt.Errorf("writer %x stands at %d and at %d", e.Writer, before, e.Seq)
		}
		seen[e.Writer] = e.Seq
	}
	return nil
}

func checkLast(ctx context.Context, log eventlog.Log, name eventlog.Stream, c contents) error {
	last, ok, err := log.Last(ctx, name)
	if err != nil {
		return fmt.Errorf("last: %w", err)
	}
	if len(c.entries) == 0 {
		if ok || len(c.gaps) > 0 {
			return fmt.Errorf("reading gave no entry and %d gaps, last gave %v", len(c.gaps), ok)
		}
		return nil
	}
	want := c.entries[len(c.entries)-1]
	if want.Next() != c.end {
		return fmt.Errorf("the entries from %d on were dropped, the last one among them", want.Next())
	}
	if !ok || !sameEntry(last, want) {
		return fmt.Errorf("last gave %v, the entry at %d by %x; reading gave the one at %d by %x", ok, last.Seq, last.Writer, want.Seq, want.Writer)
	}
	return nil
}

// checkSnapshots walks from the newest snapshot to the oldest.
func checkSnapshots(ctx context.Context, log eventlog.Log, name eventlog.Stream, end eventlog.Seq) error {
	for seq := eventlog.Seq(math.MaxUint64); ; {
		snap, ok, err := log.Snapshot(ctx, name, seq)
		switch {
		case err != nil:
			return fmt.Errorf("snapshot at %d: %w", seq, err)
		case !ok:
			return nil
		case snap.Seq > seq:
			return fmt.Errorf("asked for a snapshot at or before %d, got one at %d", seq, snap.Seq)
		case snap.Seq > end:
			return fmt.Errorf("a snapshot at %d lies beyond the end at %d", snap.Seq, end)
		case snap.Seq == 0:
			return nil
		}
		seq = snap.Seq - 1
	}
}

func checkClaims(ctx context.Context, log eventlog.Log) error {
	for after := ""; ; {
		claims, err := log.Claims(ctx, "", after, page)
		if err != nil {
			return fmt.Errorf("list after %q: %w", after, err)
		}
		if len(claims) == 0 {
			return nil
		}
		if len(claims) > page {
			return fmt.Errorf("list after %q gave %d, at most %d were wanted", after, len(claims), page)
		}
		for _, c := range claims {
			if c.Key <= after {
				return fmt.Errorf("%q is listed after %q", c.Key, after)
			}
			if err := checkClaim(ctx, log, c); err != nil {
				return err
			}
			after = c.Key
		}
	}
}

// checkClaim compares a claim from a list with the one read alone.
func checkClaim(ctx context.Context, log eventlog.Log, c eventlog.Claim) error {
	alone, ok, err := log.Claim(ctx, c.Key)
	switch {
	case err != nil:
		return fmt.Errorf("read %q: %w", c.Key, err)
	case c.Version == 0 || c.Writer == eventlog.Writer{}:
		return fmt.Errorf("%q has version %d and writer %x", c.Key, c.Version, c.Writer)
	case !ok || alone.Version != c.Version || !sameClaim(alone, c):
		return fmt.Errorf("%q is listed with version %d by %x, read alone: %v, version %d by %x",
			c.Key, c.Version, c.Writer, ok, alone.Version, alone.Writer)
	}
	return nil
}

// sameEntry compares all of two entries; nil and empty bytes are the same.
func sameEntry(a, b eventlog.Entry) bool {
	return a.Stream == b.Stream && a.Seq == b.Seq && a.Width == b.Width && a.Writer == b.Writer &&
		bytes.Equal(a.Header, b.Header) && bytes.Equal(a.Data, b.Data)
}

// sameClaim compares what a commit sets, and who set it. If is a condition and not part of what stands.
func sameClaim(a, b eventlog.Claim) bool {
	return a.Key == b.Key && a.Holder == b.Holder && a.Until == b.Until && a.Writer == b.Writer && bytes.Equal(a.Value, b.Value)
}

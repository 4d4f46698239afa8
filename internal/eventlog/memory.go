package eventlog

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"
)

// The limits of the contract. An implementation may have smaller ones for headers and data, never for these.
const (
	streamBytesMax     = 128
	claimKeyBytesMax   = 512
	claimValueBytesMax = 256 << 10
)

// Memory is the reference implementation of [Log]: short, obvious, and gone with the process. Tests use it as the
// model that every other implementation is compared with.
type Memory struct {
	mu      sync.Mutex
	streams map[Stream]*memoryStream
	claims  map[string]Claim
}

// memoryStream keeps what is left of a stream, in order, and remembers what is not.
type memoryStream struct {
	entries   []Entry
	dropped   []seqRange // ascending, with at least one entry between any two
	snapshots []Snapshot // ascending
}

// seqRange is [from, to). It always begins and ends where an entry did.
type seqRange struct{ from, to Seq }

// NewMemory returns an empty log.
func NewMemory() *Memory {
	return &Memory{streams: map[Stream]*memoryStream{}, claims: map[string]Claim{}}
}

// Commit implements [Log].
func (m *Memory) Commit(ctx context.Context, c Commit) error {
	if err := ctx.Err(); err != nil {
		return &Refused{Cause: err}
	}
	if err := CheckCommit(c); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.stands(c) {
		return nil
	}
	if conflict := m.conflict(c); conflict != nil {
		return conflict
	}
	if err := m.gap(c); err != nil {
		return err
	}
	m.apply(c)
	return nil
}

// stands reports whether c was applied before. One place where its writer stands is proof enough: a commit is
// applied whole, and its claims may have been replaced, or its entries dropped, since.
func (m *Memory) stands(c Commit) bool {
	for _, a := range c.Appends {
		if e, ok := m.streams[a.Stream].at(a.Seq); ok && e.Seq == a.Seq && e.Writer == c.Writer {
			return true
		}
	}
	for _, claim := range c.Claims {
		if old, ok := m.claims[claim.Key]; ok && old.Writer == c.Writer {
			return true
		}
	}
	return false
}

// conflict gives what stands at the places of c that are taken, or nil where none is.
func (m *Memory) conflict(c Commit) *Conflict {
	var found Conflict
	taken := false
	for _, a := range c.Appends {
		s := m.streams[a.Stream]
		if a.Seq >= s.end() {
			continue
		}
		taken = true
		if e, ok := s.at(a.Seq); ok { // not where it was dropped
			e.Data = nil
			found.Entries = append(found.Entries, cloneEntry(e))
		}
	}
	for _, claim := range c.Claims {
		old, ok := m.claims[claim.Key]
		if !ok || old.Until <= c.At || old.Version == claim.If {
			continue
		}
		taken = true
		found.Claims = append(found.Claims, cloneClaim(old))
	}
	if !taken {
		return nil
	}
	return &found
}

// gap refuses a commit with an append beyond the end of its stream.
func (m *Memory) gap(c Commit) error {
	for _, a := range c.Appends {
		if end := m.streams[a.Stream].end(); a.Seq != end {
			return &Refused{Cause: fmt.Errorf("stream %s ends at %d, an entry at %d would leave a gap", a.Stream, end, a.Seq)}
		}
	}
	return nil
}

func (m *Memory) apply(c Commit) {
	for _, a := range c.Appends {
		s := m.stream(a.Stream)
		s.entries = append(s.entries, cloneEntry(Entry{
			Stream: a.Stream, Seq: a.Seq, Width: a.Width, Writer: c.Writer, Header: a.Header, Data: a.Data,
		}))
	}
	for _, claim := range c.Claims {
		claim.If = 0
		claim.Version = m.claims[claim.Key].Version + 1
		claim.Writer = c.Writer
		m.claims[claim.Key] = cloneClaim(claim)
	}
}

// stream gives the stream to write to. Reading uses the map itself: all reading methods of a nil *memoryStream work.
func (m *Memory) stream(name Stream) *memoryStream {
	s := m.streams[name]
	if s == nil {
		s = &memoryStream{}
		m.streams[name] = s
	}
	return s
}

// Read implements [Log].
func (m *Memory) Read(ctx context.Context, name Stream, from Seq, l Limits) ([]Entry, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.streams[name]
	if from >= s.end() {
		return nil, nil
	}
	if _, ok := s.at(from); !ok {
		gap := s.dropped[slices.IndexFunc(s.dropped, func(r seqRange) bool { return from < r.to })]
		return nil, &Truncated{Stream: name, From: from, To: gap.to}
	}
	return s.read(from, l), nil
}

// Last implements [Log].
func (m *Memory) Last(ctx context.Context, name Stream) (Entry, bool, error) {
	if err := ctx.Err(); err != nil {
		return Entry{}, false, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	e, ok := m.streams[name].last()
	return cloneEntry(e), ok, nil
}

// Claim implements [Log].
func (m *Memory) Claim(ctx context.Context, key string) (Claim, bool, error) {
	if err := ctx.Err(); err != nil {
		return Claim{}, false, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	c, ok := m.claims[key]
	return cloneClaim(c), ok, nil
}

// Claims implements [Log].
func (m *Memory) Claims(ctx context.Context, prefix, after string, limit int) ([]Claim, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	var found []Claim
	for _, key := range slices.Sorted(maps.Keys(m.claims)) {
		if len(found) >= limit {
			break
		}
		if strings.HasPrefix(key, prefix) && key > after {
			found = append(found, cloneClaim(m.claims[key]))
		}
	}
	return found, nil
}

// Snapshot implements [Log].
func (m *Memory) Snapshot(ctx context.Context, name Stream, seq Seq) (Snapshot, bool, error) {
	if err := ctx.Err(); err != nil {
		return Snapshot{}, false, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.streams[name]
	if s == nil {
		return Snapshot{}, false, nil
	}
	i, exact := slices.BinarySearchFunc(s.snapshots, seq, bySnapshotSeq)
	if !exact {
		i--
	}
	if i < 0 {
		return Snapshot{}, false, nil
	}
	return cloneSnapshot(s.snapshots[i]), true, nil
}

// PutSnapshot implements [Log].
func (m *Memory) PutSnapshot(ctx context.Context, name Stream, snap Snapshot) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.stream(name)
	i, exact := slices.BinarySearchFunc(s.snapshots, snap.Seq, bySnapshotSeq)
	if exact {
		s.snapshots[i] = cloneSnapshot(snap)
		return nil
	}
	s.snapshots = slices.Insert(s.snapshots, i, cloneSnapshot(snap))
	return nil
}

// Drop implements [Log].
func (m *Memory) Drop(ctx context.Context, name Stream, from, to Seq) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if s := m.streams[name]; s != nil && len(s.entries) > 0 {
		s.dropEntries(from, to)
		s.dropSnapshots()
	}
	return nil
}

// Streams lists the streams that have or had entries, for tests.
func (m *Memory) Streams() []Stream {
	m.mu.Lock()
	defer m.mu.Unlock()
	var names []Stream
	for name, s := range m.streams {
		if len(s.entries) > 0 {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// last gives the newest entry. No stream that had entries is ever without it.
func (s *memoryStream) last() (Entry, bool) {
	if s == nil || len(s.entries) == 0 {
		return Entry{}, false
	}
	return s.entries[len(s.entries)-1], true
}

// end is the Seq where the next entry goes.
func (s *memoryStream) end() Seq {
	e, ok := s.last()
	if !ok {
		return 0
	}
	return e.Next()
}

// at gives the entry that covers seq.
func (s *memoryStream) at(seq Seq) (Entry, bool) {
	if s == nil {
		return Entry{}, false
	}
	i := s.index(seq)
	if i == len(s.entries) || s.entries[i].Seq > seq {
		return Entry{}, false
	}
	return s.entries[i], true
}

// index is that of the first entry that ends after seq.
func (s *memoryStream) index(seq Seq) int {
	i, _ := slices.BinarySearchFunc(s.entries, seq, func(e Entry, seq Seq) int {
		if e.Next() <= seq {
			return -1
		}
		return 1
	})
	return i
}

// read gives entries from the one that covers from, up to a bound or a gap.
func (s *memoryStream) read(from Seq, l Limits) []Entry {
	var found []Entry
	size := 0
	for _, e := range s.entries[s.index(from):] {
		if l.HeadersOnly {
			e.Data = nil
		}
		size += len(e.Header) + len(e.Data)
		n := len(found)
		full := n > 0 && (l.Entries > 0 && n >= l.Entries || l.Bytes > 0 && size > l.Bytes)
		if full || n > 0 && found[n-1].Next() != e.Seq {
			break
		}
		found = append(found, cloneEntry(e))
	}
	return found
}

// dropEntries forgets what lies wholly in [from, to), apart from the last entry, and records it as dropped.
func (s *memoryStream) dropEntries(from, to Seq) {
	var left []Entry
	for i, e := range s.entries {
		if e.Seq < from || e.Next() > to || i == len(s.entries)-1 {
			left = append(left, e)
			continue
		}
		s.dropped = append(s.dropped, seqRange{e.Seq, e.Next()})
	}
	s.entries = left
	s.dropped = mergeRanges(s.dropped)
}

// dropSnapshots forgets the snapshots that no entry needs any more. The newest is part of the truth and stays.
func (s *memoryStream) dropSnapshots() {
	first, newest := s.entries[0].Seq, len(s.snapshots)-1
	var left []Snapshot
	for i, snap := range s.snapshots {
		if snap.Seq > first || i == newest {
			left = append(left, snap)
		}
	}
	s.snapshots = left
}

// mergeRanges sorts ranges and joins those that touch.
func mergeRanges(ranges []seqRange) []seqRange {
	slices.SortFunc(ranges, func(a, b seqRange) int { return cmp.Compare(a.from, b.from) })
	var merged []seqRange
	for _, r := range ranges {
		if n := len(merged); n > 0 && merged[n-1].to >= r.from {
			merged[n-1].to = max(merged[n-1].to, r.to)
			continue
		}
		merged = append(merged, r)
	}
	return merged
}

// CheckCommit refuses what no log may take, whatever stands in it. Every implementation calls it first, so that
// all refuse the same.
func CheckCommit(c Commit) error {
	err := checkCommit(c)
	if err == nil {
		return nil
	}
	return &Refused{Content: true, Cause: err}
}

func checkCommit(c Commit) error {
	if c.Writer == (Writer{}) {
		return errors.New("a commit needs a writer")
	}
	if len(c.Appends)+len(c.Claims) == 0 {
		return errors.New("a commit needs an append or a claim")
	}
	streams := make(map[Stream]bool, len(c.Appends))
	for _, a := range c.Appends {
		if err := checkAppend(a); err != nil {
			return err
		}
		if streams[a.Stream] {
			return fmt.Errorf("two appends to stream %s", a.Stream)
		}
		streams[a.Stream] = true
	}
	keys := make(map[string]bool, len(c.Claims))
	for _, claim := range c.Claims {
		if err := checkClaim(claim); err != nil {
			return err
		}
		if keys[claim.Key] {
			return fmt.Errorf("two claims of key %q", claim.Key)
		}
		keys[claim.Key] = true
	}
	return nil
}

func checkAppend(a Append) error {
	if len(a.Stream) == 0 || len(a.Stream) > streamBytesMax {
		return fmt.Errorf("a stream's name has 1 to %d bytes, not %d", streamBytesMax, len(a.Stream))
	}
	for _, b := range []byte(a.Stream) {
		if b <= ' ' || b > '~' {
			return fmt.Errorf("stream %q is not printable ASCII without blanks", a.Stream)
		}
	}
	if a.Width == 0 {
		return fmt.Errorf("an entry of stream %s has width 0, at least 1 is needed", a.Stream)
	}
	return nil
}

func checkClaim(c Claim) error {
	if len(c.Key) == 0 || len(c.Key) > claimKeyBytesMax {
		return fmt.Errorf("a claim's key has 1 to %d bytes, not %d", claimKeyBytesMax, len(c.Key))
	}
	if !utf8.ValidString(c.Key) || strings.ContainsRune(c.Key, 0) {
		return fmt.Errorf("claim key %q is not UTF-8 without NUL", c.Key)
	}
	if len(c.Value) > claimValueBytesMax {
		return fmt.Errorf("the value of claim %q has %d bytes, at most %d are kept", c.Key, len(c.Value), claimValueBytesMax)
	}
	return nil
}

func bySnapshotSeq(s Snapshot, seq Seq) int { return cmp.Compare(s.Seq, seq) }

// Bytes are copied on the way in and on the way out, so that a caller's mistake cannot rewrite history.

func cloneEntry(e Entry) Entry {
	e.Header, e.Data = bytes.Clone(e.Header), bytes.Clone(e.Data)
	return e
}

func cloneClaim(c Claim) Claim {
	c.Value = bytes.Clone(c.Value)
	return c
}

func cloneSnapshot(s Snapshot) Snapshot {
	s.Data = bytes.Clone(s.Data)
	return s
}

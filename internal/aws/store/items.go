package store

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/leaselog/leaselog/internal/eventlog"
)

// item is what a table holds at a key. Names of attributes are short, since every byte of them is paid for.
//
//	log     s stream, n Seq, w width, c writer, h header, d data, x expiry, z dropped
//	        instead of d, where the data is in chunks: b how many, y their hash, l how long
//	        a lasting one has t, when it was written, and no x before a later one stands
//	chunks  s blank, writer and stream, n index, d bytes, x expiry
//	claims  p directory, k rest, o holder, u until, d value, v version, c writer, x expiry
//	views   p "s/" stream, k Seq: a snapshot as b, y, l, x; p "c/" …, k index: its chunks, d, x
//	        p "d/" stream, k Seq: what was dropped from there on, e up to where
//	        p "a/" stream, k Seq: a lasting entry, x once it has an end
//	        p "v/" key, k ".": a view as d, its version as v
type item = map[string]types.AttributeValue

func text(s string) types.AttributeValue { return &types.AttributeValueMemberS{Value: s} }
func raw(b []byte) types.AttributeValue  { return &types.AttributeValueMemberB{Value: b} }
func signed(n int64) types.AttributeValue {
	return &types.AttributeValueMemberN{Value: strconv.FormatInt(n, 10)}
}
func number[T ~uint64 | ~uint32 | ~int](n T) types.AttributeValue {
	return &types.AttributeValueMemberN{Value: strconv.FormatUint(uint64(n), 10)}
}

// fields reads an item and keeps the first problem.
type fields struct {
	item item
	err  error
}

func (f *fields) fail(name string) {
	if f.err == nil {
		f.err = fmt.Errorf("%w: attribute %s of an item is missing or not what it must be", eventlog.ErrCorrupt, name)
	}
}

// unsigned gives a number, which must be there if it is required; else 0 stands for none.
func (f *fields) unsigned(name string, required bool) uint64 {
	v, ok := f.item[name].(*types.AttributeValueMemberN)
	if !ok {
		if required {
			f.fail(name)
		}
		return 0
	}
	n, err := strconv.ParseUint(v.Value, 10, 64)
	if err != nil {
		f.fail(name)
	}
	return n
}

func (f *fields) signed(name string) int64 {
	v, ok := f.item[name].(*types.AttributeValueMemberN)
	if !ok {
		f.fail(name)
		return 0
	}
	n, err := strconv.ParseInt(v.Value, 10, 64)
	if err != nil {
		f.fail(name)
	}
	return n
}

func (f *fields) text(name string) string {
	v, ok := f.item[name].(*types.AttributeValueMemberS)
	if !ok {
		f.fail(name)
		return ""
	}
	return v.Value
}

// bytes gives what may be missing where it is empty.
func (f *fields) bytes(name string) []byte {
	if v, ok := f.item[name].(*types.AttributeValueMemberB); ok {
		return v.Value
	}
	return nil
}

func (f *fields) writer() (w eventlog.Writer) {
	if copy(w[:], f.bytes("c")) != len(w) {
		f.fail("c")
	}
	return w
}

// row is an entry as it stands in the table.
type row struct {
	eventlog.Entry
	expires int64 // Unix seconds, 0: never
	written int64 // Unix seconds
	dropped bool
	blob    blob // where the data is, if it is in chunks
}

// gone says whether readers take the entry as absent.
func (r row) gone(now time.Time) bool { return r.dropped || expired(uint64(r.expires), now) }

func expired(x uint64, now time.Time) bool { return x != 0 && int64(x) <= now.Unix() }

// size counts as [eventlog.Limits] does.
func (r row) size() int { return len(r.Header) + max(len(r.Data), r.blob.bytes) }

func entryKey(s eventlog.Stream, seq eventlog.Seq) item {
	return item{"s": text(string(s)), "n": number(seq)}
}

// entryItem gives the item of an append. It follows from the commit alone, so that a repeat is identical.
func entryItem(c *eventlog.Commit, a *eventlog.Append) item {
	it := entryKey(a.Stream, a.Seq)
	it["w"], it["c"] = number(a.Width), raw(c.Writer[:])
	if a.Lasting {
		it["t"] = signed(c.At / 1000)
	} else {
		it["x"] = signed(entryExpiry(c.At))
	}
	if len(a.Header) > 0 {
		it["h"] = raw(a.Header)
	}
	if inline(a) {
		if len(a.Data) > 0 {
			it["d"] = raw(a.Data)
		}
		return it
	}
	blobOf(a.Data).into(it)
	return it
}

// inline says whether an append is one item.
func inline(a *eventlog.Append) bool { return len(a.Header)+len(a.Data) <= inlineBytesMax }

// entryExpiry gives the x of an entry that was written at an instant, in milliseconds.
func entryExpiry(at int64) int64 { return at/1000 + int64(entryAge/time.Second) }

// readRow reads an item of the log.
func readRow(name eventlog.Stream, it item) (row, error) {
	f := fields{item: it}
	r := row{Entry: eventlog.Entry{Stream: name, Seq: eventlog.Seq(f.unsigned("n", true)), Width: uint32(f.unsigned("w", true)),
		Writer: f.writer(), Header: f.bytes("h"), Data: f.bytes("d")}, expires: int64(f.unsigned("x", false)), blob: readBlob(&f)}
	r.written = int64(f.unsigned("t", false))
	if r.written == 0 && r.expires != 0 {
		r.written = r.expires - int64(entryAge/time.Second)
	}
	_, r.dropped = it["z"]
	if r.Width == 0 {
		f.fail("w")
	}
	if f.err != nil {
		return row{}, fmt.Errorf("stream %s at %d: %w", name, r.Seq, f.err)
	}
	return r, nil
}

// top is the partition of the claims without a directory: no directory is called so, since each ends with a slash.
const top = "."

// claimKey gives where a claim stands: the partition is its directory, so that those of one directory are listed in
// the order of their keys. The rest has a slash before it because a key may end with one, and no sort key is empty.
func claimKey(key string) item {
	dir, rest := directory(key)
	return item{"p": text(partition(dir)), "k": text("/" + rest)}
}

// directory splits a key behind its last slash.
func directory(key string) (dir, rest string) {
	i := strings.LastIndexByte(key, '/') + 1
	return key[:i], key[i:]
}

func partition(dir string) string {
	if dir == "" {
		return top
	}
	return dir
}

// claimExpiry gives the x of a claim, and false for one that stays.
func claimExpiry(c *eventlog.Commit, claim *eventlog.Claim) (int64, bool) {
	if claim.Until == eventlog.Forever {
		return 0, false
	}
	until := max(claim.Until, c.At) // a claim that is given up may have any Until, and DynamoDB removes nothing that expired years ago
	return min(until/1000, math.MaxInt64/1000) + 1 + int64(claimMore/time.Second), true
}

// readClaim reads an item of the claims.
func readClaim(key string, it item) (eventlog.Claim, error) {
	f := fields{item: it}
	c := eventlog.Claim{Key: key, Holder: f.text("o"), Until: f.signed("u"), Value: f.bytes("d"),
		Version: f.unsigned("v", true), Writer: f.writer()}
	if f.err != nil {
		return eventlog.Claim{}, fmt.Errorf("claim %q: %w", key, f.err)
	}
	return c, nil
}

// sortable gives a number as text that sorts as the number does.
func sortable(n uint64) string { return fmt.Sprintf("%020d", n) }

// itemBytes is the size of an item as DynamoDB counts it.
func itemBytes(it item) (size int) {
	for name, v := range it {
		size += len(name)
		switch v := v.(type) {
		case *types.AttributeValueMemberS:
			size += len(v.Value)
		case *types.AttributeValueMemberB:
			size += len(v.Value)
		case *types.AttributeValueMemberN:
			size += 1 + (len(strings.Trim(v.Value, "0"))+1)/2
		default:
			size++
		}
	}
	return size
}

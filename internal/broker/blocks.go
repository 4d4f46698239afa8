package broker

import (
	"container/list"
	"context"
	"errors"
	"slices"

	"github.com/tidwall/btree"

	"github.com/leaselog/leaselog/events"
	"github.com/leaselog/leaselog/internal/envelope"
	"github.com/leaselog/leaselog/internal/eventlog"
	"github.com/leaselog/leaselog/internal/queue"
)

// block is an entry of a message stream. Its messages are opened when one of them is needed first.
type block struct {
	queue.BlockAt
	sealed   []byte
	header   []byte
	messages []events.Message
	bytes    int           // about what it takes in memory, sealed or opened
	element  *list.Element // its place in the order of use, where it is cached
}

func newBlock(seq events.Position, h *events.Header, header, sealed []byte, messages []events.Message) *block {
	return &block{BlockAt: queue.BlockAt{Seq: seq, Header: h}, header: header, sealed: sealed, messages: messages,
		bytes: len(header) + int(h.Bytes) + 128*int(h.Count)}
}

// blocks holds the blocks at a shard's cursor, ready to be looked at, and a bounded cache of those that were opened.
type blocks struct {
	near      []*block // dense, from the one that covers the cursor on
	nearBytes int
	view      []queue.BlockAt // scratch of window

	cached *btree.BTreeG[*block] // by place
	used   *list.List            // of *block, last used first
	bytes  int
	budget func() int
}

func (c *blocks) reset(budget func() int) {
	*c = blocks{budget: budget, used: list.New()}
	c.cached = btree.NewBTreeGOptions(func(a, b *block) bool { return a.Seq < b.Seq }, btree.Options{NoLocks: true})
}

// end is the position behind the blocks that are near.
func (c *blocks) end(cursor events.Position) events.Position {
	if n := len(c.near); n > 0 {
		return c.near[n-1].Next()
	}
	return cursor
}

// window gives what the rules see ahead of the cursor.
func (c *blocks) window(cursor, tail events.Position) queue.Window {
	c.advance(cursor)
	c.view = c.view[:0]
	for _, b := range c.near {
		c.view = append(c.view, b.BlockAt)
	}
	return queue.Window{Blocks: c.view, End: c.end(cursor) >= tail}
}

// advance lets go of the blocks before the cursor. Those that were opened stay cached: their messages may come again.
func (c *blocks) advance(cursor events.Position) {
	n := 0
	for n < len(c.near) && c.near[n].Next() <= cursor {
		c.nearBytes -= c.near[n].bytes
		if c.near[n].messages != nil {
			c.keep(c.near[n])
		}
		n++
	}
	c.near = append(c.near[:0], c.near[n:]...)
}

// append adds the block that was just written, where it is the next one and there is room.
func (c *blocks) append(b *block, cursor events.Position) {
	if c.end(cursor) == b.Seq && len(c.near) < nearBlocksMax && c.nearBytes < nearBytesMax {
		c.near = append(c.near, b)
		c.nearBytes += b.bytes
	}
}

// mark keeps which blocks are near, for a rollback that moves the cursor back.
func (c *blocks) mark() []*block { return slices.Clone(c.near) }

// restore makes those blocks near again.
func (c *blocks) restore(near []*block) {
	c.near, c.nearBytes = near, 0
	for _, b := range near {
		c.nearBytes += b.bytes
	}
}

// forgetNear lets go of what is near: the cursor has moved back, or the end has changed.
func (c *blocks) forgetNear() { c.near, c.nearBytes = nil, 0 }

// forget takes a block out of the cache that does not stand in the log after all. Nil is none.
func (c *blocks) forget(b *block) {
	if b == nil || b.element == nil {
		return
	}
	c.used.Remove(b.element)
	b.element = nil
	c.cached.Delete(b)
	c.bytes -= b.bytes
}

// keep caches an opened block, and lets go of those unused longest when there are too many.
func (c *blocks) keep(b *block) {
	if b.element == nil {
		b.element = c.used.PushFront(b)
		c.cached.Set(b)
		c.bytes += b.bytes
	}
	c.shrink()
}

// shrink lets go of the blocks unused longest, until the cache is within its budget.
func (c *blocks) shrink() {
	for most := c.budget(); c.bytes > most && c.used.Len() > 1; {
		old := c.used.Remove(c.used.Back()).(*block)
		old.element = nil
		c.cached.Delete(old)
		c.bytes -= old.bytes
	}
}

// find gives the block that covers a position, if it is near or cached.
func (c *blocks) find(p events.Position) *block {
	if n := len(c.near); n > 0 && p >= c.near[0].Seq && p < c.near[n-1].Next() {
		for _, b := range c.near {
			if p < b.Next() {
				return b
			}
		}
	}
	var found *block
	c.cached.Descend(&block{BlockAt: queue.BlockAt{Seq: p}}, func(b *block) bool {
		if p < b.Next() {
			found = b
			c.used.MoveToFront(b.element)
		}
		return false
	})
	return found
}

// fetch reads more blocks behind those that are near. It is called when the rules have seen all of them.
func (s *shard) fetch(ctx context.Context) error {
	c := &s.blocks
	c.advance(s.ledger.Cursor)
	from := c.end(s.ledger.Cursor)
	if s.drafted(from) {
		c.near = append(c.near, s.draft)
		c.nearBytes += s.draft.bytes
		return nil
	}
	entries, err := s.b.Log.Read(ctx, s.messageStream, eventlog.Seq(from), eventlog.Limits{Entries: nearBlocksMax, Bytes: nearBytesMax / 2})
	if err != nil {
		return storeFault(err)
	}
	if len(entries) == 0 {
		return corrupt(eventlog.Entry{Stream: s.messageStream, Seq: eventlog.Seq(from)}, errors.New("it is missing before the end"))
	}
	for _, e := range entries {
		b, err := decodeBlock(e)
		if err != nil {
			return err
		}
		if b.Next() > s.sender.Tail {
			break // written by others since; the sender's fold has not seen it
		}
		c.near = append(c.near, b)
		c.nearBytes += b.bytes
	}
	return nil
}

func decodeBlock(e eventlog.Entry) (*block, error) {
	h, err := events.DecodeHeader(e.Header)
	if err != nil {
		return nil, corrupt(e, err)
	}
	return newBlock(events.Position(e.Seq), h, e.Header, e.Data, nil), nil
}

// drafted says whether a position is in the block that is being committed, which the log does not have yet.
func (s *shard) drafted(p events.Position) bool {
	return s.draft != nil && p >= s.draft.Seq && p < s.draft.Next()
}

// blockAt gives the block that covers a position.
func (s *shard) blockAt(ctx context.Context, p events.Position) (*block, error) {
	if b := s.blocks.find(p); b != nil {
		return b, nil
	}
	if s.drafted(p) {
		return s.draft, nil
	}
	b, err := s.b.readBlock(ctx, s.messageStream, p)
	if err == nil {
		s.blocks.keep(b)
	}
	return b, err
}

// readBlock reads the block that covers a position from the log.
func (b *Broker) readBlock(ctx context.Context, stream eventlog.Stream, p events.Position) (*block, error) {
	entries, err := b.Log.Read(ctx, stream, eventlog.Seq(p), eventlog.Limits{Entries: 1})
	if err != nil {
		return nil, storeFault(err)
	}
	if len(entries) == 0 {
		return nil, corrupt(eventlog.Entry{Stream: stream, Seq: eventlog.Seq(p)}, errors.New("it is missing"))
	}
	return decodeBlock(entries[0])
}

// openBlock gives the messages of a block, also of one that is open already for no longer than its key may be used.
// Faults: KeyLost.
func (b *Broker) openBlock(ctx context.Context, keys *envelope.Keyring, reuse uint32, stream eventlog.Stream, bl *block) ([]events.Message, error) {
	if bl.messages != nil {
		return bl.messages, keys.Usable(ctx, b.Now(), reuse, bl.Header.Key)
	}
	place := envelope.Place{Stream: string(stream), Seq: uint64(bl.Seq)}
	plain, err := keys.Open(ctx, b.Now(), reuse, place, bl.Header.Key, bl.header, bl.sealed)
	if errors.Is(err, envelope.ErrVersion) && b.renew(ctx, keys) == nil {
		plain, err = keys.Open(ctx, b.Now(), reuse, place, bl.Header.Key, bl.header, bl.sealed)
	}
	if err != nil {
		return nil, err
	}
	messages, err := events.DecodeMessages(plain)
	if err == nil && len(messages) != int(bl.Header.Count) {
		err = errors.New("it does not hold as many messages as its header says")
	}
	if err != nil {
		return nil, corrupt(eventlog.Entry{Stream: stream, Seq: eventlog.Seq(bl.Seq)}, err)
	}
	bl.messages, bl.sealed, bl.header = messages, nil, nil // one allocation of the store holds both
	return messages, nil
}

// message gives a message by its position. Faults: KeyLost.
func (s *shard) message(ctx context.Context, p events.Position) (*block, *events.Message, error) {
	bl, err := s.blockAt(ctx, p)
	if err != nil {
		return nil, nil, err
	}
	messages, err := s.b.openBlock(ctx, s.keys, s.ledger.Settings.KeyReuseSeconds, s.messageStream, bl)
	if err != nil {
		return nil, nil, err
	}
	return bl, &messages[p-bl.Seq], nil
}

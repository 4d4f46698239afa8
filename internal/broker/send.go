package broker

import (
	"context"
	"crypto/sha256"
	"encoding/hex"

	"github.com/leaselog/leaselog/events"
	"github.com/leaselog/leaselog/internal/fault"
	"github.com/leaselog/leaselog/internal/queue"
)

// Outgoing is a message to send.
type Outgoing struct {
	Message      events.Message
	DelaySeconds *uint32 // nil: the queue's
}

// Sent is the outcome of one message: its id, or why it was refused.
type Sent struct {
	ID        events.MessageID
	Duplicate bool // nothing was added; ID is the first message's
	Err       error
}

// send adds messages to one shard.
type send struct {
	reply
	counts
	messages []events.Message
	out      []queue.Outgoing
	sent     []Sent
	bytes    int
}

// Send adds messages in their order. The outcome of each stands in its place; the error is for all of them.
// Faults of all: NotFound, KeyLost, Unavailable, Unconfirmed. Of one: TooLarge, Invalid, Limit, and those of all.
//
// The messages of a standard queue go to one shard together; those of a FIFO queue go where their groups are, a
// commit for each shard.
func (b *Broker) Send(ctx context.Context, id events.QueueID, messages []Outgoing) ([]Sent, error) {
	return counted(ctx, b, true, keepSent, sentAgain, func(o *once) ([]Sent, error) { return b.send(ctx, o, id, messages) })
}

func (b *Broker) send(ctx context.Context, o *once, id events.QueueID, messages []Outgoing) ([]Sent, error) {
	h, err := b.open(ctx, id)
	if err != nil {
		return nil, err
	}
	sent := make([]Sent, len(messages))
	if h.shards() == 1 || !h.fifo {
		c, err := h.newSend(ctx, messages)
		if err != nil {
			return nil, err
		}
		c.sent = sent
		c.counts = counts{o, func() *answer { return &answer{Result: keepSent(sent)} }}
		h.runner(h.turn()).do(c)
		if err := c.await(ctx); err != nil {
			return nil, b.noQueue(id, err)
		}
		return sent, nil
	}
	if err := b.first(ctx, o); err != nil { // no one commit holds the claims
		return nil, err
	}
	return sent, h.scatter(ctx, messages, sent)
}

// noQueue closes the queue here when the answer was that it does not exist any more.
func (b *Broker) noQueue(id events.QueueID, err error) error {
	if fault.Is(err, fault.NotFound) {
		b.forget(id)
	}
	return err
}

// scatter sends every message to the shard of its group.
func (h *handle) scatter(ctx context.Context, messages []Outgoing, sent []Sent) error {
	all, err := h.newSend(ctx, messages)
	if err != nil {
		return err
	}
	parts := make(map[int]*send)
	places := make(map[int][]int)
	for i := range messages {
		n := h.shardOf(all.out[i].Group)
		if parts[n] == nil {
			parts[n] = &send{reply: newReply()}
		}
		p := parts[n]
		p.messages, p.out, p.bytes = append(p.messages, all.messages[i]), append(p.out, all.out[i]), p.bytes+all.out[i].Size
		places[n] = append(places[n], i)
	}
	for n, p := range parts {
		p.sent = make([]Sent, len(p.out))
		h.runner(n).do(p)
	}
	for n, p := range parts {
		err := h.broker.noQueue(h.id, p.await(ctx))
		for k, i := range places[n] {
			if err != nil {
				sent[i] = Sent{Err: err}
			} else {
				sent[i] = p.sent[k]
			}
		}
	}
	return nil
}

// shardOf picks the shard of a group by its keyed hash.
func (h *handle) shardOf(group events.Hash) int {
	return int(uint64(group[0])<<8|uint64(group[1])) % h.shards()
}

// newSend hashes what must be compared. This is the caller's goroutine, so that the runner need not do it.
func (h *handle) newSend(ctx context.Context, messages []Outgoing) (*send, error) {
	c := &send{reply: newReply(), messages: make([]events.Message, len(messages)), out: make([]queue.Outgoing, len(messages))}
	for i := range messages {
		m := &messages[i].Message
		c.messages[i] = *m
		c.out[i] = queue.Outgoing{Size: m.Size(), DelaySeconds: messages[i].DelaySeconds}
		c.bytes += c.out[i].Size
		if !h.fifo {
			continue
		}
		if err := h.hash(ctx, m, &c.out[i]); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// hash fills in the keyed hashes of a FIFO message.
func (h *handle) hash(ctx context.Context, m *events.Message, out *queue.Outgoing) (err error) {
	hash := func(label, id string) (v events.Hash) {
		if id != "" && err == nil {
			v, err = h.keys.Hash(ctx, h.broker.Now(), h.record.Load().Settings.KeyReuseSeconds, label, id)
		}
		return v
	}
	out.Group = hash("group", m.Group)
	if out.Dedup = hash("dedup", m.Dedup); m.Dedup == "" {
		sum := sha256.Sum256(m.Body)
		out.Content = hash("dedup", hex.EncodeToString(sum[:]))
	}
	return err
}

// decide adds what may be added to the group's block.
func (c *send) decide(g *group) error {
	if n := len(g.messages); n > 0 && (n+len(c.out) > groupMessagesMax || g.bytes+c.bytes > groupBytesMax) {
		return errLater
	}
	for i, out := range c.out {
		a, err := g.sender.Decide(out)
		switch {
		case fault.Is(err, fault.NotFound): // of one and so of all
			g.restsOnMessages = true
			return err
		case err != nil:
			c.sent[i] = Sent{Err: err}
			g.restsOnMessages = true
		case a.Duplicate:
			g.restsOnMessages = true
			g.tally.Duplicates++
			id, err := g.messageID(a.Position)
			c.sent[i] = Sent{ID: id, Duplicate: err == nil, Err: err}
		default:
			g.sender.Add(a)
			c.sent[i] = Sent{ID: g.blockID.Message(g.at, len(g.messages))}
			g.messages = append(g.messages, c.messages[i])
			g.bytes += out.Size
		}
	}
	return nil
}

// messageID gives the id of a message that was sent before, perhaps in this very block.
func (g *group) messageID(p events.Position) (events.MessageID, error) {
	if p >= g.start {
		return g.blockID.Message(g.at, int(p-g.start)), nil
	}
	bl, err := g.blockAt(g.ctx, p)
	if err != nil {
		return events.MessageID{}, err
	}
	return bl.Header.MessageID(int(p - bl.Seq)), nil
}

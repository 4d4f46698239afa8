package broker

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/leaselog/leaselog/events"
	"github.com/leaselog/leaselog/internal/eventlog"
	"github.com/leaselog/leaselog/internal/fault"
	"github.com/leaselog/leaselog/internal/queue"
)

// Visibility is the state of a message as peek shows it.
type Visibility string

const (
	Available Visibility = "available"
	InFlight  Visibility = "in_flight"
	Delayed   Visibility = "delayed"
)

// Peek asks for messages without leasing them. They come in the order of their positions, shards merged by the
// instants of enqueueing.
type Peek struct {
	Queue      events.QueueID
	Visibility Visibility       // empty: all
	ID         events.MessageID // not zero: this message alone
	After      string           // the Next of an earlier page
	Limit      int
	// BytesMax bounds the page, and Encoded gives a row's size in it. The first row always goes. Zero: no bound.
	BytesMax int
	Encoded  func(*Row) int
}

// Row is a message as peek shows it.
type Row struct {
	ID            events.MessageID
	Message       *events.Message // nil when the key cannot be used now
	Visibility    Visibility
	Receives      uint32
	Enqueued      events.Instant
	Visible       events.Instant
	Expires       events.Instant
	FirstReceived events.Instant // 0: never
	Origin        *events.Origin

	shard    int
	position events.Position
	block    *block
}

// Page is a page of rows. Next is empty on the last one.
type Page struct {
	Rows []Row
	Next string
}

// peekScanMax bounds the positions that one page looks at, so that a rare state in a deep queue gives short pages
// instead of a long wait.
const peekScanMax = 100_000

// Peek shows messages. Faults: NotFound; Invalid for a garbled After.
func (b *Broker) Peek(ctx context.Context, p Peek) (Page, error) {
	h, err := b.open(ctx, p.Queue)
	if err != nil {
		return Page{}, err
	}
	from, err := parsePlaces(p.After, h.shards())
	if err != nil {
		return Page{}, err
	}
	var rows []Row
	more := false
	for i := range from {
		l := &looker{b: b, h: h, shard: i, peek: &p, from: from[i]}
		if err := l.run(ctx); err != nil {
			return Page{}, b.noQueue(h.id, err)
		}
		rows, from[i], more = append(rows, l.rows...), l.next, more || l.more
	}
	slices.SortStableFunc(rows, func(a, b Row) int {
		if a.shard == b.shard {
			return cmp.Compare(a.position, b.position)
		}
		return cmp.Or(cmp.Compare(a.Enqueued, b.Enqueued), cmp.Compare(a.shard, b.shard))
	})
	page, left := h.fill(ctx, rows, &p)
	for _, r := range slices.Backward(left) {
		from[r.shard] = r.position
	}
	if more || len(left) > 0 {
		page.Next = formatPlaces(from)
	}
	return page, nil
}

// fill opens the bodies of as many rows as fit into the page, and gives those that are left.
func (h *handle) fill(ctx context.Context, rows []Row, p *Peek) (page Page, left []Row) {
	total := 0
	for i := range rows {
		r := &rows[i]
		messages, err := h.broker.openBlock(ctx, h.keys, h.record.Load().Settings.KeyReuseSeconds,
			eventlog.Stream(events.MessageStream(h.id, r.shard, 0)), r.block)
		if err == nil {
			r.Message = &messages[r.position-r.block.Seq]
		} else {
			h.broker.Logger.Warn("a message is shown without its body", "queue", h.id.String(), "message", r.ID.String(), "error", err)
		}
		if p.BytesMax > 0 {
			total += p.Encoded(r)
		}
		if i == p.Limit || i > 0 && total > p.BytesMax && p.BytesMax > 0 {
			return page, rows[i:]
		}
		page.Rows = append(page.Rows, *r)
	}
	return page, nil
}

// looker collects the rows of one shard from a position on: at most one more than the page takes.
type looker struct {
	b     *Broker
	h     *handle
	shard int
	peek  *Peek
	from  events.Position

	at           events.Instant
	cursor, tail events.Position
	expires      func(retained, own events.Instant) events.Instant
	rows         []Row
	next         events.Position
	more         bool
	scanned      int
	block        *block // the last one that was read
}

func (l *looker) run(ctx context.Context) error {
	if err := l.h.view(ctx, l.shard, l.pending); err != nil {
		return err
	}
	l.next = max(l.from, l.next)
	all := l.rows
	l.rows = nil
	for _, r := range all {
		bl, err := l.read(ctx, r.position)
		if err != nil {
			return err
		}
		l.complete(&r, bl)
		if l.peek.ID == (events.MessageID{}) || r.ID == l.peek.ID {
			l.rows = append(l.rows, r) // the others would keep their blocks, which may be as many as are in flight
		}
	}
	if !l.full() && l.peek.Visibility != InFlight {
		return l.ahead(ctx)
	}
	l.more = l.more || l.full()
	return nil
}

func (l *looker) full() bool { return len(l.rows) > l.peek.Limit }

func (l *looker) wants(v Visibility) bool { return l.peek.Visibility == "" || l.peek.Visibility == v }

// complete fills in what the block's header tells.
func (l *looker) complete(r *Row, bl *block) {
	i := int(r.position - bl.Seq)
	r.ID, r.Enqueued, r.Origin, r.block, r.shard = bl.Header.MessageID(i), bl.Header.Enqueued(i), bl.Header.Origin(i), bl, l.shard
}

// pending collects, in the runner's turn, what was looked at before.
func (l *looker) pending(g *group) error {
	s := g.ledger.Settings
	l.at, l.cursor, l.tail, l.rows, l.next = g.at, g.ledger.Cursor, g.start, nil, l.from
	l.expires = func(retained, own events.Instant) events.Instant { // as the ledger has it, which is the runner's alone
		end := retained.Add(s.RetentionSeconds)
		if own != 0 {
			end = min(end, own)
		}
		return end
	}
	g.ledger.Pending(l.from, func(m *queue.Message) bool {
		leased, delayed, live := g.ledger.Where(m, g.at)
		v := Available
		if leased {
			v = InFlight
		} else if delayed {
			v = Delayed
		}
		if live && l.wants(v) {
			l.rows = append(l.rows, Row{Visibility: v, Receives: m.Receives, Visible: m.Visible, FirstReceived: m.First,
				Expires: g.ledger.ExpiresAt(m.Info.Retained, m.Info.Expires), position: m.Position})
		}
		l.next = m.Position + 1
		return !l.full() || l.peek.ID != (events.MessageID{})
	})
	return nil
}

// ahead collects what nobody has looked at yet, from the log.
func (l *looker) ahead(ctx context.Context) error {
	p := max(l.next, l.cursor)
	for p < l.tail && !l.full() {
		if l.scanned++; l.scanned > peekScanMax {
			l.more = true
			break
		}
		bl, err := l.read(ctx, p)
		if err != nil {
			return err
		}
		i := int(p - bl.Seq)
		if bl.Header.Kind == events.Block && l.at < l.expires(bl.Header.RetainedFrom(i), bl.Header.ExpiresAt(i)) {
			l.add(bl, i, p)
		}
		p++
	}
	l.next, l.more = p, l.more || l.full()
	return nil
}

func (l *looker) add(bl *block, i int, p events.Position) {
	due := bl.Header.DueAt(i)
	v := Available
	if due > l.at {
		v = Delayed
	}
	r := Row{Visibility: v, Visible: due, position: p, Expires: l.expires(bl.Header.RetainedFrom(i), bl.Header.ExpiresAt(i))}
	l.complete(&r, bl)
	if l.wants(v) && (l.peek.ID == events.MessageID{} || l.peek.ID == r.ID) {
		l.rows = append(l.rows, r)
	}
}

// read gives the block that covers a position, the last one again where it does.
func (l *looker) read(ctx context.Context, p events.Position) (*block, error) {
	if l.block != nil && p >= l.block.Seq && p < l.block.Next() {
		return l.block, nil
	}
	bl, err := l.b.readBlock(ctx, eventlog.Stream(events.MessageStream(l.h.id, l.shard, 0)), p)
	if err == nil {
		l.block = bl
	}
	return bl, err
}

// A place in a peek is the next position of each shard, in decimal, joined by commas.

func formatPlaces(from []events.Position) string {
	var s []string
	for _, p := range from {
		s = append(s, strconv.FormatUint(uint64(p), 10))
	}
	return strings.Join(s, ",")
}

func parsePlaces(text string, shards int) ([]events.Position, error) {
	from := make([]events.Position, shards)
	if text == "" {
		return from, nil
	}
	parts := strings.Split(text, ",")
	if len(parts) != shards {
		return nil, fault.New(fault.Invalid, "the marker is not one of this queue's")
	}
	for i, s := range parts {
		p, err := strconv.ParseUint(s, 10, 63)
		if err != nil {
			return nil, fault.New(fault.Invalid, "the marker is not one of this queue's")
		}
		from[i] = events.Position(p)
	}
	return from, nil
}

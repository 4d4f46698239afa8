package queue

import (
	"bytes"

	"github.com/tidwall/btree"

	"github.com/leaselog/leaselog/events"
)

// Message is what the ledger keeps of a pending message. A record is never changed: a change puts a new one.
type Message struct {
	Position events.Position `cbor:"1,keyasint"`
	Info     events.Info     `cbor:"2,keyasint"`
	Lease    events.LeaseID  `cbor:"3,keyasint,omitzero"`  // of the last receive that was not released
	Leased   bool            `cbor:"4,keyasint,omitempty"` // a lease was given and not released; it may have lapsed
	Receives uint32          `cbor:"5,keyasint,omitempty"`
	Visible  events.Instant  `cbor:"6,keyasint"` // deliverable from here on, as far as leases and delays go
	First    events.Instant  `cbor:"7,keyasint,omitempty"`
	Held     bool            `cbor:"8,keyasint,omitempty"` // passed over for its group and never leased: counts as look-ahead
}

func (m *Message) grouped() bool { return m.Info.Group != events.Hash{} }

// pending is the set of pending messages with the orders in which the rules look at them. All orders follow from the
// records alone, so that they can be rebuilt, and undone, record by record.
type pending struct {
	byPosition *btree.BTreeG[*Message] // every one
	byGroup    *btree.BTreeG[*Message] // those with a group: by group, then position
	heads      *btree.BTreeG[*Message] // by visible, then position: the first of each group and all without one, unless spent
	spent      *btree.BTreeG[*Message] // by visible, then position: to be moved when their last lease ends
	leased     *btree.BTreeG[*Message] // by visible, then position: those with a lease, lapsed or not
	held       int
	sought     Message             // what get looks for: a tree asks with a record
	isSpent    func(*Message) bool // under the settings in force, see Ledger.movable
}

func newPending(isSpent func(*Message) bool) pending {
	tree := func(less func(a, b *Message) bool) *btree.BTreeG[*Message] {
		return btree.NewBTreeGOptions(less, btree.Options{NoLocks: true})
	}
	return pending{
		byPosition: tree(lessPosition), byGroup: tree(lessGroup),
		heads: tree(lessVisible), spent: tree(lessVisible), leased: tree(lessVisible), isSpent: isSpent,
	}
}

func lessPosition(a, b *Message) bool { return a.Position < b.Position }

func lessVisible(a, b *Message) bool {
	return a.Visible < b.Visible || a.Visible == b.Visible && a.Position < b.Position
}

func lessGroup(a, b *Message) bool {
	c := bytes.Compare(a.Info.Group[:], b.Info.Group[:])
	return c < 0 || c == 0 && a.Position < b.Position
}

func (p *pending) get(at events.Position) *Message {
	p.sought.Position = at
	m, _ := p.byPosition.Get(&p.sought)
	return m
}

// put adds a record in place of the one at its position, and gives that one, or nil.
func (p *pending) put(m *Message) (old *Message) {
	if old, _ = p.byPosition.Set(m); old != nil {
		p.unlist(old)
	}
	if m.grouped() {
		p.byGroup.Set(m)
	}
	if m.Leased {
		p.leased.Set(m)
	}
	if m.Held {
		p.held++
	}
	if p.isSpent(m) {
		p.spent.Set(m)
	}
	p.place(m)
	return old
}

// remove takes a record out of every order.
func (p *pending) remove(m *Message) {
	p.byPosition.Delete(m)
	p.unlist(m)
}

// unlist takes a record out of every order but that of the positions. Whether it is in one is known here where that is
// cheaper than to look.
func (p *pending) unlist(m *Message) {
	if m.Leased {
		p.leased.Delete(m)
	}
	if p.spent.Len() > 0 {
		p.spent.Delete(m)
	}
	p.heads.Delete(m)
	if m.Held {
		p.held--
	}
	if m.grouped() {
		p.byGroup.Delete(m)
		if next := p.first(m.Info.Group); next != nil {
			p.place(next)
		}
	}
}

// place puts m among the heads where it belongs there, and takes out the one that it displaces.
func (p *pending) place(m *Message) {
	if m.grouped() {
		if p.first(m.Info.Group) != m {
			return
		}
		if next := p.after(m); next != nil {
			p.heads.Delete(next)
		}
	}
	if !p.isSpent(m) {
		p.heads.Set(m)
	}
}

// first gives the oldest pending message of a group, or nil.
func (p *pending) first(group events.Hash) *Message {
	return p.seek(group, 0)
}

// after gives the next pending message of m's group, or nil.
func (p *pending) after(m *Message) *Message {
	return p.seek(m.Info.Group, m.Position+1)
}

func (p *pending) seek(group events.Hash, from events.Position) (found *Message) {
	p.byGroup.Ascend(&Message{Position: from, Info: events.Info{Group: group}}, func(m *Message) bool {
		if m.Info.Group == group {
			found = m
		}
		return false
	})
	return found
}

// reorder rebuilds every order, after the settings that decide what is spent have changed.
func (p *pending) reorder() {
	old := p.byPosition
	*p = newPending(p.isSpent)
	old.Scan(func(m *Message) bool {
		p.put(m)
		return true
	})
}

//go:build linux

package main

import (
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
)

// header is the fixed-width beginning of every body: id, group, place in the group, and the instant for latencies.
type header struct {
	id, group int // group -1: none
	seq, at   int
}

// The widths of the parts, each followed by a bar.
const (
	idDigits, groupDigits, seqDigits, atDigits = 9, 6, 9, 18

	headerBytes = idDigits + groupDigits + seqDigits + atDigits + 4
	sizeMax     = 1 << 18
)

// filler is what bodies are filled up with: nothing in it needs escaping in JSON, and no body is like the next.
var filler = func() []byte {
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+-"
	b, x := make([]byte, 2*sizeMax), uint32(1)
	for i := range b {
		x = x*1664525 + 1013904223
		b[i] = letters[x>>26]
	}
	return b
}()

func appendDigits(b []byte, v, width int) []byte {
	at := len(b) + width
	for range width {
		b = append(b, '0')
	}
	for i := at - 1; v > 0 && i >= at-width; i-- {
		b[i] = byte('0' + v%10)
		v /= 10
	}
	return append(b, '|')
}

// appendBody appends a body of the given size.
func appendBody(b []byte, h header, size int) []byte {
	b = appendDigits(b, h.id, idDigits)
	b = appendDigits(b, h.group+1, groupDigits)
	b = appendDigits(b, h.seq, seqDigits)
	b = appendDigits(b, h.at, atDigits)
	at := h.id * 7919 % (len(filler) - sizeMax)
	return append(b, filler[at:at+size-headerBytes]...)
}

// readHeader gives the header of a body, or id -1 for a body that is none of ours.
func readHeader(b []byte) header {
	if len(b) < headerBytes {
		return header{id: -1}
	}
	part := func(width int) (n int) {
		n, b = number(b[:width]), b[width+1:]
		return n
	}
	return header{id: part(idDigits), group: part(groupDigits) - 1, seq: part(seqDigits), at: part(atDigits)}
}

// What happened to a message.
const (
	sentBit = 1 << iota
	gotBit
	ackedBit
)

// ledger keeps account of a load's messages, whose ids count from 0.
type ledger struct {
	state            []atomic.Uint32
	sent, got, acked atomic.Int64 // messages
	twice, foreign   atomic.Int64 // deliveries that should not have been
	disorder         atomic.Int64
	groups           []group
	ordered          bool // the order in groups is judged
}

// group is a FIFO group. Each is sent to by one worker at a time.
type group struct {
	name     string
	sent     int // touched by its sender only
	mu       sync.Mutex
	received int
}

func newLedger(messages, groups int, ordered bool) *ledger {
	l := &ledger{state: make([]atomic.Uint32, messages), groups: make([]group, groups), ordered: ordered}
	for i := range l.groups {
		l.groups[i].name = "group-" + strconv.Itoa(i)
	}
	return l
}

func (l *ledger) mark(id int, bit uint32, count *atomic.Int64) bool {
	if l.state[id].Or(bit)&bit != 0 {
		return false
	}
	count.Add(1)
	return true
}

func (l *ledger) wasSent(id int) { l.mark(id, sentBit, &l.sent) }

func (l *ledger) wasAcked(id int) {
	if id >= 0 && id < len(l.state) {
		l.mark(id, ackedBit, &l.acked)
	}
}

// wasGot notes a delivery. Inside a group exactly the next message is right: none may be passed over, and it is noted
// before its ack is sent, so that the following one cannot have come earlier.
func (l *ledger) wasGot(h header) {
	if h.id < 0 || h.id >= len(l.state) || h.group >= len(l.groups) {
		l.foreign.Add(1)
		return
	}
	if !l.mark(h.id, gotBit, &l.got) {
		l.twice.Add(1)
		return
	}
	if h.group >= 0 && l.ordered {
		g := &l.groups[h.group]
		g.mu.Lock()
		if h.seq != g.received+1 {
			l.disorder.Add(1)
		}
		g.received = h.seq
		g.mu.Unlock()
	}
}

// verify lists what is wrong. Where drained is true everything sent must have come back and been acked.
func (l *ledger) verify(drained bool) (wrong []string) {
	note := func(n int64, what string) {
		if n > 0 {
			wrong = append(wrong, fmt.Sprintf("%d %s", n, what))
		}
	}
	note(l.twice.Load(), "delivered twice")
	note(l.foreign.Load(), "deliveries of unknown messages")
	note(l.disorder.Load(), "out of order in their group")
	if drained {
		var lost, unacked int64
		for i := range l.state {
			switch l.state[i].Load() {
			case sentBit:
				lost++
			case sentBit | gotBit:
				unacked++
			}
		}
		note(lost, "lost")
		note(unacked, "received but not acked")
	}
	return wrong
}

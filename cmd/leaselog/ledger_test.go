package main

import (
	"fmt"
	"strings"
	"sync"
	"testing"
)

// ledger is what the clients of a test know: what they sent, received and acked, and in which order.
type ledger struct {
	mu       sync.Mutex
	clock    int
	messages map[string]*fate
	faults   []string
	groups   map[string]int // the highest number received first in each FIFO group
}

// fate is what is known of a message.
type fate struct {
	sent   bool
	got    int
	acking bool
	acked  int // when the ack was answered; 0: it was not
}

func newLedger() *ledger { return &ledger{messages: map[string]*fate{}, groups: map[string]int{}} }

func (l *ledger) of(body string) *fate {
	f := l.messages[body]
	if f == nil {
		f = new(fate)
		l.messages[body] = f
	}
	return f
}

// now gives the present moment: a number that rises with everything that happens.
func (l *ledger) now() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.clock++
	return l.clock
}

func (l *ledger) sent(body string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.of(body).sent = true
}

// received notes a delivery by a request that began at a moment. An ack that was answered before it is final.
func (l *ledger) received(body string, began int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f := l.of(body)
	if f.acked != 0 && f.acked < began {
		l.faults = append(l.faults, fmt.Sprintf("%q was delivered after its ack had been answered", body))
	}
	f.got++
	if f.got == 1 {
		l.order(body)
	}
}

// order checks that the messages of a group come in the order in which they were sent, the earlier ones settled.
func (l *ledger) order(body string) {
	var group string
	var n int
	if c, err := fmt.Sscanf(body, "ordered %s %d", &group, &n); c != 2 || err != nil {
		return
	}
	if last, ok := l.groups[group]; ok && n != last+1 || !ok && n != 0 {
		l.faults = append(l.faults, fmt.Sprintf("%q came after number %d of its group", body, last))
	}
	if before := l.messages[fmt.Sprintf("ordered %s %d", group, n-1)]; n > 0 && (before == nil || !before.acking) {
		l.faults = append(l.faults, fmt.Sprintf("%q came while the one before it was not acked", body))
	}
	l.groups[group] = n
}

func (l *ledger) acking(body string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.of(body).acking = true
}

func (l *ledger) acked(body string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.clock++
	l.of(body).acked = l.clock
}

// account says what the ledger shows, and fails on anything lost or out of order.
func (l *ledger) account(t *testing.T) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var sent, acked, again, unconfirmed int
	for body, f := range l.messages {
		switch {
		case f.sent && f.got == 0:
			l.faults = append(l.faults, fmt.Sprintf("%q was acknowledged and never delivered", body))
		case !f.sent:
			unconfirmed++
		}
		if f.sent {
			sent++
		}
		if f.acked != 0 {
			acked++
		}
		if f.got > 1 {
			again++
		}
	}
	t.Logf("%d sends acknowledged, %d more arrived without an answer; %d acks answered; %d messages delivered more than once", sent, unconfirmed, acked, again)
	if sent < 100 || acked < 100 {
		t.Errorf("%d sends and %d acks are too few to show anything", sent, acked)
	}
	if len(l.faults) > 0 {
		t.Errorf("%d faults:\n%s", len(l.faults), strings.Join(l.faults[:min(20, len(l.faults))], "\n"))
	}
}

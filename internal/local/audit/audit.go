// Package audit verifies a stopped store from its raw entries, and says what is damaged.
//
// It rests on nothing that was folded before: it reads every key, decodes every header and event, opens every seal,
// folds both streams of every shard from as far back as they reach, and compares what comes out with every snapshot
// and running value on the way.
package audit

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/leaselog/leaselog/events"
	"github.com/leaselog/leaselog/internal/broker"
	"github.com/leaselog/leaselog/internal/envelope"
	"github.com/leaselog/leaselog/internal/eventlog"
	"github.com/leaselog/leaselog/internal/local/store"
)

// Config says what is verified.
type Config struct {
	Store *store.View
	// Keys opens the seals. Nil: they are not tried.
	Keys       envelope.Keys
	Deployment string // as the server has it
}

// Finding is one thing that is not as it must be.
type Finding struct {
	Queue  string `json:"queue,omitempty"` // its name where that is known, else its id
	Stream string `json:"stream,omitempty"`
	Seq    uint64 `json:"seq"` // 0 where no entry is meant
	What   string `json:"problem"`
}

// Report is what was looked at, and what was found.
type Report struct {
	Queues    int       `json:"queues"` // not deleted
	Streams   int       `json:"streams"`
	Entries   int       `json:"entries"`
	Messages  uint64    `json:"messages"` // in the entries that are left
	Events    int       `json:"events"`
	Snapshots int       `json:"snapshots"`
	Compared  int       `json:"snapshots_compared"` // with a fold that had begun before them
	Claims    int       `json:"claims"`
	Seals     int       `json:"seals_opened"`
	Notes     []string  `json:"notes,omitempty"` // worth knowing, no damage
	Damage    []Finding `json:"-"`               // at most damageMax
	More      int       `json:"-"`               // damage beyond that
}

// damageMax bounds what is listed: after so many findings more of them help nobody.
const damageMax = 1_000

// audit is one run.
type audit struct {
	Config
	ctx     context.Context
	report  *Report
	records map[events.QueueID]broker.Registered
}

// Run verifies the store. Damage is no error; an error means that ctx has ended.
func Run(ctx context.Context, c Config) (*Report, error) {
	a := &audit{Config: c, ctx: ctx, report: &Report{}, records: map[events.QueueID]broker.Registered{}}
	if torn := c.Store.Torn(); torn != "" {
		a.report.Notes = append(a.report.Notes, torn+"; after a crash this is harmless, after damage to the file entries are lost")
	}
	if c.Keys == nil {
		a.report.Notes = append(a.report.Notes, "there is no key file, so no seal was opened")
	}
	a.claims()
	byQueue := a.streams()
	ids := slices.SortedFunc(maps.Keys(a.records), func(x, y events.QueueID) int { return slices.Compare(x[:], y[:]) })
	for _, id := range ids {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		a.queue(a.records[id], byQueue[id])
		delete(byQueue, id)
	}
	for _, streams := range byQueue {
		for _, s := range streams {
			a.damage(Finding{Stream: string(s)}, "the stream belongs to no queue that is recorded")
		}
	}
	return a.report, ctx.Err()
}

// damage notes a finding.
func (a *audit) damage(at Finding, format string, args ...any) {
	if len(a.report.Damage) == damageMax {
		a.report.More++
		return
	}
	at.What = fmt.Sprintf(format, args...)
	a.report.Damage = append(a.report.Damage, at)
}

// streams sorts the streams by queue.
func (a *audit) streams() map[events.QueueID][]eventlog.Stream {
	all := map[events.QueueID][]eventlog.Stream{}
	for s, err := range a.Store.Streams() {
		if err != nil {
			a.damage(Finding{}, "the list of streams: %v", err)
			continue
		}
		a.report.Streams++
		id, err := events.StreamQueue(string(s))
		if err != nil {
			a.damage(Finding{Stream: string(s)}, "%v", err)
			continue
		}
		all[id] = append(all[id], s)
	}
	return all
}

// queue verifies the shards of one queue.
func (a *audit) queue(r broker.Registered, streams []eventlog.Stream) {
	if !r.Gone() {
		a.report.Queues++
	}
	seals := a.openRing(r)
	for i := range r.Shards {
		s := &shard{audit: a, name: r.Name, seals: seals, fold: !r.Gone(),
			messages: eventlog.Stream(events.MessageStream(r.ID, i, 0)), ledger: eventlog.Stream(events.LedgerStream(r.ID, i))}
		s.verify()
		streams = slices.DeleteFunc(streams, func(x eventlog.Stream) bool { return x == s.messages || x == s.ledger })
	}
	for _, s := range streams {
		a.damage(Finding{Queue: r.Name, Stream: string(s)}, "the queue has %d shards, and this stream is of none of them", r.Shards)
	}
}

// openRing gives the queue's keys, nil where nothing can be opened.
func (a *audit) openRing(r broker.Registered) *seals {
	if a.Keys == nil || r.Status == events.Shredded {
		return nil
	}
	ring, err := envelope.Open(a.Keys, nil, a.Deployment, r.ID, r.Ring)
	if err != nil {
		a.damage(Finding{Queue: r.Name}, "%v", err)
		return nil
	}
	return &seals{keys: ring, oldest: r.Ring.Versions[0].Version, lost: map[uint32]bool{}}
}

// claims verifies every claim, and keeps the queues' records.
func (a *audit) claims() {
	names := map[string]string{} // the value of a name's claim by its key
	last := ""
	for c, err := range a.Store.Claims() {
		a.report.Claims++
		at := Finding{Stream: "claim " + c.Key}
		switch {
		case err != nil:
			a.damage(at, "%v", err)
			continue
		case c.Version == 0 || c.Writer == eventlog.Writer{}:
			a.damage(at, "it has version %d and writer %x", c.Version, c.Writer)
		case c.Key <= last:
			a.damage(at, "it is listed after %s", last)
		}
		last = c.Key
		if strings.HasPrefix(c.Key, broker.NamePrefix) && c.Until == eventlog.Forever {
			names[c.Key] = string(c.Value)
		}
		if strings.HasPrefix(c.Key, broker.QueuePrefix) {
			a.record(at, c)
		}
	}
	a.names(names)
}

func (a *audit) record(at Finding, c eventlog.Claim) {
	r, err := broker.ReadRegistered(c.Value)
	if err != nil {
		a.damage(at, "the queue's record does not decode: %v", err)
		return
	}
	if want := fmt.Sprintf("%s%x", broker.QueuePrefix, r.ID[:]); want != c.Key {
		a.damage(at, "it holds the record of queue %s", r.ID)
		return
	}
	a.records[r.ID] = r
}

// names verifies that names and records lead to each other.
func (a *audit) names(names map[string]string) {
	for _, r := range a.records {
		key := broker.NamePrefix + r.Account + "/" + r.Name
		if !r.Gone() && names[key] != string(r.ID[:]) {
			a.damage(Finding{Queue: r.Name}, "the name does not lead to queue %s, whose record has it", r.ID)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(names)) {
		var id events.QueueID
		copy(id[:], names[key])
		if r, ok := a.records[id]; !ok || r.Gone() || broker.NamePrefix+r.Account+"/"+r.Name != key {
			a.damage(Finding{Stream: "claim " + key}, "it leads to queue %s, which is not there", id)
		}
	}
}

package broker

import (
	"context"
	"errors"

	"github.com/leaselog/leaselog/events"
	"github.com/leaselog/leaselog/internal/eventlog"
)

// tail is what a shard knows of a stream beyond what it has folded. Where other processes write too, each look at the
// end of a stream is paid for, so that none is taken twice for the same commands: what it finds is kept and folded.
type tail struct {
	ahead   []eventlog.Entry // read, and not folded yet
	sure    bool             // read to its end since the commands at hand came
	stale   bool             // more stands behind what was read
	foreign bool             // the last look found what others had written, and so will the next
	known   events.Instant   // when its end was known last
}

// fresh begins with commands that have just come: nothing was read since then.
func (s *shard) fresh() { s.ledgerEnd.sure, s.messageEnd.sure = false, false }

// readAhead looks at the end of a stream. It says whether there is more than was folded.
func (s *shard) readAhead(ctx context.Context, t *tail, stream eventlog.Stream, from eventlog.Seq, l eventlog.Limits) (more bool, err error) {
	now := s.b.Now()
	l.Bytes = aheadBytesMax
	if t.ahead, err = s.b.Log.Read(ctx, stream, from, l); err != nil {
		_, gone := truncated(err)
		t.stale = t.stale || gone
		return gone, storeFault(err)
	}
	more = len(t.ahead) > 0
	whole := s.whole(t, now)
	if t.stale = more && !whole; !l.Lagging {
		t.foreign, t.sure = more, whole
	}
	if whole && (more || !l.Lagging) {
		t.known = now
	}
	return more, nil
}

// whole says whether a read went to the end of its stream: it has found little, and nothing can have been dropped there.
func (s *shard) whole(t *tail, now events.Instant) bool {
	size := 0
	for i := range t.ahead {
		size += len(t.ahead[i].Header) + len(t.ahead[i].Data)
	}
	return len(t.ahead) == 0 || size < aheadBytesMax/4 && now-t.known < historyYoungest/2
}

func (s *shard) lookAtLedger(ctx context.Context, l eventlog.Limits) (more bool, err error) {
	return s.readAhead(ctx, &s.ledgerEnd, s.ledgerStream, s.ledgerTail, l)
}

// lookAtMessages also reads the messages of a shard that hands them out, when the next one to hand out may be among
// them: a store that counts what it reads counts them anyway.
func (s *shard) lookAtMessages(ctx context.Context, end events.Position, l eventlog.Limits) (more bool, err error) {
	l.HeadersOnly = !s.opens || s.blocks.end(s.ledger.Cursor) < end
	return s.readAhead(ctx, &s.messageEnd, s.messageStream, eventlog.Seq(end), l)
}

// ended says whether streams end where they were read last; the message stream ended at a position, which while a block
// is being formed is before the fold's. What stands behind is kept to be folded.
func (s *shard) ended(ctx context.Context, ledger, messages bool, end events.Position) (bool, error) {
	if s.b.Exclusive {
		return true, nil
	}
	news := false
	for _, c := range []struct {
		wanted bool
		of     *tail
		look   func() (bool, error)
	}{
		{ledger, &s.ledgerEnd, func() (bool, error) { return s.lookAtLedger(ctx, eventlog.Limits{}) }},
		{messages, &s.messageEnd, func() (bool, error) { return s.lookAtMessages(ctx, end, eventlog.Limits{}) }},
	} {
		if !c.wanted || c.of.sure {
			continue
		}
		more, err := c.look()
		if err != nil && !more { // where entries were dropped, catchUp says what that means
			return false, err
		}
		news = news || more
	}
	return !news, nil
}

// confirm says whether both streams end where they were read last.
func (s *shard) confirm(ctx context.Context) (bool, error) {
	s.fresh()
	return s.ended(ctx, true, true, s.sender.Tail)
}

// glance looks at the ends of both streams for those who wait, as cheaply as may be. It says whether there is more.
func (s *shard) glance(ctx context.Context) (more bool, err error) {
	l := eventlog.Limits{Lagging: true}
	inLedger, err := s.lookAtLedger(ctx, l)
	if err != nil {
		return inLedger, err
	}
	inMessages, err := s.lookAtMessages(ctx, s.sender.Tail, l)
	return inLedger || inMessages, err
}

// outdated makes the next catchUp read streams that were written to by others.
func (s *shard) outdated(conflict error) {
	var c *eventlog.Conflict
	if !errors.As(conflict, &c) {
		return
	}
	for _, e := range c.Entries {
		switch e.Stream {
		case s.ledgerStream:
			s.ledgerEnd.again()
		case s.messageStream:
			s.messageEnd.again()
		}
	}
	if len(c.Entries) == 0 && len(c.Claims) == 0 { // what stands there was dropped
		s.ledgerEnd.again()
		s.messageEnd.again()
	}
}

func (t *tail) again() { t.ahead, t.sure, t.stale, t.foreign = nil, false, true, true }

// foreseen reads what others have written at the places of a commit before it is decided upon, where they have just
// done so: a look costs a fifth of a write that loses.
func (s *shard) foreseen(ctx context.Context, ledger, messages bool) error {
	if s.b.Exclusive {
		return nil
	}
	s.ledgerEnd.stale = s.ledgerEnd.stale || ledger && s.ledgerEnd.foreign && !s.ledgerEnd.sure
	s.messageEnd.stale = s.messageEnd.stale || messages && s.messageEnd.foreign && !s.messageEnd.sure
	return s.catchUp(ctx)
}

// follow folds what is known to stand behind what was folded, the ledger first: a message that it names is then in the
// message stream.
func (s *shard) follow(ctx context.Context) error {
	for t := &s.ledgerEnd; t.stale || len(t.ahead) > 0; {
		if len(t.ahead) == 0 {
			if _, err := s.lookAtLedger(ctx, eventlog.Limits{}); err != nil {
				return err
			}
		}
		for _, e := range t.ahead {
			if err := s.foldLedger(e); err != nil {
				return err
			}
		}
		t.ahead = nil
	}
	for t := &s.messageEnd; t.stale || len(t.ahead) > 0 || !s.blind && s.ledger.Cursor > s.sender.Tail; {
		if len(t.ahead) == 0 {
			more, err := s.lookAtMessages(ctx, s.sender.Tail, eventlog.Limits{})
			if err != nil {
				return err
			}
			if !more {
				break
			}
		}
		s.blocks.advance(s.ledger.Cursor)
		for _, e := range t.ahead {
			if err := s.foldMessages(e); err != nil {
				return err
			}
		}
		t.ahead = nil
	}
	s.reached()
	if s.sender.Settings.KeyVersion > s.keys.Current() {
		return s.b.renew(ctx, s.keys) // another process has re-keyed the queue
	}
	return nil
}

// overdue says whether something is to be folded before anything is decided. What is too old to be written at becomes
// stale: by now the streams may have lost entries behind their old ends.
func (s *shard) overdue() bool {
	now := s.b.Now()
	s.ledgerEnd.stale = s.ledgerEnd.stale || now-s.ledgerEnd.known > tailAge
	s.messageEnd.stale = s.messageEnd.stale || !s.blind && now-s.messageEnd.known > tailAge
	return s.ledgerEnd.stale || s.messageEnd.stale || len(s.ledgerEnd.ahead)+len(s.messageEnd.ahead) > 0 ||
		!s.blind && (s.unread || s.ledger.Cursor > s.sender.Tail)
}

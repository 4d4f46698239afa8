package store

import (
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/leaselog/leaselog/internal/eventlog"
	"github.com/leaselog/leaselog/internal/fault"
)

// failures says how the store waits for a disk that has failed.
type failures struct {
	retryMin, retryMax time.Duration // between two attempts to open; doubled after each
	forget             time.Duration // an instance that lived longer than this ends a series of failures
	probeBytes         int           // what the disk must take before an attempt
}

// An attempt that fails leaves a few goroutines and a memtable behind, so they become rare.
var defaultFailures = failures{
	retryMin: 100 * time.Millisecond, retryMax: time.Minute, forget: 5 * time.Minute, probeBytes: 16 << 20,
}

// fail ends the instance: its commits in flight have an unknown outcome, those that wait are refused, and another
// instance is opened beside it. It may be called by any goroutine of Pebble under any of its locks.
func (i *instance) fail(cause error) {
	i.dying.Do(func() {
		i.cause = explain(cause)
		close(i.dead)
		i.store.failed(i)
	})
}

func (s *Store) failed(inst *instance) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.current.Load() != inst {
		return // it did not come into use
	}
	s.failure = inst.cause
	s.logger.Error("store: writes are refused until the disk works again", "dir", s.dir, "err", inst.cause.Error())
	for _, r := range s.flight {
		r.answer(fmt.Errorf("store: the outcome is unknown, since the disk failed: %w", inst.cause))
	}
	for _, r := range s.inbox {
		r.answer(&eventlog.Refused{Cause: inst.cause})
	}
	s.flight, s.inbox = nil, nil
	if !s.closed {
		s.workers.Go(func() { s.reopen(inst) })
	}
}

// explain makes a fault of what the disk said: it is what a caller is told whose commit is refused.
func explain(err error) error {
	why := "the disk failed"
	switch {
	case errors.Is(err, syscall.ENOSPC):
		why = "the disk is full"
	case errors.Is(err, syscall.EDQUOT):
		why = "the disk quota is used up"
	case errors.Is(err, syscall.EROFS):
		why = "the disk is read-only"
	}
	return fault.Because(fault.Unavailable, err, "%s; nothing was done, try again when it can be written to", why)
}

// reopen opens the directory anew as soon as the disk allows.
func (s *Store) reopen(dead *instance) {
	if !s.quiet(dead) {
		return
	}
	for wait := dead.retryAfter(); s.pause(wait); wait = min(2*wait, s.failures.retryMax) {
		inst, err := s.tryOpen()
		if err != nil {
			s.logger.Warn("store: the disk does not work yet", "dir", s.dir, "err", err.Error(), "again_in", min(2*wait, s.failures.retryMax))
			continue
		}
		inst.wait = wait
		if s.resume(inst) {
			s.logger.Info("store: writes are taken again", "dir", s.dir)
			return
		}
	}
}

// quiet waits until no write of a dead instance is under way. It reports false when the store is closed.
func (s *Store) quiet(dead *instance) bool {
	shut := make(chan struct{})
	go func() {
		dead.fence.shut()
		close(shut)
	}()
	select {
	case <-shut:
		return true
	case <-s.quit:
		return false
	}
}

// retryAfter is the first pause after a failure: longer when the instance before this one had failed as well.
func (i *instance) retryAfter() time.Duration {
	f := i.store.failures
	if i.wait == 0 || time.Since(i.born) > f.forget {
		return f.retryMin
	}
	return min(2*i.wait, f.retryMax)
}

// pause waits, and reports false when the store is closed.
func (s *Store) pause(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-s.quit:
		return false
	}
}

func (s *Store) tryOpen() (*instance, error) {
	if err := s.probe(); err != nil {
		return nil, explain(err)
	}
	return s.openInstance(true)
}

// probe writes and removes a file as large as what an opening may have to write.
func (s *Store) probe() error {
	name := s.fs.PathJoin(s.dir, "probe.tmp")
	err := writeSynced(s.fs, name, make([]byte, s.failures.probeBytes))
	if removing := s.fs.Remove(name); err == nil {
		err = removing
	}
	return err
}

// resume lets an instance take the place of the dead one. It reports false if it died in the meantime.
func (s *Store) resume(inst *instance) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-inst.dead:
		return false
	default:
	}
	s.current.Store(inst)
	s.failure = nil
	s.workers.Go(inst.run)
	return true
}

// errStuck is what a read of a dead instance gives that does not come back.
var errStuck = errors.New("the disk failed and does not answer")

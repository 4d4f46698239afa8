package store

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
)

// clock compares the clock of this process with DynamoDB's.
type clock struct {
	mu       sync.Mutex
	measured time.Time
	off      time.Duration // by how much this process is ahead, if that is too much; else 0
}

// observe takes an answer that DynamoDB dated, in whole seconds, between two readings of the clock of this process.
// An exchange that took long tells nothing, unless even so the clocks are too far apart.
func (c *clock) observe(began, ended, date time.Time) {
	least, most := began.Sub(date.Add(time.Second)), ended.Sub(date) // how far ahead this process is
	off := time.Duration(0)
	switch {
	case least > clockOffMax:
		off = least
	case most < -clockOffMax:
		off = most
	case most-least > time.Second+clockSpread:
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.measured, c.off = ended, off
}

// look gives how far off the clock is, and how old that is; never: a day.
func (c *clock) look(now time.Time) (off, age time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.measured.IsZero() || now.Before(c.measured) {
		return c.off, 24 * time.Hour
	}
	return c.off, now.Round(0).Sub(c.measured.Round(0))
}

// checkClock refuses to write while the clock of this process is wrong: leases would end early or late for everybody.
func (s *Store) checkClock(ctx context.Context) error {
	off, age := s.clock.look(s.now())
	for try := 0; try < clockTries && (age > clockAge || off != 0 && age > clockAgain); try++ {
		in := &dynamodb.GetItemInput{TableName: &s.tables.Claims, Key: claimKey("clock"), ConsistentRead: aws.Bool(false)}
		if _, err := s.get(ctx, in); err != nil { // its answer is dated
			return fmt.Errorf("compare the clocks: %w", err)
		}
		off, age = s.clock.look(s.now())
	}
	switch {
	case age > clockAge:
		return errors.New("DynamoDB answers too slowly to compare this machine's clock with its own")
	case off == 0:
		return nil
	}
	where := "ahead of"
	if off < 0 {
		off, where = -off, "behind"
	}
	return fmt.Errorf("the clock of this machine is at least %v %s DynamoDB's, at most %v are accepted: set it right", off.Round(100*time.Millisecond), where, clockOffMax)
}

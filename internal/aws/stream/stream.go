// Package stream reads what DynamoDB tells of changes of the log table, as it arrives on Kinesis.
//
// A record says that a stream of the log has reached a place, and nothing else of it is looked at: neither what was
// written, since it is read from the log, nor the order in which records come. DynamoDB and its emulators write the same
// members that are read here.
package stream

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/leaselog/leaselog/events"
	"github.com/leaselog/leaselog/projections"
)

// Wakeup says how far a stream of a shard reaches; the other one is at 0.
type Wakeup struct {
	Shard projections.Shard
	Reach projections.Ends
	At    events.Instant // when the table took the change
}

// change is a record as DynamoDB's streaming destination puts it
// (https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/kds_using-shards-and-metrics.html).
type change struct {
	EventName string `json:"eventName"`
	DynamoDB  struct {
		Created   float64    `json:"ApproximateCreationDateTime"`
		Precision string     `json:"ApproximateCreationDateTimePrecision"`
		Keys      attributes `json:"Keys"`
		NewImage  attributes `json:"NewImage"`
	} `json:"dynamodb"`
}

// created is when the table took the change. An emulator names no precision and means seconds.
func (c *change) created() events.Instant {
	switch c.DynamoDB.Precision {
	case "MICROSECOND":
		return events.Instant(c.DynamoDB.Created / 1000)
	case "MILLISECOND":
		return events.Instant(c.DynamoDB.Created)
	}
	return events.Instant(c.DynamoDB.Created * 1000)
}

// attributes are those of an item that a wake-up needs: see package store.
type attributes struct {
	Stream struct{ S string } `json:"s"`
	Seq    struct{ N string } `json:"n"`
	Width  struct{ N string } `json:"w"`
}

// Decode reads a record. false is for one that wakes nobody: of a removal, and of a chunk, whose entry comes behind it.
func Decode(data []byte) (w Wakeup, wakes bool, err error) {
	var c change
	if err := json.Unmarshal(data, &c); err != nil {
		return w, false, fmt.Errorf("a record of the stream does not decode: %w", err)
	}
	name := c.DynamoDB.Keys.Stream.S
	if c.EventName == "" || name == "" {
		return w, false, errors.New("a record of the stream is not one of the log table")
	}
	if c.EventName == "REMOVE" || strings.HasPrefix(name, " ") {
		return w, false, nil
	}
	queue, index, ledger, err := events.ReadStream(name)
	if err != nil {
		return w, false, err
	}
	seq, errSeq := strconv.ParseUint(c.DynamoDB.Keys.Seq.N, 10, 64)
	width, errWidth := strconv.ParseUint(c.DynamoDB.NewImage.Width.N, 10, 32)
	if err := errors.Join(errSeq, errWidth); err != nil {
		return w, false, fmt.Errorf("a record of stream %s: %w", name, err)
	}
	w.Shard, w.At = projections.Shard{Queue: queue, Index: index}, c.created()
	if ledger {
		w.Reach.Ledger = seq + width
	} else {
		w.Reach.Messages = events.Position(seq + width)
	}
	return w, true, nil
}

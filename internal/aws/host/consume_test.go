package host

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	lambdaevents "github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	leaselog "github.com/leaselog/leaselog/events"
	"github.com/leaselog/leaselog/internal/aws/store"
	"github.com/leaselog/leaselog/internal/broker"
	"github.com/leaselog/leaselog/internal/eventlog"
	"github.com/leaselog/leaselog/internal/sweep"
	"github.com/leaselog/leaselog/projections"
)

// polled is what Lambda does with a projection's role to read its stream: nothing that the function calls.
var polled = []string{"kinesis:DescribeStream", "kinesis:DescribeStreamSummary", "kinesis:GetRecords", "kinesis:GetShardIterator", "kinesis:ListShards"}

// changes makes an event of records that say how far each shard of the deployment reaches.
func changes(s *story, log eventlog.Log) (e lambdaevents.KinesisEvent) {
	s.Helper()
	s.must(sweep.Shards(s.Context(), log, func(name projections.Shard) error {
		for _, stream := range []string{leaselog.LedgerStream(name.Queue, name.Index), leaselog.MessageStream(name.Queue, name.Index, 0)} {
			last, ok, err := log.Last(s.Context(), eventlog.Stream(stream))
			if err != nil || !ok {
				return errors.Join(err, fmt.Errorf("stream %s has no end: %t", stream, ok))
			}
			e.Records = append(e.Records, changed(len(e.Records), fmt.Sprintf(`{"eventName":"INSERT","dynamodb":{"ApproximateCreationDateTime":%d,"Keys":{"s":{"S":%q},"n":{"N":"%d"}},"NewImage":{"w":{"N":"%d"}}}}`,
				(s.now()-changedAgo)/1000, stream, last.Seq, last.Width)))
		}
		return nil
	}))
	return e
}

// changedAgo is how long ago the table took the changes, in milliseconds.
const changedAgo = 7_000

func changed(n int, data string) lambdaevents.KinesisEventRecord {
	return lambdaevents.KinesisEventRecord{Kinesis: lambdaevents.KinesisRecord{Data: []byte(data), SequenceNumber: fmt.Sprint("record-", n)}}
}

// projected lets the projections and their sweep meet shards that they do not know, some of them with a history that was
// dropped, and one that is due for a snapshot.
func projected(s *story, l *long, called needs) {
	s.taken()
	s.tick(sweep.Views)
	called.add(sweep.Views.Name, s.taken())
	id, _ := l.queue(s, "long-projected")
	direct, err := store.New(store.Config{Client: dynamodb.NewFromConfig(s.config), Tables: l.Tables})
	s.must(err)
	wake := changes(s, direct)
	_, err = l.Broker.Send(s.Context(), id, []broker.Outgoing{{Message: leaselog.Message{Body: []byte("x")}}})
	s.must(err)
	for _, e := range []lambdaevents.KinesisEvent{wake, changes(s, direct)} {
		for _, p := range projections.All() {
			s.taken()
			var out strings.Builder
			answer, err := s.function(p.Name, s.env, &out).consuming(p)(s.Context(), e)
			s.must(err)
			if lag := told(s, out.String())["ProjectionLag Deployment=test Operation="+p.Name]; lag < changedAgo || lag > 100*changedAgo {
				s.Errorf("%s tells a lag of %v ms", p.Name, lag)
			}
			if len(answer.BatchItemFailures) > 0 {
				s.Errorf("%s failed for %v", p.Name, answer.BatchItemFailures)
			}
			called.add(p.Name, s.taken())
		}
	}
	for _, p := range projections.All() { // a view that is made anew, beside a history that was dropped
		s.taken()
		f := s.function(p.Name, s.env, io.Discard)
		follower, err := f.follow(p)
		s.must(err)
		s.must(sweep.Shards(s.Context(), direct, func(name projections.Shard) error { return follower.Rebuild(s.Context(), name, p, nil) }))
		called.add(p.Name, s.taken())
	}
	through, err := store.New(store.Config{Client: dynamodb.NewFromConfig(s.config, func(o *dynamodb.Options) { o.BaseEndpoint = &s.endpoint }), Tables: l.Tables})
	s.must(err)
	for seq := range 2 {
		s.must(through.PutSnapshot(s.Context(), "projected", eventlog.Snapshot{Seq: eventlog.Seq(seq), Data: []byte("x")}))
	}
	takes := s.taken()
	called.add(projections.Snapshots.Name, takes)
	called.add(sweep.Views.Name, takes)
	reporting(s, called)
	for _, p := range projections.All() {
		for _, action := range polled {
			called.add(p.Name, []awsCall{{action: action, resource: "the stream"}})
		}
	}
}

// reporting: the function that looks at the views tells what they say.
func reporting(s *story, called needs) {
	s.Helper()
	s.taken()
	var out strings.Builder
	s.must(s.function(ReportName, s.env, &out).reporting()(s.Context(), nil))
	called.add(ReportName, s.taken())
	got := told(s, out.String())
	if got["SweptThrough Deployment=test Operation="+ReportName] != 1 || got["DeadLetters Deployment=test"] != 1 { // of the story about dead letters
		s.Errorf("the report tells %v", got)
	}
}

// setAside: records that say nothing, shards that cannot be read and a store that does not answer are three things:
// the first two are told and passed over, the third comes again, record by record.
func setAside(c *cloud, t *testing.T) {
	s := c.story("aside")
	good := changes(s, c.deployment().Log)
	broken := leaselog.QueueID{0xbd}
	name := eventlog.Stream(leaselog.LedgerStream(broken, 0))
	s.must(c.deployment().Log.Commit(s.Context(), eventlog.Commit{Writer: eventlog.Writer{1}, At: int64(c.now()),
		Appends: []eventlog.Append{{Stream: name, Width: 1, Header: []byte("nonsense")}}}))
	e := lambdaevents.KinesisEvent{Records: []lambdaevents.KinesisEventRecord{changed(900, "nonsense"),
		changed(901, fmt.Sprintf(`{"eventName":"INSERT","dynamodb":{"Keys":{"s":{"S":%q},"n":{"N":"0"}},"NewImage":{"w":{"N":"1"}}}}`, name)),
		changed(902, `{"eventName":"REMOVE","dynamodb":{"Keys":{"s":{"S":"x"},"n":{"N":"0"}}}}`)}}
	e.Records = append(e.Records, good.Records...)
	var out bytes.Buffer
	consume := c.function(projections.Depth.Name, c.env, &out).consuming(projections.Depth)
	answer, err := consume(s.Context(), e)
	s.must(err)
	if text, _ := json.Marshal(answer); string(text) != `{"batchItemFailures":[]}` {
		t.Errorf("the answer is %s", text)
	}
	if told := strings.Count(out.String(), "was set aside"); told != 2 || !strings.Contains(out.String(), `"SetAside":2`) || !strings.Contains(out.String(), "record-901") {
		t.Errorf("%d records were set aside, want 2:\n%s", told, out.String())
	}
	s.must(sweep.Shards(s.Context(), c.deployment().Log, func(name projections.Shard) error {
		if _, ok, err := c.deployment().Views.Load(s.Context(), name.Key("depth")); err != nil || !ok {
			t.Errorf("no view of %v: %v", name, err)
		}
		return nil
	}))
	away := map[string]string{}
	for k, v := range c.env {
		away[k] = v
	}
	away[envLog] = "no-such-table"
	answer, err = c.function(projections.Depth.Name, away, io.Discard).consuming(projections.Depth)(s.Context(), later(s, good))
	s.must(err)
	if len(answer.BatchItemFailures) != len(good.Records) || answer.BatchItemFailures[0].ItemIdentifier == "" {
		t.Errorf("of %d records of a store that does not answer these come again: %v", len(good.Records), answer.BatchItemFailures)
	}
}

// later makes records that say that every stream has gone on by one.
func later(s *story, e lambdaevents.KinesisEvent) (out lambdaevents.KinesisEvent) {
	for i, r := range e.Records {
		text := strings.Replace(string(r.Kinesis.Data), `"w":{"N":"`, `"w":{"N":"10`, 1)
		out.Records = append(out.Records, changed(i, text))
	}
	return out
}

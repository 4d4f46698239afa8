package host

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/kms"
	"github.com/aws/aws-sdk-go-v2/service/kms/types"

	leaselog "github.com/leaselog/leaselog/events"
	"github.com/leaselog/leaselog/internal/auth"
	"github.com/leaselog/leaselog/internal/aws/keys"
	"github.com/leaselog/leaselog/internal/aws/store"
	"github.com/leaselog/leaselog/internal/broker"
	"github.com/leaselog/leaselog/internal/eventlog"
	"github.com/leaselog/leaselog/internal/sweep"
	"github.com/leaselog/leaselog/projections"
)

// needs is what each function called, by the function's name.
type needs map[string][]awsCall

func (n needs) add(name string, calls []awsCall) { n[name] = append(n[name], calls...) }

// functions runs every function on its event against AWS on this machine, each time in a process of its own and in
// several circumstances; and holds what they called to exactly what template.yaml allows each of them: nothing that is
// not allowed, and no permission that nobody needs.
func functions(c *cloud, t *testing.T) {
	called := needs{}
	c.tick(sweep.Unfinished) // the first process of the deployment, which makes its secret
	called.add(sweep.Unfinished.Name, c.taken())
	pair, token := c.key(auth.Pair), c.key(auth.Static)
	s := &story{cloud: c, pair: pair, token: token.Token}
	s.does = func(name string, e event) response {
		c.taken()
		a := s.cold(name, e)
		called.add(name, c.taken())
		return a
	}
	s.tell()
	theirs := signedStory(s)
	spent(s, *theirs.Arn)
	long := newLong(s)
	snapshots(s, long, called)
	unfinished(s, called)
	daily(s, long, called)
	projected(s, long, called)
	judge(t, called, map[string]string{"test-log": "LogTableArn", "test-claims": "ClaimsTableArn", "test-views": "ViewsTableArn",
		c.env[envKey]: "KeyArn", "the stream": "StreamArn", *theirs.Arn: "CustomerKeyArns", *theirs.KeyId: "CustomerKeyArns"})
}

// judge holds calls to the template. arns are the template's names of what was called.
func judge(t *testing.T, called needs, arns map[string]string) {
	tp := readTemplate(t, map[string]bool{"CustomerKeys": true})
	values := map[any]string{"Deployment": "test", "secrets": "secrets"}
	for name := range readFunctions(t) {
		used := map[string]bool{}
		statements := tp.statements(t, camel(name))
		for _, c := range called[name] {
			allowed := false
			for i, s := range statements {
				fits := slices.Contains(s.actions, c.action) && slices.Contains(s.resources, arns[c.resource])
				for key, want := range s.equals {
					fits = fits && c.context[strings.TrimPrefix(key, "kms:EncryptionContext:")] == values[want]
				}
				if fits {
					allowed = true
					used[fmt.Sprint(i, c.action, arns[c.resource])] = true
				}
			}
			if !allowed {
				t.Errorf("%s calls %s on %s (%v), which template.yaml does not allow", name, c.action, c.resource, c.context)
			}
		}
		for i, s := range statements {
			for _, action := range s.actions {
				for _, resource := range s.resources {
					if !used[fmt.Sprint(i, action, resource)] {
						t.Errorf("%s may %s on %s by template.yaml, and never does", name, action, resource)
					}
				}
			}
		}
	}
}

// readFunctions gives the names of all functions.
func readFunctions(t *testing.T) map[string]bool {
	all := map[string]bool{}
	for name := range endpoints() {
		all[name] = true
	}
	for name := range scheduled() {
		all[name] = true
	}
	for _, p := range projections.All() {
		all[p.Name] = true
	}
	return all
}

// signedStory tells the story again on a FIFO queue under a customer's key, with a dead-letter queue, signed requests
// and idempotency keys. It gives that key.
func signedStory(s *story) (theirs struct{ Arn, KeyId *string }) {
	made, err := kms.NewFromConfig(s.config).CreateKey(s.Context(), &kms.CreateKeyInput{})
	s.must(err)
	theirs.Arn, theirs.KeyId = made.KeyMetadata.Arn, made.KeyMetadata.KeyId
	policy := map[string]any{"dead_letter_queue": "dead.fifo", "max_receive_count": 5}
	fifo := strings.NewReplacer("orders", "audit.fifo")
	dead := s.event("create-queue", "TOKEN", s.token, "orders", "dead.fifo")
	if a := s.cold("create-queue", dead); a.StatusCode != 201 {
		s.Fatal(a.Body)
	}
	n := 0
	s.edit = func(name string, e *event) {
		e.RawPath, e.RawQueryString, e.Body = fifo.Replace(e.RawPath), fifo.Replace(e.RawQueryString), fifo.Replace(e.Body)
		switch name {
		case "create-token", "revoke-token":
			return
		case "create-queue":
			s.body(e, map[string]any{"kms_key": *theirs.Arn, "redrive_policy": policy})
		case "update-queue":
			s.rekey(*theirs.KeyId)
			s.body(e, map[string]any{"kms_key": *theirs.KeyId, "redrive_policy": policy})
		case "send-message":
			s.body(e, map[string]any{"message_group_id": "g", "message_deduplication_id": "1"})
		case "send-message-batch":
			var entries []map[string]any
			for i := range 10 {
				entries = append(entries, map[string]any{"id": fmt.Sprint(i), "body": strings.Repeat("x", 100_000), "message_group_id": fmt.Sprint("g", i), "message_deduplication_id": fmt.Sprint("b", i)})
			}
			s.body(e, map[string]any{"entries": entries})
		}
		n++
		s.sign(e, endpoints()[name].Encoded, n)
	}
	s.tell()
	s.edit = nil
	return theirs
}

// spent has a receive move what was received too often, from under a customer's key: no sweep runs meanwhile.
func spent(s *story, key string) {
	do := func(name, queue string, members map[string]any) response {
		e := s.event(name, "TOKEN", s.token, "orders", queue)
		s.body(&e, members)
		a := s.does(name, e)
		if a.StatusCode/100 != 2 {
			s.Fatalf("%s on %s: %s", name, queue, a.Body)
		}
		return a
	}
	received := func(queue string) []any {
		a := do("receive-messages", queue, map[string]any{"visibility_timeout_seconds": 0, "wait_time_seconds": 0})
		return field[[]any](s, a.Body, "messages")
	}
	do("create-queue", "spent-dead", nil)
	do("create-queue", "spent", map[string]any{"kms_key": key, "redrive_policy": map[string]any{"dead_letter_queue": "spent-dead", "max_receive_count": 1}})
	do("send-message", "spent", nil)
	if n := len(received("spent")); n != 1 {
		s.Fatalf("received %d messages", n)
	}
	if n := len(received("spent")); n != 0 {
		s.Errorf("received %d messages a second time", n)
	}
	if n := len(received("spent-dead")); n != 1 {
		s.Errorf("%d messages are in the dead-letter queue", n)
	}
}

// rekey puts the queue of the signed story under the platform's key, in two writes of the function: whatever it needs
// for the way there is noted, and the way back is the story's.
func (s *story) rekey(string) {
	e := s.event("update-queue", "TOKEN", s.token, "orders", "audit.fifo")
	e.Body = `{"kms_key":null}`
	if a := s.does("update-queue", e); a.StatusCode != 200 {
		s.Fatal(a.Body)
	}
}

// long is a broker that makes queues with long ledgers: its snapshots fail.
type long struct {
	*Deployment
	log *unsnapped
}

type unsnapped struct {
	eventlog.Log
	ledger int // bytes
	commit error
}

func (u *unsnapped) PutSnapshot(context.Context, eventlog.Stream, eventlog.Snapshot) error {
	return errors.New("no snapshots here")
}

func (u *unsnapped) Commit(ctx context.Context, c eventlog.Commit) error {
	for _, a := range c.Appends {
		if u.commit != nil {
			return u.commit
		}
		u.ledger += len(a.Data) + len(a.Header)
	}
	return u.Log.Commit(ctx, c)
}

func newLong(s *story) *long {
	s.Helper()
	config, err := FromEnvironment(s.getenv)
	s.must(err)
	config.Shards = 1
	config.fill()
	log, err := store.New(store.Config{Client: dynamodb.NewFromConfig(s.config), Tables: config.Tables})
	s.must(err)
	k, err := keys.New(keys.Config{Client: kms.NewFromConfig(s.config), Key: config.Key})
	s.must(err)
	l := &long{log: &unsnapped{Log: log}}
	l.Deployment, err = open(s.Context(), config, l.log, log, k)
	s.must(err)
	s.Cleanup(l.Close)
	return l
}

// queue makes a queue whose ledger is due for a snapshot, and gives receipts of messages in it.
func (l *long) queue(s *story, name string) (id leaselog.QueueID, receipts []string) {
	s.Helper()
	settings := leaselog.Settings{LeaseSeconds: 300, RetentionSeconds: 3600, MaxBytes: 1024, KeyReuseSeconds: 300}
	q, err := l.Broker.Create(s.Context(), broker.CreateQueue{Account: auth.AccountDefault, Name: name, Settings: settings})
	s.must(err)
	var out []broker.Outgoing
	for range 1000 {
		out = append(out, broker.Outgoing{Message: leaselog.Message{Body: []byte("x")}})
	}
	_, err = l.Broker.Send(s.Context(), q.ID, out)
	s.must(err)
	for l.log.ledger = 0; ; {
		found, err := l.Broker.Receive(s.Context(), broker.Receive{Queue: q.ID, Max: 1000})
		s.must(err)
		var release []broker.Extend
		receipts = nil
		for _, d := range found {
			release = append(release, broker.Extend{Receipt: d.Receipt})
			receipts = append(receipts, d.Receipt)
		}
		if l.log.ledger > 1<<20+1<<16 {
			break
		}
		_, err = l.Broker.Extend(s.Context(), q.ID, release)
		s.must(err)
	}
	// What is left can be received by whoever comes, and the first ten are leased.
	_, err = l.Broker.Send(s.Context(), q.ID, out[:10])
	s.must(err)
	return q.ID, receipts
}

// snapshots lets each function meet a shard that is due for a snapshot. What a snapshot takes beyond the first one of a
// stream is measured at the store, and needed by every function that writes any.
func snapshots(s *story, l *long, called needs) {
	direct, err := store.New(store.Config{Client: dynamodb.NewFromConfig(s.config, func(o *dynamodb.Options) { o.BaseEndpoint = &s.endpoint }), Tables: l.Tables})
	s.must(err)
	s.taken()
	for seq := range 2 {
		s.must(direct.PutSnapshot(s.Context(), "measured", eventlog.Snapshot{Seq: eventlog.Seq(seq), Data: []byte("x")}))
	}
	takes := s.taken()
	for name, e := range map[string]string{"send-message": "", "send-message-batch": "", "receive-messages": "", "delete-message": "", "delete-message-batch": "",
		"change-message-visibility": "", "change-message-visibility-batch": ""} {
		_, receipts := l.queue(s, "long-"+name)
		ev := s.event(name, "TOKEN", s.token, "orders", "long-"+name, "RECEIPT_HANDLE_1", receipts[0], "RECEIPT_HANDLE_2", receipts[1], "RECEIPT_HANDLE_3", receipts[2], e, "")
		if a := s.does(name, ev); a.StatusCode >= 300 || strings.Contains(a.Body, `"error":`) {
			s.Fatalf("%s: %d %s", name, a.StatusCode, a.Body)
		}
		s.wait(name, called, func(c awsCall) bool { return c.resource == "test-views" && c.action == "dynamodb:PutItem" })
		called.add(name, takes)
	}
	moving(s, l, called)
	called.add(sweep.Moves.Name, takes)
	called.add(sweep.Expired.Name, takes)
}

// moving has the sweep bring the messages of two queues to a third: of one that is due for a snapshot, and of one under a
// customer's key.
func moving(s *story, l *long, called needs) {
	settings := leaselog.Settings{LeaseSeconds: 300, RetentionSeconds: 3600, MaxBytes: 1024, KeyReuseSeconds: 300}
	create := func(name, key string) *broker.Queue {
		q, err := l.Broker.Create(s.Context(), broker.CreateQueue{Account: auth.AccountDefault, Name: name, Settings: settings, Key: key})
		s.must(err)
		return q
	}
	there, theirs := create("there", ""), create("theirs", s.customersKey())
	_, err := l.Broker.Send(s.Context(), theirs.ID, []broker.Outgoing{{Message: leaselog.Message{Body: []byte("x")}}})
	s.must(err)
	here, _ := l.queue(s, "long-moves")
	filter := broker.MoveFilter{Body: "x"}
	for _, q := range []leaselog.QueueID{here, theirs.ID} {
		_, err := l.Broker.StartMove(s.Context(), broker.StartMove{Queue: q, Target: &broker.Ref{Account: auth.AccountDefault, ID: there.ID}, Filter: filter})
		s.must(err)
	}
	s.taken()
	s.tick(sweep.Moves)
	called.add(sweep.Moves.Name, s.taken())
	if q, err := s.deploymentNow().Broker.Describe(s.Context(), there.ID); err != nil || q.Depth.Available != 11 {
		s.Errorf("there are %+v messages: %v", q.Depth, err)
	}
}

// customersKey is a key beside the platform's.
func (s *story) customersKey() string {
	made, err := kms.NewFromConfig(s.config).ListKeys(s.Context(), &kms.ListKeysInput{})
	s.must(err)
	return *made.Keys[slices.IndexFunc(made.Keys, func(k types.KeyListEntry) bool { return *k.KeyArn != s.env[envKey] })].KeyId
}

// wait lets a function, which is not frozen here after its answer, go on until it has called.
func (s *story) wait(name string, called needs, until func(awsCall) bool) {
	s.Helper()
	for deadline := time.Now().Add(10 * time.Second); !slices.ContainsFunc(called[name], until); <-time.After(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			s.Fatalf("%s never made the call", name)
		}
		called.add(name, s.taken())
	}
}

// unfinished leaves work for the sweep: a message that was received too often, and a change that was broken off.
func unfinished(s *story, called needs) {
	l := newLong(s)
	settings := leaselog.Settings{LeaseSeconds: 1, RetentionSeconds: 3600, MaxBytes: 1024, KeyReuseSeconds: 300}
	create := func(name, dead, key string) *broker.Queue {
		c := broker.CreateQueue{Account: auth.AccountDefault, Name: name, Settings: settings, Key: key}
		if dead != "" {
			c.DeadLetter = &broker.DeadLetter{Queue: broker.Ref{Account: auth.AccountDefault, Name: dead}, Receives: 1}
		}
		q, err := l.Broker.Create(s.Context(), c)
		s.must(err)
		return q
	}
	create("dead", "", "")
	q := create("source", "dead", s.customersKey())
	_, err := l.Broker.Send(s.Context(), q.ID, []broker.Outgoing{{Message: leaselog.Message{Body: []byte("x")}}})
	s.must(err)
	_, err = l.Broker.Receive(s.Context(), broker.Receive{Queue: q.ID, Max: 1})
	s.must(err)
	changed := create("changed", "", s.customersKey())
	l.log.commit = &eventlog.Refused{Cause: errors.New("broken off")}
	seconds := uint32(7)
	if _, err := l.Broker.Update(s.Context(), broker.UpdateQueue{Queue: changed.ID, LeaseSeconds: &seconds}); err == nil {
		s.Fatal("the change was not broken off")
	}
	s.shift.Add(int64(2 * time.Minute))
	s.taken()
	for _, c := range []sweep.Chore{sweep.Exhausted, sweep.Unfinished} {
		s.tick(c)
		called.add(c.Name, s.taken())
	}
	after, err := s.deploymentNow().Broker.Find(s.Context(), broker.Ref{Account: auth.AccountDefault, Name: "dead"})
	s.must(err)
	if q, err := s.deploymentNow().Broker.Describe(s.Context(), after.ID); err != nil || q.Depth.Available != 1 {
		s.Errorf("the sweep moved nothing: %v", err)
	}
	if a := s.does("delete-queue", s.event("delete-queue", "TOKEN", s.token, "orders", "dead")); a.StatusCode != 204 { // with a source
		s.Error(a.Body)
	}
}

// deploymentNow is a server in the time of the functions.
func (s *story) deploymentNow() *Deployment {
	config, err := FromEnvironment(s.getenv)
	s.must(err)
	config.Now = s.now
	d, err := Open(s.Context(), config)
	s.must(err)
	s.Cleanup(d.Close)
	return d
}

// daily sweeps a day later, when all keys are worn, streams are idle, and much is past its retention.
func daily(s *story, l *long, called needs) {
	l.queue(s, "long-expired")
	s.shift.Add(int64(25 * time.Hour))
	s.taken()
	for _, c := range []sweep.Chore{sweep.Keys, sweep.Expired, sweep.Snapshots, sweep.Anchors} {
		s.tick(c)
		called.add(c.Name, s.taken())
	}
	afterWeeks(s, l, called)
}

// afterWeeks measures at the store what the sweeps do only after weeks: on DynamoDB nothing is left to drop where all goes
// well, and anchors have others before them, as deleted queues have views.
func afterWeeks(s *story, l *long, called needs) {
	direct, err := store.New(store.Config{Client: dynamodb.NewFromConfig(s.config, func(o *dynamodb.Options) { o.BaseEndpoint = &s.endpoint }), Tables: l.Tables,
		Now: func() time.Time { return time.UnixMilli(int64(s.now())) }})
	s.must(err)
	claims, err := direct.Claims(s.Context(), broker.QueuePrefix, "", 1)
	s.must(err)
	q, err := broker.ReadRegistered(claims[0].Value)
	s.must(err)
	s.taken()
	s.must(direct.Drop(s.Context(), eventlog.Stream(leaselog.LedgerStream(q.ID, 0)), 0, 1<<40))
	dropping := s.taken()
	called.add(sweep.Keys.Name, dropping)
	called.add(sweep.Snapshots.Name, dropping)
	s.must(direct.Forget(s.Context(), "measured"))
	called.add(sweep.Keys.Name, s.taken())
	for seq := range eventlog.Seq(2) {
		c := eventlog.Commit{At: int64(s.now()), Writer: eventlog.Writer{byte(seq + 1)}}
		for _, name := range []eventlog.Stream{"measured/a", "measured/b"} {
			c.Appends = append(c.Appends, eventlog.Append{Stream: name, Seq: seq, Width: 1, Lasting: true})
		}
		s.must(direct.Commit(s.Context(), c))
	}
	called.add(sweep.Anchors.Name, s.taken())
}

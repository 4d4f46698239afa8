package host

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/kms"

	"github.com/leaselog/leaselog/internal/auth"
	"github.com/leaselog/leaselog/internal/aws/keys"
	"github.com/leaselog/leaselog/internal/eventlog"
	"github.com/leaselog/leaselog/internal/fault"
	"github.com/leaselog/leaselog/projections"
)

// TestCloud is what needs AWS, on this machine. One is started for all, and the first part finds it empty.
func TestCloud(t *testing.T) {
	c := newCloud(t)
	for _, part := range []struct {
		name string
		test func(*cloud, *testing.T)
	}{{"functions", functions}, {"secret", oneSecret}, {"poll", poll}, {"large", large}, {"crn", byCRN}, {"bodies", bodies}, {"long answers", longAnswers},
		{"key disabled", keyDisabled}, {"frozen", frozen}, {"skewed", skewed}, {"set aside", setAside}, {"binaries", binaries}, {"cost", cost}} {
		t.Run(part.name, func(t *testing.T) {
			c.TB = t
			defer func() { c.TB = nil }()
			c.shift.Store(0)
			part.test(c, t)
		})
	}
	c.TB = t
}

// oneSecret lets many processes be the first at once: all have the same secret. What was wrapped for another deployment
// is refused as what it is.
func oneSecret(c *cloud, t *testing.T) {
	log := eventlog.NewMemory()
	config, err := FromEnvironment(c.getenv)
	c.must(err)
	config.fill()
	k, err := keys.New(keys.Config{Client: kms.NewFromConfig(config.AWS), Key: config.Key})
	c.must(err)
	var all sync.WaitGroup
	roots := make([][]byte, 8)
	for i := range roots {
		all.Go(func() {
			d, err := open(t.Context(), config, log, projections.NewMemory(), k)
			if err != nil {
				t.Error(err)
				return
			}
			roots[i] = d.root()
		})
	}
	all.Wait()
	for _, r := range roots {
		if len(r) != 32 || !bytes.Equal(r, roots[0]) {
			t.Fatal("two processes have two secrets")
		}
	}
	d, err := open(t.Context(), config, log, projections.NewMemory(), k)
	c.must(err)
	if d.root.derive("receipt") == d.root.derive("auth") || strings.Contains(fmt.Sprintf("%+v %v", d.root, d.Directory), string(roots[0])) {
		t.Error("secrets are alike, or shown")
	}
	config.Deployment = "other"
	if _, err = open(t.Context(), config, log, projections.NewMemory(), k); !fault.Is(err, fault.KeyLost) || !strings.Contains(err.Error(), "wrapped for another") {
		t.Errorf("%v", err)
	}
}

// poll: one that has time finds what another process sends, and one whose function has less time than it wants to wait
// is answered with nothing before that is over.
func poll(c *cloud, t *testing.T) {
	s := c.story("polled")
	receive := s.event("receive-messages", "TOKEN", s.token, "orders", "polled", `\"wait_time_seconds\":5`, `\"wait_time_seconds\":20`)
	p := s.process(endpoints()["receive-messages"])
	began := time.Now()
	a := p.askWithin(4*time.Second, receive)
	if took := time.Since(began); a.StatusCode != 200 || a.Body != `{"messages":[]}` || took < 2*time.Second || took > 4*time.Second {
		t.Errorf("%d %s after %v", a.StatusCode, a.Body, took)
	}
	answers := make(chan response)
	go func() { answers <- p.ask(receive) }()
	s.cold("send-message", s.event("send-message", "TOKEN", s.token, "orders", "polled"))
	if a := <-answers; len(field[[]any](s, a.Body, "messages")) != 1 {
		t.Errorf("%s", a.Body)
	}
}

// large: ten messages of the largest size go through in one request, and come out in one answer, in base64.
func large(c *cloud, t *testing.T) {
	s := c.story("large")
	e := s.event("send-message-batch", "TOKEN", s.token, "orders", "large")
	var entries []map[string]any
	for i := range 10 {
		entries = append(entries, map[string]any{"id": fmt.Sprint(i), "body": strings.Repeat("é", 128<<10)})
	}
	s.body(&e, map[string]any{"entries": entries})
	if text, _ := json.Marshal(e); len(text) > 6<<20 {
		t.Fatalf("Lambda takes no event of %d bytes", len(text))
	}
	if a := s.cold("send-message-batch", e); a.StatusCode != 200 || strings.Contains(a.Body, `"error"`) {
		t.Fatalf("%d %.300s", a.StatusCode, a.Body)
	}
	got := 0
	for range 10 {
		a := s.cold("receive-messages", s.event("receive-messages", "TOKEN", s.token, "orders", "large"))
		body, err := base64.StdEncoding.DecodeString(a.Body)
		if !a.IsBase64Encoded {
			body, err = []byte(a.Body), nil
		}
		c.must(err)
		for _, m := range field[[]map[string]any](s, string(body), "messages") {
			if got++; m["body"] != strings.Repeat("é", 128<<10) {
				t.Error("a body came out as another")
			}
		}
		if got == 10 {
			return
		}
	}
	t.Errorf("%d of 10 came out", got)
}

// byCRN: a queue is found by its CRN whether the gateway has decoded the path or not, signed too.
func byCRN(c *cloud, t *testing.T) {
	s := c.story("named")
	s.pair = c.key(auth.Pair)
	for i, path := range []string{"/v1/queues/crn:queue:eu-west-1:local:queue/named", "/v1/queues/crn%3Aqueue%3Aeu-west-1%3Alocal%3Aqueue%2Fnamed"} {
		for _, signed := range []bool{false, true} {
			e := s.event("describe-queue", "TOKEN", s.token)
			if signed { // as the client sends it
				e.RawPath = "/v1/queues/crn%3Aqueue%3Aeu-west-1%3Alocal%3Aqueue%2Fnamed"
				s.sign(&e, same, 1000+i)
			}
			e.RawPath = path
			if a := s.cold("describe-queue", e); a.StatusCode != 200 || !strings.Contains(a.Body, `"name":"named"`) {
				t.Errorf("%s, signed %v: %d %s", path, signed, a.StatusCode, a.Body)
			}
		}
	}
}

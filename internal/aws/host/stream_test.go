package host

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"go.yaml.in/yaml/v4"

	leaselog "github.com/leaselog/leaselog/events"
	"github.com/leaselog/leaselog/internal/aws/awstest"
	"github.com/leaselog/leaselog/internal/broker"
	"github.com/leaselog/leaselog/internal/eventlog"
	"github.com/leaselog/leaselog/internal/sweep"
	"github.com/leaselog/leaselog/internal/views"
	"github.com/leaselog/leaselog/projections"
)

const (
	// viewsTimeout is how long a change may take to every view.
	viewsTimeout = 2 * time.Minute
	lagSamples   = 20
)

// TestStream: infra/ and the projections of template.yaml are deployed. What functions write goes by DynamoDB's streaming
// destination and Kinesis to the projections, which run as Lambda functions, and their views are what a full replay gives.
func TestStream(t *testing.T) {
	a := awstest.New(t, awstest.Config{})
	c := deployed(t, a)
	s := c.story("orders")
	ask := func(name string, replace ...string) string {
		t.Helper()
		answer := s.process(endpoints()[name]).ask(s.event(name, append(replace, "TOKEN", s.token)...))
		if answer.StatusCode/100 != 2 {
			t.Fatalf("%s: %d %s", name, answer.StatusCode, answer.Body)
		}
		return answer.Body
	}
	d := c.deployment()
	for range 20 {
		ask("send-message-batch")
	}
	for range 4 {
		got := field[[]map[string]any](s, ask("receive-messages"), "messages")
		for _, m := range got[:min(2, len(got))] { // what is left stays leased
			ask("delete-message", "RECEIPT_HANDLE_1", m["receipt_handle"].(string), "RECEIPT_HANDLE_2", m["receipt_handle"].(string), "RECEIPT_HANDLE_3", m["receipt_handle"].(string))
		}
	}
	shards := reached(t, d, projections.All()...)
	for _, name := range shards {
		for _, p := range projections.All() {
			k, _, err := d.Views.Load(t.Context(), name.Key(p.View))
			c.must(err)
			made, err := (&views.Follower{Log: unsnapshotted{d.Log}, Store: d.Views}).Make(t.Context(), name, p, nil)
			c.must(err)
			if !bytes.Equal(k.Data, made) {
				t.Errorf("%s is not what a full replay gives", name.Key(p.View))
			}
		}
	}
	counts(c, d, shards)
	lag(c, d, "Lambda")
}

// deployed makes a deployment of infra/, and the projections in it.
func deployed(t *testing.T, a *awstest.AWS) *cloud {
	t.Helper()
	const stack = "stream"
	c := &cloud{TB: t, endpoint: a.Endpoint}
	out, err := a.Infra(t.Context(), stack)
	c.must(err)
	dist := t.TempDir()
	c.must(a.Build(t.Context(), dist))
	c.must(projectionsAlone(dist))
	architecture := map[string]string{"amd64": "x86_64", "arm64": "arm64"}[runtime.GOARCH]
	c.must(a.Deploy(t.Context(), "projections", filepath.Join(dist, "projections.yaml"), "InfraStack="+stack, "Architecture="+architecture))
	c.config = aws.Config{Region: awstest.Region, BaseEndpoint: &a.Endpoint, Credentials: credentials.NewStaticCredentialsProvider("test", "test", "")}
	c.env = map[string]string{"AWS_REGION": awstest.Region, "AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_ENDPOINT_URL": a.Endpoint,
		envDeployment: out["Deployment"], envLog: out["LogTable"], envClaims: out["ClaimsTable"], envViews: out["ViewsTable"], envKey: out["KeyArn"]}
	return c
}

// window is how long a projection lets records gather. A test does not wait for minutes.
var window = regexp.MustCompile(`(MaximumBatchingWindowInSeconds: )[0-9]+`)

// projectionsAlone writes a template with the projections of the real one and what they need: LocalStack knows no HTTP
// APIs. What an alarm watches is not in it either.
func projectionsAlone(dist string) error {
	text, err := os.ReadFile(filepath.Join(dist, "template.yaml"))
	if err != nil {
		return err
	}
	text = window.ReplaceAll(text, []byte("${1}1"))
	var doc yaml.Node
	if err := yaml.Unmarshal(text, &doc); err != nil {
		return err
	}
	var root []*yaml.Node
	for i := 0; i < len(doc.Content[0].Content); i += 2 {
		name, value := doc.Content[0].Content[i], doc.Content[0].Content[i+1]
		switch name.Value {
		case "Outputs":
			continue
		case "Resources":
			var kept []*yaml.Node
			for j := 0; j < len(value.Content); j += 2 {
				n := value.Content[j].Value
				function := strings.TrimSuffix(n, "Role")
				ours := slices.ContainsFunc(projections.All(), func(p projections.Projection) bool { return camel(p.Name) == function })
				if ours || n == "Telling" || n == "Logs" {
					kept = append(kept, value.Content[j], value.Content[j+1])
				}
			}
			value.Content = kept
		}
		root = append(root, name, value)
	}
	doc.Content[0].Content = root
	out, err := yaml.Marshal(&doc)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dist, "projections.yaml"), out, 0o600)
}

// reached waits until the views of projections have reached the ends of the log, and gives all shards.
func reached(t *testing.T, d *Deployment, of ...projections.Projection) (shards []projections.Shard) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), viewsTimeout)
	defer cancel()
	err := sweep.Shards(ctx, d.Log, func(name projections.Shard) error {
		shards = append(shards, name)
		reach, err := views.Reach(ctx, d.Log, name)
		for _, p := range of {
			if err == nil {
				err = awaitView(ctx, d, name.Key(p.View), reach)
			}
		}
		return err
	})
	if err != nil || len(shards) == 0 {
		t.Fatalf("of %d shards not every view came to the end of the log: %v", len(shards), err)
	}
	return shards
}

func awaitView(ctx context.Context, d *Deployment, key string, reach projections.Ends) error {
	var ends projections.Ends
	for {
		k, ok, err := d.Views.Load(ctx, key)
		if err != nil {
			return fmt.Errorf("%s is at %v, and the log at %v: %w", key, ends, reach, err)
		}
		if ok {
			if ends, _, err = projections.Unpack(k.Data); err != nil || ends.Reach(reach) {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s is at %v, and the log at %v", key, ends, reach)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// unsnapshotted is a log that is read from its first entry on.
type unsnapshotted struct{ eventlog.Log }

func (unsnapshotted) Snapshot(context.Context, eventlog.Stream, eventlog.Seq) (eventlog.Snapshot, bool, error) {
	return eventlog.Snapshot{}, false, nil
}

// counts compares the merged depth view with what the broker says, at one instant.
func counts(c *cloud, d *Deployment, shards []projections.Shard) {
	c.Helper()
	q, err := d.Broker.Describe(c.Context(), shards[0].Queue)
	c.must(err)
	var sum projections.Reading
	for _, name := range shards {
		k, _, err := d.Views.Load(c.Context(), name.Key(projections.Depth.View))
		c.must(err)
		_, view, err := projections.Unpack(k.Data)
		c.must(err)
		v, err := projections.ReadDepth(view)
		c.must(err)
		r, err := v.ReadAt(c.now())
		c.must(err)
		sum.Add(r)
	}
	got := broker.Counts{Available: uint64(sum.Available), InFlight: uint64(sum.InFlight), Delayed: uint64(sum.Delayed)}
	if got != q.Depth.Counts || got.Available == 0 || got.InFlight == 0 {
		c.Errorf("the views count %+v, the broker %+v", got, q.Depth.Counts)
	}
	c.Logf("views of %d shards at %d: %+v, oldest %+v", len(shards), sum.At, sum.Counts, sum.Ages)
}

// lag measures how long it takes from a commit that stands to the depth view that has it.
func lag(c *cloud, d *Deployment, by string) {
	c.Helper()
	settings := leaselog.Settings{LeaseSeconds: 30, RetentionSeconds: 3600, MaxBytes: 1024, KeyReuseSeconds: 300, Fifo: true, ContentDedup: true}
	q, err := d.Broker.Create(c.Context(), broker.CreateQueue{Account: "default", Name: "lag.fifo", Settings: settings})
	c.must(err)
	name := projections.Shard{Queue: q.ID}
	var took []time.Duration
	for range lagSamples {
		_, err := d.Broker.Send(c.Context(), q.ID, []broker.Outgoing{{Message: leaselog.Message{Body: []byte("x"), Group: "g"}}})
		c.must(err)
		began := time.Now()
		reach, err := views.Reach(c.Context(), d.Log, name)
		c.must(err)
		ctx, cancel := context.WithTimeout(c.Context(), viewsTimeout)
		err = awaitView(ctx, d, name.Key(projections.Depth.View), reach)
		cancel()
		c.must(err)
		took = append(took, time.Since(began))
	}
	slices.Sort(took)
	c.Logf("from commit to depth view, over DynamoDB, Kinesis and %s in LocalStack: p50 %v, p99 %v of %d", by,
		took[len(took)/2].Round(time.Millisecond), took[len(took)*99/100].Round(time.Millisecond), len(took))
}

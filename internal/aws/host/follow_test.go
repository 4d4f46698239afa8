package host

import (
	"bytes"
	"context"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"

	leaselog "github.com/leaselog/leaselog/events"
	"github.com/leaselog/leaselog/internal/aws/awstest"
	"github.com/leaselog/leaselog/internal/aws/consumer"
	"github.com/leaselog/leaselog/internal/broker"
	"github.com/leaselog/leaselog/internal/views"
	"github.com/leaselog/leaselog/projections"
)

// TestFollow: without any function two processes keep the views of a deployment by its stream, and when one of them leaves
// the other does. What they keep is what a full replay gives.
func TestFollow(t *testing.T) {
	const stack = "follow"
	a := awstest.New(t, awstest.Config{})
	c := &cloud{TB: t, endpoint: a.Endpoint}
	out, err := a.Infra(t.Context(), stack)
	c.must(err)
	c.config = aws.Config{Region: awstest.Region, BaseEndpoint: &a.Endpoint, Credentials: credentials.NewStaticCredentialsProvider("test", "test", "")}
	c.env = map[string]string{"AWS_REGION": awstest.Region, "AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_ENDPOINT_URL": a.Endpoint,
		envDeployment: out["Deployment"], envLog: out["LogTable"], envClaims: out["ClaimsTable"], envViews: out["ViewsTable"], envKey: out["KeyArn"]}
	d, other := c.deployment(), c.deployment()
	follow := func(d *Deployment) (stop func()) {
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			ended <- (&consumer.Views{AWS: d.AWS, Stream: stack + "-changes", Log: d.Log, Store: d.Views, Now: d.Now, Rand: d.Rand, Logger: d.Logger}).Follow(ctx)
		}()
		return func() {
			cancel()
			c.must(<-ended)
		}
	}
	stop, stopOther := follow(d), follow(other)
	defer stop()
	settings := leaselog.Settings{LeaseSeconds: 300, RetentionSeconds: 3600, MaxBytes: 1024, KeyReuseSeconds: 300}
	q, err := d.Broker.Create(t.Context(), broker.CreateQueue{Account: "default", Name: "orders", Settings: settings})
	c.must(err)
	work := func() {
		for range 10 {
			_, err := d.Broker.Send(t.Context(), q.ID, []broker.Outgoing{{Message: leaselog.Message{Body: []byte("x")}}, {Message: leaselog.Message{Body: []byte("y")}}})
			c.must(err)
			_, err = other.Broker.Receive(t.Context(), broker.Receive{Queue: q.ID, Max: 1, WaitSeconds: new(uint32)})
			c.must(err)
		}
		for _, name := range reached(t, d, projections.All()...) {
			for _, p := range projections.All() {
				k, _, err := d.Views.Load(t.Context(), name.Key(p.View))
				c.must(err)
				made, err := (&views.Follower{Log: unsnapshotted{d.Log}}).Make(t.Context(), name, p, nil)
				c.must(err)
				if !bytes.Equal(k.Data, made) {
					t.Errorf("%s is not what a full replay gives", name.Key(p.View))
				}
			}
		}
	}
	work()
	lag(c, d, "a server")
	stopOther()
	work()
}

package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	awshost "github.com/leaselog/leaselog/internal/aws/host"

	"github.com/leaselog/leaselog/internal/aws/account"
	"github.com/leaselog/leaselog/internal/aws/consumer"
	"github.com/leaselog/leaselog/internal/aws/store"
	"github.com/leaselog/leaselog/internal/fault"
	"github.com/leaselog/leaselog/internal/local/admin"
	"github.com/leaselog/leaselog/internal/local/host"
	metrics "github.com/leaselog/leaselog/internal/watch"
	"github.com/leaselog/leaselog/projections"
)

// backing are the flags that say where everything is kept: in a data directory, or in AWS.
type backing struct {
	store, data       string
	stack, deployment string
	keepViews         bool // a server keeps views by the deployment's stream
}

const (
	embedded = "embedded"
	dynamodb = "dynamodb"

	// healthTimeout ends a look at the tables: whoever asks for /readyz does not wait long.
	healthTimeout = 2 * time.Second
)

// flags adds them to a command and those below it.
func (b *backing) flags(cmd *cobra.Command) {
	f := cmd.PersistentFlags()
	f.StringVar(&b.store, "store", embedded, "embedded, or dynamodb for the tables of a deployment in AWS")
	f.StringVar(&b.data, "data", "./leaselog-data", "directory of the log and its key, for the embedded store")
	f.StringVar(&b.stack, "stack", "leaselog", "stack of infra/ whose tables and key are used, for dynamodb;\ncredentials, region and endpoint are those of the AWS command line")
	f.StringVar(&b.deployment, "deployment", "", "the stack's parameter Deployment, for dynamodb (default: the stack's name)")
	_ = cmd.MarkPersistentFlagDirname("data")
	_ = cmd.RegisterFlagCompletionFunc("store", cobra.FixedCompletions([]string{embedded, dynamodb}, cobra.ShellCompDirectiveNoFileComp))
}

// remote says whether the flags name a deployment in AWS. Flags that mean nothing where they stand are refused.
func (b *backing) remote(cmd *cobra.Command) (bool, error) {
	idle := []string{"stack", "deployment", "keep-views"}
	switch b.store {
	case embedded:
	case dynamodb:
		idle = []string{"data", "history-age", "history-bytes"}
	default:
		return false, usage("--store must be %s or %s, not %q", embedded, dynamodb, b.store)
	}
	for _, name := range idle {
		if cmd.Flags().Changed(name) {
			return false, usage("--%s means nothing with --store %s", name, b.store)
		}
	}
	return b.store == dynamodb, nil
}

// connect opens the deployment in AWS.
func (b *backing) connect(ctx context.Context, c awshost.Config) (*awshost.Deployment, error) {
	var err error
	if c.AWS, err = account.Load(ctx); err != nil {
		return nil, fmt.Errorf("the AWS configuration: %w", err)
	}
	if c.AWS.Region == "" {
		return nil, fmt.Errorf("no AWS region is set: give AWS_REGION, or a profile that has one")
	}
	if b.deployment == "" {
		b.deployment = b.stack
	}
	c.Tables = store.Tables{Log: b.stack + "-log", Claims: b.stack + "-claims", Views: b.stack + "-views"}
	c.Key, c.Deployment = "alias/"+b.stack, b.deployment
	d, err := awshost.Open(ctx, c)
	var f *fault.Error
	if errors.As(err, &f) && errors.Unwrap(f) != nil { // callers of the API do not hear the cause; whoever runs the server must
		err = fmt.Errorf("the tables and the key of stack %s cannot be used: %w", b.stack, errors.Unwrap(f))
	}
	return d, err
}

// shared is the backing of a server that works on a deployment in AWS, as any number of others may.
func (b *backing) shared(ctx context.Context, c host.Config) func(*metrics.Watch) (*host.Backing, error) {
	return func(w *metrics.Watch) (*host.Backing, error) {
		d, err := b.connect(ctx, awshost.Config{Region: c.Region, Shards: c.Shards, Logger: c.Logger, Meter: w, Consumed: w.Consumed})
		if err != nil {
			return nil, err
		}
		healthy := func() error {
			ctx, cancel := context.WithTimeout(context.Background(), healthTimeout)
			defer cancel()
			return d.Healthy(ctx)
		}
		s := d.Services()
		var follow func(context.Context)
		if b.keepViews {
			follow = func(ctx context.Context) {
				v := consumer.Views{AWS: d.AWS, Stream: b.stack + "-changes", Log: d.Log, Store: d.Views, Now: d.Now, Rand: d.Rand, Logger: c.Logger, Viewed: w.Viewed}
				if err := v.Follow(ctx); err != nil {
					c.Logger.Warn("views are kept by others, a moment later", "error", err)
				}
			}
		}
		return &host.Backing{Broker: d.Broker, Directory: d.Directory, Secret: [32]byte(s.Secret), Region: d.Region, Healthy: healthy,
			Tick: d.Broker.Tick, Sweeps: d.Site(), Follow: follow,
			Close:  func() error { return nil }, // the server has closed the broker, and nothing else is open
			Shared: true,
			Place:  fmt.Sprintf("the DynamoDB tables %s-log, -claims and -views in %s (sealed; the key is KMS' alias/%s)", b.stack, d.AWS.Region, b.stack),
			Manage: b.command("keys create")}, nil
	}
}

// command is one on the same deployment.
func (b *backing) command(name string) string {
	text := "leaselog " + name + " --store dynamodb --stack " + b.stack
	if b.deployment != b.stack {
		text += " --deployment " + b.deployment
	}
	return text
}

// administration opens what the commands about keys, accounts and views act on.
func (b *backing) administration(cmd *cobra.Command, create bool) (*admin.Client, error) {
	remote, err := b.remote(cmd)
	if err != nil {
		return nil, err
	}
	if !remote {
		return admin.Open(b.data, create)
	}
	d, err := b.connect(cmd.Context(), awshost.Config{})
	if err != nil {
		return nil, err
	}
	return admin.Over(d.Directory, admin.Views{Log: d.Log, Store: d.Views, Projections: projections.All(), Now: d.Now}, func() error { d.Close(); return nil }), nil
}

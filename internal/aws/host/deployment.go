package host

import (
	"context"
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/kms"

	"github.com/leaselog/leaselog/internal/api"
	"github.com/leaselog/leaselog/internal/auth"
	"github.com/leaselog/leaselog/internal/aws/keys"
	"github.com/leaselog/leaselog/internal/aws/store"
	"github.com/leaselog/leaselog/internal/broker"
	"github.com/leaselog/leaselog/internal/eventlog"
	"github.com/leaselog/leaselog/internal/fault"
	"github.com/leaselog/leaselog/internal/sweep"
	"github.com/leaselog/leaselog/internal/views"
	"github.com/leaselog/leaselog/projections"
)

// Deployment is what runs on one set of tables, as this process works on it: any number of processes may.
type Deployment struct {
	Config
	Log       eventlog.Log
	Views     projections.Store
	Broker    *broker.Broker
	Directory *auth.Directory // accounts and access keys
	Verifier  *auth.Verifier  // of callers

	root secret
}

// Open connects to a deployment. It reads the deployment's secret, and makes it where this is the first process ever.
func Open(ctx context.Context, c Config) (*Deployment, error) {
	c.fill()
	log, errStore := openStore(c)
	k, errKeys := keys.New(keys.Config{Client: kms.NewFromConfig(c.AWS), Key: c.Key})
	var errName error
	if c.Deployment == "" {
		errName = errors.New("host: Config.Deployment is missing")
	}
	if err := errors.Join(errStore, errKeys, errName); err != nil {
		return nil, err
	}
	return open(ctx, c, log, log, k)
}

// openStore is the part of a deployment that needs no key.
func openStore(c Config) (*store.Store, error) {
	return store.New(store.Config{Client: dynamodb.NewFromConfig(c.AWS), Tables: c.Tables, Consumed: c.Consumed,
		Now: func() time.Time { return time.UnixMilli(int64(c.Now())) }})
}

func open(ctx context.Context, c Config, log eventlog.Log, kept projections.Store, k *keys.Keys) (_ *Deployment, err error) {
	d := &Deployment{Config: c, Log: log, Views: kept}
	if d.root, err = d.readRoot(ctx, k); err != nil {
		return nil, fmt.Errorf("opening deployment %s: %w", c.Deployment, err)
	}
	if d.Broker, err = broker.New(broker.Config{Log: log, Keys: k, ReceiptKey: d.root.derive("receipt"), Now: c.Now, Rand: c.Rand,
		Deployment: c.Deployment, Shards: c.Shards, Unattended: c.Unattended, Packed: true, CommitItems: store.ItemsMax, Logger: c.Logger, Meter: c.Meter, Views: kept,
		Buried: (&views.Follower{Store: kept, Projections: projections.All()}).Bury}); err != nil {
		return nil, err
	}
	if d.Directory, err = auth.NewDirectory(auth.Config{Log: log, Secret: d.root.derive("auth"), Now: c.Now, Rand: c.Rand,
		HasQueues: func(ctx context.Context, handle string) (bool, error) { return broker.HasQueues(ctx, log, handle) }}); err != nil {
		return nil, err
	}
	d.Verifier = &auth.Verifier{Directory: d.Directory, Region: c.Region, Logger: c.Logger}
	return d, nil
}

// Services are what endpoints work with here. Callers are always verified: there is no development mode in the cloud.
func (d *Deployment) Services() api.Services {
	marker := d.root.derive("marker")
	return api.Services{Broker: d.Broker, Auth: d.Verifier, Tokens: d.Verifier, Region: d.Region, Secret: marker[:], Logger: d.Logger, Failed: d.Failed}
}

// Site is what sweeps work on here.
func (d *Deployment) Site() sweep.Site {
	return sweep.Site{Broker: d.Broker, Cloud: true, Views: d.Views, Keeps: projections.All()}
}

// Healthy says why the tables cannot be reached, or nil.
func (d *Deployment) Healthy(ctx context.Context) error {
	if _, _, err := d.Log.Claim(ctx, rootClaim); err != nil {
		return fmt.Errorf("the tables cannot be reached: %w", err)
	}
	return nil
}

// Close answers waiting receives with nothing and lets running commands finish.
func (d *Deployment) Close() { d.Broker.Close() }

// rootClaim holds the deployment's secret, wrapped by KMS for rootPurpose. It is made once and never changes.
const (
	rootClaim   = "deployment/receipt"
	rootPurpose = "secrets"
	// rootAttempts bounds how often it is looked for after it was made: several processes may be the first.
	rootAttempts = 5
)

// secret encloses the bytes from which the deployment's secrets are derived, so that nothing that prints finds them.
type secret func() []byte

// derive gives the secret of a purpose, as the key file of an embedded server does.
func (s secret) derive(purpose string) [32]byte {
	b, err := hkdf.Key(sha256.New, s(), nil, "leaselog secret 1 "+purpose, 32)
	if err != nil {
		panic(err) // only an overlong output is refused
	}
	return [32]byte(b)
}

// readRoot reads the secret. Where there is none it makes one and reads again: whose stands, counts. Nothing that was
// not read back is ever used, so it does not matter how the writing went.
func (d *Deployment) readRoot(ctx context.Context, k *keys.Keys) (secret, error) {
	var failed error
	for range rootAttempts {
		c, found, err := d.Log.Claim(ctx, rootClaim)
		if err != nil {
			return nil, fault.Because(fault.Unavailable, err, "the store cannot be read now; nothing was done, try again")
		}
		if found {
			root, err := k.UnwrapSecret(ctx, c.Value, d.Deployment, rootPurpose)
			return func() []byte { return root }, err
		}
		failed = d.makeRoot(ctx, k)
		if _, byKMS := errors.AsType[*fault.Error](failed); byKMS || ctx.Err() != nil {
			break
		}
	}
	return nil, fmt.Errorf("the deployment's secret is not there yet, and could not be made: %w", failed)
}

func (d *Deployment) makeRoot(ctx context.Context, k *keys.Keys) error {
	root, wrapped, err := k.GenerateSecret(ctx, d.Deployment, rootPurpose)
	clear(root)
	if err != nil {
		return err
	}
	c := eventlog.Commit{At: int64(d.Now())}
	if _, err := io.ReadFull(d.Rand, c.Writer[:]); err != nil {
		return err
	}
	c.Claims = []eventlog.Claim{{Key: rootClaim, Holder: hex.EncodeToString(c.Writer[:]), Until: eventlog.Forever, Value: wrapped}}
	return d.Log.Commit(ctx, c)
}

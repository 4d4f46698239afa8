// Package keys has the keys that wrap all others in AWS KMS: the platform's own, and those of customers.
//
// What is wrapped is bound to its place by KMS' encryption context, which stands in CloudTrail and in policies too:
// deployment, queue and version for a queue's keys, deployment and purpose for a secret of the deployment.
package keys

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/arn"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/service/kms"
	"github.com/aws/aws-sdk-go-v2/service/kms/types"

	"github.com/leaselog/leaselog/internal/envelope"
	"github.com/leaselog/leaselog/internal/fault"
)

var _ interface {
	envelope.Keys
	envelope.Resolver
} = (*Keys)(nil)

const (
	keySize = 32
	// attemptsMax and callMax bound what one call may cost: together they end before the envelope gives up waiting.
	attemptsMax = 3
	callMax     = 8 * time.Second
	backoffMax  = 500 * time.Millisecond
)

// The names in the encryption context. Policies name them: see template.yaml.
const (
	contextDeployment = "deployment"
	contextQueue      = "queue"
	contextVersion    = "version"
	contextPurpose    = "purpose"
)

// Config says which keys there are.
type Config struct {
	Client *kms.Client
	// Key is the platform's key: id, ARN, alias or the alias' ARN. It must stay the same key: KMS rotates what is
	// inside by itself. With an ARN, customers' keys of the same account and region are known by their ids.
	Key string
}

// Keys wraps and unwraps by KMS. It may be used by many goroutines at once.
type Keys struct {
	client *kms.Client
	key    string
	bound  func(*kms.Options)
}

// New makes Keys, and reports every problem of the configuration at once. It calls nobody.
func New(c Config) (*Keys, error) {
	var problems []error
	if c.Client == nil {
		problems = append(problems, errors.New("keys: Config.Client is missing"))
	}
	if c.Key == "" {
		problems = append(problems, errors.New("keys: Config.Key is missing: the id, ARN or alias of the platform's KMS key"))
	}
	if len(problems) > 0 {
		return nil, errors.Join(problems...)
	}
	retryer := retry.NewStandard(func(o *retry.StandardOptions) { o.MaxAttempts, o.MaxBackoff = attemptsMax, backoffMax })
	return &Keys{client: c.Client, key: c.Key, bound: func(o *kms.Options) { o.Retryer, o.RetryMaxAttempts = retryer, attemptsMax }}, nil
}

// Generate makes a data key under the key that ref names, "" for the platform's. Faults: Invalid for a key that does not
// exist or is of the wrong kind; KeyLost for one that may not or cannot be used now; Unavailable when KMS does not
// answer or has too much to do.
func (k *Keys) Generate(ctx context.Context, ref string, c envelope.Context) (key, wrapped []byte, err error) {
	return k.generate(ctx, ref, bind(c))
}

// Unwrap gives a data key back. Faults: KeyLost when its key may not or cannot be used now, or it was wrapped in another
// context or under another key, or was changed; Unavailable as for Generate.
func (k *Keys) Unwrap(ctx context.Context, ref string, wrapped []byte, c envelope.Context) ([]byte, error) {
	return k.unwrap(ctx, ref, wrapped, bind(c))
}

// GenerateSecret makes 32 random bytes for the whole deployment, under the platform's key. Faults as of Generate.
func (k *Keys) GenerateSecret(ctx context.Context, deployment, purpose string) (secret, wrapped []byte, err error) {
	return k.generate(ctx, "", map[string]string{contextDeployment: deployment, contextPurpose: purpose})
}

// UnwrapSecret gives it back. Faults as of Unwrap.
func (k *Keys) UnwrapSecret(ctx context.Context, wrapped []byte, deployment, purpose string) ([]byte, error) {
	return k.unwrap(ctx, "", wrapped, map[string]string{contextDeployment: deployment, contextPurpose: purpose})
}

func bind(c envelope.Context) map[string]string {
	return map[string]string{contextDeployment: c.Deployment, contextQueue: c.Queue.String(),
		contextVersion: strconv.FormatUint(uint64(c.Version), 10)}
}

func (k *Keys) generate(ctx context.Context, ref string, context map[string]string) (key, wrapped []byte, err error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	out, err := k.client.GenerateDataKey(ctx, &kms.GenerateDataKeyInput{KeyId: k.id(ref), KeySpec: types.DataKeySpecAes256, EncryptionContext: context}, k.bound)
	if err != nil {
		return nil, nil, judge(err, ref, "generating a data key")
	}
	return out.Plaintext, out.CiphertextBlob, nil
}

// unwrap names the key, though what is wrapped tells KMS which it was: it must not be one of somebody else's choice.
func (k *Keys) unwrap(ctx context.Context, ref string, wrapped []byte, context map[string]string) ([]byte, error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	out, err := k.client.Decrypt(ctx, &kms.DecryptInput{KeyId: k.id(ref), CiphertextBlob: wrapped, EncryptionContext: context}, k.bound)
	if err != nil {
		return nil, judge(err, ref, "unwrapping a data key")
	}
	if len(out.Plaintext) != keySize {
		clear(out.Plaintext)
		return nil, fmt.Errorf("KMS unwrapped a key of %d bytes, not %d", len(out.Plaintext), keySize)
	}
	return out.Plaintext, nil
}

// Resolve gives the customer's key that a reference leads to: an id, an ARN, or an alias with or without "alias/". A key
// of another account stays known by its ARN, since its id leads nowhere here. Faults: Invalid for one that does not
// exist, or cannot wrap; KeyLost when it may not be looked up; Unavailable.
func (k *Keys) Resolve(ctx context.Context, ref string) (envelope.KeyName, error) {
	asked := reference(ref)
	ctx, cancel := bounded(ctx)
	defer cancel()
	out, err := k.client.DescribeKey(ctx, &kms.DescribeKeyInput{KeyId: &asked}, k.bound)
	if err != nil {
		return envelope.KeyName{}, judge(err, ref, "looking a key up")
	}
	m := out.KeyMetadata
	if m == nil || m.KeyId == nil || m.Arn == nil {
		return envelope.KeyName{}, fmt.Errorf("KMS describes the key %q without its id", ref)
	}
	if m.KeyUsage != types.KeyUsageTypeEncryptDecrypt || m.KeySpec != types.KeySpecSymmetricDefault {
		return envelope.KeyName{}, fault.New(fault.Invalid, "the key %q is for %s with %s; a queue's key must be symmetric, for ENCRYPT_DECRYPT",
			ref, m.KeyUsage, m.KeySpec)
	}
	name := envelope.KeyName{ID: *m.KeyId}
	if arn.IsARN(asked) && !sameHome(*m.Arn, k.key) {
		name.ID = *m.Arn
	}
	if _, alias, is := strings.Cut(asked, "alias/"); is {
		name.Name = alias
	}
	return name, nil
}

// id is the key that a reference names to KMS.
func (k *Keys) id(ref string) *string {
	if ref == "" {
		return &k.key
	}
	return aws.String(reference(ref))
}

// reference makes of a name what KMS takes: ids and ARNs are what they are, all else is an alias.
func reference(ref string) string {
	if arn.IsARN(ref) || strings.HasPrefix(ref, "alias/") || isID(ref) {
		return ref
	}
	return "alias/" + ref
}

// isID knows both forms of an id: a UUID, and that of a key which is in several regions.
func isID(ref string) bool {
	if digits, is := strings.CutPrefix(ref, "mrk-"); is {
		return len(digits) == 32 && strings.Trim(digits, "0123456789abcdef") == ""
	}
	if len(ref) != 36 {
		return false
	}
	for i := range len(ref) {
		if dash := i == 8 || i == 13 || i == 18 || i == 23; dash != (ref[i] == '-') || !dash && !strings.ContainsRune("0123456789abcdefABCDEF", rune(ref[i])) {
			return false
		}
	}
	return true
}

// sameHome says whether two ARNs are of one account and region.
func sameHome(a, b string) bool {
	x, errX := arn.Parse(a)
	y, errY := arn.Parse(b)
	return errX == nil && errY == nil && x.AccountID == y.AccountID && x.Region == y.Region
}

func bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, callMax)
}

// Format prints the same under every verb: whose keys they are is in the configuration, and the client holds credentials.
func (*Keys) Format(f fmt.State, _ rune) { io.WriteString(f, "keys in KMS (not shown)") }

package keys

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/kms"
	"github.com/aws/aws-sdk-go-v2/service/kms/types"

	"github.com/leaselog/leaselog/events"
	"github.com/leaselog/leaselog/internal/aws/awstest"
	"github.com/leaselog/leaselog/internal/envelope"
	"github.com/leaselog/leaselog/internal/fault"
)

func client(endpoint string) *kms.Client {
	return kms.NewFromConfig(aws.Config{Region: "eu-west-1", BaseEndpoint: &endpoint,
		Credentials: credentials.NewStaticCredentialsProvider("test", "test", "")})
}

var here = envelope.Context{Deployment: "test", Queue: events.QueueID{1, 2, 3}, Version: 7}

// world is a KMS with a platform's key and a customer's.
type world struct {
	*testing.T
	*Keys
	client           *kms.Client
	platform, theirs *types.KeyMetadata
}

func (w *world) key(alias string, edit ...func(*kms.CreateKeyInput)) *types.KeyMetadata {
	w.Helper()
	in := &kms.CreateKeyInput{}
	for _, e := range edit {
		e(in)
	}
	out, err := w.client.CreateKey(w.Context(), in)
	if err == nil && alias != "" {
		_, err = w.client.CreateAlias(w.Context(), &kms.CreateAliasInput{AliasName: aws.String("alias/" + alias), TargetKeyId: out.KeyMetadata.KeyId})
	}
	w.must(err)
	return out.KeyMetadata
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// lost demands a fault with a text that says what is the matter, and nothing of a key in it.
func (w *world) lost(err error, code fault.Code, text string, secrets ...[]byte) {
	w.Helper()
	if !fault.Is(err, code) || !strings.Contains(fault.Of(err).Message, text) {
		w.Errorf("%v, want %s with %q", err, code, text)
	}
	for _, s := range secrets {
		if strings.Contains(fmt.Sprint(err), string(s)) || strings.Contains(fmt.Sprintf("%+v %x", err, err), fmt.Sprintf("%x", s)) {
			w.Errorf("there is a key in %v", err)
		}
	}
}

// TestKMS goes through everything with a real KMS: LocalStack's.
func TestKMS(t *testing.T) {
	t.Parallel()
	w := &world{T: t, client: client(awstest.New(t, awstest.Config{}).Endpoint)}
	w.platform = w.key("platform")
	w.theirs = w.key("acme/orders")
	var err error
	w.Keys, err = New(Config{Client: w.client, Key: *w.platform.Arn})
	w.must(err)
	for name, test := range map[string]func(*world){"round trip": roundTrip, "context": wrongContext, "wrong key": wrongKey, "tampered": tampered,
		"disabled": disabled, "pending deletion": pendingDeletion, "resolve": resolve, "secret": deploymentSecret} {
		t.Run(name, func(t *testing.T) {
			part := *w
			part.T = t
			test(&part)
		})
	}
}

func roundTrip(w *world) {
	for _, ref := range []string{"", *w.theirs.KeyId, *w.theirs.Arn, "acme/orders", "alias/acme/orders"} {
		key, wrapped, err := w.Generate(w.Context(), ref, here)
		w.must(err)
		again, err := w.Unwrap(w.Context(), ref, wrapped, here)
		w.must(err)
		if len(key) != 32 || !bytes.Equal(key, again) || bytes.Contains(wrapped, key) {
			w.Errorf("%q: %d bytes come back as others, or stand in what is wrapped", ref, len(key))
		}
		other, _, err := w.Generate(w.Context(), ref, here)
		w.must(err)
		if bytes.Equal(key, other) {
			w.Errorf("%q gives the same key twice", ref)
		}
	}
}

func wrongContext(w *world) {
	key, wrapped, err := w.Generate(w.Context(), "", here)
	w.must(err)
	for _, c := range []envelope.Context{
		{Deployment: "other", Queue: here.Queue, Version: here.Version},
		{Deployment: here.Deployment, Queue: events.QueueID{9}, Version: here.Version},
		{Deployment: here.Deployment, Queue: here.Queue, Version: 8},
		{Deployment: here.Deployment, Queue: here.Queue},
	} {
		_, err := w.Unwrap(w.Context(), "", wrapped, c)
		w.lost(err, fault.KeyLost, "wrapped for another queue, version or deployment", key, wrapped)
	}
	_, err = w.UnwrapSecret(w.Context(), wrapped, here.Deployment, "secrets")
	w.lost(err, fault.KeyLost, "wrapped for another", key, wrapped)
}

func wrongKey(w *world) {
	key, wrapped, err := w.Generate(w.Context(), "", here)
	w.must(err)
	_, err = w.Unwrap(w.Context(), *w.theirs.KeyId, wrapped, here)
	w.lost(err, fault.KeyLost, "is not the one that the data key was wrapped under", key, wrapped)
	for _, ref := range []string{"nobody", "0f0f0f0f-0000-4000-8000-000000000000", "arn:aws:kms:eu-west-1:000000000000:key/0f0f0f0f-0000-4000-8000-000000000000"} {
		_, _, err = w.Generate(w.Context(), ref, here)
		w.lost(err, fault.Invalid, "does not exist")
	}
	k, err := New(Config{Client: w.client, Key: "alias/nobody"})
	w.must(err)
	_, _, err = k.Generate(w.Context(), "", here)
	w.lost(err, fault.KeyLost, "the platform's key does not exist")
}

func tampered(w *world) {
	key, wrapped, err := w.Generate(w.Context(), "", here)
	w.must(err)
	for _, at := range []int{len(wrapped) / 2, len(wrapped) - 1} {
		changed := slices.Clone(wrapped)
		changed[at] ^= 1
		_, err := w.Unwrap(w.Context(), "", changed, here)
		w.lost(err, fault.KeyLost, "was changed", key, wrapped)
	}
}

func disabled(w *world) {
	_, wrapped, err := w.Generate(w.Context(), *w.theirs.KeyId, here)
	w.must(err)
	_, err = w.client.DisableKey(w.Context(), &kms.DisableKeyInput{KeyId: w.theirs.KeyId})
	w.must(err)
	_, err = w.Unwrap(w.Context(), *w.theirs.KeyId, wrapped, here)
	w.lost(err, fault.KeyLost, "is disabled; enable it", wrapped)
	_, _, err = w.Generate(w.Context(), *w.theirs.KeyId, here)
	w.lost(err, fault.KeyLost, "is disabled; enable it")
	_, err = w.client.EnableKey(w.Context(), &kms.EnableKeyInput{KeyId: w.theirs.KeyId})
	w.must(err)
	_, err = w.Unwrap(w.Context(), *w.theirs.KeyId, wrapped, here)
	w.must(err)
}

func pendingDeletion(w *world) {
	m := w.key("")
	_, wrapped, err := w.Generate(w.Context(), *m.KeyId, here)
	w.must(err)
	_, err = w.client.ScheduleKeyDeletion(w.Context(), &kms.ScheduleKeyDeletionInput{KeyId: m.KeyId, PendingWindowInDays: aws.Int32(7)})
	w.must(err)
	_, err = w.Unwrap(w.Context(), *m.KeyId, wrapped, here)
	w.lost(err, fault.KeyLost, "is about to be deleted; cancel its deletion", wrapped)
	_, err = w.client.CancelKeyDeletion(w.Context(), &kms.CancelKeyDeletionInput{KeyId: m.KeyId})
	w.must(err)
	_, err = w.client.EnableKey(w.Context(), &kms.EnableKeyInput{KeyId: m.KeyId})
	w.must(err)
	_, err = w.Unwrap(w.Context(), *m.KeyId, wrapped, here)
	w.must(err)
}

func resolve(w *world) {
	named := envelope.KeyName{ID: *w.theirs.KeyId, Name: "acme/orders"}
	for ref, want := range map[string]envelope.KeyName{
		"acme/orders": named, "alias/acme/orders": named, strings.Replace(*w.theirs.Arn, "key/"+*w.theirs.KeyId, "alias/acme/orders", 1): named,
		*w.theirs.KeyId: {ID: *w.theirs.KeyId}, *w.theirs.Arn: {ID: *w.theirs.KeyId},
	} {
		if got, err := w.Resolve(w.Context(), ref); err != nil || got != want {
			w.Errorf("%s: %+v %v, want %+v", ref, got, err, want)
		}
	}
	elsewhere, err := New(Config{Client: w.client, Key: "arn:aws:kms:eu-west-1:999999999999:key/" + *w.platform.KeyId})
	w.must(err)
	if got, err := elsewhere.Resolve(w.Context(), *w.theirs.Arn); err != nil || got != (envelope.KeyName{ID: *w.theirs.Arn}) {
		w.Errorf("a key of another account: %+v %v", got, err)
	}
	_, err = w.Resolve(w.Context(), "nobody")
	w.lost(err, fault.Invalid, "does not exist")
	signing := w.key("signing", func(in *kms.CreateKeyInput) {
		in.KeyUsage, in.KeySpec = types.KeyUsageTypeSignVerify, types.KeySpecEccNistP256
	})
	_, err = w.Resolve(w.Context(), "signing")
	w.lost(err, fault.Invalid, "must be symmetric")
	_, _, err = w.Generate(w.Context(), *signing.KeyId, here)
	w.lost(err, fault.Invalid, "cannot wrap data keys")
}

func deploymentSecret(w *world) {
	made, wrapped, err := w.GenerateSecret(w.Context(), "test", "secrets")
	w.must(err)
	again, err := w.UnwrapSecret(w.Context(), wrapped, "test", "secrets")
	w.must(err)
	if !bytes.Equal(made, again) || len(made) != 32 {
		w.Error("another secret came back")
	}
	for _, c := range [][2]string{{"test", "other"}, {"other", "secrets"}} {
		_, err = w.UnwrapSecret(w.Context(), wrapped, c[0], c[1])
		w.lost(err, fault.KeyLost, "wrapped for another", made, wrapped)
	}
}

func TestConfig(t *testing.T) {
	_, err := New(Config{})
	for _, part := range []string{"Config.Client is missing", "Config.Key is missing"} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%v does not say %q", err, part)
		}
	}
	k, err := New(Config{Client: client("http://127.0.0.1:1"), Key: "alias/very-private"})
	if err != nil {
		t.Fatal(err)
	}
	if text := fmt.Sprintf("%v %+v %#v %s", k, k, k, k); strings.Contains(text, "private") {
		t.Error(text)
	}
}

func TestReference(t *testing.T) {
	for ref, want := range map[string]string{
		"orders": "alias/orders", "alias/orders": "alias/orders", "acme/orders": "alias/acme/orders",
		"0f0f0f0f-0000-4000-8000-00000000000A":                 "0f0f0f0f-0000-4000-8000-00000000000A",
		"0f0f0f0f-0000-4000-8000-00000000000g":                 "alias/0f0f0f0f-0000-4000-8000-00000000000g",
		"0f0f0f0f00000-4000-8000-00000000000a":                 "alias/0f0f0f0f00000-4000-8000-00000000000a",
		"mrk-0123456789abcdef0123456789abcdef":                 "mrk-0123456789abcdef0123456789abcdef",
		"mrk-orders":                                           "alias/mrk-orders",
		"arn:aws:kms:eu-west-1:000000000000:alias/orders":      "arn:aws:kms:eu-west-1:000000000000:alias/orders",
		"arn:aws:kms:eu-west-1:000000000000:key/0f0f0f0f-0000": "arn:aws:kms:eu-west-1:000000000000:key/0f0f0f0f-0000",
	} {
		if got := reference(ref); got != want {
			t.Errorf("%s: %s", ref, got)
		}
	}
}

// TestDeparture: a caller who has gone keeps nobody waiting, and KMS is not asked again.
func TestDeparture(t *testing.T) {
	k, err := New(Config{Client: client("http://127.0.0.1:1"), Key: "x"})
	if err != nil {
		t.Fatal(err)
	}
	ctx, leave := context.WithCancel(t.Context())
	leave()
	_, _, err = k.Generate(ctx, "", here)
	(&world{T: t}).lost(err, fault.Unavailable, "given up")
}

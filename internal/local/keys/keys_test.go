package keys

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"testing"

	"github.com/leaselog/leaselog/events"
	"github.com/leaselog/leaselog/internal/envelope"
	"github.com/leaselog/leaselog/internal/fault"
)

var testContext = envelope.Context{
	Deployment: "production",
	Queue:      events.QueueID{0x10, 0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18, 0x19, 0x1a, 0x1b, 0x1c, 0x1d, 0x1e, 0x1f},
	Version:    3,
}

// rising gives n bytes that rise from first.
func rising(first byte, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = first + byte(i)
	}
	return b
}

// testKeys has the key 0, 1, 2 … and draws what it is given.
func testKeys(t testing.TB, drawn ...byte) *Keys {
	t.Helper()
	k, err := from([keySize]byte(rising(0, keySize)))
	if err != nil {
		t.Fatal(err)
	}
	if len(drawn) > 0 {
		k.rand = bytes.NewReader(drawn)
	}
	return k
}

// The values were computed with Python's hmac and cryptography: the wrapping key is RFC 5869's
// HMAC(HMAC(bytes(32), bytes(range(32))), b"leaselog wrap 1\x01"), the result b"\x01" + nonce + AESGCM(it).encrypt(nonce,
// bytes(range(0x40, 0x60)), b"\x01" + struct.pack(">I", 10) + b"production" + queue + struct.pack(">I", 3)).
func TestWrapGolden(t *testing.T) {
	k := testKeys(t, append(rising(0x40, keySize), rising(0xa0, nonceSize)...)...)
	key, wrapped, err := k.Generate(t.Context(), "", testContext)
	if err != nil || !bytes.Equal(key, rising(0x40, keySize)) {
		t.Fatalf("made %x, %v", key, err)
	}
	const want = "01a0a1a2a3a4a5a6a7a8a9aaab" +
		"e4d9625c2bfcfb7bc59d679b8bb4e447860d41cc360bc7935ecacc1ef6d20abc74e524417fd7bdc874efe3ee0191b42d"
	if got := hex.EncodeToString(wrapped); got != want {
		t.Errorf("wrapped to %s, want %s", got, want)
	}
	if back, err := k.Unwrap(t.Context(), "", wrapped, testContext); err != nil || !bytes.Equal(back, key) {
		t.Errorf("unwrapped to %x, %v", back, err)
	}
}

// Computed in the same way with the info b"leaselog secret 1 receipts".
func TestSecretGolden(t *testing.T) {
	const want = "2c6272be1c1a8e1208ecc3cd975bb588b93750d14a54fe8a1b02decf69d63535"
	k := testKeys(t)
	if s := k.Secret("receipts"); hex.EncodeToString(s[:]) != want {
		t.Errorf("got %x, want %s", s, want)
	}
	if k.Secret("receipts") == k.Secret("receipt") {
		t.Error("two labels give one secret")
	}
}

func TestGenerateNeverRepeats(t *testing.T) {
	k := testKeys(t)
	keyA, wrappedA, errA := k.Generate(t.Context(), "", testContext)
	keyB, wrappedB, errB := k.Generate(t.Context(), "", testContext)
	if err := errors.Join(errA, errB); err != nil || bytes.Equal(keyA, keyB) || bytes.Equal(wrappedA[:13], wrappedB[:13]) {
		t.Errorf("two data keys are not told apart, %v", err)
	}
}

func TestGenerateWithoutChance(t *testing.T) {
	if key, _, err := testKeys(t, 1, 2, 3).Generate(t.Context(), "", testContext); !errors.Is(err, io.ErrUnexpectedEOF) || key != nil {
		t.Errorf("made %x, %v", key, err)
	}
}

func TestUnknownKey(t *testing.T) {
	k := testKeys(t)
	if _, _, err := k.Generate(t.Context(), "alias/x", testContext); !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "unknown key") {
		t.Errorf("Generate: %v; want Invalid", err)
	}
	if _, err := k.Unwrap(t.Context(), "alias/x", nil, testContext); !fault.Is(err, fault.Invalid) {
		t.Errorf("Unwrap: %v; want Invalid", err)
	}
}

// TestTamper changes every bit of a wrapped key, its length, and each part of its context.
func TestTamper(t *testing.T) {
	k := testKeys(t)
	_, wrapped, _ := k.Generate(t.Context(), "", testContext)
	refused := func(what string, k *Keys, wrapped []byte, c envelope.Context) {
		t.Helper()
		if key, err := k.Unwrap(t.Context(), "", wrapped, c); !fault.Is(err, fault.KeyLost) || key != nil {
			t.Errorf("%s changed: %x, %v; want KeyLost", what, key, err)
		}
	}
	for i := range 8 * len(wrapped) {
		b := bytes.Clone(wrapped)
		b[i/8] ^= 1 << (i % 8)
		refused(fmt.Sprint("bit ", i), k, b, testContext)
	}
	for i := range wrapped {
		refused(fmt.Sprint("length ", i), k, wrapped[:i], testContext)
	}
	refused("length", k, append(bytes.Clone(wrapped), 0), testContext)
	for i := range 128 {
		c := testContext
		c.Queue[i/8] ^= 1 << (i % 8)
		refused("queue", k, wrapped, c)
	}
	for i := range 32 {
		c := testContext
		c.Version ^= 1 << i
		refused("version", k, wrapped, c)
	}
	for _, d := range []string{"", "productio", "production\x10", "Production"} {
		c := testContext
		c.Deployment = d
		refused("deployment", k, wrapped, c)
	}
	other, _ := from([keySize]byte{1})
	refused("key file", other, wrapped, testContext)
}

// TestShowsNothing prints keys, alone and inside of something, in every way that logging could.
func TestShowsNothing(t *testing.T) {
	k := testKeys(t)
	holder := struct {
		Keys   *Keys
		hidden Keys
	}{k, *k}
	var out bytes.Buffer
	for _, v := range []any{k, *k, holder, &holder} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%x", "%d", "%q"} {
			fmt.Fprintf(&out, verb+"\n", v)
		}
		slog.New(slog.NewTextHandler(&out, nil)).Info("x", "keys", v)
		slog.New(slog.NewJSONHandler(&out, nil)).Info("x", "keys", v)
		b, _ := json.Marshal(v)
		out.Write(b)
	}
	wrap := k.derive(wrapPurpose)
	for _, secret := range [][]byte{rising(0, keySize), wrap[:]} {
		shown := out.String()
		for _, form := range []string{"%x", "%X", "%v", "%q", "% x", "%#v"} {
			text := strings.Trim(fmt.Sprintf(form, secret[8:16]), `[]"{}byte`)
			if strings.Contains(shown, text) {
				t.Errorf("the key is shown as %s", text)
			}
		}
	}
	if s := fmt.Sprint(k); s != "key file (not shown)" {
		t.Errorf("prints as %q", s)
	}
}

// TestWithEnvelope runs a queue's keys over two openings of one key file.
func TestWithEnvelope(t *testing.T) {
	path := t.TempDir() + "/key"
	place, ctx := envelope.Place{Stream: "q/0000/m0", Seq: 7}, context.Background()
	var ring envelope.Ring
	var sealed []byte
	for round := range 2 {
		k, err := Open(path)
		if err != nil {
			t.Fatal(err)
		}
		if round == 0 {
			ring, err = envelope.NewRing(ctx, k, "production", testContext.Queue, "", 1000)
		}
		ringed, err2 := envelope.Open(k, k.rand, "production", testContext.Queue, ring)
		if err := errors.Join(err, err2); err != nil {
			t.Fatal(err)
		}
		if round == 0 {
			sealed, err = ringed.Seal(ctx, 1000, 60, place, ringed.Current(), []byte("header"), []byte("hello"))
		}
		plain, err2 := ringed.Open(ctx, 1000, 60, place, 1, []byte("header"), sealed)
		if err := errors.Join(err, err2); err != nil || string(plain) != "hello" {
			t.Fatalf("round %d: %q, %v", round, plain, err)
		}
	}
}

// Package storetest gives tests a DynamoDB: an emulator of their own, or the one that the environment names.
package storetest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

const (
	// endpointEnv is the address of a DynamoDB that runs already, such as LocalStack's.
	endpointEnv = "LEASELOG_DYNAMODB_ENDPOINT"
	// awsEnv, set to 1, runs the tests in the account that the SDK finds. Every log of a test is three new tables there,
	// so that a run takes half an hour.
	awsEnv = "LEASELOG_AWS"
)

// DB is a DynamoDB for tests.
type DB struct{ config aws.Config }

// Start gives the DynamoDB that the environment names, or else starts the emulator dynoxide for this test.
func Start(t testing.TB) *DB {
	t.Helper()
	if os.Getenv(awsEnv) == "1" {
		c, err := config.LoadDefaultConfig(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return &DB{c}
	}
	endpoint := os.Getenv(endpointEnv)
	if endpoint == "" {
		endpoint = emulator(t)
	}
	return At(endpoint)
}

// At is a DynamoDB of this machine that runs already.
func At(endpoint string) *DB {
	return &DB{aws.Config{Region: "us-east-1", BaseEndpoint: &endpoint, Credentials: credentials.NewStaticCredentialsProvider("test", "test", "")}}
}

// Client gives a client with connections enough for many workers. wrap, if it is not nil, comes between the client and
// the network.
func (d *DB) Client(wrap func(http.RoundTripper) http.RoundTripper) *dynamodb.Client {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConnsPerHost = 128
	c := d.config.Copy()
	c.HTTPClient = &http.Client{Transport: transport}
	if wrap != nil {
		c.HTTPClient = &http.Client{Transport: wrap(transport)}
	}
	return dynamodb.NewFromConfig(c)
}

// emulator starts dynoxide on a free port of this machine, and ends it with the test.
func emulator(t testing.TB) (endpoint string) {
	t.Helper()
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(cache, "leaselog", "localstack", "bin", "dynoxide")
	if _, err := os.Stat(program); err != nil {
		t.Fatalf("the DynamoDB emulator is missing: run localstack/install.sh, or set %s to a DynamoDB that runs (%v)", endpointEnv, err)
	}
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := free.Addr().String()
	_, port, _ := net.SplitHostPort(address)
	free.Close()
	// The shell ends the emulator when this process ends, however that happens: then its standard input does, too.
	cmd := exec.Command("sh", "-c", `"$0" --host 127.0.0.1 --port "$1" --log quiet & read -r _; kill $!; wait $! 2>/dev/null`, program, port)
	cmd.Stderr = os.Stderr
	alive, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		alive.Close()
		_ = cmd.Wait() // the emulator was ended, and says so
	})
	for deadline := time.Now().Add(10 * time.Second); ; <-time.After(5 * time.Millisecond) {
		conn, err := net.Dial("tcp", address)
		if err == nil {
			conn.Close()
			return "http://" + address
		}
		if time.Now().After(deadline) {
			t.Fatalf("the DynamoDB emulator does not listen: %v", err)
		}
	}
}

// Tables are the names of a log's tables.
type Tables struct{ Log, Claims, Views string }

// Tables makes the tables of a log, which are deleted with the test. They have the keys that infra/ gives them.
func (d *DB) Tables(t testing.TB) Tables {
	t.Helper()
	prefix := "leaselog-test-" + rand.Text()[:12] + "-"
	names := Tables{prefix + "log", prefix + "claims", prefix + "views"}
	client := d.Client(nil)
	t.Cleanup(func() { // tables that cost nothing while nobody uses them, so that a failure here fails no test
		for _, name := range []string{names.Log, names.Claims, names.Views} {
			_, _ = client.DeleteTable(context.Background(), &dynamodb.DeleteTableInput{TableName: &name})
		}
	})
	errs := make([]error, 3)
	var all sync.WaitGroup
	for i, make := range []func() error{
		func() error { return create(t.Context(), client, names.Log, "s", "n", types.ScalarAttributeTypeN) },
		func() error { return create(t.Context(), client, names.Claims, "p", "k", types.ScalarAttributeTypeS) },
		func() error { return create(t.Context(), client, names.Views, "p", "k", types.ScalarAttributeTypeS) },
	} {
		all.Go(func() { errs[i] = make() })
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	return names
}

func create(ctx context.Context, client *dynamodb.Client, name, partition, sort string, sortType types.ScalarAttributeType) error {
	_, err := client.CreateTable(ctx, &dynamodb.CreateTableInput{TableName: &name, BillingMode: types.BillingModePayPerRequest,
		AttributeDefinitions: []types.AttributeDefinition{
			{AttributeName: &partition, AttributeType: types.ScalarAttributeTypeS}, {AttributeName: &sort, AttributeType: sortType}},
		KeySchema: []types.KeySchemaElement{{AttributeName: &partition, KeyType: types.KeyTypeHash}, {AttributeName: &sort, KeyType: types.KeyTypeRange}}})
	if err != nil {
		return fmt.Errorf("create table %s: %w", name, err)
	}
	exists := dynamodb.NewTableExistsWaiter(client, func(o *dynamodb.TableExistsWaiterOptions) { o.MinDelay = time.Second })
	return exists.Wait(ctx, &dynamodb.DescribeTableInput{TableName: &name}, 2*time.Minute)
}

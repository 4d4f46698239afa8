package awstest

import (
	"context"
	"io"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/kms"
)

// TestAWS does in one run what users of the package do, since it takes a while to start.
func TestAWS(t *testing.T) {
	a := New(t, Config{Containers: true, Progress: t.Output()})
	f := fixture(t, a)
	t.Run("infra", func(t *testing.T) { testInfra(t, a) })
	t.Run("restored infra", func(t *testing.T) { testRestored(t, a) })
	t.Run("templates", func(t *testing.T) { testTemplates(t, a) })
	t.Run("stream", func(t *testing.T) { testStream(t, a, f) })
	t.Run("API", func(t *testing.T) { testAPI(t, a, f) })
	t.Run("invoke", func(t *testing.T) { testInvoke(t, a, f) })
	t.Run("command", func(t *testing.T) { testCommand(t, a) })
	t.Run("reset", func(t *testing.T) { testReset(t, a) })
}

const stack = "leaselog"

// testInfra deploys infra/ and asks the services what came of it.
func testInfra(t *testing.T, a *AWS) {
	first, err := a.Infra(t.Context(), stack)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"LogTable", "LogTableArn", "ClaimsTable", "ClaimsTableArn", "ViewsTable", "ViewsTableArn",
		"StreamArn", "KeyArn", "Deployment"} {
		if first[name] == "" {
			t.Errorf("the stack has no output %s", name)
		}
	}
	if first["Deployment"] != stack {
		t.Errorf("the deployment is %q", first["Deployment"])
	}
	keys(t, a, first["LogTable"], "s:S n:N")
	keys(t, a, first["ClaimsTable"], "p:S k:S")
	keys(t, a, first["ViewsTable"], "p:S k:S")
	destination, err := database(a).DescribeKinesisStreamingDestination(t.Context(),
		&dynamodb.DescribeKinesisStreamingDestinationInput{TableName: aws.String(first["LogTable"])})
	if err != nil {
		t.Fatal(err)
	}
	if d := destination.KinesisDataStreamDestinations; len(d) != 1 || *d[0].StreamArn != first["StreamArn"] ||
		d[0].DestinationStatus != types.DestinationStatusActive {
		t.Errorf("the log's changes go to %+v, want %s, active", d, first["StreamArn"])
	}
	if arn := alias(t, a, stack); arn != first["KeyArn"] {
		t.Errorf("the alias is %s, want %s", arn, first["KeyArn"])
	}
	again, err := a.Infra(t.Context(), stack)
	if err != nil {
		t.Fatal(err)
	}
	if !maps.Equal(first, again) {
		t.Errorf("deployed again, the stack is %v, want %v", again, first)
	}
}

// alias gives the key that a stack's alias leads to.
func alias(t *testing.T, a *AWS, stack string) string {
	t.Helper()
	client := kms.New(kms.Options{BaseEndpoint: &a.Endpoint, Region: Region, Credentials: credentials{}})
	key, err := client.DescribeKey(t.Context(), &kms.DescribeKeyInput{KeyId: aws.String("alias/" + stack)})
	if err != nil {
		t.Fatal(err)
	}
	return *key.KeyMetadata.Arn
}

// testRestored deploys infra/ around tables that are there already, for which nothing may be made.
func testRestored(t *testing.T, a *AWS) {
	key := alias(t, a, stack)
	const restored = "restored"
	out, err := a.Infra(t.Context(), restored, "Deployment="+stack, "RestoredKey="+key)
	if err != nil {
		t.Fatal(err)
	}
	if out["Deployment"] != stack || out["KeyArn"] != key || out["LogTable"] != restored+"-log" || out["StreamArn"] == "" {
		t.Errorf("the outputs are %v", out)
	}
	if got := alias(t, a, restored); got != key {
		t.Errorf("the alias leads to %s, want the old key %s", got, key)
	}
	tables, err := database(a).ListTables(t.Context(), &dynamodb.ListTablesInput{})
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{stack + "-claims", stack + "-log", stack + "-views"}; !slices.Equal(slices.Sorted(slices.Values(tables.TableNames)), want) {
		t.Errorf("the tables are %v, want %v", tables.TableNames, want)
	}
}

// testTemplates lets SAM CLI and cfn-lint judge every template that is deployed.
func testTemplates(t *testing.T, a *AWS) {
	list, err := exec.Command("git", "-C", a.root, "ls-files", "template.yaml", "*/template.yaml", ":!*/testdata/*").Output()
	if err != nil {
		t.Fatal(err)
	}
	templates := strings.Fields(string(list))
	if !slices.Contains(templates, "infra/template.yaml") {
		t.Errorf("git knows the templates %q only", templates)
	}
	for _, name := range templates {
		cmd, err := a.sam(t.Context(), "validate", "--lint", "--template", filepath.Join(a.root, name))
		if err != nil {
			t.Fatal(err)
		}
		if out, err := output(cmd, (*exec.Cmd).Start); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
	}
}

// keys checks a table's keys, in order, and what else the store rests on.
func keys(t *testing.T, a *AWS, table, want string) {
	t.Helper()
	db := database(a)
	out, err := db.DescribeTable(t.Context(), &dynamodb.DescribeTableInput{TableName: &table})
	if err != nil {
		t.Fatal(err)
	}
	kinds := map[string]types.ScalarAttributeType{}
	for _, d := range out.Table.AttributeDefinitions {
		kinds[*d.AttributeName] = d.AttributeType
	}
	var got []string
	for _, k := range out.Table.KeySchema {
		got = append(got, *k.AttributeName+":"+string(kinds[*k.AttributeName]))
	}
	if strings.Join(got, " ") != want {
		t.Errorf("the keys of %s are %q, want %q", table, got, want)
	}
	if b := out.Table.BillingModeSummary; b == nil || b.BillingMode != types.BillingModePayPerRequest {
		t.Errorf("%s is not paid by request", table)
	}
	ttl, err := db.DescribeTimeToLive(t.Context(), &dynamodb.DescribeTimeToLiveInput{TableName: &table})
	if err != nil {
		t.Fatal(err)
	}
	if d := ttl.TimeToLiveDescription; d.TimeToLiveStatus != types.TimeToLiveStatusEnabled || *d.AttributeName != "x" {
		t.Errorf("items of %s expire by %+v, want x", table, d)
	}
}

// testStream deploys a function that the log's changes wake, and waits for what it writes.
func testStream(t *testing.T, a *AWS, f Functions) {
	if err := a.Deploy(t.Context(), "probe", filepath.Join(f.Dir, "stream.yaml"), "Infra="+stack, "Architecture="+f.Parameters["Architecture"]); err != nil {
		t.Fatal(err)
	}
	db := database(a)
	if _, err := db.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: aws.String(stack + "-log"), Item: map[string]types.AttributeValue{
		"s": &types.AttributeValueMemberS{Value: "a"}, "n": &types.AttributeValueMemberN{Value: "0"}}}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), startTimeout)
	defer cancel()
	for {
		out, err := db.Query(ctx, &dynamodb.QueryInput{TableName: aws.String(stack + "-views"), KeyConditionExpression: aws.String("p = :p"),
			ExpressionAttributeValues: map[string]types.AttributeValue{":p": &types.AttributeValueMemberS{Value: "probe"}}})
		if err != nil {
			t.Fatalf("no record reached the function: %v", err)
		}
		if len(out.Items) == 1 {
			return
		}
		select {
		case <-ctx.Done():
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// testAPI calls a function by its route, in a container.
func testAPI(t *testing.T, a *AWS, f Functions) {
	url, p, err := a.StartAPI(t.Context(), f)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second time the container is there
		res, err := http.Get(url + "/probe")
		if err != nil {
			t.Fatalf("%v\n%s", err, p.Output())
		}
		body, err := io.ReadAll(res.Body)
		res.Body.Close()
		if err != nil || res.StatusCode != http.StatusOK || string(body) != "/probe" {
			t.Fatalf("the function answers %d %q, %v: it should reach LocalStack\n%s", res.StatusCode, body, err, p.Output())
		}
	}
	if err := p.Stop(); err != nil {
		t.Error(err)
	}
}

func testInvoke(t *testing.T, a *AWS, f Functions) {
	event := filepath.Join(f.Dir, "event.json")
	for text, want := range map[string]string{`{"rawPath":"/x"}`: `"statusCode":200`, `{"fail":"on purpose"}`: "on purpose"} {
		if err := os.WriteFile(event, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		answer, err := a.Invoke(t.Context(), f, "Probe", event)
		if fails := strings.Contains(text, "fail"); fails != (err != nil) {
			t.Errorf("%s gives %v", text, err)
		} else if fails {
			answer = []byte(err.Error())
		}
		if !strings.Contains(strings.ReplaceAll(string(answer), " ", ""), strings.ReplaceAll(want, " ", "")) {
			t.Errorf("%s is answered with %s, want %s", text, answer, want)
		}
	}
}

// testCommand holds that LocalStack has one URL for programs here and for those beside it.
func testCommand(t *testing.T, a *AWS) {
	for name, start := range map[string]func(*exec.Cmd) error{"here": (*exec.Cmd).Start, "beside LocalStack": a.Begin} {
		cmd := exec.Command("curl", "-fsS", a.Endpoint+"/_localstack/health")
		if out, err := output(cmd, start); err != nil || !strings.Contains(out, "dynamodb") {
			t.Errorf("%s: %q, %v", name, out, err)
		}
	}
}

func testReset(t *testing.T, a *AWS) {
	if err := a.Reset(t.Context()); err != nil {
		t.Fatal(err)
	}
	out, err := database(a).ListTables(t.Context(), &dynamodb.ListTablesInput{})
	if err != nil {
		t.Fatal(err)
	}
	if len(out.TableNames) > 0 {
		t.Errorf("after a reset there are tables: %v", out.TableNames)
	}
}

// fixture builds the function of testdata.
func fixture(t *testing.T, a *AWS) Functions {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS("testdata")); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("go", "build", "-ldflags", "-s -w", "-o", filepath.Join(dir, "probe", "bootstrap"), "./testdata/probe")
	cmd.Env = append(slices.Clone(os.Environ()), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	architecture := map[string]string{"amd64": "x86_64"}[runtime.GOARCH]
	if architecture == "" {
		architecture = runtime.GOARCH
	}
	return Functions{Dir: dir, Parameters: map[string]string{"Architecture": architecture}}
}

func database(a *AWS) *dynamodb.Client {
	return dynamodb.New(dynamodb.Options{BaseEndpoint: &a.Endpoint, Region: Region, Credentials: credentials{}})
}

// credentials are any: LocalStack looks at their form only.
type credentials struct{}

func (credentials) Retrieve(context.Context) (aws.Credentials, error) {
	return aws.Credentials{AccessKeyID: "test", SecretAccessKey: "test", Expires: time.Now().Add(time.Hour)}, nil
}

package host

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	lambdaevents "github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-lambda-go/lambdacontext"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/kms"

	leaselog "github.com/leaselog/leaselog/events"
	"github.com/leaselog/leaselog/internal/api"
	"github.com/leaselog/leaselog/internal/auth"
	"github.com/leaselog/leaselog/internal/aws/awstest"
	"github.com/leaselog/leaselog/internal/sweep"
)

const functionsDir = "../../../functions/"

// cloud is AWS on this machine with a deployment in it, and a proxy before it that notes what is called.
type cloud struct {
	testing.TB
	env      map[string]string
	endpoint string
	config   aws.Config

	shift atomic.Int64 // nanoseconds by which functions and AWS live in the future

	mu    sync.Mutex
	calls []awsCall
}

// later dates an answer as AWS would at that time.
func (c *cloud) later(r *http.Response) error {
	date, err := http.ParseTime(r.Header.Get("Date"))
	if err == nil {
		r.Header.Set("Date", date.Add(time.Duration(c.shift.Load())).UTC().Format(http.TimeFormat))
	}
	return err
}

func (c *cloud) now() leaselog.Instant {
	return leaselog.Instant(time.Now().Add(time.Duration(c.shift.Load())).UnixMilli())
}

// awsCall is one thing that IAM would be asked about.
type awsCall struct {
	action, resource string            // such as dynamodb:PutItem, and the table's or the key's name
	context          map[string]string // of KMS
}

// newCloud starts everything. Tables and key are made here as infra/ makes them.
func newCloud(t testing.TB) *cloud {
	t.Helper()
	c := &cloud{TB: t}
	direct := awstest.New(t, awstest.Config{}).Endpoint
	target, err := url.Parse(direct)
	c.must(err)
	pass := httputil.NewSingleHostReverseProxy(target)
	pass.ModifyResponse = c.later
	proxy := httptest.NewServer(c.noting(pass))
	t.Cleanup(proxy.Close)
	c.endpoint = proxy.URL
	c.config = aws.Config{Region: "eu-west-1", BaseEndpoint: &direct, Credentials: credentials.NewStaticCredentialsProvider("test", "test", "")}
	c.env = map[string]string{"AWS_REGION": "eu-west-1", "AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_ENDPOINT_URL": c.endpoint,
		envDeployment: "test", envLog: "test-log", envClaims: "test-claims", envViews: "test-views", envLogLevel: "DEBUG"}
	key, err := kms.NewFromConfig(c.config).CreateKey(t.Context(), &kms.CreateKeyInput{})
	c.must(err)
	c.env[envKey] = *key.KeyMetadata.Arn
	for name, of := range map[string][2]string{"test-log": {"s", "n"}, "test-claims": {"p", "k"}, "test-views": {"p", "k"}} {
		sort := types.ScalarAttributeTypeS
		if of[1] == "n" {
			sort = types.ScalarAttributeTypeN
		}
		_, err := dynamodb.NewFromConfig(c.config).CreateTable(t.Context(), &dynamodb.CreateTableInput{TableName: &name, BillingMode: types.BillingModePayPerRequest,
			AttributeDefinitions: []types.AttributeDefinition{{AttributeName: &of[0], AttributeType: types.ScalarAttributeTypeS}, {AttributeName: &of[1], AttributeType: sort}},
			KeySchema:            []types.KeySchemaElement{{AttributeName: &of[0], KeyType: types.KeyTypeHash}, {AttributeName: &of[1], KeyType: types.KeyTypeRange}}})
		c.must(err)
	}
	return c
}

func (c *cloud) must(err error) {
	c.Helper()
	if err != nil {
		c.Fatal(err)
	}
}

// noting passes calls on and keeps what they are.
func (c *cloud) noting(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		calls, err := awsCalls(r.Header.Get("X-Amz-Target"), body)
		if err != nil {
			c.Errorf("%s %s: %v", r.Header.Get("X-Amz-Target"), body, err)
		}
		c.mu.Lock()
		c.calls = append(c.calls, calls...)
		c.mu.Unlock()
		next.ServeHTTP(w, r)
	})
}

// awsCalls reads a call of DynamoDB or KMS. A transaction is judged by what is in it.
func awsCalls(target string, body []byte) (all []awsCall, err error) {
	service, operation, _ := strings.Cut(target, ".")
	switch service {
	case "DynamoDB_20120810":
		var in struct {
			TableName     string
			TransactItems []map[string]struct{ TableName string }
		}
		err = json.Unmarshal(body, &in)
		if operation != "TransactWriteItems" {
			return []awsCall{{action: "dynamodb:" + operation, resource: in.TableName}}, err
		}
		for _, item := range in.TransactItems {
			for kind, of := range item { // Put, Update, Delete, ConditionCheck
				all = append(all, awsCall{action: "dynamodb:" + kind + "Item", resource: of.TableName})
			}
		}
		return all, err
	case "TrentService":
		var in struct {
			KeyID   string            `json:"KeyId"`
			Context map[string]string `json:"EncryptionContext"`
		}
		err = json.Unmarshal(body, &in)
		return []awsCall{{"kms:" + operation, in.KeyID, in.Context}}, err
	}
	return nil, fmt.Errorf("a call to another service: %q", target)
}

// taken gives what was called since the last time.
func (c *cloud) taken() []awsCall {
	c.mu.Lock()
	defer c.mu.Unlock()
	calls := c.calls
	c.calls = nil
	return calls
}

func (c *cloud) getenv(name string) string { return c.env[name] }

// deployment opens the deployment as a server does.
func (c *cloud) deployment() *Deployment {
	c.Helper()
	config, err := FromEnvironment(c.getenv)
	c.must(err)
	config.Now = c.now
	d, err := Open(c.Context(), config)
	c.must(err)
	c.Cleanup(d.Close)
	return d
}

// key makes an access key as an operator does.
func (c *cloud) key(kind auth.Kind) auth.Issued {
	c.Helper()
	k, err := c.deployment().Directory.CreateKey(c.Context(), auth.NewKey{Kind: kind})
	c.must(err)
	return k
}

// event reads a function's event, with words in it replaced.
func (c *cloud) event(name string, replace ...string) (e lambdaevents.APIGatewayV2HTTPRequest) {
	c.Helper()
	text, err := os.ReadFile(functionsDir + name + "/event.json")
	c.must(err)
	c.must(json.Unmarshal([]byte(strings.NewReplacer(replace...).Replace(string(text))), &e))
	return e
}

// process is one process of a function: its first invocation is a cold one.
type process struct {
	*cloud
	invoke invocation
	out    bytes.Buffer
}

func (c *cloud) process(e api.Endpoint, edit ...map[string]string) *process {
	p := &process{cloud: c}
	env := maps.Clone(c.env)
	for _, e := range edit {
		maps.Copy(env, e)
	}
	p.invoke = c.function(e.Name, env, &p.out).serving(e)
	return p
}

// function makes a process that ends with the test.
func (c *cloud) function(name string, env map[string]string, out io.Writer) *function {
	f := newFunction(name, func(name string) string { return env[name] }, out)
	f.now = c.now
	c.Cleanup(func() {
		if f.deployment != nil {
			f.deployment.Close()
		}
	})
	return f
}

// tick does a chore in a process of its own.
func (c *cloud) tick(chore sweep.Chore) {
	c.Helper()
	c.must(c.function(chore.Name, c.env, io.Discard).ticking(chore)(c.Context(), json.RawMessage(`{}`)))
}

// ask invokes with the time that a function has.
func (p *process) ask(e event) response { return p.askWithin(26*time.Second, e) }

func (p *process) askWithin(timeout time.Duration, e event) response {
	ctx, cancel := context.WithTimeout(p.Context(), timeout)
	defer cancel()
	ctx = lambdacontext.NewContext(ctx, &lambdacontext.LambdaContext{AwsRequestID: "lambda-" + e.RequestContext.RequestID})
	ctx = context.WithValue(ctx, traceKey, e.Headers["x-amzn-trace-id"])
	answer, err := p.invoke(ctx, e)
	p.must(err)
	return answer
}

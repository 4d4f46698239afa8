package accept

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/leaselog/leaselog/internal/api/rest"
	"github.com/leaselog/leaselog/internal/aws/awstest"
)

// cloud is a deployment of infra/ in an AWS on this machine, with a key of its own.
type cloud struct {
	*awstest.AWS
	bin   string
	stack string
	key   []string // what the command that made the access key says to export
}

const cloudTimeout = 15 * time.Minute

// TestCloud runs the system as it runs in an account: infra/ deployed by CloudFormation, every function built from
// template.yaml in a container of its own behind the HTTP API, and servers beside them on the same tables.
func TestCloud(t *testing.T) {
	clients := map[string]client{"python": python(t), "rust": rust(t)}
	ctx, cancel := context.WithTimeout(t.Context(), cloudTimeout)
	defer cancel()
	c := &cloud{AWS: awstest.New(t, awstest.Config{Containers: true, Progress: progress{t}}), bin: build(t), stack: "accept"}
	infra, err := c.Infra(ctx, c.stack)
	if err != nil {
		t.Fatal(err)
	}
	c.key = createKey(t, c.bin, c.Env(), c.flags()...)
	f := awstest.Functions{Dir: filepath.Join(t.TempDir(), "dist"), Parameters: map[string]string{"InfraStack": c.stack,
		"Architecture": map[string]string{"amd64": "x86_64", "arm64": "arm64"}[runtime.GOARCH]},
		Env: map[string]string{ // what SAM does not import from another stack
			"LEASELOG_LOG_TABLE": infra["LogTable"], "LEASELOG_CLAIMS_TABLE": infra["ClaimsTable"], "LEASELOG_VIEWS_TABLE": infra["ViewsTable"],
			"LEASELOG_KMS_KEY": infra["KeyArn"], "LEASELOG_DEPLOYMENT": infra["Deployment"]}}
	if err := c.Build(ctx, f.Dir); err != nil {
		t.Fatal(err)
	}
	t.Run("each function by its event", func(t *testing.T) { c.events(ctx, t, f) })
	t.Run("functions behind the HTTP API", func(t *testing.T) { c.functions(ctx, t, f, clients) })
	t.Run("two servers on the same tables", func(t *testing.T) { c.servers(t, clients) })
}

// flags name the deployment for the program's commands.
func (c *cloud) flags() []string {
	return []string{"--store", "dynamodb", "--stack", c.stack}
}

// functions lets the clients judge what API Gateway and Lambda make of the functions.
func (c *cloud) functions(ctx context.Context, t *testing.T, f awstest.Functions, clients map[string]client) {
	url, api, err := c.StartAPI(ctx, f)
	if err != nil {
		t.Fatal(err)
	}
	warm(t, url)
	c.judge(t, url, clients)
	if err := api.Stop(); err != nil {
		t.Error(err)
	}
	if t.Failed() {
		t.Logf("the gateway printed at the end:\n%s", api.Output())
	}
}

// warm has every function called once, by a stranger: the clients would take a container's start for slowness.
func warm(t *testing.T, url string) {
	var all sync.WaitGroup
	for _, e := range rest.Endpoints() {
		all.Go(func() {
			r, err := http.NewRequestWithContext(t.Context(), e.Method, url+strings.ReplaceAll(e.Path, "{queue_id}", "warm"), nil)
			if err != nil {
				t.Error(err)
				return
			}
			a, err := http.DefaultClient.Do(r)
			if err != nil {
				t.Error(err)
				return
			}
			a.Body.Close()
			if a.StatusCode/100 != 4 {
				t.Errorf("%s without credentials: %s", e.Name, a.Status)
			}
		})
	}
	all.Wait()
}

// servers lets the clients judge two servers that know nothing of each other: every request goes to the other one than
// the request before.
func (c *cloud) servers(t *testing.T, clients map[string]client) {
	var all []*server
	var turn atomic.Uint64
	for range 2 {
		all = append(all, start(t, c.bin, c.Env(), c.flags()...))
	}
	proxy := httptest.NewServer(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		to, err := url.Parse(all[turn.Add(1)%2].url)
		if err != nil {
			panic(err)
		}
		r.Out.URL.Scheme, r.Out.URL.Host = to.Scheme, to.Host
	}})
	defer proxy.Close()
	c.judge(t, proxy.URL, clients)
	for _, s := range all {
		s.ends(t)
	}
}

func (c *cloud) judge(t *testing.T, url string, clients map[string]client) {
	t.Run("clients", func(t *testing.T) { // waits for them
		for name, p := range clients {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				p.run(t, url, awstest.Region, nil, c.key...)
			})
		}
	})
}

// events invokes every function once, in the order of a queue's life, with the event that lies beside it. Words in
// capitals there stand for what only a deployment has.
func (c *cloud) events(ctx context.Context, t *testing.T, f awstest.Functions) {
	credentials := map[string]string{}
	for _, v := range c.key {
		name, value, _ := strings.Cut(v, "=")
		credentials[name] = value
	}
	pair := credentials["BASALTIC_ACCESS_KEY_ID"] + ":" + credentials["BASALTIC_SECRET_ACCESS_KEY"]
	words := map[string]string{"ACCESS_KEY_ID_COLON_SECRET_IN_BASE64": base64.StdEncoding.EncodeToString([]byte(pair))}
	seen := map[string]bool{}
	invoke := func(name string, status int) (answer map[string]any) {
		t.Helper()
		seen[name] = true
		began := time.Now()
		out, err := c.Invoke(ctx, f, resource(name), c.event(t, name, words))
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%-32s %v", name, time.Since(began).Round(time.Millisecond))
		if status == 0 {
			return nil
		}
		var a struct {
			StatusCode int
			Body       string
		}
		if err := json.Unmarshal(out, &a); err != nil || a.StatusCode != status {
			t.Fatalf("%s answered %s, want status %d (%v)", name, out, status, err)
		}
		if a.Body != "" {
			if err := json.Unmarshal([]byte(a.Body), &answer); err != nil {
				t.Fatalf("%s: %q: %v", name, a.Body, err)
			}
		}
		return answer
	}
	words["TOKEN"] = invoke("create-token", 200)["access_token"].(string)
	words["TOKEN_TO_REVOKE"] = invoke("create-token", 200)["access_token"].(string)
	invoke("revoke-token", 204)
	invoke("create-queue", 201)
	invoke("list-queues", 200)
	invoke("describe-queue", 200)
	invoke("update-queue", 200)
	words["MESSAGE_ID"] = invoke("send-message", 200)["result"].(map[string]any)["message_id"].(string)
	invoke("send-message-batch", 200)
	invoke("peek-messages", 200)
	invoke("list-history", 200)
	words["MOVE_ID"] = invoke("start-move", 201)["move"].(map[string]any)["id"].(string)
	invoke("list-moves", 200)
	invoke("describe-move", 200)
	invoke("cancel-move", 200)
	invoke("describe-depth", 200)
	invoke("list-depths", 200)
	messages := invoke("receive-messages", 200)["messages"].([]any)
	for i := range 4 {
		words[fmt.Sprintf("RECEIPT_HANDLE_%d", i+1)] = messages[min(i, len(messages)-1)].(map[string]any)["receipt_handle"].(string)
	}
	invoke("change-message-visibility", 204)
	invoke("change-message-visibility-batch", 200)
	invoke("delete-message", 204)
	invoke("delete-message-batch", 200)
	invoke("purge-queue", 200)
	invoke("delete-queue", 204)
	for _, name := range []string{"exhausted", "unfinished", "expired", "keys", "snapshots", "anchors", "views", "moves"} {
		invoke("sweep-"+name, 0)
	}
	for _, name := range []string{"project-depth", "project-traffic", "project-redrive", "project-snapshots"} {
		invoke(name, 0)
	}
	invoke("report-queues", 0)
	folders, err := os.ReadDir("../functions")
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range folders {
		if !seen[d.Name()] {
			t.Errorf("functions/%s was not invoked", d.Name())
		}
	}
}

// event writes a function's event with its words replaced, longer ones first.
func (c *cloud) event(t *testing.T, name string, words map[string]string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("../functions", name, "event.json"))
	if err != nil {
		t.Fatal(err)
	}
	out := string(text)
	longest := func(a, b string) int { return len(b) - len(a) } // first: a word may begin another
	for _, word := range slices.SortedFunc(maps.Keys(words), longest) {
		out = strings.ReplaceAll(out, word, words[word])
	}
	file := filepath.Join(t.TempDir(), "event.json")
	if err := os.WriteFile(file, []byte(out), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// resource is a function's name in template.yaml.
func resource(folder string) string {
	var name strings.Builder
	for part := range strings.SplitSeq(folder, "-") {
		name.WriteString(strings.ToUpper(part[:1]) + part[1:])
	}
	return name.String()
}

// progress shows what is installed and started.
type progress struct{ t *testing.T }

func (p progress) Write(line []byte) (int, error) {
	p.t.Logf("%s", strings.TrimSpace(string(line)))
	return len(line), nil
}

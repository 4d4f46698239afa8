package host

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/leaselog/leaselog/internal/auth"
)

// binaryBytesMax is what a function may weigh: it is fetched and mapped in every cold start.
const binaryBytesMax = 12_000_000

// binaries builds every function as it is deployed, holds each to its size, and lets one begin as Lambda does.
func binaries(c *cloud, t *testing.T) {
	dist := t.TempDir()
	if out, err := exec.Command("../../../scripts/functions.sh", runtime.GOARCH, dist).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	sizes := map[string]int64{}
	for name := range readFunctions(t) {
		info, err := os.Stat(filepath.Join(dist, name, "bootstrap"))
		if err != nil {
			t.Fatal(err)
		}
		if sizes[name] = info.Size(); info.Size() >= binaryBytesMax {
			t.Errorf("%s has %d bytes, %d are too many: look what it imports", name, info.Size(), binaryBytesMax)
		}
	}
	t.Logf("the largest function has %d bytes, the smallest %d", slices.Max(slices.Collect(maps.Values(sizes))), slices.Min(slices.Collect(maps.Values(sizes))))
	pair := c.key(auth.Pair)
	s := c.story("binaries")
	for _, name := range []string{"send-message", "receive-messages", "create-token"} {
		l := s.begin(filepath.Join(dist, name, "bootstrap"), s.event(name, "TOKEN", s.token, "orders", "binaries",
			"ACCESS_KEY_ID_COLON_SECRET_IN_BASE64", base64.StdEncoding.EncodeToString([]byte(pair.ID+":"+pair.Secret))))
		t.Logf("%s: ready %v after exec, the first answer after %v, the second %v later", name, l.ready.Round(time.Millisecond), l.first.Round(time.Millisecond), l.second.Round(time.Millisecond))
		if l.answer.StatusCode != 200 {
			t.Errorf("%s: %d %s", name, l.answer.StatusCode, l.answer.Body)
		}
	}
}

// life is how a process of a function did.
type life struct {
	ready, first, second time.Duration
	answer               response // the first
}

// begin runs a binary as Lambda does, by its runtime API (https://docs.aws.amazon.com/lambda/latest/dg/runtimes-api.html),
// for two invocations.
func (c *cloud) begin(binary string, e event) (l life) {
	c.Helper()
	text, err := json.Marshal(e)
	c.must(err)
	began, asked, answers := time.Now(), 0, make(chan []byte)
	var last time.Time
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		switch {
		case strings.HasSuffix(r.URL.Path, "/invocation/next"):
			if asked++; asked > 2 {
				<-r.Context().Done() // frozen
				return
			}
			if last = time.Now(); asked == 1 {
				l.ready = time.Since(began)
			}
			w.Header().Set("Lambda-Runtime-Aws-Request-Id", fmt.Sprint("invocation-", asked))
			w.Header().Set("Lambda-Runtime-Deadline-Ms", fmt.Sprint(time.Now().Add(26*time.Second).UnixMilli()))
			w.Write(text)
		default: // the answer, or an error
			switch l.second = time.Since(last); asked {
			case 1:
				l.first = time.Since(began)
			}
			w.WriteHeader(http.StatusAccepted)
			answers <- body
		}
	}))
	defer api.Close()
	cmd := exec.Command(binary)
	cmd.Env = []string{"AWS_LAMBDA_RUNTIME_API=" + strings.TrimPrefix(api.URL, "http://")}
	for name, value := range c.env {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	cmd.Stderr = os.Stderr
	c.must(cmd.Start())
	defer cmd.Wait()
	defer cmd.Process.Kill()
	for i := range 2 {
		select {
		case body := <-answers:
			if i == 0 {
				c.must(json.Unmarshal(body, &l.answer))
			}
		case <-time.After(30 * time.Second):
			c.Fatalf("%s did not answer", binary)
		}
	}
	return l
}

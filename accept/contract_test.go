package accept

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

const (
	fuzzSeconds  = 60 // what the fuzzing may take, beside the fixed cases that come first
	fuzzExamples = 60 // an operation, before what is left of the time goes to sequences of operations
	fuzzTimeout  = 4 * time.Minute
)

// TestContractFuzzed lets schemathesis send what the served contract allows, and what it forbids, to the real program:
// every answer must fit the contract, nothing that breaks it may be taken, and nothing may be answered with a 5xx.
//
// Credentials are real, so requests without them and with wrong ones must be refused. Left out: that what fits is always
// taken, since no schema can say what a FIFO queue demands.
func TestContractFuzzed(t *testing.T) {
	python := virtualenv(t, "requirements-schemathesis.txt")
	bin := build(t)
	t.Parallel()
	data := t.TempDir()
	token, ok := strings.CutPrefix(createKey(t, bin, nil, "--data", data, "--token")[0], "BASALTIC_ACCESS_TOKEN=")
	if !ok {
		t.Fatal("the key is no bearer token")
	}
	s := start(t, bin, nil, "--data", data)
	queues, receipts := furnish(t, s.url, token)
	ctx, cancel := context.WithTimeout(t.Context(), fuzzTimeout)
	defer cancel()
	here, err := filepath.Abs(".")
	if err != nil {
		t.Fatal(err)
	}
	if python, err = filepath.Abs(python); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(ctx, python, "-m", "schemathesis.cli", "run", s.url+"/v1/openapi.json", "--no-color",
		"--header", "Authorization: Bearer "+token,
		"--exclude-checks", "positive_data_acceptance",
		"--phases", "examples,coverage,fuzzing,stateful", "--max-examples", fmt.Sprint(fuzzExamples), "--max-time", fmt.Sprint(fuzzSeconds),
		"--continue-on-failure", "--generation-database", "none", "--request-timeout", "20", "--suppress-health-check", "all", "--warnings", "off")
	cmd.Dir = t.TempDir() // it keeps notes where it runs
	cmd.Env = append(without("SCHEMATHESIS_"), "SCHEMATHESIS_HOOKS=contract_hooks", "PYTHONPATH="+here, "PYTHONDONTWRITEBYTECODE=1",
		"NO_PROXY=127.0.0.1", "CONTRACT_QUEUES="+strings.Join(queues, " "), "CONTRACT_RECEIPTS="+strings.Join(receipts, " "))
	out, err := cmd.CombinedOutput()
	generated := regexp.MustCompile(`(\d{3,}) generated`).FindSubmatch(out)
	if err != nil || generated == nil {
		t.Errorf("schemathesis: %v\n%s\nthe server printed:\n%s", err, out, s.log())
	} else {
		t.Logf("%s cases", generated[1])
	}
	t.Run("the server stops when told", s.stop)
}

// furnish makes a queue of each kind and leases messages of them, so that there is something to be named.
func furnish(t *testing.T, url, token string) (queues, receipts []string) {
	t.Helper()
	for _, name := range []string{"orders", "orders.fifo"} {
		post(t, token, url+"/v1/queues", fmt.Sprintf(`{"name":%q,"content_based_deduplication":%t}`, name, strings.HasSuffix(name, ".fifo")))
	}
	for i := range 40 {
		post(t, token, url+"/v1/queues/orders/messages", fmt.Sprintf(`{"body":"%d"}`, i))
	}
	for range 3 {
		var got struct {
			Messages []struct {
				Receipt string `json:"receipt_handle"`
			}
		}
		if err := json.Unmarshal(post(t, token, url+"/v1/queues/orders/messages/receive", `{"max_messages":10,"visibility_timeout_seconds":600}`), &got); err != nil {
			t.Fatal(err)
		}
		for _, m := range got.Messages {
			receipts = append(receipts, m.Receipt)
		}
	}
	return []string{"orders", "orders.fifo", "crn:queue:local:local:queue/orders"}, receipts
}

func post(t *testing.T, token, url, body string) []byte {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, bytes.NewReader([]byte(body)))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+token)
	a, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Body.Close()
	text, err := io.ReadAll(a.Body)
	if err != nil || a.StatusCode >= 300 {
		t.Fatalf("%s %s: %d %s %v", url, body, a.StatusCode, text, err)
	}
	return text
}

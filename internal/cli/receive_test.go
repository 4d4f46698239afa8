package cli

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
)

// A server that gives the first message and is away when it is acked was there: it is waited for.
func TestFollowLosesFirstAck(t *testing.T) {
	var receives atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/delete-batch") {
			panic(http.ErrAbortHandler)
		}
		n := receives.Add(1)
		if n == 1 {
			fmt.Fprint(w, `{"messages":[{"id":"1","receipt_handle":"r","body":"first"}]}`)
			return
		}
		if n == 3 {
			_ = syscall.Kill(os.Getpid(), syscall.SIGINT) // Ctrl-C
		}
		fmt.Fprint(w, `{"messages":[]}`)
	}))
	defer s.Close()
	t.Setenv("BASALTIC_ACCESS_TOKEN", "dev")
	var out, notes bytes.Buffer
	p := Program{Version: "test", Stdin: strings.NewReader(""), Stdout: &out, Stderr: &notes}
	exit := p.Run(t.Context(), []string{"receive", "orders", "--follow", "--ack", "--json", "--attempts", "1", "--endpoint", s.URL})
	if exit != 0 || !strings.Contains(out.String(), `"body":"first"`) {
		t.Errorf("exit status %d, %q", exit, out.String())
	}
	for _, want := range []string{"perhaps not acked", "; trying again until Ctrl-C", "the server answers again"} {
		if !strings.Contains(notes.String(), want) {
			t.Errorf("%q does not say %q", notes.String(), want)
		}
	}
}

package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"strings"

	"github.com/spf13/cobra"

	"github.com/leaselog/leaselog/internal/client"
	"github.com/leaselog/leaselog/internal/fault"
)

// Exit statuses, which scripts rely on: they are never given another meaning.
const (
	exitDone        = 0
	exitFailed      = 1
	exitUsage       = 2
	exitNothing     = 3
	exitNotFound    = 4
	exitNotAllowed  = 5
	exitConflict    = 6
	exitUnreachable = 7
)

func exitCodesTopic() *cobra.Command {
	return &cobra.Command{
		Use:   "exit-codes",
		Short: "The exit statuses that scripts can rely on",
		Long: `The exit statuses that scripts can rely on:

  0  done
  1  failed: a part of a batch was refused, a store is damaged, doctor found a fault, or anything not named below
  2  used wrongly: an unknown flag, a bad value, a request that the server finds invalid
  3  nothing was received
  4  not found: no such queue, access key, account or data directory
  5  not allowed: the credentials are not taken, or may not do this
  6  conflict: the queue or account exists already or is not empty, a receipt's lease has ended, a key cannot be used now
  7  unreachable: no server answers, or it says that it cannot now; what was asked for may have been done`,
	}
}

// usageError is a mistake in the command line.
type usageError struct {
	error
	command string // "" where no help would say more
}

func usage(format string, args ...any) error { return usageError{error: fmt.Errorf(format, args...)} }

// partly says that some of the work failed; what, was already said.
type partly struct{ error }

// errNothing says that a receive has ended without a message.
var errNothing = errors.New("nothing was received")

// flagError adds the way out to what is mistaken for a flag most often.
func flagError(c *cobra.Command, err error) error {
	if strings.HasPrefix(err.Error(), "unknown") {
		return fmt.Errorf("%w; put -- before arguments that begin with -", err)
	}
	return err
}

// failure is an error as it is shown.
type failure struct {
	exit          int
	text, next    string // what is wrong, and what to do
	code, request string // the server's
	status        int
}

// report shows an error and gives the exit status.
func (p Program) report(err error) int {
	if err == nil {
		return exitDone
	}
	f := p.explain(err)
	if p.options.json {
		p.errorJSON(f)
		return f.exit
	}
	fmt.Fprintln(p.Stderr, p.paint(p.Stderr, red, "leaselog:")+" "+f.text)
	if f.next != "" {
		fmt.Fprintln(p.Stderr, "  "+f.next)
	}
	return f.exit
}

func (p Program) errorJSON(f failure) {
	type shown struct {
		Exit      int    `json:"exit"`
		Message   string `json:"message"`
		Next      string `json:"next,omitempty"`
		Code      string `json:"code,omitempty"`
		Status    int    `json:"status,omitempty"`
		RequestID string `json:"request_id,omitempty"`
	}
	_ = json.NewEncoder(p.Stderr).Encode(map[string]shown{"error": {f.exit, f.text, f.next, f.code, f.status, f.request}})
}

// explain says what an error means for the one who typed the command.
func (p Program) explain(err error) failure {
	f := failure{exit: exitFailed, text: err.Error()}
	var used usageError
	var lost *client.Unreachable
	var answer *client.Error
	var rule *fault.Error
	switch {
	case errors.As(err, &used):
		f.exit = exitUsage
		if used.command != "" {
			f.next = fmt.Sprintf("see: %s --help", used.command)
		}
	case errors.Is(err, errNothing):
		f.exit = exitNothing
	case errors.Is(err, context.Canceled):
		f.text = "interrupted"
	case errors.As(err, &lost):
		f.exit, f.next = exitUnreachable, p.startHint(lost.URL)
	case errors.As(err, &answer):
		f.code, f.status, f.request = answer.Code, answer.Status, answer.RequestID
		f.exit, f.next = answered(answer)
		if answer.Status >= 500 && answer.RequestID != "" {
			f.text += " (request " + answer.RequestID + ")"
		}
	case errors.As(err, &rule):
		f.exit, f.text = faultExits[rule.Code], strings.Replace(f.text, rule.Error(), rule.Message, 1)
	}
	return f
}

func (p Program) startHint(server string) string {
	u, err := url.Parse(server)
	if err != nil {
		return ""
	}
	ip, err := netip.ParseAddr(u.Hostname())
	if u.Hostname() == "localhost" || err == nil && ip.IsLoopback() {
		return "is the server running? start it with: leaselog serve"
	}
	return "is the address right? it comes from --endpoint, $LEASELOG_ENDPOINT or $BASALTIC_ENDPOINT_URL_QUEUE; leaselog doctor looks closer"
}

// answered gives the exit status for an answer of the server, and what to do about it.
func answered(e *client.Error) (exit int, next string) {
	switch e.Status {
	case http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusMethodNotAllowed:
		return exitUsage, ""
	case http.StatusNotFound:
		return exitNotFound, missingHint(e.Message)
	case http.StatusUnauthorized:
		return exitNotAllowed, "set LEASELOG_TOKEN, or LEASELOG_ACCESS_KEY_ID and LEASELOG_SECRET_ACCESS_KEY (see: leaselog help environment)"
	case http.StatusForbidden:
		if e.Code == "QUEUE_LIMIT_EXCEEDED" {
			return exitNotAllowed, ""
		}
		return exitNotAllowed, "the credentials are good, but their policy or account does not allow this"
	case http.StatusConflict:
		return exitConflict, conflictHint(e.Code)
	case http.StatusServiceUnavailable, http.StatusBadGateway, http.StatusGatewayTimeout, http.StatusTooManyRequests:
		return exitUnreachable, "the server says that it cannot now; try again"
	}
	return exitFailed, ""
}

// missingHint says where to look for what is not there. The code is one for all, so it goes by the server's words.
func missingHint(text string) string {
	switch {
	case strings.Contains(text, "no message"):
		return "leaselog peek shows the messages that are in a queue"
	case strings.Contains(text, "no move task"):
		return "leaselog redrive list shows a queue's tasks"
	}
	return "leaselog queue list shows the queues there are"
}

// faultExits gives the exit status of a refusal that came without a server's answer: of a command that works on a data
// directory itself. It says of each what [answered] says of the same over HTTP.
var faultExits = map[fault.Code]int{
	fault.Invalid:      exitUsage,
	fault.TooLarge:     exitUsage,
	fault.Unauthorized: exitNotAllowed,
	fault.Denied:       exitNotAllowed,
	fault.NotFound:     exitNotFound,
	fault.Exists:       exitConflict,
	fault.ForeignLease: exitUsage,
	fault.LeaseEnded:   exitConflict,
	fault.KeyMismatch:  exitConflict,
	fault.KeyInUse:     exitConflict,
	fault.Quota:        exitNotAllowed,
	fault.Limit:        exitNotAllowed,
	fault.KeyLost:      exitConflict,
	fault.Unavailable:  exitUnreachable,
	fault.Unconfirmed:  exitUnreachable,
	fault.Internal:     exitFailed,
}

func conflictHint(code string) string {
	switch code {
	case "QUEUE_ALREADY_EXISTS":
		return "leaselog queue update changes a queue that exists"
	case "QUEUE_RECEIPT_HANDLE_EXPIRED":
		return "the lease has ended: receive the message again"
	}
	return ""
}

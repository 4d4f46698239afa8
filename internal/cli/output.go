package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"

	"github.com/spf13/cobra"
	"golang.org/x/term"
)

func jsonTopic() *cobra.Command {
	return &cobra.Command{
		Use:   "json",
		Short: "What --json prints",
		Long: `With --json a command prints one JSON object a line on its standard output, and nothing else there. Fields are added in
later versions, and never change their meaning:

  queue create, describe, update, list   the queue as the API gives it: id, crn, name, kind, attributes, depth (not in a list), …
  queue list --depth, describe --exact   queue_id, queue_name, available, in_flight, delayed, oldest_waiting_milliseconds and
                                         oldest_total_milliseconds (absent where none is available), source, as_of, and shards, each
                                         with ledger and messages (up to where the log is counted), as_of, log_time
  queue delete                           deleted
  queue purge                            messages_deleted
  send                                   message_id, duplicate; with --lines also line, and error and message where it was refused
  receive                                id, receipt_handle, body, attributes, receive_count, message_group_id, enqueued_at, visible_at;
                                         with --to also file
  ack, extend, release                   receipt_handle, and error and message where it was refused
  peek                                   id, crn, queue_id, body, attributes, visibility, receive_count, body_bytes, message_group_id,
                                         enqueued_at, visible_at, expires_at, first_received_at, moved_from
  history                                queue_id, queue, event, at, shard, position, ledger_position, lease_id, visible_at, receive_count,
                                         reason, moved_to, moved_from
  move                                   moved, duplicates, failed, uncertain
  redrive start, status, cancel, list    the task: id, queue_id, target, state, rate_per_second, total, moved, skipped, failed, waiting,
                                         reason, started_at, updated_at, ended_at; of a dry run the counts alone
  check                                  per finding queue, stream, seq, problem; at the end damaged and the counts
  doctor                                 check, state (ok, warn, fail), detail, advice
  keys create, rotate                    the key as below, and secret_access_key, or token for one made with --token
  keys list, enable, disable, policies   access_key_id, account, kind, label, status, policies, created_at, rotated_at, former_secret_until
  accounts create, list, enable, disable handle, id, status, created_at
  keys delete, accounts delete           deleted
  views show                             queue_id, shard, available, in_flight, delayed, oldest_waiting_milliseconds, oldest_total_milliseconds,
                                         ledger and messages (up to where it knows the log), log_time
  views rebuild                          views, entries, seconds

Times are RFC 3339 in UTC. An error is {"error":{"exit","message","next","code","status","request_id"}} on the standard error; the
last three are the server's.

"leaselog receive QUEUE --json | leaselog ack QUEUE" works: ack, extend and release take such lines as receipts.`,
	}
}

// print writes one JSON object as a line.
func (p Program) printJSON(v any) error {
	var buf bytes.Buffer
	e := json.NewEncoder(&buf)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return err
	}
	return p.write(buf.Bytes())
}

func (p Program) printf(format string, args ...any) error {
	return p.write(fmt.Appendf(nil, format, args...))
}

// write reports that the output was not taken: what rests on it, such as an ack, must not happen then.
func (p Program) write(b []byte) error {
	if _, err := p.Stdout.Write(b); err != nil {
		return fmt.Errorf("the output could not be written: %w", err)
	}
	return nil
}

// warn writes a line to the standard error.
func (p Program) warn(format string, args ...any) {
	fmt.Fprintf(p.Stderr, format+"\n", args...)
}

// note tells people what is no part of the answer.
func (p Program) note(format string, args ...any) {
	if !p.options.json {
		p.warn(format, args...)
	}
}

// deleted says that something is gone.
func (p Program) deleted(what string) error {
	if p.options.json {
		return p.printJSON(map[string]string{"deleted": what})
	}
	return p.printf("deleted %s\n", what)
}

// terminal gives the file behind a reader or writer, if it is a terminal.
func terminal(v any) (*os.File, bool) {
	f, ok := v.(*os.File)
	return f, ok && term.IsTerminal(int(f.Fd()))
}

type colour string

const (
	red    colour = "\x1b[31m"
	green  colour = "\x1b[32m"
	yellow colour = "\x1b[33m"
)

// paint colours text for a terminal (https://no-color.org).
func (p Program) paint(w io.Writer, c colour, text string) string {
	if _, ok := terminal(w); !ok || p.Getenv("NO_COLOR") != "" || p.Getenv("TERM") == "dumb" {
		return text
	}
	return string(c) + text + "\x1b[0m"
}

// table is rows of cells under a head, aligned for people.
type table struct {
	buf bytes.Buffer
	w   *tabwriter.Writer
}

func newTable(head ...string) *table {
	t := &table{}
	t.w = tabwriter.NewWriter(&t.buf, 0, 0, 2, ' ', 0)
	if len(head) > 0 {
		t.row(head...)
	}
	return t
}

func (t *table) row(cells ...string) {
	fmt.Fprintln(t.w, strings.Join(cells, "\t"))
}

func (p Program) printTable(t *table) error {
	if err := t.w.Flush(); err != nil {
		return err
	}
	var out bytes.Buffer
	for line := range bytes.Lines(t.buf.Bytes()) {
		out.Write(bytes.TrimRight(line, " \n"))
		out.WriteByte('\n')
	}
	return p.write(out.Bytes())
}

// list prints things as a table, or each as JSON; without any there is no table.
func list[T any](p Program, all []T, head []string, row func(T) []string) error {
	t := newTable(head...)
	for _, v := range all {
		if p.options.json {
			if err := p.printJSON(v); err != nil {
				return err
			}
			continue
		}
		t.row(row(v)...)
	}
	if p.options.json || len(all) == 0 {
		return nil
	}
	return p.printTable(t)
}

// brief makes one short line of a text from outside: what could move a terminal's cursor is shown as a dot.
func brief(s string, most int) string {
	runes := []rune(s)
	cut := len(runes) > most
	if cut {
		runes = runes[:most-1]
	}
	for i, r := range runes {
		if !unicode.IsPrint(r) {
			runes[i] = '·'
		}
	}
	if cut {
		return string(runes) + "…"
	}
	return string(runes)
}

// count is a number of things, as "1 message" or "3 messages".
func count(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

// when shows an instant to the second, which is what people compare.
func when(t time.Time) string { return t.UTC().Format(time.RFC3339) }

package cli

import (
	"fmt"
	"io"
	"os"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/leaselog/leaselog/internal/client"
)

// sending are the flags of send.
type sending struct {
	Program
	file, lines, group, dedup, key string
	delay                          seconds
	attributes                     []string
}

func (p Program) send() *cobra.Command {
	s := &sending{Program: p}
	cmd := &cobra.Command{
		Use:   "send QUEUE [BODY]",
		Short: "Send a message, or a message for each line of a file",
		Long: `Send a message. Its body is the argument; or the standard input, as it is and not empty, where BODY is - or left out; or a
file with --file. With --lines each line of a file is a message; empty lines are skipped, and lines go in batches of ten. A line that
is refused is reported with its number, and the others go on.

A body is text in UTF-8. Arguments that begin with - stand behind --.`,
		Example: `  leaselog send orders '{"id": 17}'
  leaselog send orders --delay 5m --attribute tenant=acme --attribute tries:Number=1 'later'
  date | leaselog send orders
  leaselog send orders --lines events.ndjson
  leaselog send orders.fifo --group user-17 --dedup order-17 'paid'
  leaselog send orders -- -17`,
		Args:              cobra.RangeArgs(1, 2),
		RunE:              p.talk(s.run),
		ValidArgsFunction: p.completeQueues(1),
	}
	f := cmd.Flags()
	f.StringVar(&s.file, "file", "", "send this file's content as one message")
	f.StringVar(&s.lines, "lines", "", "send each line of this file as a message; - is the standard input")
	f.StringVar(&s.group, "group", "", "FIFO: message group, inside of which order is kept")
	f.StringVar(&s.dedup, "dedup", "", "FIFO: deduplication id; with --lines the line's number is added to it")
	f.Var(&s.delay, "delay", "hide the message for so long, 0s to 15m (default the queue's)")
	f.StringArrayVar(&s.attributes, "attribute", nil, "name=value, name:Number=1 or name:Binary=…; may be repeated")
	f.StringVar(&s.key, "idempotency-key", "", "makes the command repeatable: the same key again gives the first outcome")
	cmd.MarkFlagsMutuallyExclusive("file", "lines")
	cmd.MarkFlagsMutuallyExclusive("lines", "idempotency-key")
	return cmd
}

func (s *sending) run(cmd *cobra.Command, c *client.Client, args []string) error {
	m, err := s.template()
	if err != nil {
		return err
	}
	if s.lines != "" {
		if len(args) > 1 {
			return usage("a body and --lines exclude each other")
		}
		return s.sendLines(cmd.Context(), c, args[0], m)
	}
	if m.Body, err = s.body(args[1:]); err != nil {
		return err
	}
	sent, err := c.Send(cmd.Context(), args[0], m, s.key)
	if err != nil {
		return err
	}
	if s.options.json {
		return s.printJSON(sent)
	}
	if sent.Duplicate {
		return s.printf("%s (a repeat: the queue has this message already)\n", sent.MessageID)
	}
	return s.printf("%s\n", sent.MessageID)
}

// template is the message without its body.
func (s *sending) template() (client.Outgoing, error) {
	m := client.Outgoing{DelaySeconds: s.delay.value, GroupID: s.group, DeduplicationID: s.dedup}
	for _, text := range s.attributes {
		name, a, err := parseAttribute(text)
		if err != nil {
			return m, err
		}
		if _, twice := m.Attributes[name]; twice {
			return m, usage("the attribute %s is given twice", name)
		}
		if m.Attributes == nil {
			m.Attributes = map[string]client.Attribute{}
		}
		m.Attributes[name] = a
	}
	return m, nil
}

// bodyMax bounds what is read before the server judges it: no queue takes more.
const bodyMax = 1 << 20

// body reads the one message. Text that is not UTF-8 would be changed on its way, so it is refused.
func (s *sending) body(args []string) (string, error) {
	text, from, err := s.source(args)
	switch {
	case err != nil:
		return "", err
	case len(text) > bodyMax:
		return "", usage("%s is larger than 1MB, and no queue takes more than 256KB", from)
	case !utf8.Valid(text):
		return "", usage("%s is not text in UTF-8; encode it first, for example with base64", from)
	}
	return string(text), nil
}

func (s *sending) source(args []string) (text []byte, from string, err error) {
	switch {
	case s.file != "" && len(args) > 0:
		return nil, "", usage("a body and --file exclude each other")
	case s.file != "":
		f, err := os.Open(s.file)
		if err != nil {
			return nil, "", usageError{error: err}
		}
		defer f.Close()
		text, err = io.ReadAll(io.LimitReader(f, bodyMax+1))
		return text, s.file, err
	case len(args) > 0 && args[0] != "-":
		return []byte(args[0]), "the body", nil
	}
	if _, ok := terminal(s.Stdin); ok && len(args) == 0 {
		return nil, "", usage("there is no body: give it as an argument, on the standard input, or with --file or --lines")
	}
	text, err = io.ReadAll(io.LimitReader(s.Stdin, bodyMax+1))
	switch {
	case err != nil:
		err = fmt.Errorf("reading the standard input: %w", err)
	case len(text) == 0: // as of a program before the pipe that has failed
		err = usage("the standard input is empty; an empty body is the argument ''")
	}
	return text, "the standard input", err
}

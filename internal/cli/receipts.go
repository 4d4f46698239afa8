package cli

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/leaselog/leaselog/internal/client"
)

// settler does the same to each of some receipts, at most ten.
type settler func(c *client.Client, ctx context.Context, queue string, receipts []string) ([]client.Result, error)

// settling is one run of ack, extend or release: they take receipts and do the same to each, in batches of ten.
type settling struct {
	Program
	client     *client.Client
	queue      string
	done       string // what is said of a success
	act        settler
	ok, failed int
}

// settle makes the command; done is what is said of a success.
func (p Program) settle(done string, act settler) *cobra.Command {
	return &cobra.Command{
		Args: cobra.MinimumNArgs(1),
		RunE: p.talk(func(cmd *cobra.Command, c *client.Client, args []string) error {
			s := &settling{Program: p, client: c, queue: args[0], done: done, act: act}
			return s.run(cmd.Context(), args[1:])
		}),
		ValidArgsFunction: p.completeQueues(1),
	}
}

// receiptHelp is the part of the help that is the same for all three.
const receiptHelp = `

Receipts come as arguments, or on the standard input, one a line: as they are, or as the JSON lines that receive --json
prints. Each succeeds or fails alone.`

func (s *settling) run(ctx context.Context, args []string) error {
	next, err := s.receipts(args)
	if err != nil {
		return err
	}
	var batch []string
	for {
		r, err := next()
		if err != nil && err != io.EOF {
			return err
		}
		if err == nil {
			batch = append(batch, r)
		}
		if len(batch) == client.EntriesMax || err == io.EOF && len(batch) > 0 {
			if err := s.each(ctx, batch); err != nil {
				return err
			}
			batch = nil
		}
		if err == io.EOF {
			return s.finish()
		}
	}
}

func (s *settling) each(ctx context.Context, batch []string) error {
	results, err := s.act(s.client, ctx, s.queue, batch)
	if err != nil {
		return err
	}
	for i, r := range results {
		if err := s.say(batch[i], r); err != nil {
			return err
		}
	}
	return nil
}

func (s *settling) say(receipt string, r client.Result) error {
	if r.Code == "" {
		s.ok++
	} else {
		s.failed++
	}
	if s.options.json {
		return s.printJSON(struct {
			Receipt string `json:"receipt_handle"`
			Error   string `json:"error,omitempty"`
			Message string `json:"message,omitempty"`
		}{receipt, r.Code, r.Message})
	}
	if r.Code != "" {
		s.warn("receipt %s: %s", brief(receipt, 33), r.Message)
	}
	return nil
}

func (s *settling) finish() error {
	if s.ok+s.failed == 0 {
		return usage("there are no receipts: give them as arguments or on the standard input")
	}
	if !s.options.json && s.ok > 0 {
		if err := s.printf("%s %s of %s\n", s.done, count(s.ok, "message"), s.queue); err != nil {
			return err
		}
	}
	if s.failed > 0 {
		return partly{fmt.Errorf("%d of %s refused", s.failed, count(s.ok+s.failed, "receipt"))}
	}
	return nil
}

// receipts gives them one after another, io.EOF at the end.
func (s *settling) receipts(args []string) (next func() (string, error), err error) {
	if len(args) > 0 {
		return func() (string, error) {
			if len(args) == 0 {
				return "", io.EOF
			}
			r := args[0]
			args = args[1:]
			return r, nil
		}, nil
	}
	if _, ok := terminal(s.Stdin); ok {
		return nil, usage("there are no receipts: give them as arguments or on the standard input")
	}
	lines := bufio.NewScanner(s.Stdin)
	lines.Buffer(nil, 16<<20) // a line may hold a whole message
	n := 0
	return func() (string, error) {
		for lines.Scan() {
			n++
			if r, err := receiptOf(strings.TrimSpace(lines.Text())); r != "" || err != nil {
				return r, located(n, err)
			}
		}
		if err := lines.Err(); err != nil {
			return "", located(n+1, err)
		}
		return "", io.EOF
	}, nil
}

func located(line int, err error) error {
	if err == nil {
		return nil
	}
	return usage("line %d of the standard input: %w", line, err)
}

// receiptOf reads a line: a receipt, or the JSON of a received message.
func receiptOf(line string) (string, error) {
	if !strings.HasPrefix(line, "{") {
		return line, nil
	}
	var m struct {
		Receipt string `json:"receipt_handle"`
	}
	if err := json.Unmarshal([]byte(line), &m); err != nil {
		return "", fmt.Errorf("this is no JSON: %w", err)
	}
	if m.Receipt == "" {
		return "", fmt.Errorf("this JSON has no receipt_handle")
	}
	return m.Receipt, nil
}

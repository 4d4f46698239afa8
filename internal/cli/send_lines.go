package cli

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"unicode/utf8"

	"github.com/leaselog/leaselog/internal/client"
)

// lineBatch sends lines in batches of ten.
type lineBatch struct {
	*sending
	client   *client.Client
	queue    string
	template client.Outgoing

	messages     []client.Outgoing
	numbers      []int // of the lines of messages
	bytes        int   // of the input behind them
	sent, failed int
	bar          *progress
}

// sentLine is what --json says of a line.
type sentLine struct {
	Line int `json:"line"`
	*client.Sent
	Error   string `json:"error,omitempty"`
	Message string `json:"message,omitempty"`
}

func (s *sending) sendLines(ctx context.Context, c *client.Client, queue string, m client.Outgoing) error {
	in, total, err := s.openLines()
	if err != nil {
		return err
	}
	defer in.Close()
	b := &lineBatch{sending: s, client: c, queue: queue, template: m, bar: s.begin(total, "sending", true)}
	err = b.all(ctx, in)
	b.bar.end()
	if err != nil {
		return err
	}
	if !s.options.json {
		if err := s.printf("sent %s to %s\n", count(b.sent, "message"), queue); err != nil {
			return err
		}
	}
	if b.failed > 0 {
		return partly{fmt.Errorf("%d of %d lines were not sent", b.failed, b.failed+b.sent)}
	}
	return nil
}

// openLines gives the input and its size, -1 where that is not known.
func (s *sending) openLines() (io.ReadCloser, int64, error) {
	if s.lines == "-" {
		return io.NopCloser(s.Stdin), -1, nil
	}
	f, err := os.Open(s.lines)
	if err != nil {
		return nil, 0, usageError{error: err}
	}
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return f, -1, nil
	}
	return f, info.Size(), nil
}

func (b *lineBatch) all(ctx context.Context, in io.Reader) error {
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, bodyMax+2)
	n := 0
	for lines.Scan() {
		n++
		b.bytes += len(lines.Bytes()) + 1
		if err := b.line(ctx, n, lines.Bytes()); err != nil {
			return err
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("line %d: %w; the lines before it were sent", n+1, err)
	}
	return b.flush(ctx)
}

func (b *lineBatch) line(ctx context.Context, n int, text []byte) error {
	if len(text) == 0 {
		return nil
	}
	if !utf8.Valid(text) {
		return b.refused(n, "INVALID_INPUT", "it is not text in UTF-8")
	}
	m := b.template
	m.Body = string(text)
	if m.DeduplicationID != "" {
		m.DeduplicationID = fmt.Sprintf("%s-%d", m.DeduplicationID, n)
	}
	b.messages, b.numbers = append(b.messages, m), append(b.numbers, n)
	if len(b.messages) < client.EntriesMax {
		return nil
	}
	return b.flush(ctx)
}

// flush sends what is gathered. An error of the whole batch says which lines it leaves in doubt.
func (b *lineBatch) flush(ctx context.Context) error {
	if len(b.messages) == 0 {
		return nil
	}
	results, err := b.client.SendBatch(ctx, b.queue, b.messages, "")
	if err != nil {
		return fmt.Errorf("%w%s", err, b.doubt())
	}
	for i, r := range results {
		if r.Code != "" {
			err = b.refused(b.numbers[i], r.Code, r.Message)
		} else {
			err = b.taken(b.numbers[i], client.Sent{MessageID: r.MessageID, Duplicate: r.Duplicate})
		}
		if err != nil {
			return err
		}
	}
	b.bar.add(b.bytes)
	b.messages, b.numbers, b.bytes = b.messages[:0], b.numbers[:0], 0
	return nil
}

// doubt says where to go on after a batch whose fate is not known.
func (b *lineBatch) doubt() string {
	if b.sent+b.failed == 0 {
		return ""
	}
	return fmt.Sprintf("; %d messages were sent, and what became of lines %d to %d is not known", b.sent, b.numbers[0], b.numbers[len(b.numbers)-1])
}

func (b *lineBatch) taken(n int, sent client.Sent) error {
	b.sent++
	if b.options.json {
		return b.printJSON(sentLine{Line: n, Sent: &sent})
	}
	return nil
}

func (b *lineBatch) refused(n int, code, message string) error {
	b.failed++
	if b.options.json {
		return b.printJSON(sentLine{Line: n, Error: code, Message: message})
	}
	b.warn("line %d was not sent: %s", n, message)
	return nil
}

package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/leaselog/leaselog/internal/local/audit"
	"github.com/leaselog/leaselog/internal/local/host"
	"github.com/leaselog/leaselog/internal/local/keys"
	"github.com/leaselog/leaselog/internal/local/store"
)

func (p Program) check() *cobra.Command {
	return &cobra.Command{
		Use:   "check DIR",
		Short: "Verify the store of a stopped server, and say what is damaged",
		Long: `Verify the store of a stopped server from its raw entries, and say what is damaged. DIR is the data directory, as in
"leaselog serve --data DIR". Nothing in it is changed.

Every key is read. Streams must be dense but for what was dropped; headers and events must decode and fold without a
contradiction; every running value and snapshot must be what the entries before it give; names, records and streams must
belong together; and every seal must open with the key file. Damage makes the exit status 1.`,
		Example: "  leaselog check ./leaselog-data",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := openData(args[0])
			if err != nil {
				return err
			}
			report, err := audit.Run(cmd.Context(), c)
			if closing := c.Store.Close(); err == nil {
				err = closing
			}
			if err != nil {
				return err
			}
			return p.showReport(args[0], report)
		},
	}
}

// openData opens a data directory without making anything in it that is missing.
func openData(dir string) (c audit.Config, err error) {
	c.Deployment = host.Deployment
	key := filepath.Join(dir, host.KeyFile)
	if _, err := os.Stat(dir); err != nil {
		return c, usageError{error: err}
	}
	switch _, err := os.Stat(key); {
	case err == nil:
		k, err := keys.Open(key)
		if err != nil {
			return c, err
		}
		c.Keys = k
	case !errors.Is(err, fs.ErrNotExist):
		return c, err
	}
	c.Store, err = store.OpenView(store.Config{Dir: filepath.Join(dir, host.StoreDir), Logger: slog.New(slog.DiscardHandler)})
	return c, err
}

func (p Program) showReport(dir string, r *audit.Report) error {
	if err := p.showDamage(r); err != nil {
		return err
	}
	found := len(r.Damage) + r.More
	if p.options.json {
		if err := p.printJSON(struct {
			Damaged int `json:"damaged"`
			*audit.Report
		}{found, r}); err != nil {
			return err
		}
	} else if err := p.showCounts(r); err != nil {
		return err
	}
	if found > 0 {
		return partly{fmt.Errorf("%s is damaged: %s; keep a copy of it before anything else", dir, count(found, "finding"))}
	}
	return nil
}

func (p Program) showDamage(r *audit.Report) error {
	for _, f := range r.Damage {
		var err error
		if p.options.json {
			err = p.printJSON(f)
		} else {
			err = p.printf("%s %s\n", p.paint(p.Stdout, red, "damaged"), placed(f))
		}
		if err != nil {
			return err
		}
	}
	if r.More > 0 {
		p.warn("and %d more", r.More)
	}
	return nil
}

func placed(f audit.Finding) string {
	text := f.What
	if f.Stream != "" {
		text = fmt.Sprintf("%s at %d: %s", f.Stream, f.Seq, text)
	}
	if f.Queue != "" {
		text = fmt.Sprintf("queue %s: %s", f.Queue, text)
	}
	return text
}

func (p Program) showCounts(r *audit.Report) error {
	for _, n := range r.Notes {
		if err := p.printf("%s %s\n", p.paint(p.Stdout, yellow, "note"), n); err != nil {
			return err
		}
	}
	if len(r.Damage) == 0 {
		if err := p.printf("%s everything that was looked at is as it must be\n", p.paint(p.Stdout, green, "ok")); err != nil {
			return err
		}
	}
	return p.printf("looked at %d queues, %d streams, %d entries with %d messages and %d events, %d snapshots (%d compared), %d claims, %d seals\n",
		r.Queues, r.Streams, r.Entries, r.Messages, r.Events, r.Snapshots, r.Compared, r.Claims, r.Seals)
}

package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

func (p Program) man() *cobra.Command {
	return &cobra.Command{
		Use:     "man DIR",
		Short:   "Write the man pages to a directory",
		Long:    `Write the man pages to a directory, one a command. Their date is SOURCE_DATE_EPOCH if that is set, else today.`,
		Example: "  leaselog man ~/.local/share/man/man1",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := os.MkdirAll(args[0], 0o777); err != nil {
				return usageError{error: err}
			}
			date := time.Now()
			if n, err := strconv.ParseInt(p.Getenv("SOURCE_DATE_EPOCH"), 10, 64); err == nil {
				date = time.Unix(n, 0)
			}
			date = date.UTC()
			root := cmd.Root()
			root.DisableAutoGenTag = true
			head := &doc.GenManHeader{Section: "1", Date: &date, Source: "leaselog " + p.Version, Manual: "leaselog"}
			if err := doc.GenManTree(root, head, args[0]); err != nil {
				return fmt.Errorf("the man pages: %w", err)
			}
			pages, err := filepath.Glob(filepath.Join(args[0], "leaselog*.1"))
			if err != nil {
				return err
			}
			return p.printf("wrote %s to %s\n", count(len(pages), "page"), args[0])
		},
	}
}

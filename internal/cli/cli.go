// Package cli is the command line: one file a command.
package cli

import (
	"context"
	"io"

	"github.com/spf13/cobra"
)

// Program is what the commands work with.
type Program struct {
	Version        string
	Stdout, Stderr io.Writer
}

// Run runs the program with its arguments and gives its exit status: 0, or 1 after a sentence on stderr.
func (p Program) Run(ctx context.Context, args []string) int {
	root := &cobra.Command{
		Use:           "leaselog",
		Short:         "A message queue whose only truth is an event log",
		SilenceUsage:  true,
		SilenceErrors: true,
		Version:       p.Version,
	}
	root.SetArgs(args)
	root.SetOut(p.Stdout)
	root.SetErr(p.Stderr)
	root.AddCommand(p.serve())
	if err := root.ExecuteContext(ctx); err != nil {
		root.PrintErrln("leaselog: " + err.Error())
		return 1
	}
	return 0
}

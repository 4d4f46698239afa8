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

// Run runs the program with its arguments and gives its exit status: 0, or another after a sentence on stderr: 2 where the command
// line is wrong, 3 where what it names does not exist, otherwise 1.
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
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error { return misuse("%w; see %s --help", err, cmd.CommandPath()) })
	root.AddCommand(p.serve(), p.keys(), p.accounts())
	if err := root.ExecuteContext(ctx); err != nil {
		root.PrintErrln("leaselog: " + plain(err).Error())
		return status(err)
	}
	return 0
}

package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/leaselog/leaselog/internal/fault"
	"github.com/leaselog/leaselog/internal/local/admin"
)

// administration is what the commands about keys and accounts share: where they act and how they answer.
type administration struct {
	Program
	data string
	json bool
}

// group is a command with subcommands.
func (a *administration) group(name, short, long string) *cobra.Command {
	cmd := &cobra.Command{
		Use:   name,
		Short: short,
		Long: long + `

The commands act on a data directory: through the server that runs on it, or on its store where none runs. Who may use
the directory's files may do so; there is no password.`,
		Args: usage(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	f := cmd.PersistentFlags()
	f.StringVar(&a.data, "data", "./leaselog-data", "directory of the log and its key")
	f.BoolVar(&a.json, "json", false, "answer in JSON")
	return cmd
}

// run wraps a command that works with a directory; create says that it may make one.
func (a *administration) run(create bool, do func(context.Context, *admin.Client, []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		c, err := admin.Open(a.data, create)
		if err != nil {
			return err
		}
		err = do(cmd.Context(), c, args)
		if closing := c.Close(); err == nil {
			err = closing
		}
		return err
	}
}

// show answers in JSON or in words.
func (a *administration) show(v any, words func(io.Writer)) error {
	if !a.json {
		words(a.Stdout)
		return nil
	}
	e := json.NewEncoder(a.Stdout)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

// The exit statuses of commands.
const (
	statusFailed  = 1 // anything else
	statusMisuse  = 2 // the command line is wrong; nothing was done
	statusMissing = 3 // what it names does not exist
)

// misused is an error of the command line.
type misused struct{ error }

func misuse(format string, args ...any) error { return misused{fmt.Errorf(format, args...)} }

// usage makes an error about arguments one of the command line.
func usage(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if err := check(cmd, args); err != nil {
			return misuse("%w; see %s --help", err, cmd.CommandPath())
		}
		return nil
	}
}

// one demands a single argument, and says what it is.
func one(what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) == 1 {
			return nil
		}
		return misuse("%s takes %s, and nothing else; see %s --help", cmd.CommandPath(), what, cmd.CommandPath())
	}
}

// status gives the exit status of an error.
func status(err error) int {
	if _, is := errors.AsType[misused](err); is {
		return statusMisuse
	}
	if fault.Is(err, fault.NotFound) {
		return statusMissing
	}
	return statusFailed
}

// plain gives what a fault says to its user, without the code that programs look at.
func plain(err error) error {
	if f, is := errors.AsType[*fault.Error](err); is && err == error(f) {
		return errors.New(f.Message)
	}
	return err
}

func noKey(ref string) error {
	return fault.New(fault.NotFound, "there is no access key %q; list them to see their ids", ref)
}

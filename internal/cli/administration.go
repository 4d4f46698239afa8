package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/leaselog/leaselog/internal/local/admin"
)

// administration is what the commands about keys and accounts share: the directory that they act on.
type administration struct {
	Program
	backing
}

// administer makes the command that the others stand under.
func (p Program) administer(name, short, long string) (*administration, *cobra.Command) {
	a := &administration{Program: p}
	cmd := &cobra.Command{
		Use:   name,
		Short: short,
		Long: long + `

The commands act on a data directory: through the server that runs on it, or on its store where none runs. Who may use
the directory's files may do so; there is no password. With --store dynamodb they act on a deployment in AWS, and who may
use its tables and its key may do so.`,
		Args: cobra.NoArgs,
		RunE: needsCommand,
	}
	a.flags(cmd)
	return a, cmd
}

// with wraps a command's work on the directory; create says that it may make one.
func (a *administration) with(create bool, work func(context.Context, *admin.Client, []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		c, err := a.backing.administration(cmd, create)
		if err != nil {
			return err
		}
		err = work(cmd.Context(), c, args)
		if closing := c.Close(); err == nil {
			err = closing
		}
		return err
	}
}

// change makes a command that changes one thing and shows what it then is.
func (a *administration) change(use, short string, work func(ctx context.Context, c *admin.Client, ref string) error) *cobra.Command {
	return &cobra.Command{
		Use:   use,
		Short: short,
		Args:  cobra.ExactArgs(1),
		RunE: a.with(false, func(ctx context.Context, c *admin.Client, args []string) error {
			return work(ctx, c, args[0])
		}),
		ValidArgsFunction: cobra.NoFileCompletions,
	}
}

// remove makes a command that deletes one thing, and asks before it does.
func (a *administration) remove(use, short, thing string, work func(c *admin.Client, ctx context.Context, ref string) error) *cobra.Command {
	var yes bool
	cmd := a.change(use, short, func(ctx context.Context, c *admin.Client, ref string) error {
		if err := a.confirm(yes, "Delete the %s %s?", thing, ref); err != nil {
			return err
		}
		if err := work(c, ctx, ref); err != nil {
			return err
		}
		return a.deleted(ref)
	})
	cmd.Long = short + ". On a terminal it asks first."
	yesFlag(cmd, &yes)
	return cmd
}

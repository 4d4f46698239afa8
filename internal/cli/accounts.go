package cli

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/leaselog/leaselog/internal/local/admin"
)

// accounts is the command about accounts.
func (p Program) accounts() *cobra.Command {
	a := &administration{Program: p}
	cmd := a.group("accounts", "Manage accounts", `Manage accounts.

Queues and access keys belong to an account. What is in one account does not exist for the keys of another.`)
	cmd.AddCommand(a.createAccount(), a.listAccounts(), a.enableAccount("enable", true), a.enableAccount("disable", false), a.deleteAccount())
	return cmd
}

func (a *administration) createAccount() *cobra.Command {
	return &cobra.Command{
		Use:   "create HANDLE",
		Short: "Make an account",
		Long: `Make an account. Its handle stands in the names of its queues and cannot be changed: a-z, 0-9 and dashes inside, at
most 63 characters.`,
		Args: one("the handle of the new account"),
		RunE: a.run(true, func(ctx context.Context, c *admin.Client, args []string) error {
			made, err := c.CreateAccount(ctx, args[0])
			if err != nil {
				return err
			}
			return a.show(made, func(w io.Writer) {
				fmt.Fprintf(w, "Made the account %q with the id %s. Next: leaselog keys create --account %s\n", made.Handle, made.ID, made.Handle)
			})
		}),
	}
}

func (a *administration) listAccounts() *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List accounts",
		Args:  usage(cobra.NoArgs),
		RunE: a.run(false, func(ctx context.Context, c *admin.Client, _ []string) error {
			all, err := c.Accounts(ctx)
			if err != nil {
				return err
			}
			return a.show(map[string]any{"accounts": all}, func(w io.Writer) {
				if len(all) == 0 {
					fmt.Fprintln(w, "There are no accounts. The first access key makes one: leaselog keys create")
					return
				}
				table(w, "HANDLE\tID\tSTATUS\tCREATED", len(all), func(i int) string {
					return fmt.Sprintf("%s\t%s\t%s\t%s", all[i].Handle, all[i].ID, all[i].Status, all[i].Created.Format(time.DateTime))
				})
			})
		}),
	}
}

func (a *administration) enableAccount(verb string, enable bool) *cobra.Command {
	short := "Let the keys of an account open again"
	if !enable {
		short = "Refuse all keys of an account until it is enabled again"
	}
	return &cobra.Command{
		Use:   verb + " ACCOUNT",
		Short: short,
		Args:  one("the handle or id of one account"),
		RunE: a.run(false, func(ctx context.Context, c *admin.Client, args []string) error {
			changed, err := c.EnableAccount(ctx, args[0], enable)
			if err != nil {
				return err
			}
			return a.show(changed, func(w io.Writer) { fmt.Fprintf(w, "The account %q is %s.\n", changed.Handle, changed.Status) })
		}),
	}
}

func (a *administration) deleteAccount() *cobra.Command {
	return &cobra.Command{
		Use:   "delete ACCOUNT",
		Short: "Delete an account that has neither keys nor queues",
		Args:  one("the handle or id of one account"),
		RunE: a.run(false, func(ctx context.Context, c *admin.Client, args []string) error {
			if err := c.DeleteAccount(ctx, args[0]); err != nil {
				return err
			}
			return a.show(map[string]string{"deleted": args[0]}, func(w io.Writer) { fmt.Fprintf(w, "The account %q is deleted.\n", args[0]) })
		}),
	}
}

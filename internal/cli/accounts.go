package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/leaselog/leaselog/internal/auth"
	"github.com/leaselog/leaselog/internal/local/admin"
)

func (p Program) accounts() *cobra.Command {
	a, cmd := p.administer("accounts", "Create, list, enable, disable and delete accounts", `Create, list, enable, disable and delete accounts. Queues and access keys belong to an account, which is named by its
handle or its id. What is in one account does not exist for the keys of another.`)
	cmd.AddCommand(a.createAccount(), a.listAccounts(),
		a.enableAccount("enable", "Let the keys of an account open again", true),
		a.enableAccount("disable", "Refuse all keys of an account until it is enabled again", false),
		a.remove("delete ACCOUNT", "Delete an account that has neither keys nor queues", "account", (*admin.Client).DeleteAccount))
	return cmd
}

func (a *administration) createAccount() *cobra.Command {
	return &cobra.Command{
		Use:   "create HANDLE",
		Short: "Create an account",
		Long: `Create an account. Its handle stands in the names of its queues and cannot be changed: a-z, 0-9 and dashes inside, at
most 63 characters.`,
		Example: "  leaselog accounts create acme",
		Args:    cobra.ExactArgs(1),
		RunE: a.with(true, func(ctx context.Context, c *admin.Client, args []string) error {
			made, err := c.CreateAccount(ctx, args[0])
			if err != nil {
				return err
			}
			if err := a.showAccount(made); err != nil {
				return err
			}
			a.note("make a key for it with: leaselog keys create --account %s", made.Handle)
			return nil
		}),
		ValidArgsFunction: cobra.NoFileCompletions,
	}
}

func (a *administration) listAccounts() *cobra.Command {
	return &cobra.Command{
		Use:     "list",
		Aliases: []string{"ls"},
		Short:   "List all accounts",
		Args:    cobra.NoArgs,
		RunE: a.with(false, func(ctx context.Context, c *admin.Client, _ []string) error {
			all, err := c.Accounts(ctx)
			if err != nil {
				return err
			}
			if len(all) == 0 {
				a.note("there are no accounts; the first access key makes one: leaselog keys create")
			}
			return list(a.Program, all, []string{"HANDLE", "ID", "STATUS", "CREATED"}, accountRow)
		}),
		ValidArgsFunction: cobra.NoFileCompletions,
	}
}

func accountRow(a auth.Account) []string { return []string{a.Handle, a.ID, a.Status, when(a.Created)} }

func (a *administration) showAccount(made auth.Account) error {
	if a.options.json {
		return a.printJSON(made)
	}
	t := newTable()
	t.row("handle", made.Handle)
	t.row("id", made.ID)
	t.row("status", made.Status)
	t.row("created", when(made.Created))
	return a.printTable(t)
}

func (a *administration) enableAccount(verb, short string, enable bool) *cobra.Command {
	return a.change(verb+" ACCOUNT", short, func(ctx context.Context, c *admin.Client, ref string) error {
		changed, err := c.EnableAccount(ctx, ref, enable)
		if err != nil {
			return err
		}
		return a.showAccount(changed)
	})
}

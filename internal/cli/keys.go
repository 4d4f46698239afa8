package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/leaselog/leaselog/internal/auth"
	"github.com/leaselog/leaselog/internal/local/admin"
)

// keys is the command about access keys.
func (p Program) keys() *cobra.Command {
	a := &administration{Program: p}
	cmd := a.group("keys", "Manage access keys", `Manage access keys.

A key belongs to an account and may do everything there, or what its policies allow. It is a pair of an id and a
secret, for tokens and signatures, or a static token for clients that take nothing else.`)
	cmd.AddCommand(a.createKey(), a.listKeys(), a.enableKey("enable", true), a.enableKey("disable", false),
		a.rotateKey(), a.keyPolicies(), a.deleteKey())
	return cmd
}

func (a *administration) createKey() *cobra.Command {
	var n auth.NewKey
	var policies []string
	var static bool
	cmd := &cobra.Command{
		Use:   "create",
		Short: "Make an access key and show its secret, once",
		Example: `  leaselog keys create --data ./leaselog-data
  leaselog keys create --account acme --label "nightly report" --policy consumer.json
  leaselog keys create --token`,
		Args: usage(cobra.NoArgs),
		RunE: a.run(true, func(ctx context.Context, c *admin.Client, _ []string) error {
			if static {
				n.Kind = auth.Static
			}
			var err error
			if n.Policies, err = readPolicies(policies); err != nil {
				return err
			}
			k, err := c.CreateKey(ctx, n)
			if err != nil {
				return err
			}
			return a.issued(k, fmt.Sprintf("Made an access key for the account %q.", k.Account))
		}),
	}
	f := cmd.Flags()
	f.StringVar(&n.Account, "account", auth.AccountDefault, "account, by handle or id")
	f.StringVar(&n.Label, "label", "", "what the key is for, shown in lists")
	f.StringArrayVar(&policies, "policy", nil, "file with a policy in JSON; may be given again (none: everything in the account)")
	f.BoolVar(&static, "token", false, "make a static bearer token, which does not expire, instead of an id and a secret")
	return cmd
}

// readPolicies reads the named files.
func readPolicies(files []string) (all [][]byte, err error) {
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("the policy: %w", err)
		}
		if _, err := auth.ParsePolicies([][]byte{text}); err != nil {
			return nil, fmt.Errorf("%s: %w", file, plain(err))
		}
		all = append(all, text)
	}
	return all, nil
}

// issued shows a key with its secret. This is the one place where a secret is printed.
func (a *administration) issued(k auth.Issued, what string) error {
	return a.show(secretShown(k), func(w io.Writer) {
		fmt.Fprintf(w, "%s Its secret is shown now and never again.\n\n", what)
		if k.Kind == auth.Static {
			fmt.Fprintf(w, "    export BASALTIC_ACCESS_TOKEN=%s\n\nThe key's id is %s.\n", k.Token, k.ID)
		} else {
			fmt.Fprintf(w, "    export BASALTIC_ACCESS_KEY_ID=%s\n    export BASALTIC_SECRET_ACCESS_KEY=%s\n", k.ID, k.Secret)
		}
		if k.FormerUntil != nil {
			fmt.Fprintf(w, "\nThe former secret opens until %s.\n", k.FormerUntil.Format(time.RFC3339))
		}
		if len(k.Policies) == 0 {
			fmt.Fprintf(w, "\nIt may do everything in the account %q; policies would bound it (--policy).\n", k.Account)
		}
	})
}

// secretShown is a key that is to be printed as a whole.
type secretShown auth.Issued

func (a *administration) listKeys() *cobra.Command {
	var account string
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List access keys, without their secrets",
		Args:  usage(cobra.NoArgs),
		RunE: a.run(false, func(ctx context.Context, c *admin.Client, _ []string) error {
			all, err := c.Keys(ctx, account)
			if err != nil {
				return err
			}
			return a.show(map[string]any{"keys": all}, func(w io.Writer) {
				if len(all) == 0 {
					fmt.Fprintln(w, "There are no access keys. Make one: leaselog keys create")
					return
				}
				table(w, "ACCESS KEY ID\tACCOUNT\tKIND\tSTATUS\tPOLICIES\tCREATED\tROTATED\tLABEL", len(all), func(i int) string { return keyRow(all[i]) })
			})
		}),
	}
	cmd.Flags().StringVar(&account, "account", "", "only those of this account, by handle or id")
	return cmd
}

func keyRow(k auth.Key) string {
	rotated, policies, label := "-", "everything", "-"
	if k.Rotated != nil {
		rotated = k.Rotated.Format(time.DateTime)
	}
	if n := len(k.Policies); n > 0 {
		policies = fmt.Sprint(n)
	}
	if k.Label != "" {
		label = k.Label
	}
	return fmt.Sprintf("%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s", k.ID, k.Account, k.Kind, k.Status, policies, k.Created.Format(time.DateTime), rotated, label)
}

// table writes columns under a headline.
func table(w io.Writer, headline string, rows int, row func(int) string) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, headline)
	for i := range rows {
		fmt.Fprintln(t, row(i))
	}
	t.Flush()
}

func (a *administration) enableKey(verb string, enable bool) *cobra.Command {
	short := "Let an access key open again"
	if !enable {
		short = "Refuse an access key and its tokens until it is enabled again"
	}
	return &cobra.Command{
		Use:   verb + " KEY",
		Short: short,
		Args:  one("the id of one access key"),
		RunE: a.run(false, func(ctx context.Context, c *admin.Client, args []string) error {
			k, err := c.EnableKey(ctx, args[0], enable)
			if err != nil {
				return err
			}
			return a.show(k, func(w io.Writer) { fmt.Fprintf(w, "Access key %s is %s.\n", k.ID, k.Status) })
		}),
	}
}

func (a *administration) rotateKey() *cobra.Command {
	var grace time.Duration
	cmd := &cobra.Command{
		Use:   "rotate KEY",
		Short: "Give an access key a new secret and show it, once",
		Long: `Give an access key a new secret and show it, once.

The former secret, and the tokens got with it, are good for the time of --grace. After a leak let it be 0s.`,
		Args: one("the id of one access key"),
		RunE: a.run(false, func(ctx context.Context, c *admin.Client, args []string) error {
			k, err := c.RotateKey(ctx, args[0], grace)
			if err != nil {
				return err
			}
			return a.issued(k, fmt.Sprintf("Rotated the access key %s.", k.ID))
		}),
	}
	cmd.Flags().DurationVar(&grace, "grace", auth.GraceDefault, "how long the former secret opens, up to 168h")
	return cmd
}

func (a *administration) keyPolicies() *cobra.Command {
	var files []string
	var everything bool
	cmd := &cobra.Command{
		Use:   "policies KEY",
		Short: "Show the policies of an access key, or replace them",
		Long: `Show the policies of an access key, or replace them.

Without flags it shows them. --policy replaces all of them by those of the files; --everything takes them away, and the
key may do everything in its account.`,
		Args: one("the id of one access key"),
		RunE: a.run(false, func(ctx context.Context, c *admin.Client, args []string) error {
			if everything && len(files) > 0 {
				return misuse("--everything and --policy contradict each other; give one of them")
			}
			k, err := a.policies(ctx, c, args[0], files, everything)
			if err != nil {
				return err
			}
			return a.show(k, func(w io.Writer) { printPolicies(w, k) })
		}),
	}
	cmd.Flags().StringArrayVar(&files, "policy", nil, "file with a policy in JSON; may be given again")
	cmd.Flags().BoolVar(&everything, "everything", false, "take all policies away")
	return cmd
}

func (a *administration) policies(ctx context.Context, c *admin.Client, ref string, files []string, everything bool) (k auth.Key, err error) {
	if everything || len(files) > 0 {
		documents, err := readPolicies(files)
		if err != nil {
			return k, err
		}
		return c.SetPolicies(ctx, ref, documents)
	}
	all, err := c.Keys(ctx, "")
	for _, k := range all {
		if k.ID == ref {
			return k, nil
		}
	}
	if err == nil {
		err = noKey(ref)
	}
	return k, err
}

func printPolicies(w io.Writer, k auth.Key) {
	if len(k.Policies) == 0 {
		fmt.Fprintf(w, "Access key %s has no policies: it may do everything in the account %q.\n", k.ID, k.Account)
		return
	}
	for _, p := range k.Policies {
		text, err := json.MarshalIndent(p, "", "  ")
		if err != nil { // it was parsed when it was set
			text = p
		}
		fmt.Fprintf(w, "%s\n", text)
	}
}

func (a *administration) deleteKey() *cobra.Command {
	return &cobra.Command{
		Use:   "delete KEY",
		Short: "Delete an access key for good; its tokens open no more",
		Args:  one("the id of one access key"),
		RunE: a.run(false, func(ctx context.Context, c *admin.Client, args []string) error {
			if err := c.DeleteKey(ctx, args[0]); err != nil {
				return err
			}
			return a.show(map[string]string{"deleted": args[0]}, func(w io.Writer) { fmt.Fprintf(w, "Access key %s is deleted.\n", args[0]) })
		}),
	}
}

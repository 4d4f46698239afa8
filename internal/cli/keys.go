package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/leaselog/leaselog/internal/auth"
	"github.com/leaselog/leaselog/internal/fault"
	"github.com/leaselog/leaselog/internal/local/admin"
)

func (p Program) keys() *cobra.Command {
	a, cmd := p.administer("keys", "Create, list, enable, disable, rotate, bound and delete access keys", `Create, list, enable, disable, rotate, bound and delete access keys. A key belongs to an account and may do everything
there, or what its policies allow. It is a pair of an id and a secret, for tokens and signatures, or a static token for
clients that take nothing else.`)
	cmd.AddCommand(a.createKey(), a.listKeys(),
		a.enableKey("enable", "Let an access key open again", true),
		a.enableKey("disable", "Refuse an access key and its tokens until it is enabled again", false),
		a.rotateKey(), a.keyPolicies(),
		a.remove("delete KEY", "Delete an access key for good; its tokens open no more", "access key", (*admin.Client).DeleteKey))
	return cmd
}

func (a *administration) createKey() *cobra.Command {
	var n auth.NewKey
	var policies []string
	var static bool
	cmd := &cobra.Command{
		Use:   "create",
		Short: "Create an access key and print its secret, once",
		Long: `Create an access key and print its secret, once: as lines that a shell can read, on the standard output. What is said
about it goes to the standard error. The first key of a directory ends the server's development mode.`,
		Example: `  leaselog keys create --data ./leaselog-data
  leaselog keys create --account acme --label "nightly report" --policy consumer.json > report.env
  leaselog keys create --token`,
		Args: cobra.NoArgs,
		RunE: a.with(true, func(ctx context.Context, c *admin.Client, _ []string) error {
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
			return a.showSecret(k)
		}),
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	f := cmd.Flags()
	f.StringVar(&n.Account, "account", auth.AccountDefault, "account, by handle or id")
	f.StringVar(&n.Label, "label", "", "what the key is for, shown in lists")
	f.StringArrayVar(&policies, "policy", nil, "file with a policy in JSON; may be repeated (none: everything in the account)")
	f.BoolVar(&static, "token", false, "make a static bearer token, which does not expire, instead of an id and a secret")
	return cmd
}

// readPolicies reads the named files.
func readPolicies(files []string) (all [][]byte, err error) {
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, usage("the policy: %w", err)
		}
		if _, err := auth.ParsePolicies([][]byte{text}); err != nil {
			return nil, usage("%s: %s", file, fault.Of(err).Message)
		}
		all = append(all, text)
	}
	return all, nil
}

// showSecret prints a key with its secret. This is the one place that does.
func (a *administration) showSecret(k auth.Issued) error {
	if a.options.json {
		return a.printJSON(secretShown(k))
	}
	secret := fmt.Sprintf("export BASALTIC_ACCESS_KEY_ID=%s\nexport BASALTIC_SECRET_ACCESS_KEY=%s\n", k.ID, k.Secret)
	if k.Kind == auth.Static {
		secret = fmt.Sprintf("export BASALTIC_ACCESS_TOKEN=%s\n", k.Token)
	}
	if err := a.printf("%s", secret); err != nil {
		return err
	}
	a.note("this is access key %s of the account %s; its secret is shown now and never again", k.ID, k.Account)
	if k.FormerUntil != nil {
		a.note("the former secret opens until %s", when(*k.FormerUntil))
	}
	if len(k.Policies) == 0 {
		a.note("it may do everything in its account; policies would bound it: leaselog keys policies --help")
	}
	return nil
}

// secretShown is a key that is to be printed as a whole.
type secretShown auth.Issued

func (a *administration) listKeys() *cobra.Command {
	var account string
	cmd := &cobra.Command{
		Use:     "list",
		Aliases: []string{"ls"},
		Short:   "List access keys, without their secrets",
		Args:    cobra.NoArgs,
		RunE: a.with(false, func(ctx context.Context, c *admin.Client, _ []string) error {
			all, err := c.Keys(ctx, account)
			if err != nil {
				return err
			}
			if len(all) == 0 {
				a.note("there are no access keys; make one with: leaselog keys create")
			}
			return list(a.Program, all, []string{"ACCESS KEY", "ACCOUNT", "KIND", "STATUS", "POLICIES", "CREATED", "ROTATED", "LABEL"}, keyRow)
		}),
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	cmd.Flags().StringVar(&account, "account", "", "only those of this account, by handle or id")
	return cmd
}

func keyRow(k auth.Key) []string {
	rotated, policies, label := "-", "-", "-"
	if k.Rotated != nil {
		rotated = when(*k.Rotated)
	}
	if n := len(k.Policies); n > 0 {
		policies = fmt.Sprint(n)
	}
	if k.Label != "" {
		label = brief(k.Label, 60)
	}
	return []string{k.ID, k.Account, string(k.Kind), k.Status, policies, when(k.Created), rotated, label}
}

func (a *administration) showKey(k auth.Key) error {
	if a.options.json {
		return a.printJSON(k)
	}
	t := newTable()
	for i, name := range []string{"access key", "account", "kind", "status", "policies", "created", "rotated", "label"} {
		t.row(name, keyRow(k)[i])
	}
	return a.printTable(t)
}

func (a *administration) enableKey(verb, short string, enable bool) *cobra.Command {
	return a.change(verb+" KEY", short, func(ctx context.Context, c *admin.Client, ref string) error {
		k, err := c.EnableKey(ctx, ref, enable)
		if err != nil {
			return err
		}
		return a.showKey(k)
	})
}

func (a *administration) rotateKey() *cobra.Command {
	var grace time.Duration
	cmd := a.change("rotate KEY", "Give an access key a new secret and print it, once", func(ctx context.Context, c *admin.Client, ref string) error {
		k, err := c.RotateKey(ctx, ref, grace)
		if err != nil {
			return err
		}
		return a.showSecret(k)
	})
	cmd.Long = `Give an access key a new secret and print it, once, as create does.

The former secret, and the tokens got with it, are good for the time of --grace. After a leak let it be 0s.`
	cmd.Flags().DurationVar(&grace, "grace", auth.GraceDefault, "how long the former secret opens, up to 168h")
	return cmd
}

func (a *administration) keyPolicies() *cobra.Command {
	var files []string
	var everything bool
	cmd := a.change("policies KEY", "Show the policies of an access key, or replace them", func(ctx context.Context, c *admin.Client, ref string) error {
		if !everything && len(files) == 0 {
			k, err := findKey(ctx, c, ref)
			if err != nil {
				return err
			}
			return a.printPolicies(k)
		}
		documents, err := readPolicies(files)
		if err != nil {
			return err
		}
		k, err := c.SetPolicies(ctx, ref, documents)
		if err != nil {
			return err
		}
		return a.printPolicies(k)
	})
	cmd.Long = `Show the policies of an access key, or replace them.

Without flags it shows them. --policy replaces all of them by those of the files; --everything takes them away, and the
key may do everything in its account.`
	cmd.Example = "  leaselog keys policies LLJODOKSPIWVTNYTRZQ2YUO4TLNE --policy consumer.json"
	cmd.Flags().StringArrayVar(&files, "policy", nil, "file with a policy in JSON; may be repeated")
	cmd.Flags().BoolVar(&everything, "everything", false, "take all policies away")
	cmd.MarkFlagsMutuallyExclusive("policy", "everything")
	return cmd
}

func findKey(ctx context.Context, c *admin.Client, ref string) (auth.Key, error) {
	all, err := c.Keys(ctx, "")
	if err != nil {
		return auth.Key{}, err
	}
	for _, k := range all {
		if k.ID == ref {
			return k, nil
		}
	}
	return auth.Key{}, fault.New(fault.NotFound, "there is no access key %q; list them to see their ids", ref)
}

// printPolicies prints the policies as files that --policy takes.
func (a *administration) printPolicies(k auth.Key) error {
	if a.options.json {
		return a.printJSON(k)
	}
	if len(k.Policies) == 0 {
		a.note("access key %s has no policies: it may do everything in the account %s", k.ID, k.Account)
	}
	for _, p := range k.Policies {
		text, err := json.MarshalIndent(p, "", "  ")
		if err != nil { // it was parsed when it was set
			text = p
		}
		if err := a.printf("%s\n", text); err != nil {
			return err
		}
	}
	return nil
}

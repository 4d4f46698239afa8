// Package cli is the command line: one file a command.
package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
)

// Program is what the commands work with.
type Program struct {
	Version        string
	Stdin          io.Reader // default os.Stdin
	Stdout, Stderr io.Writer
	Getenv         func(string) string // default os.Getenv

	options *options
}

// options are the flags that every command has.
type options struct {
	endpoint string
	attempts int
	sign     bool
	json     bool
}

// The groups of commands in the help.
const (
	groupQueues = "queues"
	groupServer = "server"
)

// Run runs the program with its arguments and gives its exit status, one of those in exit.go.
func (p Program) Run(ctx context.Context, args []string) int {
	if p.Stdin == nil {
		p.Stdin = os.Stdin
	}
	if p.Getenv == nil {
		p.Getenv = os.Getenv
	}
	p.options = &options{}
	root := p.root()
	root.SetArgs(args)
	started := prepare(root)
	cmd, err := root.ExecuteContextC(ctx)
	if err != nil && !*started {
		err = usageError{err, cmd.CommandPath()}
	}
	return p.report(err)
}

func (p Program) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "leaselog",
		Short: "A message queue whose only truth is an event log",
		Long: `leaselog is a message queue whose only truth is an event log: server and command line in one program.

Start the server with "leaselog serve". The commands about queues and messages talk to it; those about keys, accounts and
checks work on its data directory. "leaselog doctor" says what is wrong when one does not work.`,
		SilenceUsage:  true,
		SilenceErrors: true,
		Version:       p.Version,
	}
	root.SetIn(p.Stdin)
	root.SetOut(p.Stdout)
	root.SetErr(p.Stderr)
	f := root.PersistentFlags()
	f.StringVar(&p.options.endpoint, "endpoint", "", "URL of the server (default $LEASELOG_ENDPOINT, $BASALTIC_ENDPOINT_URL_QUEUE, "+endpointDefault+")")
	f.IntVar(&p.options.attempts, "attempts", 4, "how often to try what may be tried again, 1 to 10")
	f.BoolVar(&p.options.sign, "sign", false, "sign requests with the key pair instead of getting a token ($LEASELOG_SIGN)")
	f.BoolVar(&p.options.json, "json", false, "print JSON, one object a line (see leaselog help json)")
	root.SetFlagErrorFunc(flagError)
	root.AddGroup(&cobra.Group{ID: groupQueues, Title: "Queues and messages:"}, &cobra.Group{ID: groupServer, Title: "The server:"})
	grouped(root, groupQueues, p.queue(), p.send(), p.receive(), p.ack(), p.extend(), p.release(), p.peek(), p.history(), p.redrive(), p.move())
	grouped(root, groupServer, p.serve(), p.keys(), p.accounts(), p.views(), p.sweep(), p.check(), p.doctor())
	root.AddCommand(p.man(), exitCodesTopic(), environmentTopic(), jsonTopic())
	return root
}

func grouped(root *cobra.Command, group string, commands ...*cobra.Command) {
	for _, c := range commands {
		c.GroupID = group
		root.AddCommand(c)
	}
}

// prepare makes the commands ready to run. It tells, once the program has run, whether one began its work. An error before
// that is one of usage: cobra gives it no type.
func prepare(root *cobra.Command) (started *bool) {
	started = new(bool)
	var each func(*cobra.Command)
	each = func(c *cobra.Command) {
		if run := c.RunE; run != nil {
			c.RunE = func(cmd *cobra.Command, args []string) error {
				*started = true
				return run(cmd, args)
			}
		}
		if fit := c.Args; fit != nil && !c.HasSubCommands() {
			c.Args = func(cmd *cobra.Command, args []string) error {
				if fit(cmd, args) != nil {
					return misargued(cmd, args)
				}
				return nil
			}
		}
		for _, child := range c.Commands() {
			each(child)
		}
	}
	each(root)
	return started
}

// misargued says what a command takes. Cobra says how many arguments, and takes one too many for a command.
func misargued(cmd *cobra.Command, args []string) error {
	takes := strings.TrimSpace(strings.TrimPrefix(cmd.Use, cmd.Name()))
	switch {
	case takes == "":
		return fmt.Errorf("%s takes no argument, and was given %q", cmd.CommandPath(), args[0])
	case len(args) == 0:
		return fmt.Errorf("%s takes %s, and was given nothing", cmd.CommandPath(), takes)
	}
	return fmt.Errorf("%s takes %s, and was given %s", cmd.CommandPath(), takes, count(len(args), "argument"))
}

package cli

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// completeFor is how long a shell may wait for the names of queues.
const completeFor = 2 * time.Second

// completeQueues asks the server for the names of queues, for the first n arguments. A server that does not answer
// has none: a completion must not print errors into the line that is being typed.
func (p Program) completeQueues(n int) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
		if len(args) >= n {
			return nil, cobra.ShellCompDirectiveDefault
		}
		return p.queueNames(cmd.Context(), typed), cobra.ShellCompDirectiveNoFileComp
	}
}

func (p Program) queueNames(ctx context.Context, typed string) (names []string) {
	if ctx == nil {
		ctx = context.Background()
	}
	ctx, cancel := context.WithTimeout(ctx, completeFor)
	defer cancel()
	p.options.attempts = 1
	c, err := p.connect()
	if err != nil {
		return nil
	}
	for q, err := range c.Queues(ctx) {
		if err != nil {
			return names
		}
		if strings.HasPrefix(q.Name, typed) {
			names = append(names, q.Name+"\t"+q.Kind)
		}
	}
	return names
}

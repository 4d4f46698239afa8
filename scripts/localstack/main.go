// Command localstack runs LocalStack with infra/ deployed in it until it is interrupted, and says how to use it.
package main

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/signal"
	"slices"
	"syscall"

	"github.com/leaselog/leaselog/internal/aws/awstest"
)

func main() {
	stack := flag.String("stack", "leaselog", "name of the stack and of the deployment")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *stack); err != nil && ctx.Err() == nil {
		fmt.Fprintln(os.Stderr, "localstack:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, stack string) (err error) {
	a, err := awstest.Start(ctx, awstest.Config{Progress: os.Stderr})
	if err != nil {
		return err
	}
	defer a.Close() // what it made is gone either way
	outputs, err := a.Infra(ctx, stack)
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(outputs)) {
		fmt.Fprintf(os.Stderr, "%-16s %s\n", name, outputs[name])
	}
	fmt.Fprintln(os.Stderr, "Ctrl-C ends it. Until then:")
	fmt.Printf("export AWS_ENDPOINT_URL=%s AWS_REGION=%s AWS_ACCESS_KEY_ID=test AWS_SECRET_ACCESS_KEY=test\n", a.Endpoint, awstest.Region)
	<-ctx.Done()
	return nil
}

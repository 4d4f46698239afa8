// Command sweep-keys is the Lambda function that replaces worn data keys, and destroys those of queues deleted long ago, every hour.
package main

import (
	"github.com/leaselog/leaselog/internal/aws/host"
	"github.com/leaselog/leaselog/internal/sweep"
)

func main() { host.Tick(sweep.Keys) }

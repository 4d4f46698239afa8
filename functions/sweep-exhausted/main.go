// Command sweep-exhausted is the Lambda function that moves, every minute, what was received too often to its dead-letter queue.
package main

import (
	"github.com/leaselog/leaselog/internal/aws/host"
	"github.com/leaselog/leaselog/internal/sweep"
)

func main() { host.Tick(sweep.Exhausted) }

// Command sweep-moves is the Lambda function that advances the move tasks that are running, every minute.
package main

import (
	"github.com/leaselog/leaselog/internal/aws/host"
	"github.com/leaselog/leaselog/internal/sweep"
)

func main() { host.Tick(sweep.Moves) }

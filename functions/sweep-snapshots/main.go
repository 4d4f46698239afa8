// Command sweep-snapshots is the Lambda function that writes the snapshots that are due, every six hours.
package main

import (
	"github.com/leaselog/leaselog/internal/aws/host"
	"github.com/leaselog/leaselog/internal/sweep"
)

func main() { host.Tick(sweep.Snapshots) }

// Command sweep-unfinished is the Lambda function that finishes every minute what was left half done.
package main

import (
	"github.com/leaselog/leaselog/internal/aws/host"
	"github.com/leaselog/leaselog/internal/sweep"
)

func main() { host.Tick(sweep.Unfinished) }

// Command sweep-anchors is the Lambda function that keeps the ends of idle streams from expiring, every six hours.
package main

import (
	"github.com/leaselog/leaselog/internal/aws/host"
	"github.com/leaselog/leaselog/internal/sweep"
)

func main() { host.Tick(sweep.Anchors) }

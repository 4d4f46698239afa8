// Command sweep-expired is the Lambda function that discards every few minutes what is past its time.
package main

import (
	"github.com/leaselog/leaselog/internal/aws/host"
	"github.com/leaselog/leaselog/internal/sweep"
)

func main() { host.Tick(sweep.Expired) }

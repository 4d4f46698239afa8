// Command sweep-views is the Lambda function that brings up to date every few minutes what missed its wake-up.
package main

import (
	"github.com/leaselog/leaselog/internal/aws/host"
	"github.com/leaselog/leaselog/internal/sweep"
)

func main() { host.Tick(sweep.Views) }
